//! Where the log of the stream's group ends, and what of it is known to be committed.
//!
//! Entries that were taken back still stand in files, with others in their place behind them: an
//! entry says so, and so does the header of the segment that was begun then. Either may be missing
//! after a loss of power.

use crate::record::{ConsumerRecord, LogEntry};
use crate::segment::SegmentHeader;
use crate::stream::{ConsumerEntries, GroupPosition, LogTail};

/// The log of a group, as far as it was read.
#[derive(Debug, Default)]
pub(super) struct GroupTail {
    /// Its end; `None` without a group.
    pub(super) tail: Option<LogTail>,
    /// Records of consumers in them.
    pub(super) consumers: ConsumerEntries,
}

impl GroupTail {
    pub(super) fn position(&self) -> Option<GroupPosition> {
        self.tail.as_ref().map(LogTail::position)
    }

    /// A segment begins. Answers the first index that it gives out again, if it does.
    pub(super) fn begin(&mut self, header: &SegmentHeader) -> Option<u64> {
        let (index, before) = (self.index(), self.tail.take());
        let position = GroupPosition::at(header, before.as_ref().map(LogTail::position))?;
        self.tail = Some(LogTail::begin(before, position));
        let first = position.index + 1;
        if first > index || first <= position.commit {
            return None;
        }
        self.consumers.take_back(first);
        Some(first)
    }

    /// Entries from `first` on do not count; `chain` is that of the one before. Answers whether
    /// that can be so.
    pub(super) fn take_back(&mut self, first: u64, chain: u64) -> bool {
        let Some(position) = self.position() else { return false };
        if first <= position.commit || first > position.index {
            return false;
        }
        let position = GroupPosition { index: first - 1, chain, ..position };
        self.tail = Some(LogTail::begin(self.tail.take(), position));
        self.consumers.take_back(first);
        true
    }

    /// Index of the last entry; 0: none.
    pub(super) fn index(&self) -> u64 {
        self.position().map_or(0, |position| position.index)
    }

    /// An entry begins.
    pub(super) fn pass(&mut self, entry: &LogEntry) {
        if let Some(tail) = &mut self.tail {
            tail.pass(entry);
        }
    }

    /// Index up to which the log is known to be committed; without a group all is.
    pub(super) fn commit(&self) -> u64 {
        self.position().map_or(u64::MAX, |position| position.commit)
    }

    /// Everything so far is committed: it stands in a segment that was sealed.
    pub(super) fn commit_all(&mut self) {
        let index = self.index();
        if let Some(tail) = &mut self.tail {
            tail.commit(index);
        }
    }

    /// A record of a consumer is in the last entry.
    pub(super) fn note_consumer(&mut self, record: &ConsumerRecord<'_>) {
        self.consumers.note(self.index(), record.clone().into_owned());
    }
}
