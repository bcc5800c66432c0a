//! Decisions and entries of a log on their way into the catalog.
//!
//! Evaluates nothing: no limit, no clock, no random number. [`Catalog::follow`] takes the decision
//! of this stream's own append, with everything that was looked up for it; [`Catalog::replay`]
//! takes an entry, as recovery reads it or as somebody else has decided it. Both end in the same
//! state, which `store/tests/store/model` shows for random lives of a stream.

use crate::config::Storage;
use crate::index::SubjectState;
use crate::record::{Control, Entry};
use crate::segment::MAX_SEQ;
use crate::{Seq, Timestamp};

use super::super::decision::{DecidedRemoval, Decision, Whose};
use super::super::errors::ReadError;
use super::super::new_message::NewMessage;
use super::{Catalog, NewRow, size_of};

/// Messages whose subjects are brought near together.
pub(in crate::stream) const WARM: usize = 32;
/// Subjects from which on that is worth it.
const MANY_SUBJECTS: usize = 4096;

/// Fate of an entry that is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Applied,
    /// No writer would have written it there.
    PassedOver,
}

impl Catalog {
    /// Brings what is known of the subjects of the next few messages near.
    ///
    /// Perf: where the index is larger than the nearest cache; among a million subjects that halves
    /// the cost of a message (`myelin bench store --rows subjects`).
    pub(in crate::stream) fn warm(&self, messages: &[NewMessage<'_>]) {
        if messages.len() > 1 && self.subjects.index.len() >= MANY_SUBJECTS {
            self.subjects.index.warm(messages.iter().take(WARM).map(|message| message.subject));
        }
    }

    /// Does what was decided on a batch whose entries are in the log.
    ///
    /// # Errors
    /// The table of the oldest messages cannot be read, though it could when that was decided: part
    /// of the batch has happened.
    pub(in crate::stream) fn follow(
        &mut self,
        messages: &[NewMessage<'_>],
        decision: &mut Decision,
    ) -> Result<(), ReadError> {
        for rows in decision.rows.chunks_mut(WARM) {
            // Where subjects were looked up before, they are near.
            if let Some(first) = rows.first().filter(|row| row.subject.is_none()) {
                self.warm(&messages[first.message as usize..]);
            }
            for row in rows {
                let message = &messages[row.message as usize];
                if row.seq > self.next_seq() {
                    self.skip(row.seq - 1);
                }
                let new = NewRow {
                    seq: row.seq,
                    timestamp: message.timestamp,
                    expires: message.expires,
                    subject: message.subject,
                    offset: u64::from(row.offset),
                    size: u64::from(row.size),
                };
                let id = row.subject.unwrap_or_else(|| self.subjects.index.enter(message.subject));
                self.append_of(&new, id);
                row.subject = Some(id);
            }
        }
        for removal in &decision.removals {
            self.take_decided(removal, decision);
        }
        self.totals.bytes = self.totals.bytes.saturating_sub(decision.lost_bytes);
        match decision.first {
            Some(first) => self.follow_head(first),
            None => Ok(()),
        }
    }

    fn take_decided(&mut self, removal: &DecidedRemoval, decision: &Decision) {
        let subject = match removal.whose {
            Whose::Subject(id) => Some(id),
            Whose::Row(row) => decision.rows[row as usize].subject,
            Whose::Nobody => None,
        };
        debug_assert!(self.contains(removal.seq), "what goes was there when that was decided");
        self.take_out(removal.seq, u64::from(removal.size), subject);
        if let (Some(next), Some(id)) = (removal.next, subject) {
            let state = self.subjects.index.state(id);
            self.correct_subject(id, SubjectState { first: next, first_exact: true, ..state });
        }
    }

    /// Removes what is below `first`, which has a message or comes next.
    fn follow_head(&mut self, first: Seq) -> Result<(), ReadError> {
        self.remove_heads(first)?;
        debug_assert!(self.totals.first_seq == first, "the first message is the one that was decided on");
        Ok(())
    }

    /// Replays one entry, whose message begins at `offset` in the active segment.
    ///
    /// No message comes twice: a place that is written again was cut before, the journal writes the
    /// same bytes to the same place, and sequences that are given out again begin a segment, which
    /// was truncated before its first entry. And no append writes one far from where its segment
    /// begins.
    ///
    /// # Errors
    /// A table that the entry concerns cannot be read.
    pub(crate) fn replay(
        &mut self,
        entry: &Entry<'_>,
        offset: u64,
        timestamp: Timestamp,
        storage: Storage,
    ) -> Result<Fate, ReadError> {
        if !self.takes(entry) {
            return Ok(Fate::PassedOver);
        }
        match entry {
            Entry::Message(message) => {
                let size = size_of(storage, message.subject, message.headers, message.payload);
                self.append(&NewRow {
                    seq: message.seq,
                    timestamp: message.timestamp,
                    expires: message.expires.filter(|_| !myelin_stdx::planted::bug(4)),
                    subject: message.subject,
                    offset,
                    size,
                });
            }
            Entry::Erased { seq } => self.skip_at(*seq, timestamp),
            Entry::Control(Control::Delete(ranges)) => {
                for range in ranges.iter().filter(|_| !myelin_stdx::planted::bug(5)) {
                    self.remove_range(*range.start(), *range.end())?;
                }
            }
            Entry::Control(Control::Trim { first }) => {
                self.trim(*first)?;
            }
            Entry::Control(Control::Truncate { last }) => {
                self.truncate(*last)?;
            }
            Entry::Control(Control::Skip { last }) => self.skip_at(*last, timestamp),
            Entry::Control(
                Control::Durable { .. }
                | Control::Term { .. }
                | Control::LogEntry(_)
                | Control::Consumer(_)
                | Control::Config(_)
                | Control::Note(_)
                | Control::TakenBack { .. },
            ) => {}
        }
        Ok(Fate::Applied)
    }

    /// Whether a writer may have written an entry behind what is here.
    pub(super) fn takes(&self, entry: &Entry<'_>) -> bool {
        match entry {
            Entry::Message(message) => message.seq > self.totals.last_seq && self.is_in_span(message.seq),
            Entry::Erased { seq } => self.is_in_span(*seq),
            Entry::Control(Control::Trim { first: seq } | Control::Skip { last: seq }) => *seq <= MAX_SEQ,
            Entry::Control(_) => true,
        }
    }

    /// Removes the messages from `first` to `last`, one by one.
    pub(super) fn remove_range(&mut self, first: Seq, last: Seq) -> Result<(), ReadError> {
        let last = last.min(self.totals.last_seq);
        let mut seq = self.removed.deleted.next_live(first.max(self.totals.first_seq));
        while seq <= last && self.totals.messages > 0 {
            self.remove(seq)?;
            // What lies below the first message is not among the deleted ones any more.
            seq = self.removed.deleted.next_live((seq + 1).max(self.totals.first_seq));
        }
        Ok(())
    }

    /// Whether the active segment's table can name a sequence.
    fn is_in_span(&self, seq: Seq) -> bool {
        let first = self.segments.views.last().map_or(0, |view| view.segment.first_seq);
        seq <= MAX_SEQ && seq.checked_sub(first).is_some_and(|delta| u32::try_from(delta).is_ok())
    }
}
