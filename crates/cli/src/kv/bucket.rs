//! One bucket: the subjects of its keys, and what is stored under them.
//!
//! Owns the rules of ADR-8: names of buckets and keys, which headers mean that a key has gone, and
//! who is asked for a value.

use jiff::Timestamp;
use myelin_loadgen::admin::Admin;
use myelin_loadgen::connection::ReceivedMessage;
use myelin_loadgen::error::BenchError;
use myelin_loadgen::target_server::API;
use serde_json::{Value, json};

use crate::buckets::check_bucket;
use crate::pull::Pulled;
use crate::stored::ViewedMessage;
use crate::table::moment_of;

/// A bucket that is there.
pub(super) struct KeyBucket {
    pub(super) name: String,
    pub(super) stream: String,
    /// Information of its stream.
    pub(super) info: Value,
    /// Start of the subjects of what is stored, with the dot.
    prefix: String,
    /// Start of the subjects that are published to.
    writes: String,
}

/// A value, or that it has gone.
#[derive(Debug)]
pub(super) struct KeyValue {
    pub(super) key: String,
    pub(super) revision: u64,
    pub(super) created: Timestamp,
    /// `PUT`, `DELETE` or `PURGE`.
    pub(super) operation: &'static str,
    pub(super) value: Vec<u8>,
}

impl KeyBucket {
    pub(super) fn open(admin: &mut Admin, name: &str) -> Result<Self, BenchError> {
        check_bucket(name)?;
        let stream = format!("KV_{name}");
        let info = admin.stream(&stream)?;
        let mirror = &info["config"]["mirror"];
        // What a mirror has is stored under its origin's subjects, and written there.
        let origin = mirror["name"].as_str().and_then(|origin| origin.strip_prefix("KV_")).unwrap_or(name);
        let prefix = format!("$KV.{origin}.");
        let writes = match (mirror["external"]["api"].as_str(), admin.api()) {
            (Some(api), _) if !api.is_empty() => format!("{api}.{prefix}"),
            (_, API) => prefix.clone(),
            (_, api) => format!("{api}.{prefix}"),
        };
        Ok(Self { name: name.to_owned(), stream, info, prefix, writes })
    }

