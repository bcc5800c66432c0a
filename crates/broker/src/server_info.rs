//! Identity of the server, as it says in events: one document for all of them.

use crate::broker::Broker;
use crate::go_time::moment;
use myelin_wire::REFERENCE_VERSION;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::SystemTime;

/// Labels by which the operator calls the server beside its name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// `server_tags`.
    pub tags: Vec<String>,
    /// `server_metadata`.
    pub metadata: BTreeMap<String, String>,
    /// Every feature flag, on or off.
    pub feature_flags: BTreeMap<String, bool>,
}

/// JetStream, snapshots of streams in binary, consensus within accounts: what the reference has
/// where it has JetStream.
const CAPABILITIES: u64 = 1 | 2 | 4;

/// Object `server` in everything that the server says of itself, in the reference's order.
#[derive(Debug, Serialize)]
pub struct ServerInfo {
    name: String,
    host: String,
    id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    cluster: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    domain: String,
    ver: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    feature_flags: BTreeMap<String, bool>,
    jetstream: bool,
    flags: u64,
    seq: u64,
    time: String,
}

impl Broker {
    /// The server, as it speaks `now`. Events and answers are one sequence: each has the next
    /// number.
    pub fn server_info(&self, now: SystemTime) -> ServerInfo {
        let (info, labels) = (self.info(), self.labels());
        ServerInfo {
            name: info.server_name,
            host: info.host,
            id: info.server_id,
            cluster: info.cluster,
            domain: info.domain,
            ver: REFERENCE_VERSION,
            tags: labels.tags.clone(),
            metadata: labels.metadata.clone(),
            feature_flags: labels.feature_flags.clone(),
            jetstream: info.jetstream,
            flags: if info.jetstream { CAPABILITIES } else { 0 },
            seq: self.next_event(),
            time: moment(now),
        }
    }
}
