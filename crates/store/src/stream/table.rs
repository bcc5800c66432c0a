//! Where the messages of one segment lie: sequence → place, size and subject.
//!
//! The table of the active segment grows with every message and names subjects by their number in
//! the stream's index. When the segment is closed the table is frozen, and once a footer is on disk
//! it can be dropped from memory and read back ([`Slots`]), where subjects have numbers of that
//! segment only.

use std::sync::{Arc, Mutex, MutexGuard};

use myelin_stdx::sync::lock;

use crate::index::{SubjectId, SubjectIndex};
use crate::segment::Slots;

use super::chain::Chain;

/// The table of a segment that has no footer yet. Parallel columns, one row per message, sequences
/// ascending.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// Sequence less the segment's first; empty while that is the row.
    ///
    /// Perf: a stream in memory keeps its rows, and hardly one passes a sequence over (row
    /// `js-subjects-memory`).
    deltas: Vec<u32>,
    /// Where the entry begins in the file.
    pub(crate) offsets: Vec<u32>,
    /// Stored size, as limits count it.
    pub(crate) sizes: Vec<u32>,
    /// The subject's number in the stream's index.
    pub(crate) subjects: Vec<SubjectId>,
    chain: Mutex<Chain>,
}

impl Rows {
    pub(crate) fn push(&mut self, delta: u32, offset: u32, size: u32, subject: SubjectId) {
        debug_assert!(self.last_delta().is_none_or(|last| last < delta), "sequences ascend");
        debug_assert_eq!(self.offsets.len(), self.subjects.len(), "a row has all columns");
        let row = self.len();
        if !self.deltas.is_empty() {
            self.deltas.push(delta);
        } else if delta as usize != row {
            self.deltas = self.all_deltas();
            self.deltas.push(delta);
        }
        self.offsets.push(offset);
        self.sizes.push(size);
        self.subjects.push(subject);
    }

    /// As [`Rows::push`], for rows of a file that may be damaged: one out of order is left out.
    /// Answers whether it was not.
    pub(crate) fn push_if_ascending(
        &mut self,
        delta: u32,
        offset: u32,
        size: u32,
        subject: SubjectId,
    ) -> bool {
        let ascends = self.last_delta().is_none_or(|last| last < delta);
        if ascends {
            self.push(delta, offset, size, subject);
        }
        ascends
    }

    pub(crate) fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Sequence less the segment's first, of a row.
    pub(crate) fn delta(&self, row: usize) -> u32 {
        debug_assert!(row < self.len(), "a row of the table");
        self.deltas.get(row).copied().unwrap_or(row as u32)
    }

    /// Delta of the last row.
    pub(crate) fn last_delta(&self) -> Option<u32> {
        self.len().checked_sub(1).map(|row| self.delta(row))
    }

    /// Deltas of all rows.
    pub(crate) fn all_deltas(&self) -> Vec<u32> {
        if self.is_gapless() { (0u32..).take(self.len()).collect() } else { self.deltas.clone() }
    }

    /// Gives back the memory that was kept for more rows: there will be none.
    pub(crate) fn shrink(&mut self) {
        let columns = [&mut self.deltas, &mut self.offsets, &mut self.sizes, &mut self.subjects];
        columns.into_iter().for_each(Vec::shrink_to_fit);
    }

    /// The chain of all rows.
    fn chain(&self) -> MutexGuard<'_, Chain> {
        // Whoever panicked in it left rows out of the end, which are added now.
        let mut chain = lock(&self.chain);
        chain.extend(&self.subjects);
        chain
    }

    /// Whether no sequence was passed over, so that a message's row is its delta.
    fn is_gapless(&self) -> bool {
        self.deltas.is_empty()
    }

    /// The first row at or behind `delta`.
    fn row_from(&self, delta: u32) -> usize {
        if self.is_gapless() {
            return (delta as usize).min(self.len());
        }
        self.deltas.partition_point(|&found| found < delta)
    }

    /// The row of exactly `delta`.
    pub(crate) fn row_of(&self, delta: u32) -> Option<usize> {
        if self.is_gapless() {
            return Some(delta as usize).filter(|&row| row < self.len());
        }
        self.deltas.binary_search(&delta).ok()
    }
}

/// A table in memory, whichever its form. Cheap to clone except while it grows, when it is
/// borrowed.
#[derive(Clone, Debug)]
pub(crate) enum Table<'a> {
    /// Of a segment without a footer, for as long as nothing changes.
    Growing(&'a Rows),
    /// Of a closed segment without a footer, to keep.
    Closed(Arc<Rows>),
    /// From a footer.
    Sealed(Arc<Slots>),
}

