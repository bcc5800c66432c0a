//! The configuration of a stream: plain data.
//!
//! Written as JSON the fields stand in the reference's order, and those that it omits when empty
//! are omitted.

use crate::json::Moment;
use myelin_wire::json::{is_false, is_zero};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The streams that an account has, as far as a new configuration must get along with them.
pub trait OtherStreams {
    /// The configuration of the stream `name`.
    fn find(&self, name: &str) -> Option<Arc<StreamConfig>>;

    /// How many there are.
    fn count(&self) -> usize;

    /// The configurations of all.
    fn list(&self) -> Vec<Arc<StreamConfig>>;

    /// Bytes that those in this storage have reserved, with their replicas.
    fn reserved(&self, storage: Storage) -> i64;

    /// Whether another stream than this one takes a subject that overlaps with one of these.
    fn is_taken_by_other(&self, stream: &str, subjects: &[String]) -> bool;
}

/// Which messages stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Retention {
    /// Messages within the limits.
    #[default]
    Limits,
    /// Messages that a consumer still wants.
    Interest,
    /// Messages that were not yet acknowledged.
    WorkQueue,
}

/// Fate of messages at a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Discard {
    /// Old messages go.
    #[default]
    Old,
    /// New messages are refused.
    New,
}

/// Where messages are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Storage {
    /// On disk.
    #[default]
    File,
    /// In memory.
    Memory,
}

/// How sealed segments are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// With S2.
    S2,
}

/// When a message counts as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PersistMode {
    /// As the server does by default. Not shown, even when it was asked for.
    #[default]
    Default,
    /// From memory, written soon after.
    Async,
}

/// Caps and defaults for consumers of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct ConsumerLimits {
    /// Nanoseconds; 0: none.
    #[serde(skip_serializing_if = "is_zero")]
    pub inactive_threshold: i64,
    /// 0: none.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_ack_pending: i64,
}

impl ConsumerLimits {
    /// Whether consumers are to be held against these limits, which take the place of `old`.
    #[must_use]
    pub fn are_new(&self, old: &Self) -> bool {
        let is_new = |old: i64, new: i64| new > 0 && new != old;
        is_new(old.inactive_threshold, self.inactive_threshold)
            || is_new(old.max_ack_pending, self.max_ack_pending)
    }

    /// Whether a consumer with these values has more than it may.
    #[must_use]
    pub fn are_exceeded_by(&self, inactive_threshold: i64, max_ack_pending: i64) -> bool {
        let exceeds = |is: i64, limit: i64| limit > 0 && is > limit;
        exceeds(inactive_threshold, self.inactive_threshold) || exceeds(max_ack_pending, self.max_ack_pending)
    }
}

/// A mapping of subjects.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct SubjectTransform {
    /// Subjects that it takes.
    #[serde(rename = "src")]
    pub source: String,
    /// Subject that it makes of them.
    #[serde(rename = "dest")]
    pub destination: String,
}

/// Where stored messages are published again.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Republish {
    /// Subjects that it takes; empty is everything.
    #[serde(rename = "src", skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Subject that it makes of them.
    #[serde(rename = "dest")]
    pub destination: String,
    /// Without their payload.
    #[serde(skip_serializing_if = "is_false")]
    pub headers_only: bool,
}

/// Where a stream should live in a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Placement {
    /// Name of the cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    /// Tags of its servers. Compat: a list without any is not the same as none, though shown alike.
    #[serde(skip_serializing_if = "is_no_list")]
    pub tags: Option<Vec<String>>,
    /// Name of the preferred server.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub preferred: String,
}

/// Another stream in another account or domain.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct ExternalStream {
    /// Prefix of its API.
    pub api: String,
    /// Prefix of its deliveries.
    pub deliver: String,
}

/// The durable consumer through which a source is read.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct SourceConsumerConfig {
    /// Its name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Where it delivers to.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub deliver_subject: String,
}

/// Another stream that this one copies.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct StreamSource {
    /// Its name.
    pub name: String,
    /// From this sequence on; 0: not said.
    #[serde(skip_serializing_if = "is_zero")]
    pub opt_start_seq: u64,
    /// From this time on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opt_start_time: Option<Moment>,
    /// Only these subjects; empty: all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub filter_subject: String,
    /// Several filters, each with a mapping.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subject_transforms: Vec<SubjectTransform>,
    /// Where it is, if not here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalStream>,
    /// How it is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer: Option<SourceConsumerConfig>,
}

/// All fields of a stream's configuration, in the reference's order.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
#[allow(missing_docs, reason = "the names are those of the API")]
pub struct StreamConfig {
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<String>,
    pub retention: Retention,
    pub max_consumers: i64,
    pub max_msgs: i64,
    pub max_bytes: i64,
    pub max_age: i64,
    pub max_msgs_per_subject: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub max_msg_size: i32,
    pub discard: Discard,
    pub storage: Storage,
    pub num_replicas: i64,
    #[serde(skip_serializing_if = "is_false")]
    pub no_ack: bool,
    #[serde(skip_serializing_if = "is_zero")]
    pub duplicate_window: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mirror: Option<StreamSource>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<StreamSource>,
    pub compression: Compression,
    #[serde(skip_serializing_if = "is_zero")]
    pub first_seq: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject_transform: Option<SubjectTransform>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub republish: Option<Republish>,
    pub allow_direct: bool,
    pub mirror_direct: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub discard_new_per_subject: bool,
    pub sealed: bool,
    pub deny_delete: bool,
    pub deny_purge: bool,
    pub allow_rollup_hdrs: bool,
    pub consumer_limits: ConsumerLimits,
    pub allow_msg_ttl: bool,
    #[serde(skip_serializing_if = "is_zero")]
    pub subject_delete_marker_ttl: i64,
    #[serde(skip_serializing_if = "is_false")]
    pub allow_msg_counter: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub allow_atomic: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub allow_msg_schedules: bool,
    #[serde(skip_serializing_if = "is_zero")]
    pub persist_mode: PersistMode,
    #[serde(skip_serializing_if = "is_false")]
    pub allow_batched: bool,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

impl StreamConfig {
    /// Bytes that the stream has reserved, with its replicas.
    #[must_use]
    pub fn reserved(&self) -> i64 {
        self.max_bytes.max(0).saturating_mul(self.num_replicas.max(1))
    }
}

fn is_no_list(list: &Option<Vec<String>>) -> bool {
    list.as_ref().is_none_or(Vec::is_empty)
}
