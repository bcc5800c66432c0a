//! Messages that count and are not there: lost with a segment, or with entries that are damaged.
//!
//! Owns how many of them each subject has. The index goes on to count them, for a file that is
//! brought back has them again; a limit per subject counts those that are there.

use std::ops::{ControlFlow, RangeInclusive};

use crate::Seq;
use crate::index::SubjectId;
use crate::segment::Totals;

use super::super::ReadError;
use super::Catalog;
use super::lost_messages::{LostBySubject, LostMessages};

impl Catalog {
    /// Notes that messages which count may have been lost, or more of them than was known.
    pub(crate) fn note_lost(&mut self) {
        self.lost = LostMessages { is_damaged: true, ..LostMessages::default() };
    }

    /// Whether messages that count may have been lost. Their subjects go on to count them when they
    /// were removed, which tells those who start later.
    pub(crate) fn may_have_lost(&self) -> bool {
        self.lost.is_damaged || self.subjects.index.messages() != self.totals.messages
    }

    /// How many messages of a subject count and are not there.
    ///
    /// # Errors
    /// A table of the stream cannot be read.
    pub(crate) fn lost_of(&self, id: SubjectId) -> Result<u64, ReadError> {
        if !self.may_have_lost() {
            return Ok(0);
        }
        if let Some(known) = self.lost.by_subject.get() {
            return Ok(known.get(&id).copied().unwrap_or(0));
        }
        let counted = self.count_lost()?;
        Ok(self.lost.by_subject.get_or_init(|| counted).get(&id).copied().unwrap_or(0))
    }

    /// How many messages of a subject are there.
    ///
    /// # Errors
    /// A table of the stream cannot be read.
    pub(crate) fn live_of(&self, id: SubjectId) -> Result<u64, ReadError> {
        Ok(self.subjects.index.state(id).count.saturating_sub(self.lost_of(id)?))
    }

    /// Makes the count that a footer or a manifest states that of the sequences which are not
    /// deleted, where segments were lost before it: these may have said of sequences that they are
    /// deleted, and what was made of them since may call deleted what it counts. Of lost sequences
    /// so many count as deleted, the last ones first; what is there counts.
    ///
    /// Else a removal of all lost sequences would count more messages than there are, and those
    /// behind them would be gone.
    pub(crate) fn settle_lost(&mut self) {
        let Totals { messages, first_seq, last_seq, .. } = self.totals;
        let live = self.live_in(first_seq..=last_seq);
        if live == messages && (live == 0 || !self.removed.deleted.contains(first_seq)) {
            return;
        }
        // A start that does not see the loss any more finds it here.
        self.note_lost();
        let mut excess = live.saturating_sub(messages);
        let views = &self.segments.views;
        let ends = std::iter::once(first_seq - 1).chain(views.iter().map(|view| view.last_seq));
        let gaps = ends.zip(views).map(|(end, view)| (end.max(first_seq - 1) + 1, view.first_seq));
        let gaps: Vec<(Seq, Seq)> = gaps.filter(|(from, to)| from < to).collect();
        for (from, to) in gaps.into_iter().rev() {
            let last = to - 1;
            let going = excess.min(self.live_in(from..=last));
            if going == 0 {
                continue;
            }
            let (mut some, mut enough) = (last + 1, from);
            while some - enough > 1 {
                let middle = enough + (some - enough) / 2;
                if self.live_in(middle..=last) >= going {
                    enough = middle;
                } else {
                    some = middle;
                }
            }
            self.removed.insert(&(enough..=last));
            excess -= going;
        }
        self.totals.messages = self.live_in(first_seq..=last_seq);
        if self.totals.messages == 0 {
            self.clear(0);
        } else {
            self.advance_first(first_seq);
        }
    }

    /// Sequences that are not deleted.
    fn live_in(&self, range: RangeInclusive<Seq>) -> u64 {
        range.end() + 1 - range.start() - self.removed.deleted.count_in(range)
    }

    /// The index less what the tables have.
    fn count_lost(&self) -> Result<LostBySubject, ReadError> {
        let index = &self.subjects.index;
        let mut live = LostBySubject::default();
        for (at, view) in self.segments.views.iter().enumerate() {
            let table = self.table(at)?;
            let mut numbers = LostBySubject::default();
            for row in 0..table.len() {
                let seq = view.segment.first_seq + u64::from(table.delta(row));
                if (view.first_seq..=view.last_seq).contains(&seq) && self.contains(seq) {
                    *numbers.entry(table.subject(row)).or_default() += 1;
                }
            }
            for (number, count) in numbers {
                if let Some(id) = index.find(table.text(number, index)) {
                    *live.entry(id).or_default() += count;
                }
            }
        }
        let mut lost = LostBySubject::default();
        index.for_each_matching(b">", None, &mut |id, _| {
            let there = live.get(&id).copied().unwrap_or(0);
            let missing = index.state(id).count.saturating_sub(there);
            if missing > 0 {
                lost.insert(id, missing);
            }
            ControlFlow::Continue(())
        });
        Ok(lost)
    }

    /// Forgets what was lost: of the messages that counted none is left.
    pub(super) fn forget_lost(&mut self) {
        self.lost = LostMessages::default();
    }
}
