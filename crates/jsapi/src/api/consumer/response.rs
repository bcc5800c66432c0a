//! Answers about consumers. An error leaves of each what [`Default`] has and is never omitted.

use super::ConsumerInfo as Info;
use crate::api::response::{ApiResponse, Paging};
use crate::json::Moment;
use myelin_wire::json::{is_false, is_zero};
use serde::Serialize;
use std::collections::BTreeMap;

/// To `CONSUMER.CREATE` and `CONSUMER.DURABLE.CREATE`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ConsumerCreate {
    /// The consumer.
    #[serde(flatten)]
    pub info: Option<Info>,
}

/// To `CONSUMER.INFO`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ConsumerInfo {
    /// The consumer.
    #[serde(flatten)]
    pub info: Option<Info>,
}

/// To `CONSUMER.NAMES`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ConsumerNames {
    /// Of the consumers.
    #[serde(flatten)]
    pub paging: Paging,
    /// Sorted; without direct ones.
    pub consumers: Vec<String>,
}

/// To `CONSUMER.LIST`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ConsumerList {
    /// Of the consumers.
    #[serde(flatten)]
    pub paging: Paging,
    /// Sorted by name; without direct ones. Compat: their configurations are shown without
    /// versions.
    pub consumers: Vec<Info>,
    /// Consumers that did not answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Consumers that this server can not run, and why.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub offline: BTreeMap<String, String>,
}

/// To `CONSUMER.DELETE`.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ConsumerDelete {
    /// Whether it is gone.
    #[serde(skip_serializing_if = "is_false")]
    pub success: bool,
}

/// To `CONSUMER.PAUSE`.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ConsumerPause {
    /// Whether it is paused now.
    pub paused: bool,
    /// Until when, in UTC; Go's zero time: not at all.
    pub pause_until: Moment,
    /// Nanoseconds until then, if that lies ahead.
    #[serde(skip_serializing_if = "is_zero")]
    pub pause_remaining: i64,
}

/// To `CONSUMER.UNPIN`: nothing more.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ConsumerUnpin {}

/// To `CONSUMER.RESET`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ConsumerReset {
    /// The consumer.
    #[serde(flatten)]
    pub info: Option<Info>,
    /// The message that it goes on with.
    pub reset_seq: u64,
}

macro_rules! types {
    ($($answer:ty: $name:literal,)*) => {
        $(impl ApiResponse for $answer {
            const TYPE: &'static str = concat!("io.nats.jetstream.api.v1.consumer_", $name, "_response");
        })*
    };
}

types! {
    ConsumerCreate: "create",
    ConsumerInfo: "info",
    ConsumerNames: "names",
    ConsumerList: "list",
    ConsumerDelete: "delete",
    ConsumerPause: "pause",
    ConsumerUnpin: "unpin",
    ConsumerReset: "reset",
}
