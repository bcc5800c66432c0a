//! Where the log of the stream's group ends, and what of it is known to be committed.

use crate::Seq;
use crate::record::{ConsumerRecord, LogEntry};
use crate::segment::SegmentHeader;
use crate::stream::{ConsumerEntries, GroupPosition};

/// The log of a group, as far as it was read.
#[derive(Debug, Default)]
pub(super) struct GroupTail {
    /// Its end; `None` without a group.
    pub(super) position: Option<GroupPosition>,
    /// Entries that were read one by one, each with the last sequence before it.
    entries: Vec<(u64, Seq)>,
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

    /// An entry begins in a stream whose last sequence is `before`.
    pub(super) fn pass(&mut self, entry: &LogEntry, before: Seq) {
        if let Some(position) = &mut self.position {
            position.pass(entry);
            self.entries.push((entry.index, before));
        }
    }

    /// A record of a consumer is in the last entry.
    pub(super) fn note_consumer(&mut self, record: &ConsumerRecord<'_>) {
        self.consumers.note(self.index(), record.clone().into_owned());
    }

    /// Entries that are not known to be committed, of a stream whose last sequence is `last`: the
    /// sequence before it, and each entry with its last sequence. `None` if that is nothing.
    pub(super) fn uncommitted(&self, last: Seq) -> Option<(Seq, Vec<(u64, Seq)>)> {
        let commit = self.position?.commit;
        let committed = self.entries.partition_point(|(index, _)| *index <= commit);
        let waiting = &self.entries[committed..];
        let (_, before) = waiting.first()?;
        let ends = waiting.iter().skip(1).map(|(_, before)| *before).chain([last]);
        Some((*before, waiting.iter().map(|(index, _)| *index).zip(ends).collect()))
    }
}
