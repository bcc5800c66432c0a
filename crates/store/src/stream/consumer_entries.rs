//! Entries of a group's log that have records of consumers, from the image of the consumers on.
//!
//! Owns which entries these are, and nothing of what they say.

use std::collections::VecDeque;

use crate::record::{ConsumerRecord, Control, Entry};

/// Entries with records of consumers that no image has.
#[derive(Debug, Default)]
pub(crate) struct ConsumerEntries(VecDeque<(u64, Vec<ConsumerRecord<'static>>)>);

impl ConsumerEntries {
    /// A record of the entry `index`, which is the last one so far.
    pub(crate) fn note(&mut self, index: u64, record: ConsumerRecord<'static>) {
        match self.0.back_mut() {
            Some((last, records)) if *last == index => records.push(record),
            last => {
                debug_assert!(last.is_none_or(|(last, _)| *last < index), "entries come in order");
                self.0.push_back((index, vec![record]));
            }
        }
    }

    /// The records among those of an entry.
    pub(super) fn note_all<'e>(&mut self, index: u64, records: impl Iterator<Item = &'e Entry<'e>>) {
        for record in records {
            if let Entry::Control(Control::Consumer(record)) = record {
                self.note(index, record.clone().into_owned());
            }
        }
    }

    /// Entries in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &[ConsumerRecord<'static>])> {
        self.0.iter().map(|(index, records)| (*index, records.as_slice()))
    }

    /// Entries behind `index`, in order.
    ///
    /// Perf: asked for with each commit, while an image lacks some ten thousand entries.
    pub(super) fn behind(&self, index: u64) -> impl Iterator<Item = (u64, &[ConsumerRecord<'static>])> {
        let first = self.0.partition_point(|(of, _)| *of <= index);
        self.0.range(first..).map(|(of, records)| (*of, records.as_slice()))
    }

    /// Entries from `first` on do not count.
    pub(crate) fn take_back(&mut self, first: u64) {
        self.0.truncate(self.0.partition_point(|(of, _)| *of < first));
    }

    /// An image has the entries up to `index`.
    pub(super) fn forget_through(&mut self, index: u64) {
        self.0.drain(..self.0.partition_point(|(of, _)| *of <= index));
    }
}
