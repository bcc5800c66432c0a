//! A group's log as the library may read it: terms of all entries, and the last entries themselves.
//!
//! Owns what the library asks between two steps, in memory: an error here would end the process
//! inside of it. Entries that are no more in memory are fetched by whoever holds the log
//! ([`Fetch`](super::Fetch)). Must never forget an entry that is not applied.

use std::cell::RefCell;
use std::collections::VecDeque;

use raft::eraftpb::{ConfState, HardState, Snapshot};
use raft::storage::{GetEntriesContext, RaftState, Storage};
use raft::{Error, StorageError};

use super::entry::RaftEntry;

/// Bytes of applied entries that stay in memory for members that are a little behind.
const KEPT_BYTES: u64 = 1 << 20;

/// Where a log begins and what is known of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogStart {
    /// Index and term of the entry before the first one that can still be read; (0, 0): none.
    pub base: (u64, u64),
    /// Where each term begins, in order: index of its first entry, and the term.
    pub terms: Vec<(u64, u64)>,
    /// Index of the last entry that is known to be committed.
    pub committed: u64,
    /// All entries behind `committed`.
    pub tail: Vec<RaftEntry>,
}

/// Entries that the library wants to send and that are not in memory.
pub(super) struct WantedEntries {
    pub(super) context: GetEntriesContext,
    pub(super) low: u64,
    pub(super) high: u64,
    pub(super) max_bytes: u64,
}

/// The log, as [`Storage`].
pub(super) struct LogView {
    initial: RaftState,
    base: (u64, u64),
    terms: Vec<(u64, u64)>,
    last: u64,
    /// The last entries, without a gap, up to `last`.
    recent: VecDeque<RaftEntry>,
    recent_bytes: u64,
    /// Entries that were fetched for the request that is answered just now.
    fetched: RefCell<Vec<RaftEntry>>,
    wanted: RefCell<Vec<WantedEntries>>,
    /// Members for which the library wanted the whole stream.
    lacking: RefCell<Vec<u64>>,
}

impl LogStart {
    /// Whether it is the log of a member: without a gap, and with terms that do not fall.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let last = self.last();
        let is_in_order = |pair: &[(u64, u64)]| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1;
        let first_term = self.terms.first();
        let begins = first_term.is_none_or(|&(index, term)| index == self.base.0 + 1 && term >= self.base.1);
        let ends = self.terms.last().is_none_or(|&(index, _)| index <= last);
        let has_its_term = |entry: &RaftEntry| self.term_of(entry.index) == Some(entry.term);
        self.terms.windows(2).all(is_in_order)
            && begins
            && ends
            && self.has_whole_tail()
            && self.committed >= self.base.0
            && (last == self.base.0 || first_term.is_some())
            && self.tail.iter().all(has_its_term)
    }

    /// The log without what is committed, of a member that gets all of that anew: of entries that
    /// damage has taken nothing is said. `None` if what comes behind has a gap, too.
    #[must_use]
    pub fn behind_damage(&self) -> Option<Self> {
        let first = self.tail.first().map_or(u64::MAX, |entry| entry.term);
        // Nobody compares it: entries that are committed all members have alike.
        let term = self.term_of(self.committed).unwrap_or(self.base.1).min(first);
        let mut terms: Vec<(u64, u64)> = Vec::new();
        for entry in &self.tail {
            if terms.last().is_none_or(|&(_, term)| term < entry.term) {
                terms.push((entry.index, entry.term));
            }
        }
        let base = (self.committed, term);
        let log = Self { base, terms, committed: self.committed, tail: self.tail.clone() };
        log.is_sound().then_some(log)
    }

    fn last(&self) -> u64 {
        self.tail.last().map_or(self.committed, |entry| entry.index)
    }

    fn has_whole_tail(&self) -> bool {
        (self.committed + 1..).zip(&self.tail).all(|(index, entry)| entry.index == index)
    }

    fn term_of(&self, index: u64) -> Option<u64> {
        let behind = self.terms.partition_point(|&(first, _)| first <= index);
        self.terms.get(behind.checked_sub(1)?).map(|&(_, term)| term)
    }
}

