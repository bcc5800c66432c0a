//! The steps around a benchmark: streams, consumers and buckets are made, looked at, emptied and removed.
//!
//! Owns one connection that asks JetStream's API, and what errors of that API look like to a person. Nothing here is
//! measured.

use serde_json::{Value, json};

use crate::bench::connection::Connection;
use crate::bench::error::BenchError;
use crate::bench::jetstream::consumers::admin::create;
use crate::bench::target::Target;

/// A connection on which JetStream is asked.
#[derive(Debug)]
pub(crate) struct Admin {
    connection: Connection,
    api: String,
}

impl Admin {
    pub(crate) fn open(target: &Target) -> Result<Self, BenchError> {
        Ok(Self { connection: target.connect()?, api: target.api.clone() })
    }

    /// Asks, for example, `STREAM.INFO.name`; an empty body is `null`.
    pub(crate) fn ask(&mut self, what: &str, body: &Value) -> Result<Value, BenchError> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = self.connection.ask(&format!("{}.{what}", self.api), "", body.as_bytes())?;
        if answer.is_from_nobody() {
            return Err(BenchError::Refused("JetStream is not enabled for this account".into()));
        }
        let answer: Value = serde_json::from_slice(&answer.payload)
            .map_err(|error| BenchError::Protocol(format!("the answer to {what}: {error}")))?;
        match &answer["error"] {
            Value::Null => Ok(answer),
            error => Err(BenchError::Refused(described(error))),
        }
    }

    /// Fails unless the server speaks this level of the API.
    pub(crate) fn require_level(&self, level: u64, why: &str) -> Result<(), BenchError> {
        match self.connection.info()["api_lvl"].as_u64().unwrap_or(0) {
            low if low < level => Err(BenchError::Usage(why.to_owned())),
            _ => Ok(()),
        }
    }

    pub(crate) fn stream(&mut self, name: &str) -> Result<Value, BenchError> {
        self.ask(&format!("STREAM.INFO.{name}"), &Value::Null)
    }

    /// Removes all messages, or those that `body` says; gives their number.
    pub(crate) fn purge(&mut self, stream: &str, body: &Value) -> Result<u64, BenchError> {
        Ok(self.ask(&format!("STREAM.PURGE.{stream}"), body)?["purged"].as_u64().unwrap_or_default())
    }

    /// The names or the infos of all streams (`NAMES`, `LIST`), page by page.
    pub(crate) fn streams(&mut self, verb: &str) -> Result<Vec<Value>, BenchError> {
        let mut all = Vec::new();
        loop {
            let page = self.ask(&format!("STREAM.{verb}"), &json!({"offset": all.len()}))?;
            let streams = page["streams"].as_array().cloned().unwrap_or_default();
            let is_last = streams.is_empty();
            all.extend(streams);
            if is_last || all.len() as u64 >= page["total"].as_u64().unwrap_or_default() {
                return Ok(all);
            }
        }
    }

    /// Makes a consumer, or changes it to be like this.
    pub(crate) fn create_consumer(&mut self, stream: &str, config: &Value) -> Result<(), BenchError> {
        let (subject, body) = create(stream, config, "");
        self.ask(&subject, &body).map(drop)
    }
}

fn described(error: &Value) -> String {
    let text = error["description"].as_str().unwrap_or("unknown error");
    format!("{text} (code {}, error {})", error["code"], error["err_code"])
}
