//! Panics of consumers, from the page `/debug/vars` of the server that has them.
//!
//! The server goes on after them, and says so in its log; whoever asks why nothing comes is told
//! first.

use super::{cause, text};
use crate::monitoring;
use myelin_loadgen::error::BenchError;
use serde_json::{Value, json};
use std::time::Duration;

/// Adds what the monitoring knows of panics to the causes of a consumer or a stream, in front.
pub(super) fn tell(said: &mut Value, monitor: &str, timeout: Duration) -> Result<(), BenchError> {
    let vars = monitoring::json(monitor, "debug/vars", timeout)?;
    let found = cause_of(&vars, text(said, "stream"), text(said, "consumer"));
    if let (Some(found), Some(causes)) = (found, said["causes"].as_array_mut()) {
        causes.insert(0, found);
    }
    Ok(())
}

/// Cause for which a consumer, or one of a stream's, delivers nothing or has begun anew.
fn cause_of(vars: &Value, stream: &str, consumer: &str) -> Option<Value> {
    let name =
        if consumer.is_empty() { format!(" > {stream} > ") } else { format!(" > {stream} > {consumer}'") };
    let is_meant = |of: &str| of.starts_with("consumer '") && of.contains(&name);
    let all = vars["recent_panics"].as_array()?;
    let found: Vec<_> = all.iter().filter(|panic| is_meant(text(panic, "of"))).collect();
    let last = *found.last()?;
    let count = found.len();
    let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
    let [of, at, place, words, cost] = ["of", "at", "place", "says", "cost"].map(|name| text(last, name));
    let says = format!("{of} has panicked {times} lately, last at {at} ({place}: {words}); {cost}");
    // It rests only after the second one.
    let holds = if cost.contains("delivers nothing") { "all" } else { "some" };
    let remedy = "a bug of Myelin: report this and the lines of the log around it; what waits is delivered when the \
                  consumer has been opened anew";
    let numbers = json!({ "panics": count, "last": at, "place": place });
    Some(cause("panicked", holds, numbers, says, remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars() -> Value {
        let panic = |of: &str, cost: &str| json!({ "at": "then", "of": of, "place": "a.rs:1", "says": "no", "cost": cost });
        json!({ "panics": 9, "recent_panics": [
            panic("consumer 'A > S > C'", "it is opened anew; ask again"),
            panic("consumer 'A > S > D'", "it is opened anew; ask again"),
            panic("pages", "one page"),
            panic("consumer 'A > S > C'", "it delivers nothing for a minute; ask again"),
        ] })
    }

    #[test]
    fn panics_of_others_do_not_count() {
        let found = cause_of(&vars(), "S", "C").unwrap();
        assert_eq!(
            (&found["cause"], &found["holds"], &found["numbers"]["panics"]),
            (&json!("panicked"), &json!("all"), &json!(2))
        );
        let says = "consumer 'A > S > C' has panicked 2 times lately, last at then (a.rs:1: no); it delivers nothing for a minute; ask again";
        assert_eq!(found["says"], says);
        let found = cause_of(&vars(), "S", "D").unwrap();
        assert_eq!((&found["holds"], &found["numbers"]["panics"]), (&json!("some"), &json!(1)));
        assert_eq!(cause_of(&vars(), "S", "").unwrap()["numbers"]["panics"], 3);
        for (stream, consumer) in [("S", "E"), ("T", "C"), ("T", ""), ("", "C")] {
            assert_eq!(cause_of(&vars(), stream, consumer), None, "{stream} {consumer}");
        }
        assert_eq!(cause_of(&json!({ "panics": 1 }), "S", "C"), None);
    }
}