    /// The subject under which a key is stored. Patterns of keys have one, too.
    pub(super) fn stored(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// Publishes to a key and gives the revision.
    pub(super) fn write(
        &self,
        admin: &mut Admin,
        key: &str,
        headers: &str,
        value: &[u8],
    ) -> Result<u64, BenchError> {
        let answer = admin.publish(&format!("{}{key}", self.writes), headers, value)?;
        Ok(answer["seq"].as_u64().unwrap_or_default())
    }

    /// The last message under a key, markers of what has gone included.
    pub(super) fn last(&self, admin: &mut Admin, key: &str) -> Result<Option<KeyValue>, BenchError> {
        let subject = self.stored(key);
        match self.is_direct() {
            true => self.direct(admin, &format!(".{subject}"), &Value::Null),
            false => self.through_leader(admin, &json!({ "last_by_subj": subject })),
        }
    }

    /// The value that a key had in this revision.
    pub(super) fn revision(
        &self,
        admin: &mut Admin,
        key: &str,
        revision: u64,
    ) -> Result<Option<KeyValue>, BenchError> {
        let body = json!({ "seq": revision });
        let found = match self.is_direct() {
            true => self.direct(admin, "", &body)?,
            false => self.through_leader(admin, &body)?,
        };
        Ok(found.filter(|found| found.key == key))
    }

    fn is_direct(&self) -> bool {
        self.info["config"]["allow_direct"] == true
    }

    fn direct(&self, admin: &mut Admin, subject: &str, body: &Value) -> Result<Option<KeyValue>, BenchError> {
        let subject = format!("{}.DIRECT.GET.{}{subject}", admin.api(), self.stream);
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let message = admin.request(&subject, "", body.as_bytes())?;
        let value = |name| message.header_value(name).unwrap_or_default();
        match message.status() {
            None => Ok(Some(KeyValue {
                key: self.key_of(value("Nats-Subject")),
                revision: value("Nats-Sequence").parse().unwrap_or_default(),
                created: value("Nats-Time-Stamp").parse().unwrap_or_default(),
                operation: operation(&message),
                value: message.payload,
            })),
            Some(404) => Ok(None),
            Some(503) => Err(BenchError::NoResponder),
            Some(_) => Err(BenchError::Refused(message.status_line())),
        }
    }

    fn through_leader(&self, admin: &mut Admin, body: &Value) -> Result<Option<KeyValue>, BenchError> {
        let Some(answer) = admin.stored(&self.stream, body)? else { return Ok(None) };
        let ViewedMessage { sequence, time, subject, header, payload } = ViewedMessage::of(&answer);
        let header = ReceivedMessage { header, ..ReceivedMessage::default() };
        Ok(Some(KeyValue {
            key: self.key_of(&subject),
            revision: sequence,
            created: time,
            operation: operation(&header),
            value: payload,
        }))
    }

    /// Reads a message that a consumer of the bucket delivered.
    pub(super) fn of_delivery(&self, pulled: Pulled) -> KeyValue {
        let Pulled { message, numbers } = pulled;
        KeyValue {
            key: self.key_of(&message.subject),
            revision: numbers.stream_sequence,
            created: moment_of(numbers.stored),
            operation: operation(&message),
            value: message.payload,
        }
    }

    fn key_of(&self, subject: &str) -> String {
        subject.strip_prefix(&self.prefix).unwrap_or(subject).to_owned()
    }
}

impl KeyValue {
    pub(super) fn is_there(&self) -> bool {
        self.operation == "PUT"
    }
}

/// The operation of a message on its key: the client says which, or the server that removed the
/// value.
fn operation(message: &ReceivedMessage) -> &'static str {
    let value = |name| message.header_value(name).unwrap_or_default();
    match (value("KV-Operation"), value("Nats-Marker-Reason")) {
        ("DEL", _) | (_, "Remove") => "DELETE",
        ("PURGE", _) | (_, "Purge" | "MaxAge") => "PURGE",
        _ => "PUT",
    }
}

pub(super) fn check_key(key: &str) -> Result<(), BenchError> {
    check_signs(key, b"-_=/.")
}

/// A key, or a pattern of keys.
pub(super) fn check_pattern(pattern: &str) -> Result<(), BenchError> {
    check_signs(pattern, b"-_=/.*>")
}

fn check_signs(key: &str, further: &[u8]) -> Result<(), BenchError> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || further.contains(&byte);
    let has_all_tokens = key.split('.').all(|token| !token.is_empty());
    match has_all_tokens && key.bytes().all(is_good) {
        true => Ok(()),
        false => Err(BenchError::Usage(format!(
            "{key:?} is no key: letters, digits, - _ = / are, and dots between them"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_buckets_have_their_signs() {
        for key in ["a", "a.b", "-/_=", "a/b.c=d"] {
            assert!(check_key(key).is_ok(), "{key}");
        }
        for key in ["", ".a", "a.", "a..b", "a b", "a*", ">", "\u{fc}", "a\r\n"] {
            assert!(check_key(key).is_err(), "{key}");
        }
        assert!(check_pattern("a.*.>").is_ok() && check_pattern("a b").is_err());
        assert!(check_bucket("A-b_9").is_ok());
        assert!(["", "a.b", "a/b", "a b"].iter().all(|name| check_bucket(name).is_err()));
    }

    #[test]
    fn headers_say_that_a_key_has_gone() {
        let of = |line: &str| {
            let header = format!("NATS/1.0\r\n{line}\r\n\r\n").into_bytes();
            operation(&ReceivedMessage { header, ..ReceivedMessage::default() })
        };
        let lines = ["KV-Operation: DEL", "KV-Operation: PURGE", "Nats-Marker-Reason: MaxAge", "K: v"];
        assert_eq!(lines.map(of), ["DELETE", "PURGE", "PURGE", "PUT"]);
    }
}
