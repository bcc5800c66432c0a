//! One bucket of objects: its subjects, and what it says of each object.
//!
//! Owns the record of an object as ADR-20 has it. Objects are known by their names, and their
//! content by an id that each has anew.

use jiff::Timestamp;
use myelin_loadgen::admin::Admin;
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
    pub(super) fn publish(&self, admin: &mut Admin, record: &Value) -> Result<(), BenchError> {
        let subject = self.record(&text(&record["name"]));
        admin.publish(&subject, ROLLUP, record.to_string().as_bytes()).map(drop)
    }

    /// Removes the content with this id.
    pub(super) fn remove_content(&self, admin: &mut Admin, id: &str) -> Result<(), BenchError> {
        admin.purge(&self.stream, &json!({ "filter": self.content(id) })).map(drop)
    }
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