impl LogView {
    /// The log as it was found, with what its member must remember. `None` if it contradicts
    /// itself: a gap, or terms that fall.
    pub(super) fn open(start: &LogStart, hard: (u64, u64), conf_state: ConfState) -> Option<Self> {
        if !start.is_sound() || start.terms.last().is_some_and(|&(_, term)| term > hard.0) {
            return None;
        }
        let last = start.last();
        let hard_state =
            HardState { term: hard.0, vote: hard.1, commit: start.committed, ..HardState::default() };
        let recent: VecDeque<RaftEntry> = start.tail.iter().cloned().collect();
        Some(Self {
            initial: RaftState::new(hard_state, conf_state),
            base: start.base,
            terms: start.terms.clone(),
            last,
            recent_bytes: recent.iter().map(RaftEntry::weight).sum(),
            recent,
            fetched: RefCell::default(),
            wanted: RefCell::default(),
            lacking: RefCell::default(),
        })
    }

    /// Entries come behind the log, or in the place of those from the first one on.
    pub(super) fn append(&mut self, entries: &[RaftEntry]) {
        let Some(first) = entries.first() else { return };
        self.cut(first.index);
        for entry in entries {
            debug_assert_eq!(entry.index, self.last + 1, "entries come one behind the other");
            if self.terms.last().is_none_or(|&(_, term)| term < entry.term) {
                self.terms.push((entry.index, entry.term));
            }
            self.last = entry.index;
            self.recent_bytes += entry.weight();
            self.recent.push_back(entry.clone());
        }
    }

    /// Forgets the entries from `first` on.
    fn cut(&mut self, first: u64) {
        while self.recent.back().is_some_and(|entry| entry.index >= first) {
            self.recent_bytes -= self.recent.pop_back().map_or(0, |entry| entry.weight());
        }
        self.terms.retain(|&(index, _)| index < first);
        self.last = self.last.min(first - 1);
    }

    /// Gives back memory of entries up to `applied`, but for the last ones.
    pub(super) fn trim(&mut self, applied: u64) {
        while self.recent_bytes > KEPT_BYTES && self.recent.front().is_some_and(|one| one.index <= applied) {
            self.recent_bytes -= self.recent.pop_front().map_or(0, |entry| entry.weight());
        }
    }

    /// Entries before `first` can be read no more. Beyond the last one there is nothing to forget.
    pub(super) fn forget_before(&mut self, first: u64) {
        let base = first.saturating_sub(1).min(self.last);
        let Some(term) = self.term_of(base).filter(|_| base > self.base.0) else { return };
        let ended = self.terms.partition_point(|&(first, _)| first <= base).saturating_sub(1);
        self.terms.drain(..ended);
        let next = self.terms.get(1).map_or(self.last + 1, |&(first, _)| first);
        if next == base + 1 {
            self.terms.remove(0);
        } else if let Some(run) = self.terms.first_mut() {
            run.0 = base + 1;
        }
        self.base = (base, term);
        while self.recent.front().is_some_and(|entry| entry.index <= base) {
            self.recent_bytes -= self.recent.pop_front().map_or(0, |entry| entry.weight());
        }
    }

    /// Entries that the library asked for and could not be given.
    pub(super) fn take_wanted(&mut self) -> Vec<WantedEntries> {
        std::mem::take(self.wanted.get_mut())
    }

    /// Members that lack entries which can be read no more, since the last call.
    pub(super) fn take_lacking(&mut self) -> Vec<u64> {
        std::mem::take(self.lacking.get_mut())
    }

    /// Has these entries be there for the next question alone.
    pub(super) fn lend(&mut self, entries: Vec<RaftEntry>) {
        *self.fetched.get_mut() = entries;
    }

