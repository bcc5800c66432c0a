//! Whether a stream is what its backup says: message by message, consumer by consumer.
//!
//! The stream is read as a second backup of it, of which nothing is written. So what is compared
//! is what the server has stored, with times and headers, and the stream stays as it is.

use std::path::Path;

use serde_json::Value;

use crate::backup::contents::{Contents, ContentsReader, MessageDigest};
use crate::backup::error::BackupError;
use crate::backup::place::ArchivedMessages;
use crate::backup::snapshot::StreamTransfer;

/// Findings of a comparison.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    /// Digest of the messages that the stream has up to the end of the backup.
    pub(super) digest: String,
    /// Differences, in words.
    pub(super) differences: Vec<String>,
    /// Differences that may be, in words.
    pub(super) notes: Vec<String>,
}

impl Comparison {
    /// Whether nothing is lost, and nothing is other than it was.
    pub(super) fn is_equal(&self) -> bool {
        self.differences.is_empty()
    }
}

/// Number of messages of one kind, with the first of them.
#[derive(Clone, Copy, Debug, Default)]
struct FoundMessages {
    messages: u64,
    first: u64,
}

impl FoundMessages {
    fn add(&mut self, sequence: u64) {
        if self.messages == 0 {
            self.first = sequence;
        }
        self.messages += 1;
    }

    fn told(self, what: &str) -> Option<String> {
        (self.messages > 0).then(|| format!("{} messages {what} (the first: {})", self.messages, self.first))
    }
}

/// Walk through both, in the order of sequences.
struct ComparingWalk {
    backup: ArchivedMessages,
    /// The last sequence of the backup.
    end: u64,
    missing: FoundMessages,
    different: FoundMessages,
    added: FoundMessages,
    later: FoundMessages,
}

impl ComparingWalk {
    /// Takes the next message of the stream.
    fn meet(&mut self, message: MessageDigest) -> Result<(), BackupError> {
        if message.sequence > self.end {
            self.later.add(message.sequence);
            return Ok(());
        }
        while let Some(backed_up) = self.backup.peek()?
            && backed_up.sequence <= message.sequence
        {
            self.backup.take();
            if backed_up.sequence < message.sequence {
                self.missing.add(backed_up.sequence);
                continue;
            }
            if backed_up.sha256 != message.sha256 {
                self.different.add(message.sequence);
            }
            return Ok(());
        }
        self.added.add(message.sequence);
        Ok(())
    }

    fn rest(&mut self) -> Result<(), BackupError> {
        while let Some(backed_up) = self.backup.peek()? {
            self.backup.take();
            self.missing.add(backed_up.sequence);
        }
        Ok(())
    }
}

/// Compares the stream at a server with its archive in a file, of which the last sequence is
/// `end`. `config` is the stream's configuration in the backup.
///
/// # Errors
/// One of them cannot be read.
pub(super) fn compare(
    transfer: &mut StreamTransfer,
    stream: &str,
    (archive, end): (&Path, u64),
    config: &Value,
) -> Result<Comparison, BackupError> {
    let [missing, different, added, later] = [FoundMessages::default(); 4];
    let backup = ArchivedMessages::open(archive)?;
    let mut walk = ComparingWalk { backup, end, missing, different, added, later };
    let mut reader = ContentsReader::up_to(end);
    transfer.receive(stream, &mut |bytes| reader.feed(bytes, &mut |message| walk.meet(message)))?;
    let there = reader.finish()?;
    walk.rest()?;
    let ComparingWalk { backup, missing, different, added, later, .. } = walk;
    let backup = backup.finish()?;
    let mut comparison = Comparison { digest: there.digest.clone(), ..Comparison::default() };
    let has_moved = consumers(&backup, &there, &mut comparison);
    comparison.differences.extend(different.told("are other than in the backup"));
    comparison.differences.extend(added.told("are not in the backup"));
    if there.last < end {
        comparison.differences.push(format!("its last sequence is {}, and not {end}", there.last));
    }
    match why_missing(config, has_moved, later.messages > 0) {
        Some(why) => comparison.notes.extend(missing.told(why)),
        None => comparison.differences.extend(missing.told("are missing")),
    }
    comparison.notes.extend(later.told("came later"));
    Ok(comparison)
}

/// Why messages of a backup may be gone from a stream with this configuration that is at work.
fn why_missing(config: &Value, has_moved: bool, has_more: bool) -> Option<&'static str> {
    let is_set = |name: &str| config[name].as_i64().is_some_and(|limit| limit > 0);
    if is_set("max_age") || config["allow_msg_ttl"] == true {
        return Some("have expired");
    }
    if has_moved && matches!(config["retention"].as_str(), Some("workqueue" | "interest")) {
        return Some("were acknowledged, and went");
    }
    let is_limited = ["max_msgs", "max_bytes", "max_msgs_per_subject"].iter().any(|name| is_set(name));
    (has_more && is_limited).then_some("made room for later ones")
}

