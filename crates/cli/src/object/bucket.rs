//! One bucket of objects: its subjects, and what it says of each object.
//!
//! Owns the record of an object as ADR-20 has it. Objects are known by their names, and their
//! content by an id that each has anew.

use jiff::Timestamp;
use myelin_loadgen::admin::{Admin, answered};
use myelin_loadgen::connection::ReceivedMessage;
use myelin_loadgen::error::BenchError;
use myelin_stdx::base_n::BASE64_URL;
use myelin_stdx::base64;
use serde_json::{Value, json};

use crate::buckets::check_bucket;
use crate::pull::{ConsumerReader, Pulled};
use crate::table::{moment_of, text};

/// A message that takes the place of those before it on its subject.
const ROLLUP: &str = "Nats-Rollup: sub\r\n";

/// Records that one request asks for.
const BATCH: u64 = 64;

/// A bucket that is there.
pub(super) struct ObjectBucket {
    pub(super) name: String,
    pub(super) stream: String,
    /// Information of its stream.
    pub(super) info: Value,
}

/// Record of an object in its bucket.
#[derive(Clone, Debug)]
pub(super) struct ObjectRecord {
    /// As it is stored.
    pub(super) value: Value,
    pub(super) stored: Timestamp,
}

impl ObjectBucket {
    pub(super) fn open(admin: &mut Admin, name: &str) -> Result<Self, BenchError> {
        check_bucket(name)?;
        let stream = format!("OBJ_{name}");
        let info = admin.stream(&stream)?;
        Ok(Self { name: name.to_owned(), stream, info })
    }

    /// Subject of the content with this id.
    pub(super) fn content(&self, id: &str) -> String {
        format!("$O.{}.C.{id}", self.name)
    }

    /// Subject of an object's record.
    fn record(&self, object: &str) -> String {
        format!("$O.{}.M.{}", self.name, padded(object.as_bytes()))
    }

    /// Subject of all records.
    pub(super) fn all_records(&self) -> String {
        format!("$O.{}.M.>", self.name)
    }

    /// All records, for each object the last.
    pub(super) fn records(&self, admin: &mut Admin) -> Result<Vec<ObjectRecord>, BenchError> {
        self.read(admin, &self.all_records())
    }

    /// The record of one object, also of one that has gone.
    pub(super) fn find(&self, admin: &mut Admin, object: &str) -> Result<Option<ObjectRecord>, BenchError> {
        Ok(self.read(admin, &self.record(object))?.pop())
    }

    fn read(&self, admin: &mut Admin, filter: &str) -> Result<Vec<ObjectRecord>, BenchError> {
        let mut records = Vec::new();
        self.reader(admin, filter)?.each(|pulled| {
            records.push(ObjectRecord::of(pulled)?);
            Ok(())
        })?;
        Ok(records)
    }

    /// A consumer that begins with the last record of each object.
    pub(super) fn reader<'a>(
        &self,
        admin: &'a mut Admin,
        filter: &str,
    ) -> Result<ConsumerReader<'a>, BenchError> {
        let config = json!({ "deliver_policy": "last_per_subject", "filter_subject": filter });
        ConsumerReader::looking(admin, &self.stream, &config, BATCH)
    }

    /// Stores the record of an object.
    pub(super) fn publish(&self, admin: &mut Admin, record: &Value) -> Result<(), Unrecorded> {
        let subject = self.record(&text(&record["name"]));
        let answer = admin.request(&subject, ROLLUP, record.to_string().as_bytes());
        stored(&subject, &answer.map_err(Unrecorded::Unknown)?)
    }

    /// Removes the content with this id.
    pub(super) fn remove_content(&self, admin: &mut Admin, id: &str) -> Result<(), BenchError> {
        admin.purge(&self.stream, &json!({ "filter": self.content(id) })).map(drop)
    }
}

/// Outcome of a record that no stream says it has stored.
#[derive(Debug)]
pub(super) enum Unrecorded {
    /// Refusal by the stream, or by a server without it: the record is not stored.
    Refused(BenchError),
    /// Loss of the answer, or one that leaves it open: the record may be stored.
    Unknown(BenchError),
}

impl From<Unrecorded> for BenchError {
    fn from((Unrecorded::Refused(error) | Unrecorded::Unknown(error)): Unrecorded) -> Self {
        error
    }
}

/// Whether a stream says that it has stored a message.
fn stored(subject: &str, answer: &ReceivedMessage) -> Result<(), Unrecorded> {
    if answer.is_from_nobody() {
        let words = format!("no stream takes messages on {subject:?}");
        return Err(Unrecorded::Refused(BenchError::Refused(words)));
    }
    answered(subject, &answer.payload).map(drop).map_err(|error| {
        let answer: Value = serde_json::from_slice(&answer.payload).unwrap_or_default();
        // Codes from 500 on speak of the server, which may have begun with it.
        match answer["error"]["code"].as_u64() {
            Some(400..500) => Unrecorded::Refused(error),
            _ => Unrecorded::Unknown(error),
        }
    })
}

impl ObjectRecord {
    pub(super) fn of(pulled: Pulled) -> Result<Self, BenchError> {
        let ReceivedMessage { payload, .. } = pulled.message;
        let value = serde_json::from_slice(&payload)
            .map_err(|error| BenchError::Protocol(format!("the record of an object: {error}")))?;
        Ok(Self { value, stored: moment_of(pulled.numbers.stored) })
    }

    pub(super) fn is_there(&self) -> bool {
        self.value["deleted"] != true
    }

    pub(super) fn name(&self) -> String {
        text(&self.value["name"])
    }

    /// The id of its content; nothing else than an id may stand in a subject.
    pub(super) fn id(&self) -> Result<&str, BenchError> {
        let id = self.value["nuid"].as_str().unwrap_or_default();
        match !id.is_empty()
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        {
            true => Ok(id),
            false => Err(BenchError::Protocol(format!("the content of an object has the id {id:?}"))),
        }
    }
}

/// Bytes in the alphabet that subjects and digests have.
pub(super) fn padded(bytes: &[u8]) -> String {
    base64::padded(bytes, BASE64_URL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_says_that_nothing_is_stored() {
        let of = |payload: &str| {
            let answer = ReceivedMessage { payload: payload.into(), ..ReceivedMessage::default() };
            stored("x", &answer)
        };
        assert!(of(r#"{"stream":"OBJ_B","seq":1}"#).is_ok());
        let refused = of(r#"{"error":{"code":400,"err_code":10054,"description":"too large"}}"#);
        assert!(matches!(refused, Err(Unrecorded::Refused(_))));
        let away = of(r#"{"error":{"code":503,"err_code":10008,"description":"no leader"}}"#);
        assert!(matches!(away, Err(Unrecorded::Unknown(_))));
        assert!(matches!(of("cut of"), Err(Unrecorded::Unknown(_))));
    }
}