    /// Index of the first entry of this term, if the log has one.
    pub(super) fn begin_of(&self, term: u64) -> Option<u64> {
        self.terms.last().filter(|&&(_, last)| last == term).map(|&(index, _)| index)
    }

    /// The first index that is in memory.
    fn first_recent(&self) -> u64 {
        self.last + 1 - self.recent.len() as u64
    }

    pub(super) fn term_of(&self, index: u64) -> Option<u64> {
        if index == self.base.0 {
            return Some(self.base.1);
        }
        let is_there = (self.base.0 + 1..=self.last).contains(&index);
        let behind = self.terms.partition_point(|&(first, _)| first <= index);
        is_there.then(|| self.terms.get(behind.checked_sub(1)?).map(|&(_, term)| term)).flatten()
    }
}

/// As many of `entries` as fit, and at least one, up to `high`.
fn limited<'a>(
    entries: impl Iterator<Item = &'a RaftEntry>,
    high: u64,
    max_bytes: u64,
) -> Vec<raft::eraftpb::Entry> {
    let mut bytes = 0;
    let fits = |entry: &&RaftEntry| {
        let is_first = bytes == 0;
        bytes += entry.weight();
        entry.index < high && (is_first || bytes <= max_bytes)
    };
    entries.take_while(fits).map(RaftEntry::to_raft).collect()
}

