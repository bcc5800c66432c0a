//! The log of a stream's group: where it ends, and what others have still to be told of it.

use std::collections::VecDeque;

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

/// End of a group's log, and what may still be taken back of it.
#[derive(Clone, Debug)]
pub(crate) struct LogTail {
    position: GroupPosition,
    /// Chains of the last entries: at least of those that are not known to be committed, and of the
    /// one before them.
    chains: VecDeque<u64>,
}

/// The log of a stream's group.
#[derive(Debug)]
pub(crate) struct GroupLog {
    pub(crate) tail: LogTail,
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
}

impl LogTail {
    pub(crate) fn new(position: GroupPosition) -> Self {
        Self { position, chains: VecDeque::from([position.chain]) }
    }

    pub(crate) fn position(&self) -> GroupPosition {
        self.position
    }

    /// The log as it stands at `position`, in front of the entries that are gone or still to come.
    pub(crate) fn begin(before: Option<Self>, position: GroupPosition) -> Self {
        let known = before.and_then(|tail| tail.before(position.index + 1));
        let known = known.filter(|tail| tail.position.chain == position.chain);
        known.map_or_else(|| Self::new(position), |tail| Self { position, ..tail })
    }

    /// Goes on behind an entry.
    pub(crate) fn pass(&mut self, entry: &LogEntry) {
        let LogEntry { term, index, chain, commit, .. } = *entry;
        if index != self.position.index + 1 {
            // Damage has taken what was before it.
            self.chains.clear();
        }
        (self.position.term, self.position.index, self.position.chain) = (term, index, chain);
        self.chains.push_back(chain);
        self.commit(commit);
    }

    /// Entries up to `index` are committed.
    pub(crate) fn commit(&mut self, index: u64) {
        self.position.commit = self.position.commit.max(index);
        let first = self.position.index + 1 - self.chains.len() as u64;
        let known = self.position.commit.min(self.position.index).saturating_sub(first);
        self.chains.drain(..known as usize);
        debug_assert!(self.chains.back() == Some(&self.position.chain), "the last entry has its chain");
    }

    /// Has all that is decided from here on be so in this term, if that is a later one.
    pub(crate) fn lead(&mut self, term: u64) {
        self.position.term = self.position.term.max(term);
    }

    /// The log before the entry `first`. `None` if nothing is known of the one before that.
    pub(crate) fn before(&self, first: u64) -> Option<Self> {
        let gone = (self.position.index + 1).checked_sub(first)?;
        let left = self.chains.len().checked_sub(usize::try_from(gone).ok()?)?;
        let chains: VecDeque<u64> = self.chains.iter().take(left).copied().collect();
        let chain = *chains.back()?;
        Some(Self { position: GroupPosition { index: first - 1, chain, ..self.position }, chains })
    }
}

impl GroupLog {
    pub(crate) fn new(tail: LogTail, consumers: ConsumerEntries) -> Self {
        Self { tail, decided: Vec::new(), consumers }
    }

    pub(crate) fn position(&self) -> GroupPosition {
        self.tail.position
    }

    /// Forgets the entries from `first` on; `tail` is what is before them.
    pub(super) fn take_back(&mut self, first: u64, tail: LogTail) {
        debug_assert!(tail.position.index + 1 == first, "the end of the log is before them");
        self.tail = tail;
        self.decided.retain(|decided| decided.entry.index < first);
        self.consumers.take_back(first);
    }

    /// Makes records the next entry; `None` if there are none, so that nothing has to be said.
    pub(super) fn decide(&mut self, records: Vec<u8>) -> Option<LogEntry> {
        if records.is_empty() {
            return None;
        }
        let GroupPosition { term, index, chain, commit, .. } = self.position();
        let kind = LogEntryKind::Normal;
        let mut entry = LogEntry { index: index + 1, term, commit, chain: 0, kind, more: false };
        entry.chain = entry.chained(chain, &records);
        self.tail.pass(&entry);
        self.decided.push(DecidedEntry { entry, records });
        Some(entry)
    }
}
