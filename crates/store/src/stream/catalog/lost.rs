//! Messages that count and are not there: lost with a segment, or with entries that are damaged.
//!
//! Owns how many of them each subject has. The index goes on to count them, for a file that is
//! brought back has them again; a limit per subject counts those that are there.

use std::ops::ControlFlow;

use crate::index::SubjectId;

use super::super::ReadError;
use super::Catalog;
use super::lost_messages::{LostBySubject, LostMessages};

impl Catalog {
    /// Notes that messages which count may have been lost.
    pub(crate) fn note_lost(&mut self) {
        self.lost.is_damaged = true;
    }

    /// Whether messages that count may have been lost.
    pub(crate) fn may_have_lost(&self) -> bool {
        self.lost.is_damaged
    }

    /// How many messages of a subject count and are not there.
    ///
    /// # Errors
    /// A table of the stream cannot be read.
    pub(crate) fn lost_of(&self, id: SubjectId) -> Result<u64, ReadError> {
        if !self.lost.is_damaged {
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
