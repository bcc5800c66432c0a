//! Answers to `MYELIN.WHY`: what holds deliveries or publishes back, in the order in which it is to
//! be mended, each cause with its numbers and the remedy. Another server has no such request.
//!
//! Owns the words and texts. Which causes there are is found out where the decision is made:
//! `streams/src/consumer/why.rs`, `streams/src/stream/why.rs`.

mod consumer;
mod group;
mod stream;
#[cfg(test)]
mod tests;

pub use consumer::ConsumerCause;
pub use group::GroupCause;
pub use stream::StreamCause;

use super::moment;
use super::response::ApiResponse;
use crate::json::{go_duration, rfc3339};
use myelin_stdx::time::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

/// How much a cause holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Holds {
    /// Nothing goes while it lasts.
    All,
    /// Some messages do not go, or others go slower or are lost sooner than they might.
    Some,
    /// Nothing now: there is nothing to hold back, or it is the reason why there is nothing.
    Nothing,
}

/// One cause, as an answer tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Word for scripts, which stays what it is.
    pub cause: &'static str,
    /// How much it holds back.
    pub holds: Holds,
    /// Its numbers, by name. Moments are RFC 3339, and nanoseconds nowhere.
    pub numbers: Map<String, Value>,
    /// A sentence for people.
    pub says: String,
    /// Another one: what mends it.
    pub remedy: String,
}

impl Cause {
    fn new(cause: &'static str, holds: Holds, numbers: Value, says: String, remedy: String) -> Self {
        let numbers = if let Value::Object(numbers) = numbers { numbers } else { Map::new() };
        Self { cause, holds, numbers, says, remedy }
    }
}

/// To `MYELIN.WHY.CONSUMER`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WhyConsumer {
    /// Its stream.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stream: String,
    /// Name of the consumer.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub consumer: String,
    /// Server, time and causes.
    #[serde(flatten)]
    pub found: Option<Findings>,
}

/// To `MYELIN.WHY.STREAM`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WhyStream {
    /// Name of the stream.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stream: String,
    /// Server, time and causes.
    #[serde(flatten)]
    pub found: Option<Findings>,
}

/// Findings of a server about a stream or consumer.
#[derive(Clone, Debug, Serialize)]
pub struct Findings {
    /// Name of the server that has looked.
    pub server: String,
    /// When it did.
    #[serde(serialize_with = "moment")]
    pub ts: Timestamp,
    /// In the order in which they are to be mended. None: nothing holds anything back.
    pub causes: Vec<Cause>,
}

impl ApiResponse for WhyConsumer {
    const TYPE: &'static str = "io.myelin.jetstream.api.v1.why_consumer_response";
}

impl ApiResponse for WhyStream {
    const TYPE: &'static str = "io.myelin.jetstream.api.v1.why_stream_response";
}

/// Counts something: `1 message`, `2 messages`.
fn count(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// How long ago something was, or will be, in whole seconds where there are some.
fn span(nanos: i64) -> String {
    const SECOND: i64 = 1_000_000_000;
    let nanos = nanos.max(0);
    go_duration(if nanos < SECOND { nanos - nanos % 1_000_000 } else { nanos - nanos % SECOND })
}

/// Moment of a text, to the second, and how long until then.
fn until(at: Timestamp, now: Timestamp) -> String {
    format!("{} (in {})", rfc3339(at - at % 1_000_000_000), span(at.saturating_sub(now)))
}

/// Seconds since a moment.
fn seconds(since: Timestamp, now: Timestamp) -> i64 {
    now.saturating_sub(since).max(0) / 1_000_000_000
}
