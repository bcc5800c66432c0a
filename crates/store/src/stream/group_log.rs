//! The log of a stream's group: where it ends, and what others have still to be told of it.

use crate::record::{LogEntry, LogEntryKind};
use crate::segment::{GroupPlace, SegmentHeader};

use super::consumer_entries::ConsumerEntries;

/// Place of a stream in the log of its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupPosition {
    /// Grows when the stream gets another group.
    pub epoch: u64,
    /// Term in which entries are decided here, or were decided that came from elsewhere.
    pub term: u64,
    /// Index of the last entry; 0: none.
    pub index: u64,
    /// Chain of the last entry.
    pub chain: u64,
    /// The last index that is known to be committed.
    pub commit: u64,
}

/// Entry of a group's log, as it is sent to other replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecidedEntry {
    /// Its head.
    pub entry: LogEntry,
    /// Its records in canonical form.
    pub records: Vec<u8>,
}

/// The log of a stream's group.
#[derive(Debug)]
pub(crate) struct GroupLog {
    pub(crate) position: GroupPosition,
    /// Entries that were decided here, and that nobody has taken yet.
    pub(super) decided: Vec<DecidedEntry>,
    pub(super) consumers: ConsumerEntries,
}

impl GroupPosition {
    /// Place of a segment that begins behind the last entry.
    pub(crate) fn next_place(&self) -> GroupPlace {
        GroupPlace { first_index: self.index + 1, chain: self.chain }
    }

    /// Position at the beginning of a segment. What is known to be committed stays.
    pub(crate) fn at(header: &SegmentHeader, before: Option<Self>) -> Option<Self> {
        let GroupPlace { first_index, chain } = header.group?;
        let (epoch, term, index) = (header.epoch, header.term, first_index - 1);
        Some(Self { epoch, term, index, chain, commit: before.map_or(0, |before| before.commit) })
    }

    /// Goes on behind an entry.
    pub(crate) fn pass(&mut self, entry: &LogEntry) {
        (self.term, self.index, self.chain) = (entry.term, entry.index, entry.chain);
        self.commit = self.commit.max(entry.commit);
    }
}

impl GroupLog {
    pub(crate) fn new(position: GroupPosition) -> Self {
        Self { position, decided: Vec::new(), consumers: ConsumerEntries::default() }
    }

    /// Makes records the next entry; `None` if there are none, so that nothing has to be said.
    pub(super) fn decide(&mut self, records: Vec<u8>) -> Option<LogEntry> {
        if records.is_empty() {
            return None;
        }
        let GroupPosition { term, index, chain, commit, .. } = self.position;
        let kind = LogEntryKind::Normal;
        let mut entry = LogEntry { index: index + 1, term, commit, chain: 0, kind, more: false };
        entry.chain = entry.chained(chain, &records);
        self.position.pass(&entry);
        self.decided.push(DecidedEntry { entry, records });
        Some(entry)
    }
}
