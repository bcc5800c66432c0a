//! A server as a member of a cluster with JetStream: its groups, and what is wrong with it there.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::text::round_trip;
use myelin_wire::json::is_zero;

/// Another member of a group, as the API's `cluster.replicas` shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PeerRow {
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
    /// Whether it is to become a member.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pending: bool,
}

/// The meta group, in the reference's order. Its `snapshot` says nothing here: the group keeps no
/// snapshots beside its log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MetaGroup {
    /// Name of the cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Name of the leader; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub leader: String,
    /// Peer id of the leader; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub peer: String,
    /// Members but this server; all of them where there is no leader.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<PeerRow>,
    /// Number of members.
    pub cluster_size: usize,
    /// How many of them have to agree.
    pub quorum_needed: usize,
    /// Requests that wait for a decision.
    pub pending: u64,
    /// Requests that wait for this server.
    pub pending_requests: u64,
    /// Requests for infos that wait for this server.
    pub pending_infos: u64,
    /// Snapshots of the group.
    pub snapshot: MetaSnapshots,
}

/// Snapshots of the meta group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MetaSnapshots {
    /// Entries since the last one.
    pub pending_entries: u64,
    /// Bytes of these.
    pub pending_size: u64,
    /// When the last one was made.
    pub last_time: &'static str,
}

impl Default for MetaSnapshots {
    fn default() -> Self {
        Self { pending_entries: 0, pending_size: 0, last_time: "0001-01-01T00:00:00Z" }
    }
}

/// Group of which this server is a member, for `/raftz`.
#[derive(Debug, Clone)]
pub struct RaftGroupSnapshot {
    /// Account of its stream; the system account's name for the meta group.
    pub account: String,
    /// Its name.
    pub name: String,
    /// The group, as the page shows it.
    pub group: RaftGroup,
}

/// Group as `/raftz` shows it, in the reference's order.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RaftGroup {
    /// Peer id of this server.
    pub id: String,
    /// `LEADER`, `FOLLOWER` or `CANDIDATE`.
    pub state: &'static str,
    /// Number of members.
    pub size: usize,
    /// How many of them have to agree.
    pub quorum_needed: usize,
    /// How far the member is.
    #[serde(flatten)]
    pub progress: RaftProgress,
    /// Peer id of the leader; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub leader: String,
    /// Since when this server leads, as RFC 3339 has it; empty where it does not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub leader_since: String,
    /// Whether a leader was known.
    pub ever_had_leader: bool,
    /// The term.
    pub term: u64,
    /// Peer id of whom this server has voted for; empty for nobody.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub voted_for: String,
    /// Term of the last entry.
    pub pterm: u64,
    /// Index of the last entry.
    pub pindex: u64,
    /// Whether [`traffic_account`](Self::traffic_account) is the system account.
    pub system_account: bool,
    /// Compat: members talk in an account of their own here.
    pub traffic_account: String,
    /// Lengths of queues and contents of the log beside the stream: there are none here.
    #[serde(flatten)]
    pub queues: RaftQueues,
    /// Other members by peer id.
    pub peers: BTreeMap<String, RaftPeer>,
}

/// How far a member of a group is.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RaftProgress {
    /// Index up to which the log is committed.
    pub committed: u64,
    /// Index up to which the log is applied: the same here.
    pub applied: u64,
    /// Whether the member has yet to get what is committed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub catching_up: bool,
}

/// Queues and log as the reference shows its own.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RaftQueues {
    ipq_proposal_len: u64,
    ipq_entry_len: u64,
    ipq_resp_len: u64,
    ipq_apply_len: u64,
    wal: WalState,
}

/// Compat: a log beside the stream, which is empty: the stream is the log.
#[derive(Debug, Clone, Serialize)]
struct WalState {
    messages: u64,
    bytes: u64,
    first_seq: u64,
    first_ts: &'static str,
    last_seq: u64,
    last_ts: &'static str,
    consumer_count: u64,
}

impl Default for WalState {
    fn default() -> Self {
        let never = "0001-01-01T00:00:00Z";
        Self {
            messages: 0,
            bytes: 0,
            first_seq: 0,
            first_ts: never,
            last_seq: 0,
            last_ts: never,
            consumer_count: 0,
        }
    }
}

/// Another member in `/raftz`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RaftPeer {
    /// Name of the server.
    pub name: String,
    /// Whether this server has heard of it.
    pub known: bool,
    /// Index up to which it has confirmed the log, as the leader knows.
    #[serde(skip_serializing_if = "is_zero")]
    pub last_replicated_index: u64,
    /// How long ago it was heard, as Go writes it; nothing for never.
    #[serde(skip_serializing_if = "Duration::is_zero", serialize_with = "as_go_writes_it")]
    pub last_seen: Duration,
    /// Whether it has what is committed, as far as this server knows, and was heard lately. Not in
    /// `/raftz`.
    #[serde(skip)]
    pub is_current: bool,
    /// Whether it is not there. Not in `/raftz`.
    #[serde(skip)]
    pub is_offline: bool,
    /// Entries that it has not confirmed, as the leader knows. Not in `/raftz`.
    #[serde(skip)]
    pub lag: u64,
}

fn as_go_writes_it<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&round_trip(*time))
}
