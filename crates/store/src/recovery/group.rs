//! Where the log of the stream's group ends, and what of it is known to be committed.

use crate::record::{ConsumerRecord, LogEntry};
use crate::segment::SegmentHeader;
use crate::stream::{ConsumerEntries, GroupPosition};

/// The log of a group, as far as it was read.
#[derive(Debug, Default)]
pub(super) struct GroupTail {
    /// Its end; `None` without a group.
    pub(super) position: Option<GroupPosition>,
    /// Records of consumers in them.
    pub(super) consumers: ConsumerEntries,
}

impl GroupTail {
    /// A segment begins.
    pub(super) fn begin(&mut self, header: &SegmentHeader) {
        self.position = GroupPosition::at(header, self.position);
    }

    /// Index of the last entry; 0: none.
    pub(super) fn index(&self) -> u64 {
        self.position.map_or(0, |position| position.index)
    }

    /// An entry begins.
    pub(super) fn pass(&mut self, entry: &LogEntry) {
        if let Some(position) = &mut self.position {
            position.pass(entry);
        }
    }

    /// Index up to which the log is known to be committed; without a group all is.
    pub(super) fn commit(&self) -> u64 {
        self.position.map_or(u64::MAX, |position| position.commit)
    }

    /// Everything so far is committed: it stands in a segment that was sealed.
    pub(super) fn commit_all(&mut self) {
        if let Some(position) = &mut self.position {
            position.commit = position.commit.max(position.index);
        }
    }

    /// A record of a consumer is in the last entry.
    pub(super) fn note_consumer(&mut self, record: &ConsumerRecord<'_>) {
        self.consumers.note(self.index(), record.clone().into_owned());
    }
}
