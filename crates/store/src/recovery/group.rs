//! Where the log of the stream's group ends, and what of it is known to be committed.
//!
//! Entries that were taken back still stand in files, with others in their place behind them: an
//! entry says so, and so does the header of the segment that was begun then. Either may be missing
//! after a loss of power.

use crate::notes::Notes;
use crate::record::{ConsumerRecord, Entry, LogEntry};
use crate::segment::{GroupPlace, SegmentHeader};
use crate::stream::{ConsumerEntries, GroupPosition, LogTail};

/// The log of a group, as far as it was read.
#[derive(Debug, Default)]
pub(super) struct GroupTail {
    /// Its end; `None` without a group.
    pub(super) tail: Option<LogTail>,
    /// Whether the segment that was read last ends with entries that were taken back: another one
    /// is begun behind it, and if that is lost once more.
    pub(super) is_taken_back: bool,
    /// Whether the segment in front of the next one is sealed: all in it is committed.
    is_sealed: bool,
    /// Records of consumers in them.
    pub(super) consumers: ConsumerEntries,
    /// Notes and configuration in them.
    pub(super) notes: Notes,
}

impl GroupTail {
    pub(super) fn position(&self) -> Option<GroupPosition> {
        self.tail.as_ref().map(LogTail::position)
    }

    /// A segment begins. Answers the first index that it gives out again, if it does.
    ///
    /// `again` is where a later segment goes on, if the log was taken back to before this one. It
    /// counts where the entries before this segment are not read: a segment is sealed, too, whose
    /// end was taken back, and the header of the next one stands for that end.
    pub(super) fn begin(&mut self, header: &SegmentHeader, again: Option<GroupPlace>) -> Option<u64> {
        self.is_taken_back = false;
        let is_behind_sealed = std::mem::take(&mut self.is_sealed);
        let header = &SegmentHeader { group: again.or(header.group), ..*header };
        let (index, before) = (self.index(), self.tail.take());
        let position = GroupPosition::at(header, before.as_ref().map(LogTail::position))?;
        let is_first = before.is_none();
        let mut tail = LogTail::begin(before, position);
        tail.begin_within(header.group.is_some_and(|group| group.is_within));
        if is_behind_sealed || is_first {
            // Its entries need not have been read, nor need one of them say that it is committed.
            // A log that begins in the middle was joined there: what is before came as a whole.
            tail.commit(position.index);
        }
        self.tail = Some(tail);
        let first = position.index + 1;
        if first > index || first <= position.commit {
            return None;
        }
        self.consumers.take_back(first);
        self.notes.take_back(first);
        Some(first)
    }

    /// Entries from `first` on do not count; `chain` is that of the one before. Answers whether
    /// that can be so.
    pub(super) fn take_back(&mut self, first: u64, chain: u64) -> bool {
        let Some(position) = self.position() else { return false };
        if first <= position.commit || first > position.index {
            return false;
        }
        let before = self.tail.as_ref().and_then(|tail| tail.before(first));
        let term = before.map_or(position.term, |tail| tail.position().term);
        let position = GroupPosition { term, index: first - 1, chain, ..position };
        self.is_taken_back = true;
        self.tail = Some(LogTail::begin(self.tail.take(), position));
        self.consumers.take_back(first);
        self.notes.take_back(first);
        true
    }

    /// Whether the log that was read ends where a segment says that it begins.
    pub(super) fn is_before(&self, header: &SegmentHeader) -> bool {
        header.group.is_some_and(|place| place.first_index == self.index() + 1)
    }

    /// Index of the last entry; 0: none.
    pub(super) fn index(&self) -> u64 {
        self.position().map_or(0, |position| position.index)
    }

    /// Whether the log, as far as it was read, has an entry of this index, or one behind it.
    pub(super) fn has(&self, index: u64) -> bool {
        self.tail.is_some() && index <= self.index()
    }

    /// An entry begins.
    pub(super) fn pass(&mut self, entry: &LogEntry) {
        if let Some(tail) = &mut self.tail {
            tail.pass(entry);
        }
    }

    /// Index up to which the log is known to be committed, in whole decisions; without a group all
    /// is.
    pub(super) fn releasable(&self) -> u64 {
        self.tail.as_ref().map_or(u64::MAX, LogTail::releasable)
    }

    /// Everything so far is committed: it stands in a segment that was sealed.
    pub(super) fn commit_all(&mut self) {
        self.is_sealed = true;
        if let Some(tail) = &mut self.tail {
            tail.commit_all();
        }
    }

    /// Notes that the next segment is behind sealed ones, which are not looked at.
    pub(super) fn begin_behind_sealed(&mut self) {
        self.is_sealed = true;
    }

    /// Notes that a segment is missing in front of the next one: whether what it had was committed
    /// is not known.
    pub(super) fn begin_behind_hole(&mut self) {
        self.is_sealed = false;
    }

    /// A record that may be a note is in the last entry.
    pub(super) fn note(&mut self, record: &Entry<'_>) {
        self.notes.note(self.index(), record);
    }

    /// A record of a consumer is in the last entry.
    pub(super) fn note_consumer(&mut self, record: &ConsumerRecord<'_>) {
        self.consumers.note(self.index(), record.clone().into_owned());
    }
}
