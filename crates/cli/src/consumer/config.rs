//! Flags that say what a consumer is like. Their names are those of the `nats` command, but for
//! `--backoff`, which takes the times themselves.

use std::time::SystemTime;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use myelin_loadgen::error::BenchError;
use myelin_loadgen::units::Time;
use serde_json::{Value, json};

use crate::settings::{Setting, Settings, Takes, nanoseconds};
use crate::table::before;

/// The flags of `consumer add` and `consumer edit`.
#[derive(Debug)]
pub(super) struct ConsumerSettings;

const ACK: &[(&str, &str)] =
    &[("none", "none"), ("all", "all"), ("explicit", "explicit"), ("flow_control", "flow_control")];

impl Settings for ConsumerSettings {
    const TABLE: &'static [Setting] = &[
        Setting {
            flag: "ack",
            place: "ack_policy",
            takes: Takes::Word(ACK),
            help: "What an acknowledgement means",
        },
        Setting {
            flag: "backoff",
            place: "backoff",
            takes: Takes::Read(backoff),
            help: "How long to wait for acknowledgements, time after time: 1s,30s,5m, or none",
        },
        Setting {
            flag: "bps",
            place: "rate_limit_bps",
            takes: Takes::Count,
            help: "Bits that are pushed in a second",
        },
        Setting {
            flag: "deliver",
            place: "",
            takes: Takes::Read(beginning),
            help: "Where to begin: all, new, last, subject (the last of each), a sequence, a moment, or so long ago",
        },
        Setting {
            flag: "deliver-group",
            place: "deliver_group",
            takes: Takes::Text,
            help: "Push to members of this queue group",
        },
        Setting {
            flag: "description",
            place: "description",
            takes: Takes::Text,
            help: "What the consumer is for",
        },
        Setting {
            flag: "filter",
            place: "filter_subjects",
            takes: Takes::Texts,
            help: "Subjects that are delivered",
        },
        Setting {
            flag: "flow-control",
            place: "flow_control",
            takes: Takes::Switch(true, "no-flow-control"),
            help: "Push no more than is taken",
        },
        Setting {
            flag: "heartbeat",
            place: "idle_heartbeat",
            takes: Takes::Period,
            help: "How often to tell that there is nothing to push",
        },
        Setting {
            flag: "headers-only",
            place: "headers_only",
            takes: Takes::Switch(true, "no-headers-only"),
            help: "Deliver no payloads",
        },
        Setting {
            flag: "max-deliver",
            place: "max_deliver",
            takes: Takes::Count,
            help: "How often a message is delivered at most",
        },
        Setting {
            flag: "max-pending",
            place: "max_ack_pending",
            takes: Takes::Count,
            help: "Messages that may await their acknowledgement",
        },
        Setting {
            flag: "max-waiting",
            place: "max_waiting",
            takes: Takes::Count,
            help: "Pull requests that may wait",
        },
        Setting {
            flag: "max-pull-batch",
            place: "max_batch",
            takes: Takes::Count,
            help: "Messages that a pull request may ask for",
        },
        Setting {
            flag: "max-pull-expire",
            place: "max_expires",
            takes: Takes::Period,
            help: "How long a pull request may wait",
        },
        Setting {
            flag: "max-pull-bytes",
            place: "max_bytes",
            takes: Takes::Size,
            help: "Bytes that a pull request may ask for",
        },
        Setting {
            flag: "replay",
            place: "replay_policy",
            takes: Takes::Word(&[("instant", "instant"), ("original", "original")]),
            help: "How fast stored messages are delivered",
        },
        Setting {
            flag: "sample",
            place: "sample_freq",
            takes: Takes::Read(sample),
            help: "Percentage of acknowledgements that are reported",
        },
        Setting {
            flag: "target",
            place: "deliver_subject",
            takes: Takes::Text,
            help: "Push to this subject",
        },
        Setting {
            flag: "wait",
            place: "ack_wait",
            takes: Takes::Period,
            help: "How long to wait for an acknowledgement",
        },
        Setting {
            flag: "inactive-threshold",
            place: "inactive_threshold",
            takes: Takes::Period,
            help: "Remove the consumer when it was idle for so long",
        },
        Setting {
            flag: "memory",
            place: "mem_storage",
            takes: Takes::Switch(true, "no-memory"),
            help: "Keep its state in memory",
        },
        Setting {
            flag: "replicas",
            place: "num_replicas",
            takes: Takes::Count,
            help: "Servers that have its state",
        },
        Setting { flag: "metadata", place: "metadata", takes: Takes::Pairs, help: "Metadata" },
        Setting {
            flag: "pause",
            place: "pause_until",
            takes: Takes::Read(until),
            help: "Pause until then, or for so long",
        },
        Setting {
            flag: "pinned-ttl",
            place: "priority_timeout",
            takes: Takes::Period,
            help: "How long a pinned client may be silent",
        },
    ];
}

