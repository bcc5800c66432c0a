//! `myelin stream scrub`: has every server with a stream read all that it has stored of it, and
//! waits until they have.
//!
//! Owns what is printed, and the verdict: damage of a replica that others mend is none of the
//! operator's business, what is lost is.

use std::thread::sleep;
use std::time::Duration;

use myelin_loadgen::admin::Admin;
use myelin_loadgen::error::BenchError;
use myelin_loadgen::units::binary;
use serde_json::Value;

use crate::screen::say;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(500);

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
    while waits && passes.iter().any(is_under_way) {
        sleep(LOOK);
        for (server, pass) in servers.iter().zip(&mut passes) {
            if is_under_way(pass) {
                *pass = admin.ask(&format!("MYELIN.SCRUB.STATE.{stream}.{server}"), &Value::Null)?;
            }
        }
    }
    passes.iter().for_each(|pass| say(&line(pass)));
    match passes.iter().filter(|pass| lost(pass) > 0 && pass["is_repaired"] != true).count() {
        0 => Ok(()),
        count => Err(BenchError::Usage(format!("{count} of {} servers lack messages", passes.len()))),
    }
}

fn is_under_way(pass: &Value) -> bool {
    pass["under_way"] == true
}

fn lost(pass: &Value) -> u64 {
    pass["lost_messages"].as_u64().unwrap_or(0)
}

/// One server, for a person.
fn line(pass: &Value) -> String {
    let server = pass["server"].as_str().unwrap_or_default();
    let read = binary(pass["bytes"].as_u64().unwrap_or(0) as f64);
    let how_far = match is_under_way(pass) {
        true => format!("{} % read ({read})", pass["percent"]),
        false => format!("all read ({read})"),
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
    fn a_server_is_shown_in_one_line() {
        let mut pass = json!({ "server": "n1", "under_way": true, "percent": 7, "bytes": 2048 });
        assert_eq!(line(&pass), "n1: 7 % read (2.0 KiB), whole");
        pass["under_way"] = false.into();
        pass["lost_messages"] = 3.into();
        assert_eq!(line(&pass), "n1: all read (2.0 KiB), 3 messages lost");
        pass["is_repaired"] = true.into();
        assert_eq!(line(&pass), "n1: all read (2.0 KiB), damaged, and gets all from another server");
    }
}