impl Table<'_> {
    fn rows(&self) -> Result<&Rows, &Slots> {
        match self {
            Self::Growing(rows) => Ok(rows),
            Self::Closed(rows) => Ok(rows),
            Self::Sealed(slots) => Err(slots),
        }
    }

    /// Rows in the table, those of deleted messages included.
    pub(crate) fn len(&self) -> usize {
        self.rows().map_or_else(Slots::len, Rows::len)
    }

    /// Sequence less the segment's first, of a row.
    pub(crate) fn delta(&self, row: usize) -> u32 {
        self.rows().map_or_else(|slots| slots.delta(row), |rows| rows.delta(row))
    }

    /// The first row at or behind `delta`; `len()` if there is none.
    pub(crate) fn row_from(&self, delta: u64) -> usize {
        let Ok(delta) = u32::try_from(delta) else { return self.len() };
        self.rows().map_or_else(|slots| slots.lower_bound(delta), |rows| rows.row_from(delta))
    }

    /// The row of exactly `delta`.
    pub(crate) fn row_of(&self, delta: u64) -> Option<usize> {
        let delta = u32::try_from(delta).ok()?;
        self.rows().map_or_else(|slots| slots.find(delta), |rows| rows.row_of(delta))
    }

    /// Where the entry of a row begins.
    pub(crate) fn offset(&self, row: usize) -> u64 {
        u64::from(self.rows().map_or_else(|slots| slots.offset(row), |rows| rows.offsets[row]))
    }

    /// Stored size of a row's message.
    pub(crate) fn size(&self, row: usize) -> u64 {
        u64::from(self.rows().map_or_else(|slots| slots.size(row), |rows| rows.sizes[row]))
    }

    /// The number of a row's subject, in this table's own numbering.
    pub(crate) fn subject(&self, row: usize) -> u32 {
        self.subjects()[row]
    }

    /// The numbers of all rows' subjects.
    pub(crate) fn subjects(&self) -> &[u32] {
        self.rows().map_or_else(Slots::subjects, |rows| &rows.subjects)
    }

    /// The text of a subject that this table calls `number`. In memory it may be another one if all
    /// messages of the subject were removed: its number is used again before its rows go.
    pub(crate) fn text<'t>(&'t self, number: u32, index: &'t SubjectIndex) -> &'t [u8] {
        match self {
            Self::Growing(_) | Self::Closed(_) => index.text_or_other(number),
            Self::Sealed(slots) => slots.dictionary().text(number),
        }
    }

    /// Number of the subject `text` in this table, if any message of it had that subject.
    pub(crate) fn number_of(&self, text: &[u8], index: &SubjectIndex) -> Option<u32> {
        match self {
            Self::Growing(_) | Self::Closed(_) => index.find(text),
            Self::Sealed(slots) => slots.dictionary().find(text),
        }
    }

    /// The stream-wide number of a row's subject; `None` if the stream no longer has the subject.
    pub(crate) fn subject_in(&self, row: usize, index: &SubjectIndex) -> Option<SubjectId> {
        match self {
            Self::Growing(_) | Self::Closed(_) => Some(self.subject(row)),
            Self::Sealed(slots) => index.find(slots.dictionary().text(slots.subject(row))),
        }
    }

    /// The next row with the same subject.
    pub(crate) fn successor(&self, row: usize) -> Option<usize> {
        self.rows().map_or_else(|slots| slots.successor(row), |rows| rows.chain().after(row))
    }

    /// The first row of a subject that the stream calls `id`.
    pub(crate) fn first_of(&self, id: SubjectId, index: &SubjectIndex) -> Option<usize> {
        match self.rows() {
            Ok(rows) => rows.chain().first(id),
            Err(slots) => {
                let local = slots.dictionary().local(slots.dictionary().find(index.text(id))?);
                (local.count > 0).then_some(local.first as usize)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_before_and_behind_the_first_sequence_that_is_passed_over() {
        let all = [0, 1, 2, 5, 6, 9];
        for count in 0..=all.len() {
            let deltas = &all[..count];
            let mut rows = Rows::default();
            for (&delta, offset) in deltas.iter().zip(0u32..) {
                assert!(rows.push_if_ascending(delta, offset, 1, 7));
                assert!(!rows.push_if_ascending(delta, offset, 1, 7), "{delta} again");
            }
            rows.shrink();
            assert_eq!((rows.len(), rows.all_deltas()), (count, deltas.to_vec()));
            assert_eq!(rows.last_delta(), deltas.last().copied());
            let table = Table::Growing(&rows);
            for delta in 0..11 {
                assert_eq!(table.row_of(delta), deltas.binary_search(&(delta as u32)).ok(), "{delta}");
                let from = deltas.partition_point(|&found| u64::from(found) < delta);
                assert_eq!(table.row_from(delta), from, "{delta}");
            }
            (0..count).for_each(|row| assert_eq!(table.delta(row), deltas[row]));
        }
    }
}
