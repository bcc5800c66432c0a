//! Changes of members while servers are troubled: streams get more replicas and fewer, move, are
//! led by others, and what is under way is cancelled.
//!
//! Many are refused, for servers are away or something else is under way: that is no fault. In the
//! end all servers have all streams, and each has the same.

use super::load::{Worker, subject_of};
use super::{BUCKET, CONSUMED, HISTORY, MEMORY, STREAMS, api};
use crate::Error;
use crate::requester::Question;
use myelin_stdx::sync::lock;
use serde_json::{Value, json};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Servers of such a life.
pub(super) const SERVERS: usize = 5;
/// Pause between two changes, at most.
const PAUSE: Duration = Duration::from_millis(1500);
/// In this account the load is.
const ACCOUNT: &str = "$G";

/// Changes that were asked for.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) accepted: u64,
    pub(super) refused: u64,
    pub(super) unanswered: u64,
}

/// Configuration of a stream of the load.
pub(super) fn config_of(name: &str, replicas: usize) -> Value {
    let mut config = json!({
        "name": name, "subjects": [subject_of(name, ">")], "num_replicas": replicas, "allow_direct": true,
        "storage": if name == MEMORY { "memory" } else { "file" },
        // A message is tried again as long as nobody has acknowledged it.
        "duplicate_window": 600_000_000_000_u64,
    });
    if name == BUCKET {
        config["max_msgs_per_subject"] = json!(HISTORY);
        config["allow_rollup_hdrs"] = json!(true);
        config["deny_delete"] = json!(true);
        config["discard"] = json!("new");
    }
    config
}

impl Worker {
    /// Changes members until the load is over.
    pub(super) fn change_members(mut self) -> Changes {
        let mut changes = Changes::default();
        while !self.shared.is_over.load(Relaxed) {
            let pause = PAUSE / 10 * (1 + self.rng.below(9) as u32);
            std::thread::sleep(pause);
            let question = self.draw_change();
            let answer = self.ask(std::slice::from_ref(&question)).pop().flatten();
            match answer.and_then(|answer| answer.json()) {
                None => changes.unanswered += 1,
                Some(answer) if answer["error"].is_null() => changes.accepted += 1,
                Some(answer) => {
                    changes.refused += 1;
                    let words = answer["error"]["description"].as_str().unwrap_or_default().to_owned();
                    *lock(&self.shared.ledger).refusals.entry(format!("change: {words}")).or_default() += 1;
                }
            }
        }
        changes
    }

    /// Any change of any stream. One in memory keeps at least three replicas: with its only server
    /// it would be lost.
    fn draw_change(&mut self) -> Question {
        let stream = STREAMS[self.rng.below(STREAMS.len() as u64) as usize];
        let server = format!("n{}", 1 + self.rng.below(SERVERS as u64));
        let sizes: &[usize] = if stream == MEMORY { &[3, 5] } else { &[1, 2, 3, 4, 5] };
        let replicas = sizes[self.rng.below(sizes.len() as u64) as usize];
        let (operation, body) = match self.rng.below(10) {
            0..4 => (format!("STREAM.UPDATE.{stream}"), config_of(stream, replicas)),
            4 => (format!("STREAM.PEER.REMOVE.{stream}"), json!({ "peer": server })),
            5 => (format!("STREAM.PEER.EVACUATE.{stream}"), json!({ "peer": server })),
            6 => (format!("ACCOUNT.STREAM.MOVE.{ACCOUNT}.{stream}"), json!({ "server": server })),
            7 => (format!("STREAM.CANCEL_MOVE.{stream}"), Value::Null),
            8 => (format!("CONSUMER.LEADER.STEPDOWN.{CONSUMED}.{}", super::CONSUMER), Value::Null),
            _ => (format!("STREAM.LEADER.STEPDOWN.{stream}"), Value::Null),
        };
        let payload = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        Question { subject: format!("$JS.API.{operation}"), payload, ..Question::default() }
    }
}

/// Has all streams be on all servers.
pub(super) fn gather(asker: &mut Worker) -> Result<(), Error> {
    for stream in STREAMS {
        api(asker, &format!("STREAM.UPDATE.{stream}"), &config_of(stream, SERVERS))?;
    }
    Ok(())
}