/// Compares consumers. Answers whether some have gone on since.
fn consumers(backup: &Contents, there: &Contents, comparison: &mut Comparison) -> bool {
    let mut has_moved = false;
    for (name, was) in &backup.consumers {
        let Some(is) = there.consumers.get(name) else {
            let text = format!("consumer {name} is missing");
            match was.config["inactive_threshold"].as_u64() {
                Some(1..) => {
                    comparison.notes.push(format!("{text}: nobody used it for its inactive_threshold"))
                }
                _ => comparison.differences.push(text),
            }
            continue;
        };
        let changed = changed_settings(&was.config, &is.config);
        if !changed.is_empty() {
            let text = format!("consumer {name} is configured otherwise: {}", changed.join(", "));
            comparison.differences.push(text);
        }
        if was.is_as_far_as(is) {
            continue;
        }
        let is_behind = is.delivered < was.delivered || is.ack_floor < was.ack_floor;
        has_moved |= !is_behind;
        match is_behind
            || is.delivered == was.delivered && is.ack_floor == was.ack_floor && is.pending > was.pending
        {
            true => comparison.differences.push(format!("consumer {name} is not as far as it was")),
            false => comparison.notes.push(format!("consumer {name} has gone on")),
        }
    }
    has_moved
}

/// Names of the settings in which two configurations differ, but for what servers note in them
/// and the number of replicas, which belongs to the place.
pub(super) fn changed_settings(one: &Value, other: &Value) -> Vec<String> {
    let settings = |config: &Value| {
        let mut config = config.clone();
        if let Some(metadata) = config["metadata"].as_object_mut() {
            metadata.retain(|key, _| !key.starts_with("_nats."));
        }
        let of = |(name, value): (&String, &Value)| (name.clone(), value.clone());
        let is_said = |(name, value): &(String, Value)| {
            let is_empty = value.is_null()
                || *value == false
                || value.as_u64() == Some(0)
                || value.as_str() == Some("")
                || value.as_object().is_some_and(serde_json::Map::is_empty);
            name != "num_replicas" && !is_empty
        };
        config
            .as_object()
            .into_iter()
            .flatten()
            .map(of)
            .filter(is_said)
            .collect::<std::collections::BTreeMap<String, Value>>()
    };
    let (one, other) = (settings(one), settings(other));
    let names: std::collections::BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    names.into_iter().filter(|name| one.get(*name) != other.get(*name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::contents::tests::packed;
    use serde_json::json;

    /// A walk of these messages of a stream beside those of a backup.
    fn walk(backup: &[(u64, &str)], stream: &[(u64, &str)]) -> [u64; 4] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, packed(backup, &[], true)).unwrap();
        let [missing, different, added, later] = [FoundMessages::default(); 4];
        let end = backup.last().map_or(0, |(seq, _)| *seq);
        let backup = ArchivedMessages::open(&path).unwrap();
        let mut walk = ComparingWalk { backup, end, missing, different, added, later };
        let mut reader = ContentsReader::default();
        reader.feed(&packed(stream, &[], true), &mut |message| walk.meet(message)).unwrap();
        walk.rest().unwrap();
        [walk.missing, walk.different, walk.added, walk.later].map(|found| found.messages)
    }

    #[test]
    fn each_message_is_found_or_told() {
        let backup = [(2, "b"), (3, "c"), (5, "e")];
        assert_eq!(walk(&backup, &backup), [0, 0, 0, 0]);
        assert_eq!(walk(&backup, &[(2, "b"), (3, "x"), (5, "e")]), [0, 1, 0, 0]);
        assert_eq!(walk(&backup, &[(3, "c"), (4, "d"), (6, "f")]), [2, 0, 1, 1]);
        assert_eq!(walk(&backup, &[]), [3, 0, 0, 0]);
        assert_eq!(walk(&[], &[(1, "a")]), [0, 0, 0, 1]);
    }

    #[test]
    fn what_may_be_missing_depends_on_the_stream() {
        let limits = json!({"retention": "limits", "max_msgs": 5});
        assert_eq!(why_missing(&limits, true, false), None);
        assert!(why_missing(&limits, false, true).is_some());
        let queue = json!({"retention": "workqueue"});
        assert_eq!(why_missing(&queue, false, true), None);
        assert!(why_missing(&queue, true, false).is_some());
        assert!(why_missing(&json!({"max_age": 5}), false, false).is_some());
    }

    #[test]
    fn settings_are_compared_without_what_servers_note() {
        let one = json!({"name": "C", "num_replicas": 3, "metadata": {"_nats.level": "1", "a": "b"}, "paused": false});
        assert_eq!(
            changed_settings(&one, &json!({"name": "C", "metadata": {"a": "b"}})),
            Vec::<String>::new()
        );
        assert_eq!(changed_settings(&one, &json!({"name": "D"})), ["metadata", "name"]);
    }

    #[test]
    fn consumers_may_go_on_and_not_back() {
        let contents = |delivered: u64| {
            let entry = format!(
                r#"{{"config":{{"name":"C"}},"state":{{"delivered":{{"consumer_seq":{delivered},"stream_seq":{delivered}}}}}}}"#
            );
            let mut reader = ContentsReader::default();
            reader.feed(&packed(&[(9, "a")], &[("C", &entry)], true), &mut |_| Ok(())).unwrap();
            reader.finish().unwrap()
        };
        let told = |was, is| {
            let mut comparison = Comparison::default();
            let has_moved = consumers(&contents(was), &contents(is), &mut comparison);
            (has_moved, comparison.is_equal(), comparison.notes.len())
        };
        assert_eq!(told(2, 2), (false, true, 0));
        assert_eq!(told(2, 3), (true, true, 1));
        assert_eq!(told(3, 2), (false, false, 0));
    }
}
