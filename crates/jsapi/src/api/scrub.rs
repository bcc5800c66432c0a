//! Answers to `MYELIN.SCRUB`: how far a server has read what it has stored of a stream, so that
//! damage is found. Another server has no such request.

use super::moment;
use super::response::ApiResponse;
use myelin_stdx::time::Timestamp;
use serde::Serialize;

/// To `MYELIN.SCRUB.BEGIN` and `MYELIN.SCRUB.STATE`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Scrub {
    /// Name of the stream.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stream: String,
    /// Name of the server, and what it says of itself.
    #[serde(flatten)]
    pub pass: Option<ReplicaScrub>,
    /// Names of all servers that have it, which can be asked one by one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<String>,
}

/// Pass of one server over what it has stored of a stream.
#[derive(Clone, Debug, Serialize)]
pub struct ReplicaScrub {
    /// Name of the server.
    pub server: String,
    /// Whether it reads.
    pub under_way: bool,
    /// How much of the sequences it has passed, of 100.
    pub percent: u64,
    /// Whether the pass ended before it was through, because the rest could not be read.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_stopped: bool,
    /// Bytes of messages that it has read.
    pub bytes: u64,
    /// When the pass began; Go's zero time: there was none since the server began.
    #[serde(serialize_with = "moment")]
    pub began: Timestamp,
    /// When it ended; Go's zero time: it has not.
    #[serde(serialize_with = "moment")]
    pub ended: Timestamp,
    /// Messages that are known to be lost or damaged here, as `state.lost` of the stream's info.
    pub lost_messages: u64,
    /// Whether it is about to get all of the stream from another server.
    pub is_repaired: bool,
}

impl ApiResponse for Scrub {
    const TYPE: &'static str = "io.myelin.jetstream.api.v1.scrub_response";
}