fn backoff(text: &str) -> Result<Value, BenchError> {
    if text == "none" {
        return Ok(json!([]));
    }
    let times = text.split(',').map(|time| nanoseconds(time.trim().parse::<Time>()?));
    Ok(json!(times.collect::<Result<Vec<_>, _>>()?))
}

fn sample(text: &str) -> Result<Value, BenchError> {
    match text.trim_end_matches('%').parse::<i64>() {
        Ok(0 | -1) => Ok("".into()),
        Ok(percentage @ 1..=100) => Ok(percentage.to_string().into()),
        _ => Err(BenchError::Usage("not a percentage".into())),
    }
}

fn beginning(text: &str) -> Result<Value, BenchError> {
    let policy = match text {
        "all" | "new" | "last" => text,
        "subject" => "last_per_subject",
        _ => {
            return Ok(match (text.parse::<u64>(), text.parse::<Time>()) {
                (Ok(sequence), _) => {
                    json!({ "deliver_policy": "by_start_sequence", "opt_start_seq": sequence })
                }
                (_, Ok(Time(since))) => {
                    json!({ "deliver_policy": "by_start_time", "opt_start_time": before(since) })
                }
                _ => json!({ "deliver_policy": "by_start_time", "opt_start_time": date(text)?.to_string() }),
            });
        }
    };
    Ok(json!({ "deliver_policy": policy }))
}

/// A moment to come: so long from now, or a date and a time of day.
pub(super) fn until(text: &str) -> Result<Value, BenchError> {
    let Ok(Time(wait)) = text.parse::<Time>() else { return Ok(date(text)?.to_string().into()) };
    let end = SystemTime::now().checked_add(wait).ok_or_else(|| BenchError::Usage("too far away".into()))?;
    Ok(myelin_stdx::rfc3339::of_system_time(end).into())
}

/// A moment as RFC 3339 has it, or in local time without a zone.
fn date(text: &str) -> Result<Timestamp, BenchError> {
    let local =
        || text.parse::<DateTime>().ok()?.to_zoned(TimeZone::system()).ok().map(|time| time.timestamp());
    let read = text.parse::<Timestamp>().ok().or_else(local);
    read.ok_or_else(|| BenchError::Usage(format!("{text:?} is no moment such as 1h or 2026-11-29 22:15:00")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_has_many_forms() {
        assert_eq!(beginning("subject").unwrap(), json!({"deliver_policy": "last_per_subject"}));
        assert_eq!(
            beginning("7").unwrap(),
            json!({"deliver_policy": "by_start_sequence", "opt_start_seq": 7})
        );
        let moment = beginning("2026-01-02T03:04:05Z").unwrap();
        assert_eq!(moment["opt_start_time"], "2026-01-02T03:04:05Z");
        assert_eq!(beginning("1h").unwrap()["deliver_policy"], "by_start_time");
        assert!(beginning("soon").is_err() && until("soon").is_err());
        assert!(until("2026-01-02 03:04:05").is_ok() && until("1d").is_ok());
    }

    #[test]
    fn times_of_a_backoff_are_listed() {
        assert_eq!(backoff("1s, 2ms").unwrap(), json!([1_000_000_000, 2_000_000]));
        assert_eq!(backoff("none").unwrap(), json!([]));
        assert_eq!((sample("50%").unwrap(), sample("-1").unwrap()), (json!("50"), json!("")));
        assert!(backoff("linear").is_err() && sample("101").is_err());
    }
}
