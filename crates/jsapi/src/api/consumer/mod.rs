//! Documents about consumers: what answers tell of one, what requests say and what answers look
//! like.

pub mod request;
pub mod response;

use super::{info::ClusterInfo, moment};
use crate::consumer::config::ConsumerConfig;
use myelin_stdx::time::Timestamp;
use myelin_wire::json::{is_false, is_zero};
use serde::Serialize;

/// A consumer: how it is configured and how it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConsumerInfo {
    /// Its stream.
    pub stream_name: String,
    /// Name of the consumer.
    pub name: String,
    /// When it was made.
    #[serde(serialize_with = "moment")]
    pub created: Timestamp,
    /// With versions ([`crate::consumer::config::with_versions`]), but not in a list. Monitoring
    /// leaves it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<ConsumerConfig>,
    /// The last message that was delivered.
    pub delivered: SequenceInfo,
    /// The last message up to which all are acknowledged.
    pub ack_floor: SequenceInfo,
    /// Messages that wait for their acknowledgement.
    pub num_ack_pending: u64,
    /// Messages that were delivered more than once. Compat: 0 where `max_deliver` is 1.
    pub num_redelivered: u64,
    /// Pull requests that wait.
    pub num_waiting: u64,
    /// Messages that were never delivered.
    pub num_pending: u64,
    /// Where it is; a server alone says nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterInfo>,
    /// Whether somebody listens to where it pushes.
    #[serde(skip_serializing_if = "is_false")]
    pub push_bound: bool,
    /// Whether it is paused.
    #[serde(skip_serializing_if = "is_false")]
    pub paused: bool,
    /// For how many nanoseconds more.
    #[serde(skip_serializing_if = "is_zero")]
    pub pause_remaining: i64,
    /// When this was said.
    #[serde(serialize_with = "moment")]
    pub ts: Timestamp,
    /// The first of its groups. Compat: the others are not shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub priority_groups: Vec<PriorityGroupState>,
}

/// A place in a consumer and in its stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SequenceInfo {
    /// Deliveries, counted from 1.
    pub consumer_seq: u64,
    /// The message.
    pub stream_seq: u64,
    /// When the last one was delivered or acknowledged since the server has run.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "last_active")]
    pub last_active: Option<Timestamp>,
}

/// A group of pull requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PriorityGroupState {
    /// Its name.
    pub group: String,
    /// Id that the client which is served must give.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pinned_client_id: String,
    /// Since when it is served; 0: nobody is. Compat: shown all the same.
    #[serde(serialize_with = "moment")]
    pub pinned_ts: Timestamp,
}

fn last_active<S: serde::Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    moment(&at.unwrap_or_default(), serializer)
}
