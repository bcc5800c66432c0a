//! The log of a stream's group: where it ends, and what others have still to be told of it.

use std::collections::VecDeque;

use crate::notes::Notes;
use crate::record::{LogEntry, LogEntryKind};
use crate::segment::{GroupPlace, SegmentHeader};

use super::consumer_entries::ConsumerEntries;
use super::decided_entry::{DecidedEntry, EntryForm};
use super::log_places::LogPlaces;

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

/// End of a group's log, and what may still be taken back of it.
///
/// Owns which entries are parts of a decision that goes on with the next one: what is committed of
/// a decision by half is not released.
#[derive(Clone, Debug)]
pub(crate) struct LogTail {
    position: GroupPosition,
    /// Terms and chains of the last entries: at least of those that are not known to be committed,
    /// and of the one before them.
    chains: VecDeque<(u64, u64)>,
    /// Indexes of entries behind which their decision goes on, and that may not be released yet.
    parts: VecDeque<u64>,
    /// Whether the rest of the decision that the log ends in is committed: what comes before is in
    /// a segment that was sealed, and that is done with whole decisions only.
    is_rest_committed: bool,
    /// The log in front of the first entry that damage has taken, as long as that is not known to
    /// be committed.
    before_hole: Option<Box<LogTail>>,
}

/// Records of one log entry are at most so many bytes, unless one message alone has more.
const ENTRY_BYTES: usize = 1 << 20;

/// The log of a stream's group.
#[derive(Debug)]
pub(crate) struct GroupLog {
    pub(crate) tail: LogTail,
    /// Bound for the records of one entry.
    pub(super) entry_bytes: usize,
    /// Entries that were decided here, and that nobody has taken yet.
    pub(super) decided: Vec<DecidedEntry>,
    pub(super) consumers: ConsumerEntries,
    pub(super) notes: Notes,
    pub(super) places: LogPlaces,
}

impl GroupPosition {
    /// Place of a segment that begins behind the last entry.
    pub(crate) fn next_place(&self, is_within: bool) -> GroupPlace {
        GroupPlace { first_index: self.index + 1, chain: self.chain, is_within }
    }

    /// Position at the beginning of a segment. What is known to be committed stays.
    pub(crate) fn at(header: &SegmentHeader, before: Option<Self>) -> Option<Self> {
        let GroupPlace { first_index, chain, .. } = header.group?;
        let (epoch, term, index) = (header.epoch, header.term, first_index - 1);
        Some(Self { epoch, term, index, chain, commit: before.map_or(0, |before| before.commit) })
    }
}

impl LogTail {
    pub(crate) fn new(position: GroupPosition) -> Self {
        let chains = VecDeque::from([(position.term, position.chain)]);
        Self { position, chains, parts: VecDeque::new(), is_rest_committed: false, before_hole: None }
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

    /// A segment begins here, and says whether that is within a decision. What came before it may
    /// not have been read.
    pub(crate) fn begin_within(&mut self, is_within: bool) {
        if is_within && !self.is_within() {
            self.is_rest_committed = true;
            self.commit(self.position.index);
        }
    }

    /// Whether the last entry is a part of a decision that goes on with the next one.
    pub(crate) fn is_within(&self) -> bool {
        self.is_rest_committed || self.is_unfinished()
    }

    /// As [`LogTail::is_within`], of a decision of which nothing is released.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.parts.back() == Some(&self.position.index)
    }

    /// Whether the decision of an entry that is not released goes on behind it.
    pub(crate) fn is_part(&self, index: u64) -> bool {
        self.parts.binary_search(&index).is_ok()
    }

    /// Index of the first entry of the decision that the log ends in.
    pub(super) fn first_unfinished(&self) -> Option<u64> {
        self.is_unfinished().then(|| self.first_of(self.position.index))
    }

    /// The first entry of the decision that goes on behind the entry `part`.
    fn first_of(&self, part: u64) -> u64 {
        let parts = self.parts.iter().rev().skip_while(|&&of| of > part);
        let run = parts.zip((0..=part).rev()).take_while(|(of, expected)| **of == *expected);
        run.last().map_or(part + 1, |(first, _)| *first)
    }

    /// Index up to which entries may be released: the commit, but no decision by half.
    pub(crate) fn releasable(&self) -> u64 {
        let GroupPosition { commit, index, .. } = self.position;
        let last = commit.min(index);
        if self.is_part(last) && !myelin_stdx::planted::bug(122) { self.first_of(last) - 1 } else { commit }
    }