impl Storage for LogView {
    fn initial_state(&self) -> raft::Result<RaftState> {
        Ok(self.initial.clone())
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        context: GetEntriesContext,
    ) -> raft::Result<Vec<raft::eraftpb::Entry>> {
        if low <= self.base.0 {
            return Err(Error::Store(StorageError::Compacted));
        }
        let max_bytes = max_size.into().unwrap_or(u64::MAX);
        let first = self.first_recent();
        if let Ok(skipped) = usize::try_from(low.wrapping_sub(first))
            && low >= first
        {
            return Ok(limited(self.recent.iter().skip(skipped), high, max_bytes));
        }
        let fetched = self.fetched.take();
        if fetched.first().is_some_and(|entry| entry.index == low) {
            return Ok(limited(fetched.iter(), high, max_bytes));
        }
        if !context.can_async() {
            return Err(Error::Store(StorageError::Unavailable));
        }
        self.wanted.borrow_mut().push(WantedEntries { context, low, high: high.min(first), max_bytes });
        Err(Error::Store(StorageError::LogTemporarilyUnavailable))
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        let absent = if index < self.base.0 { StorageError::Compacted } else { StorageError::Unavailable };
        self.term_of(index).ok_or(Error::Store(absent))
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.base.0 + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last)
    }

    /// Whole streams are sent apart from consensus, never from here: who needs one is remembered.
    fn snapshot(&self, _at_least: u64, to: u64) -> raft::Result<Snapshot> {
        let mut lacking = self.lacking.borrow_mut();
        if !lacking.contains(&to) {
            lacking.push(to);
        }
        Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use proptest::prelude::*;

    fn entry(index: u64, term: u64) -> RaftEntry {
        RaftEntry { index, term, data: Bytes::from(vec![0; 100_000]) }
    }

    #[test]
    fn a_log_of_which_damage_has_taken_entries_is_one_behind_what_is_committed() {
        let tail =
            |first: u64, terms: &[u64]| (first..).zip(terms).map(|(at, &term)| entry(at, term)).collect();
        let start = |base, terms: &[(u64, u64)], committed, tail| LogStart {
            base,
            terms: terms.to_vec(),
            committed,
            tail,
        };
        let open = |log: &LogStart| LogView::open(log, (9, 0), ConfState::default());
        let whole = start((0, 0), &[(1, 1), (4, 2)], 3, tail(4, &[2, 2]));
        assert!(whole.is_sound() && open(&whole).is_some());
        // The entries 1 to 3, with the term that they begin; the term of the entry 4; a term behind
        // the end; and all of what is committed.
        for (terms, base) in [
            (&[(4, 2)][..], (3, 0)),
            (&[(1, 1), (5, 2)], (3, 1)),
            (&[(1, 1), (4, 2), (7, 3)], (3, 1)),
            (&[], (3, 0)),
        ] {
            let damaged = start((0, 0), terms, 3, tail(4, &[2, 2]));
            assert!(!damaged.is_sound() && open(&damaged).is_none(), "{terms:?}");
            let behind = damaged.behind_damage().expect("the rest is whole");
            assert_eq!((behind.base, &behind.terms, behind.committed), (base, &vec![(4, 2)], 3));
            let view = open(&behind).expect("it is sound");
            assert_eq!(
                [2, 3, 4, 5, 6].map(|at| view.term_of(at)),
                [None, Some(base.1), Some(2), Some(2), None]
            );
        }
        let torn = start((0, 0), &[(1, 1)], 3, tail(5, &[1]));
        assert!(!torn.is_sound() && torn.behind_damage().is_none(), "the entry 4 is gone");
        let fallen = start((0, 0), &[(1, 3)], 3, tail(4, &[3, 2]));
        assert!(!fallen.is_sound() && fallen.behind_damage().is_none(), "terms do not fall");
    }

    proptest! {
        /// Beside a plain list of terms.
        #[test]
        fn terms_are_known_of_all_that_is_there(
            steps in proptest::collection::vec((0..4_u8, 0..8_u64, 1..6_u64), 1..60)
        ) {
            let mut log = LogView::open(&LogStart::default(), (0, 0), ConfState::default()).expect("an empty log");
            let (mut terms, mut base, mut applied) = (vec![0_u64], 0_u64, 0_u64);
            for (what, back, more) in steps {
                let last = terms.len() as u64 - 1;
                match what {
                    0 | 1 => {
                        let first = (last + 1).saturating_sub(back).max(applied + 1);
                        terms.truncate(first as usize);
                        let term = terms.last().copied().unwrap_or(0) + back % 2;
                        let entries: Vec<RaftEntry> = (first..first + more).map(|index| entry(index, term.max(1))).collect();
                        terms.extend(entries.iter().map(|entry| entry.term));
                        log.append(&entries);
                    }
                    2 => {
                        applied = last.saturating_sub(back).max(applied);
                        log.trim(applied);
                    }
                    _ => {
                        let first = applied.saturating_sub(back) + 1;
                        log.forget_before(first);
                        base = base.max(first - 1);
                    }
                }
                let last = terms.len() as u64 - 1;
                for index in 0..last + 3 {
                    let expected = (base..=last).contains(&index).then(|| terms[index as usize]);
                    prop_assert_eq!(log.term_of(index), expected, "{} of {:?} from {}", index, &terms, base);
                }
                let unapplied = (last - applied) * entry(1, 1).weight();
                prop_assert!(log.recent_bytes <= unapplied + KEPT_BYTES || what != 2);
                let context = GetEntriesContext::empty(false);
                let tail = log.entries(applied + 1, last + 1, None, context).expect("what is not applied is there");
                prop_assert_eq!(tail.len() as u64, last - applied);
            }
        }
    }

    #[test]
    fn a_log_that_contradicts_itself_is_not_opened() {
        let sound =
            LogStart { base: (4, 2), terms: vec![(5, 2), (7, 3)], committed: 7, tail: vec![entry(8, 3)] };
        let opens = |log: &LogStart, term| LogView::open(log, (term, 0), ConfState::default()).is_some();
        assert!(opens(&sound, 3));
        assert!(!opens(&sound, 2), "a term that was never seen");
        let changes: [fn(&mut LogStart); 6] = [
            |log| log.tail[0].index = 9,
            |log| log.tail[0].term = 4,
            |log| log.terms[0].0 = 6,
            |log| log.terms[1].1 = 2,
            |log| log.terms.clear(),
            |log| log.committed = 3,
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut log = sound.clone();
            change(&mut log);
            assert!(!opens(&log, 3), "change {number}");
        }
    }
}
