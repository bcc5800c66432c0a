//! One entry of a group's log, as consensus sees it.

use bytes::Bytes;

/// Bytes at a place in a group's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaftEntry {
    /// Place in the log; the first is 1.
    pub index: u64,
    /// Term of the leader that decided it.
    pub term: u64,
    /// The entry itself. Empty: the first entry of a new leader, which changes nothing.
    pub data: Bytes,
}

impl RaftEntry {
    /// Bytes that it counts for in limits of messages.
    pub(crate) fn weight(&self) -> u64 {
        /// Of its head in a frame.
        const HEAD: u64 = 12;
        HEAD + self.data.len() as u64
    }

    pub(crate) fn to_raft(&self) -> raft::eraftpb::Entry {
        let mut entry = raft::eraftpb::Entry::default();
        (entry.index, entry.term, entry.data) = (self.index, self.term, self.data.clone());
        entry
    }

    pub(crate) fn of_raft(entry: &raft::eraftpb::Entry) -> Self {
        Self { index: entry.index, term: entry.term, data: entry.data.clone() }
    }
}
