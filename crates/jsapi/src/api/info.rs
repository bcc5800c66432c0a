//! Information about a stream and an account, as answers have it.

use super::moment;
use crate::config::{AccountLimits, ExternalStream, Placement, StreamConfig, SubjectTransform};
use crate::error::ApiError;
use myelin_stdx::time::Timestamp;
use myelin_wire::json::{counts, is_zero};
use serde::Serialize;
use std::collections::BTreeMap;

/// A stream: how it is configured and how it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StreamInfo {
    /// With versions ([`crate::config::with_versions`]), but not in a list.
    pub config: StreamConfig,
    /// When the stream was made.
    #[serde(serialize_with = "moment")]
    pub created: Timestamp,
    /// State of the stream.
    pub state: StreamState,
    /// The server's domain; not in the answer to a creation.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub domain: String,
    /// Where it is; only in answers to INFO.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterInfo>,
    /// How far a mirror is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mirror: Option<SourceInfo>,
    /// How far sources are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceInfo>,
    /// The stream and its mirrors, where it has some in the cluster; only in answers to INFO.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alternates: Vec<StreamAlternate>,
    /// When this was said.
    #[serde(serialize_with = "moment")]
    pub ts: Timestamp,
}

/// Stream that has what another one has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StreamAlternate {
    /// Its name.
    pub name: String,
    /// Its domain; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub domain: String,
    /// Name of its cluster.
    pub cluster: String,
}

/// State of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StreamState {
    /// Messages.
    pub messages: u64,
    /// Bytes, as the reference counts them.
    pub bytes: u64,
    /// Sequence of the first message.
    pub first_seq: u64,
    /// Its time.
    #[serde(serialize_with = "moment")]
    pub first_ts: Timestamp,
    /// Sequence of the last message.
    pub last_seq: u64,
    /// Its time.
    #[serde(serialize_with = "moment")]
    pub last_ts: Timestamp,
    /// Different subjects.
    #[serde(skip_serializing_if = "is_zero")]
    pub num_subjects: u64,
    /// Messages of each subject, where asked for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", serialize_with = "counts")]
    pub subjects: BTreeMap<Vec<u8>, u64>,
    /// Sequences between first and last without a message.
    #[serde(skip_serializing_if = "is_zero")]
    pub num_deleted: u64,
    /// Which these are, where asked for: the first [`DELETED_LIMIT`](super::DELETED_LIMIT).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deleted: Vec<u64>,
    /// How many more there are than `deleted` lists. Compat: the reference lists all, however many,
    /// and has no such field.
    #[serde(skip_serializing_if = "is_zero")]
    pub deleted_unlisted: u64,
    /// Messages that a damaged disk took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<Lost>,
    /// Consumers.
    pub consumer_count: u64,
}

/// Messages that a damaged disk took, as of when the stream was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// Sequences that may have had a message, the first thousand.
    pub msgs: Vec<u64>,
    /// Bytes of files that are damaged or missing, where that is known.
    pub bytes: u64,
    /// How many more sequences there are. Compat: the reference lists all, however many, and has no
    /// such field.
    #[serde(skip_serializing_if = "is_zero")]
    pub unlisted: u64,
}

/// Where a stream is. A server alone names itself as the leader.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClusterInfo {
    /// Name of the cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Name of its group; empty where it has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub raft_group: String,
    /// Name of the server.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub leader: String,
    /// Since when this server leads it; 0 where another one does.
    #[serde(skip_serializing_if = "is_zero", serialize_with = "moment")]
    pub leader_since: Timestamp,
    /// Whether its members talk in the account that [`traffic_account`](Self::traffic_account)
    /// names, and this is the system account.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub system_account: bool,
    /// Compat: members talk in an account of their own; the reference's do in the system account,
    /// unless the account wants otherwise.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub traffic_account: String,
    /// Other members of the group, by name; all of them where nobody leads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<ReplicaInfo>,
    /// A change of the members that is under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired: Option<Box<DesiredInfo>>,
}

/// Change of a group's members that is under way: who is to have replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DesiredInfo {
    /// When it was asked for.
    #[serde(serialize_with = "moment")]
    pub created: Timestamp,
    /// Name of the cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Servers that are to have replicas. Compat: empty while there are to be fewer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<DesiredReplica>,
    /// State to which a cancellation goes back; `None` where nothing can be cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<DesiredOrigin>,
    /// Work that is being done, or is waited for, as the leader sees it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<DesiredStatus>,
}

/// Server that is to have a replica.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DesiredReplica {
    /// Its name.
    pub name: String,
    /// Whether it is not there.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub offline: bool,
    /// Its peer id.
    pub peer: String,
}

/// State before a change, to which a cancellation goes back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DesiredOrigin {
    /// Replicas that the configuration had.
    pub replicas: i64,
    /// Placement that the configuration had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
}

/// Progress of a change, in the reference's words and kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DesiredStatus {
    /// A short line for operators.
    pub description: String,
    /// Its kind: `catchup`, `membership`, `quorum`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// Another member of a group, as its leader sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReplicaInfo {
    /// Name of the server.
    pub name: String,
    /// Whether it has what is committed, and was heard lately.
    pub current: bool,
    /// Whether the server is not there.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub offline: bool,
    /// Nanoseconds since it was heard.
    pub active: i64,
    /// Entries that it has not confirmed.
    #[serde(skip_serializing_if = "is_zero")]
    pub lag: i64,
    /// Its peer id.
    pub peer: String,
    /// Whether it is to be a member of the group and is none yet.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pending: bool,
}

/// How far the copying of another stream is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceInfo {
    /// The other stream.
    pub name: String,
    /// Where it is, if not here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalStream>,
    /// Messages that are still to come.
    pub lag: u64,
    /// The last sequence that came.
    #[serde(skip_serializing_if = "is_zero")]
    pub seq: u64,
    /// Nanoseconds since something came; -1: nothing yet.
    pub active: i64,
    /// When the oldest message that is still to come was stored there; the last one that came,
    /// where that is not known. Monitoring tells the lag by it, the API does not.
    #[serde(skip)]
    pub waits_since: Option<Timestamp>,
    /// Why nothing comes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ApiError>,
    /// Subjects that are copied.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub filter_subject: String,
    /// Subjects that are copied and what is made of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subject_transforms: Vec<SubjectTransform>,
}

/// Usage and limits of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AccountInfo {
    /// All of it.
    #[serde(flatten)]
    pub whole: TierUsage,
    /// The server's domain.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub domain: String,
    /// Requests.
    pub api: ApiStats,
    /// Requests by tier, where limits are by tier.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tiers: BTreeMap<String, TierUsage>,
}

/// Usage and limits of streams: all of an account, or those of one tier.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TierUsage {
    /// Bytes in memory.
    pub memory: u64,
    /// Bytes on disk.
    pub storage: u64,
    /// Bytes in memory that are reserved.
    pub reserved_memory: u64,
    /// Bytes on disk that are reserved.
    pub reserved_storage: u64,
    /// Streams.
    pub streams: u64,
    /// Consumers of all streams.
    pub consumers: u64,
    /// Limits of these streams.
    pub limits: AccountLimits,
}

/// Requests that were answered for an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApiStats {
    /// The API level of this server.
    pub level: u32,
    /// All requests.
    pub total: u64,
    /// Requests that were answered with an error.
    pub errors: u64,
    /// Requests that are not answered yet.
    #[serde(skip_serializing_if = "is_zero")]
    pub inflight: u64,
}

impl Default for ApiStats {
    fn default() -> Self {
        Self { level: crate::config::API_LEVEL, total: 0, errors: 0, inflight: 0 }
    }
}
