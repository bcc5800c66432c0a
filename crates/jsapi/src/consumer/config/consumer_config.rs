//! The configuration of a consumer: plain data.
//!
//! Written as JSON the fields stand in the reference's order, and those that it omits when empty
//! are omitted.

use crate::config::{Retention, StreamConfig};
use crate::json::Moment;
use myelin_wire::json::{is_false, is_zero};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The consumers that a stream has, as far as a new configuration must get along with them. All
/// count, direct ones too.
pub trait OtherConsumers {
    /// The configuration of the consumer `name`.
    fn find(&self, name: &str) -> Option<Arc<ConsumerConfig>>;

    /// Shows the configuration of each consumer, in any order, until `visit` says `false`.
    fn each(&self, visit: &mut dyn FnMut(&ConsumerConfig) -> bool);
}

impl OtherConsumers for BTreeMap<String, Arc<ConsumerConfig>> {
    fn find(&self, name: &str) -> Option<Arc<ConsumerConfig>> {
        self.get(name).cloned()
    }

    fn each(&self, visit: &mut dyn FnMut(&ConsumerConfig) -> bool) {
        let _ = self.values().all(|config| visit(config));
    }
}

/// Where a consumer begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliverPolicy {
    /// At the first message.
    #[default]
    All,
    /// At the last one.
    Last,
    /// Behind it.
    New,
    /// At a sequence.
    ByStartSequence,
    /// At a time.
    ByStartTime,
    /// With the last message of each subject.
    LastPerSubject,
}

/// Acknowledgements that the consumer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AckPolicy {
    /// Nothing.
    #[default]
    None,
    /// A message and all before it.
    All,
    /// Each message.
    Explicit,
    /// Messages up to those that the answers to flow control name (2.14).
    FlowControl,
}

/// How fast old messages are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayPolicy {
    /// At once.
    #[default]
    Instant,
    /// With the pauses with which they came.
    Original,
}

/// Which of several groups of pull requests is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PriorityPolicy {
    /// There are no groups.
    #[default]
    None,
    /// Requests may ask to be served only when much waits.
    Overflow,
    /// One client at a time.
    PinnedClient,
    /// By the number that a request has.
    Prioritized,
}

/// All fields of a consumer's configuration, in the reference's order.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
#[allow(missing_docs, reason = "the names are those of the API")]
pub struct ConsumerConfig {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub durable_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    pub deliver_policy: DeliverPolicy,
    #[serde(skip_serializing_if = "is_zero")]
    pub opt_start_seq: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opt_start_time: Option<Moment>,
    pub ack_policy: AckPolicy,
    #[serde(skip_serializing_if = "is_zero")]
    pub ack_wait: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub max_deliver: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backoff: Vec<i64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub filter_subject: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filter_subjects: Vec<String>,
    pub replay_policy: ReplayPolicy,
    #[serde(skip_serializing_if = "is_zero")]
    pub rate_limit_bps: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sample_freq: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub max_waiting: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub max_ack_pending: i64,
    #[serde(skip_serializing_if = "is_false")]
    pub flow_control: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub headers_only: bool,
    #[serde(skip_serializing_if = "is_zero")]
    pub max_batch: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub max_expires: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub max_bytes: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub deliver_subject: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub deliver_group: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub idle_heartbeat: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub inactive_threshold: i64,
    pub num_replicas: i64,
    #[serde(skip_serializing_if = "is_false")]
    pub mem_storage: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub direct: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub sourcing: bool,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause_until: Option<Moment>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub priority_groups: Vec<String>,
    #[serde(skip_serializing_if = "is_zero")]
    pub priority_policy: PriorityPolicy,
    #[serde(skip_serializing_if = "is_zero")]
    pub priority_timeout: i64,
    /// Whether the server has made up its name, which is then shown beside the configuration only.
    #[serde(skip)]
    pub is_unnamed: bool,
    /// Whether this server has made it for a stream of its own, which copies by it.
    #[serde(skip)]
    pub is_own: bool,
    /// Places in its stream that the server keeps with it.
    #[serde(skip)]
    pub places: StreamPlaces,
}

/// Places in the stream of a consumer that are kept with its configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamPlaces {
    /// Messages up to this one stay in a work queue although they are behind the consumer: it was
    /// begun anew after them.
    pub passed: u64,
    /// Where the stream ended when a consumer with [`DeliverPolicy::LastPerSubject`] was made: of
    /// what lies before it gets only the last message of each subject. 0: that is not known, or it
    /// gets all.
    pub lasts_through: u64,
}

impl ConsumerConfig {
    /// Name of the consumer: every consumer that the API has made has one, durable or not.
    #[must_use]
    pub fn consumer_name(&self) -> &str {
        if self.durable_name.is_empty() { &self.name } else { &self.durable_name }
    }

    /// Whether it stays when nobody uses it.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        !self.durable_name.is_empty()
    }

    /// Replicas that a consumer of this stream is to have: those of its stream, unless it says
    /// something else, or is an ephemeral one of a stream that keeps what nobody wants.
    #[must_use]
    pub fn replicas(&self, stream: &StreamConfig) -> i64 {
        let is_short_lived = !self.is_durable() && stream.retention == Retention::Limits;
        match self.num_replicas {
            0 if is_short_lived => 1,
            own if own > 0 && own <= stream.num_replicas => own,
            _ => stream.num_replicas.max(1),
        }
    }

    /// Whether it serves another stream, and counts in no limit and no rule about consumers of one
    /// stream.
    #[must_use]
    pub fn is_internal(&self) -> bool {
        self.direct || self.sourcing
    }

    /// Whether messages are pushed to a subject, and not asked for.
    #[must_use]
    pub fn is_push(&self) -> bool {
        !self.deliver_subject.is_empty()
    }

    /// The subjects it is about; none: all.
    pub fn filters(&self) -> impl Iterator<Item = &str> {
        let one = (!self.filter_subject.is_empty()).then_some(&self.filter_subject);
        one.into_iter().chain(&self.filter_subjects).map(String::as_str)
    }
}
