//! `myelin stream scrub`: has every server with a stream read all that it has stored of it, and
//! waits until they have.
//!
//! Owns what is printed, and the verdict: damage of a replica that others mend is none of the
//! operator's business, what is lost is.

use std::thread::sleep;
use std::time::{Duration, Instant};

use myelin_loadgen::admin::Admin;
use myelin_loadgen::error::BenchError;
use myelin_loadgen::units::{binary, human_time};
use serde_json::Value;

use crate::screen::say;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(500);

/// How long a pass may stand still. A server reads its streams in turns, twenty in a second.
const STILL: Duration = Duration::from_mins(30);

/// Has a stream read on all its servers. `waits`: until they are through.
pub(super) fn run(admin: &mut Admin, stream: &str, waits: bool) -> Result<(), BenchError> {
    if !admin.is_myelin() {
        return Err(BenchError::Usage("this server reads what it has stored when it begins only".into()));
    }
    let first = admin.ask(&format!("MYELIN.SCRUB.BEGIN.{stream}"), &Value::Null)?;
    let names = first["servers"].as_array().into_iter().flatten();
    let servers: Vec<String> = names.filter_map(|name| name.as_str().map(str::to_owned)).collect();
    let mut passes = Vec::new();
    for server in &servers {
        passes.push(admin.ask(&format!("MYELIN.SCRUB.BEGIN.{stream}.{server}"), &Value::Null)?);
    }
    if waits {
        wait(&mut passes, (LOOK, STILL), |at| {
            admin.ask(&format!("MYELIN.SCRUB.STATE.{stream}.{}", servers[at]), &Value::Null)
        })?;
    }
    passes.iter().for_each(|pass| say(&line(pass)));
    match passes.iter().filter(|pass| is_stopped(pass)).count() {
        0 => {}
        count => {
            let why = "could not read all of it";
            return Err(BenchError::Usage(format!("{count} of {} servers {why}", passes.len())));
        }
    }
    match passes.iter().filter(|pass| lost(pass) > 0 && pass["is_repaired"] != true).count() {
        0 => Ok(()),
        count => Err(BenchError::Usage(format!("{count} of {} servers lack messages", passes.len()))),
    }
}

/// Asks how far each pass is until all have ended. Fails where one does not move for too long: a
/// disk that hangs ends none.
fn wait(
    passes: &mut [Value],
    (between, still): (Duration, Duration),
    mut state: impl FnMut(usize) -> Result<Value, BenchError>,
) -> Result<(), BenchError> {
    let mut moved = vec![Instant::now(); passes.len()];
    while passes.iter().any(is_under_way) {
        sleep(between);
        for (at, pass) in passes.iter_mut().enumerate().filter(|(_, pass)| is_under_way(pass)) {
            let now = state(at)?;
            if now["bytes"] != pass["bytes"] || now["percent"] != pass["percent"] {
                moved[at] = Instant::now();
            }
            *pass = now;
            if is_under_way(pass) && moved[at].elapsed() >= still {
                let what = line(pass);
                return Err(BenchError::Lost(format!("{what}; nothing was read for {}", human_time(still))));
            }
        }
    }
    Ok(())
}

fn is_under_way(pass: &Value) -> bool {
    pass["under_way"] == true
}

/// Whether the pass ended before it was through.
fn is_stopped(pass: &Value) -> bool {
    pass["is_stopped"] == true
}

fn lost(pass: &Value) -> u64 {
    pass["lost_messages"].as_u64().unwrap_or(0)
}

/// One server, for a person.
fn line(pass: &Value) -> String {
    let server = pass["server"].as_str().unwrap_or_default();
    let read = binary(pass["bytes"].as_u64().unwrap_or(0) as f64);
    let how_far = match (is_under_way(pass), is_stopped(pass)) {
        (true, _) => format!("{} % read ({read})", pass["percent"]),
        (false, true) => format!("only {} % could be read ({read})", pass["percent"]),
        (false, false) => format!("all read ({read})"),
    };
    let found = match (pass["is_repaired"] == true, lost(pass)) {
        (true, _) => "damaged, and gets all from another server".to_owned(),
        (false, 0) => "whole".to_owned(),
        (false, lost) => format!("{lost} messages lost"),
    };
    format!("{server}: {how_far}, {found}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pass_may_take_long_and_must_move() {
        let pass =
            |bytes: u64, under_way: bool| json!({ "server": "n1", "under_way": under_way, "bytes": bytes });
        let times = (Duration::ZERO, Duration::from_millis(1));
        let mut passes = [pass(0, true), pass(0, false)];
        let mut bytes = 0;
        let moving = wait(&mut passes, times, |at| {
            assert_eq!(at, 0, "the other has ended");
            bytes += 1;
            Ok(pass(bytes, bytes < 5000))
        });
        assert!(moving.is_ok() && passes[0]["bytes"] == 5000);
        let error = wait(&mut [pass(7, true)], times, |_| Ok(pass(7, true))).unwrap_err().to_string();
        assert!(error.contains("n1: null % read (7 B), whole; nothing was read for 1ms"), "{error}");
    }

    #[test]
    fn a_server_is_shown_in_one_line() {
        let mut pass = json!({ "server": "n1", "under_way": true, "percent": 7, "bytes": 2048 });
        assert_eq!(line(&pass), "n1: 7 % read (2.0 KiB), whole");
        pass["under_way"] = false.into();
        pass["is_stopped"] = true.into();
        assert_eq!(line(&pass), "n1: only 7 % could be read (2.0 KiB), whole");
        pass["is_stopped"] = false.into();
        pass["lost_messages"] = 3.into();
        assert_eq!(line(&pass), "n1: all read (2.0 KiB), 3 messages lost");
        pass["is_repaired"] = true.into();
        assert_eq!(line(&pass), "n1: all read (2.0 KiB), damaged, and gets all from another server");
    }
}
