//! Taking the newest messages away, whose sequences are given out again.
//!
//! Owns what must be forgotten then: nothing that was known of a sequence may count for the next
//! message that gets it.

use std::ops::RangeInclusive;

use crate::Seq;
use crate::index::SubjectId;

use super::super::ReadError;
use super::{Catalog, Removed};

impl Catalog {
    /// Removes all messages behind `last`. The next message gets `last + 1`, in a new segment.
    ///
    /// Takes time for the messages that go, not for the sequences: those may be as good as endless.
    pub(crate) fn truncate(&mut self, last: Seq) -> Result<Removed, ReadError> {
        let mut removed = Removed::default();
        let there = self.totals.first_seq.max(last.saturating_add(1))..=self.totals.last_seq;
        if self.totals.messages > 0 && !there.is_empty() {
            removed = self.take_out_all(there)?;
        }
        self.forget_above(last);
        self.hide_above(last);
        self.footer.truncate(last);
        self.totals.last_seq = last.min(self.totals.last_seq);
        if self.totals.messages == 0 {
            self.totals.first_seq = self.totals.last_seq + 1;
        }
        debug_assert!(self.totals.first_seq <= self.next_seq(), "the first sequence is at most the next one");
        debug_assert!(self.totals.last_seq <= last, "nothing behind it is left");
        Ok(removed)
    }

    /// No segment shows what is behind `last`. The segment that grows stays the last one.
    pub(crate) fn hide_above(&mut self, last: Seq) {
        self.segments.hide_above(last, &self.removed.truncations);
    }

    /// The last sequence in the table of the segment that grows, be it visible or not; 0 without
    /// one.
    pub(crate) fn last_row(&self) -> Seq {
        let first = self.segments.views.last().map_or(0, |view| view.segment.first_seq);
        self.segments.rows.last_delta().map_or(0, |delta| first + u64::from(delta))
    }

    /// Removes the messages in a range of sequences up to the last one, newest first.
    fn take_out_all(&mut self, range: RangeInclusive<Seq>) -> Result<Removed, ReadError> {
        let (first, last) = (*range.start(), *range.end());
        // Among them those whose records were lost to damage: these have no bytes.
        let messages = (last - first + 1).saturating_sub(self.removed.deleted.count_in(range.clone()));
        let is_all = first == self.totals.first_seq;
        let messages = if is_all { self.totals.messages } else { messages.min(self.totals.messages) };
        let mut bytes = 0;
        for at in (self.segments.from(first)..self.segments.views.len()).rev() {
            let doomed = self.rows_in(at, &range)?;
            self.segments.views[at].removed += doomed.len() as u32;
            for (seq, size, subject) in doomed {
                bytes += size;
                self.subjects.index.removed(subject, seq);
            }
        }
        debug_assert!(messages <= self.totals.messages, "only messages are removed");
        self.removed.note_untold(messages);
        self.totals.messages -= messages;
        self.totals.bytes = self.totals.bytes.saturating_sub(bytes);
        self.forget_lost_bytes();
        if self.totals.messages == 0 {
            self.set_first(self.next_seq());
        }
        Ok(Removed { messages, bytes })
    }

    /// The messages that the segment at `at` shows of a range, newest first: sequence, size,
    /// subject.
    fn rows_in(
        &self,
        at: usize,
        range: &RangeInclusive<Seq>,
    ) -> Result<Vec<(Seq, u64, SubjectId)>, ReadError> {
        let view = &self.segments.views[at];
        let base = view.segment.first_seq;
        let (first, last) = ((*range.start()).max(view.first_seq), (*range.end()).min(view.last_seq));
        if last < first {
            return Ok(Vec::new());
        }
        let table = self.table(at)?;
        let rows =
            table.row_from(first.saturating_sub(base))..table.row_from((last + 1).saturating_sub(base));
        let rows = rows.rev().map(|row| (base + u64::from(table.delta(row)), row));
        let rows = rows.filter(|(seq, _)| !self.removed.deleted.contains(*seq));
        // A subject that the index does not know has no count to take it from.
        let known = |(seq, row)| Some((seq, table.size(row), table.subject_in(row, &self.subjects.index)?));
        Ok(rows.filter_map(known).collect())
    }

    /// Sequences behind `last` are to be given out again: nothing that was known of them counts any
    /// more.
    pub(crate) fn forget_above(&mut self, last: Seq) {
        if last < self.totals.last_seq {
            self.removed.deleted.remove_above(last);
            self.lifetimes.forget_above(last);
        }
    }
}
