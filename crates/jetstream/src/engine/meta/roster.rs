//! Roster of the meta group: servers that founded it, those that came later, and those that were
//! removed.
//!
//! Founders stand in the configuration of the meta stream, all other facts are messages of it, one
//! for each server: `_meta_.p.<peer>`.

use myelin_replica::Peer;
use myelin_store::{Seq, Timestamp};
use myelin_streams::consumer::account_hash;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

/// The version that is written, and the only one that is read.
const VERSION: u32 = 1;
/// Subjects of such messages.
pub(super) const SUBJECTS: &str = "_meta_.p.";

/// A server that has come to the meta group, or was removed from it, as a message says it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ServerRecord {
    v: u32,
    pub(super) name: String,
    /// Whether it was removed.
    pub(super) removed: bool,
    /// Tells the proposal from others for this server.
    pub(super) nonce: u64,
    /// Its cluster; empty where the group has servers of one only.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) cluster: String,
}

impl ServerRecord {
    pub(super) fn new(name: &str, removed: bool, nonce: u64) -> Self {
        Self { v: VERSION, name: name.to_owned(), removed, nonce, cluster: String::new() }
    }

    /// A server of the group is of this cluster.
    pub(super) fn of_cluster(name: &str, cluster: String, nonce: u64) -> Self {
        Self { cluster, ..Self::new(name, false, nonce) }
    }

    /// Subject of the message; `None` for a name that gives no peer id.
    pub(super) fn subject(&self) -> Option<String> {
        Some(format!("{SUBJECTS}{}", peer_of(&self.name)?))
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads a payload. `None` for one that is not understood.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok().filter(|record: &Self| record.v == VERSION)
    }
}

/// Rescue of the meta group that is under way: for a while fewer servers are enough.
#[derive(Clone, Copy)]
pub(super) struct Rescue {
    /// Servers that are enough.
    pub(super) quorum: usize,
    pub(super) ends: Instant,
}

/// Servers of the meta group as the meta stream has them.
pub(super) struct Roster {
    founders: Vec<String>,
    records: BTreeMap<String, KnownServer>,
    members: Arc<Vec<String>>,
}

struct KnownServer {
    record: ServerRecord,
    /// Sequence and time of its message.
    seq: Seq,
    time: Timestamp,
}

impl Roster {
    pub(super) fn new(founders: Vec<String>) -> Self {
        let mut roster = Self { founders, records: BTreeMap::new(), members: Arc::default() };
        roster.count();
        roster
    }

    fn count(&mut self) {
        let all: BTreeSet<&String> = self.founders.iter().chain(self.records.keys()).collect();
        let members = all.into_iter().filter(|name| self.removed(name).is_none());
        self.members = Arc::new(members.cloned().collect());
    }

    pub(super) fn set(&mut self, record: ServerRecord, seq: Seq, time: Timestamp) {
        self.records.insert(record.name.clone(), KnownServer { record, seq, time });
        self.count();
    }

    /// Names of all servers of the group, in order.
    pub(super) fn members(&self) -> Arc<Vec<String>> {
        Arc::clone(&self.members)
    }

    /// When a server was removed, if it was and has not come back.
    pub(super) fn removed(&self, name: &str) -> Option<Timestamp> {
        self.records.get(name).filter(|known| known.record.removed).map(|known| known.time)
    }

    /// A record that a server has come or is removed; its cluster stays what it is.
    pub(super) fn record(&self, name: &str, removed: bool, nonce: u64) -> ServerRecord {
        let cluster = self.cluster_of(name).unwrap_or_default().to_owned();
        ServerRecord { cluster, ..ServerRecord::new(name, removed, nonce) }
    }

    /// The cluster of a server, if a message says it.
    pub(super) fn cluster_of(&self, name: &str) -> Option<&str> {
        let known = self.records.get(name)?;
        Some(known.record.cluster.as_str()).filter(|cluster| !cluster.is_empty())
    }

    /// Whether messages say of which clusters servers are.
    pub(super) fn has_clusters(&self) -> bool {
        self.records.values().any(|known| !known.record.cluster.is_empty())
    }

    /// Sequence of the last message about a server; 0 where there is none.
    pub(super) fn last_of(&self, name: &str) -> Seq {
        self.records.get(name).map_or(0, |known| known.seq)
    }

    /// The proposal that was committed last for a server.
    pub(super) fn nonce(&self, name: &str) -> Option<u64> {
        self.records.get(name).map(|known| known.record.nonce)
    }

    /// The name of a server that is or was in the group.
    pub(super) fn name_of(&self, peer: Peer) -> Option<&String> {
        let mut all = self.founders.iter().chain(self.records.keys());
        all.find(|name| peer_of(name) == Some(peer))
    }
}

/// The peer id of a server, by its name: the beginning of its SHA-256 in base 62, as nats-server
/// has it. `None` for a name that gives none.
pub fn peer_of(server: &str) -> Option<Peer> {
    Peer::parse(&account_hash(server))
}

/// Peer ids of servers, but for names that give none.
pub(super) fn peers_of(servers: &[String]) -> Vec<Peer> {
    servers.iter().filter_map(|server| peer_of(server)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_come_go_and_come_back() {
        let mut roster = Roster::new(vec!["n1".to_owned(), "n2".to_owned()]);
        assert_eq!(*roster.members(), ["n1", "n2"]);
        roster.set(ServerRecord::new("n3", false, 1), 5, 50);
        roster.set(ServerRecord::new("n1", true, 2), 6, 60);
        assert_eq!(*roster.members(), ["n2", "n3"]);
        assert_eq!((roster.removed("n1"), roster.removed("n3")), (Some(60), None));
        assert_eq!((roster.last_of("n3"), roster.last_of("n2"), roster.nonce("n1")), (5, 0, Some(2)));
        let peer = peer_of("n1").expect("a name");
        assert_eq!(roster.name_of(peer).map(String::as_str), Some("n1"), "it is still known");
        roster.set(ServerRecord::new("n1", false, 3), 7, 70);
        assert_eq!(*roster.members(), ["n1", "n2", "n3"]);
    }

    #[test]
    fn a_cluster_is_known_of_a_server_that_was_removed() {
        let mut roster = Roster::new(vec!["n1".to_owned()]);
        assert_eq!((roster.cluster_of("n1"), roster.has_clusters()), (None, false));
        let record = ServerRecord { cluster: "B".to_owned(), ..roster.record("n1", false, 1) };
        roster.set(record, 5, 50);
        roster.set(roster.record("n1", true, 2), 6, 60);
        assert_eq!((roster.removed("n1"), roster.cluster_of("n1")), (Some(60), Some("B")));
        assert!(roster.has_clusters());
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let record = ServerRecord::new("n1", true, u64::MAX);
        assert_eq!(ServerRecord::decode(&record.encode()), Some(record.clone()));
        assert!(!record.encode().windows(7).any(|part| part == b"cluster"), "as versions before wrote it");
        let placed = ServerRecord { cluster: "B".to_owned(), ..record.clone() };
        assert_eq!(ServerRecord::decode(&placed.encode()), Some(placed));
        assert!(record.subject().is_some_and(|subject| subject.starts_with("_meta_.p.")));
        let other = ServerRecord { v: 2, ..record };
        assert_eq!(ServerRecord::decode(&other.encode()), None);
    }
}