    /// Everything so far is committed, and stands in a segment that was sealed.
    pub(crate) fn commit_all(&mut self) {
        self.is_rest_committed = self.is_within();
        self.parts.clear();
        self.commit(self.position.index);
    }

    /// Goes on behind an entry.
    pub(crate) fn pass(&mut self, entry: &LogEntry) {
        let LogEntry { term, index, chain, commit, more, .. } = *entry;
        if index != self.position.index + 1 {
            // Damage has taken what was before it.
            let is_open = index > self.position.index && self.position.commit <= self.position.index;
            if self.before_hole.is_none() && is_open {
                self.before_hole = Some(Box::new(self.clone()));
            }
            self.chains.clear();
            self.parts.clear();
            self.is_rest_committed = false;
        }
        (self.position.term, self.position.index, self.position.chain) = (term, index, chain);
        self.chains.push_back((term, chain));
        let is_committed = self.is_rest_committed;
        self.is_rest_committed = is_committed && more;
        if more && !is_committed {
            self.parts.push_back(index);
        }
        self.commit(if is_committed { commit.max(index) } else { commit });
    }

    /// Entries up to `index` are committed.
    pub(crate) fn commit(&mut self, index: u64) {
        self.position.commit = self.position.commit.max(index);
        self.before_hole.take_if(|hole| hole.position.index < index);
        let first = self.position.index + 1 - self.chains.len() as u64;
        let known = self.position.commit.min(self.position.index).saturating_sub(first);
        self.chains.drain(..known as usize);
        if !self.parts.is_empty() {
            let releasable = self.releasable();
            self.parts.drain(..self.parts.partition_point(|part| *part <= releasable));
        }
        debug_assert!(
            self.chains.back().is_some_and(|(_, chain)| *chain == self.position.chain),
            "the last entry has its chain"
        );
    }

    /// Has all that is decided from here on be so in this term, if that is a later one.
    pub(crate) fn lead(&mut self, term: u64) {
        self.position.term = self.position.term.max(term);
    }

    /// Index of the first entry that damage has taken, if it is not known to be committed.
    pub(crate) fn first_missing(&self) -> Option<u64> {
        self.before_hole.as_ref().map(|hole| hole.position.index + 1)
    }

    /// The log before the entry `first`. `None` if nothing is known of the one before that.
    pub(crate) fn before(&self, first: u64) -> Option<Self> {
        let gone = (self.position.index + 1).checked_sub(first)?;
        let left = usize::try_from(gone).ok().and_then(|gone| self.chains.len().checked_sub(gone));
        let Some(left) = left.filter(|left| *left > 0) else {
            let before = self.before_hole.as_ref()?.before(first)?;
            let position = GroupPosition { commit: self.position.commit, ..before.position };
            return Some(Self { position, ..before });
        };
        let chains: VecDeque<(u64, u64)> = self.chains.iter().take(left).copied().collect();
        let (term, chain) = *chains.back()?;
        let parts = self.parts.iter().copied().filter(|part| *part < first).collect();
        let position = GroupPosition { term, index: first - 1, chain, ..self.position };
        let (is_rest_committed, before_hole) = (self.is_rest_committed, self.before_hole.clone());
        Some(Self { position, chains, parts, is_rest_committed, before_hole })
    }
}

impl GroupLog {
    pub(crate) fn new(tail: LogTail, consumers: ConsumerEntries, notes: Notes) -> Self {
        let (decided, places) = (Vec::new(), LogPlaces::default());
        Self { tail, entry_bytes: ENTRY_BYTES, decided, consumers, notes, places }
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
        self.notes.take_back(first);
        self.places.clear();
    }

    /// Makes records the next entry; `None` if there are none, so that nothing has to be said.
    pub(super) fn decide(&mut self, records: EntryForm) -> Option<LogEntry> {
        if records.records().is_empty() {
            return None;
        }
        Some(self.decide_as(LogEntryKind::Normal, false, records))
    }

    /// Makes records the next entry, which may say nothing else than its kind.
    pub(super) fn decide_as(&mut self, kind: LogEntryKind, more: bool, records: EntryForm) -> LogEntry {
        let GroupPosition { term, index, chain, commit, .. } = self.position();
        let mut entry = LogEntry { index: index + 1, term, commit, chain: 0, kind, more };
        entry.chain = entry.chained(chain, records.records());
        self.tail.pass(&entry);
        self.decided.push(records.decided(entry));
        entry
    }
}
