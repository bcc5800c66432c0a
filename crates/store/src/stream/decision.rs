//! Decision on a batch of messages.
//!
//! Owns the lists, and the memory that making them takes, which is kept from batch to batch.
//! Decides nothing (`decide.rs`) and does nothing (`catalog/follow.rs`).

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use hashbrown::HashTable;

use crate::Seq;
use crate::index::SubjectId;
use crate::ranges::Ranges;

/// Rows whose memory is kept between batches.
const SPARE_ROWS: usize = 1024;
/// No row, no message.
pub(super) const NONE: u32 = u32::MAX;

/// Decision on a batch: what is stored, and what goes.
#[derive(Debug, Default)]
pub(super) struct Decision {
    /// Messages that are taken, in order.
    pub(super) rows: Vec<DecidedRow>,
    /// Messages that go one by one, of the stream or of the batch, in the order in which that was
    /// decided.
    pub(super) removals: Vec<DecidedRemoval>,
    /// Sequences of those that are not below `first`, as the log says it.
    pub(super) deleted: Option<Ranges>,
    /// The first sequence since, if that has moved by evictions.
    pub(super) first: Option<Seq>,
    /// Bytes that were counted for messages which damage has taken.
    pub(super) lost_bytes: u64,
    /// Sequences that went, ascending.
    pub(super) gone: Vec<RangeInclusive<Seq>>,
    /// The sequence that came next before the batch.
    pub(super) next: Seq,
    /// Whether batches before it waited for their release: numbers of subjects are not those of the
    /// catalog then.
    pub(super) is_behind_waiting: bool,
    pub(super) scratch: Scratch,
}

/// A message that is taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct DecidedRow {
    pub(super) seq: Seq,
    /// Its place in the batch.
    pub(super) message: u32,
    pub(super) size: u32,
    /// Where its entry begins: known when the batch is encoded.
    pub(super) offset: u32,
    /// Its subject, if that was looked up and had messages.
    pub(super) subject: Option<SubjectId>,
    /// Its plan in [`Scratch::plans`].
    pub(super) plan: u32,
    /// The next row of the batch with the same subject.
    pub(super) next: u32,
    pub(super) is_gone: bool,
}

/// A message that goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct DecidedRemoval {
    pub(super) seq: Seq,
    pub(super) size: u32,
    pub(super) whose: Whose,
    /// The message of its subject that comes behind it, if that is known.
    pub(super) next: Option<Seq>,
}

/// The subject of a message that goes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Whose {
    Subject(SubjectId),
    /// The subject of this row, which may be new.
    Row(u32),
    /// Its record was lost to damage.
    Nobody,
}

/// Memory that a decision needs while it is made.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) plans: Vec<SubjectPlan>,
    /// Places of plans, by the hash of their subject; without entries for a batch of one.
    pub(super) by_subject: HashTable<u32>,
    /// Messages of the stream that go one by one, where the head is looked for.
    pub(super) singles: BTreeSet<Seq>,
}

/// A subject that a batch is about, as it is behind what was decided so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct SubjectPlan {
    pub(super) hash: u32,
    pub(super) id: Option<SubjectId>,
    /// A message of the batch with it.
    pub(super) message: u32,
    /// Messages of the stream that stay.
    pub(super) old: u64,
    /// The first of them, or none before it.
    pub(super) first: Seq,
    pub(super) is_first_exact: bool,
    /// No message of the stream behind it.
    pub(super) last: Seq,
    /// Size of that message if it is the last; 0 if that is not known.
    pub(super) last_size: u32,
    /// Messages of the batch that stay, and the first and last row with the subject.
    pub(super) new: u64,
    pub(super) first_row: u32,
    pub(super) last_row: u32,
}

impl Decision {
    /// Sequences that go, ascending. Some of them may have had no message before.
    pub(super) fn gone(&self) -> &[RangeInclusive<Seq>] {
        &self.gone
    }

    /// The sequence that came next before the batch.
    pub(super) fn next(&self) -> Seq {
        self.next
    }

    /// The last sequence behind the batch.
    pub(super) fn last(&self) -> Seq {
        self.rows.last().map_or(self.next.saturating_sub(1), |row| row.seq)
    }

    /// Forgets everything; memory is kept.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.removals.clear();
        self.gone.clear();
        self.scratch.plans.clear();
        self.scratch.by_subject.clear();
        if !self.scratch.singles.is_empty() {
            self.scratch.singles.clear();
        }
        (self.deleted, self.first, self.lost_bytes, self.next) = (None, None, 0, 0);
    }

    /// Gives memory back that only a large batch needs.
    pub(super) fn shrink(&mut self) {
        if self.rows.capacity() > SPARE_ROWS {
            self.rows.clear();
            self.rows.shrink_to(SPARE_ROWS);
        }
        if self.removals.capacity() > SPARE_ROWS {
            self.removals.clear();
            self.removals.shrink_to(SPARE_ROWS);
        }
        if self.scratch.plans.capacity() > SPARE_ROWS {
            self.scratch = Scratch::default();
        }
    }
}

impl SubjectPlan {
    /// Counts a message of the stream as gone.
    pub(super) fn forget_old(&mut self, seq: Seq) {
        self.old = self.old.saturating_sub(1);
        if seq == self.last {
            (self.last, self.last_size) = (seq - 1, 0);
        }
        if seq == self.first {
            self.begin_behind(seq);
        }
    }

    /// The oldest message was `seq`, and is `next`, if that is known.
    pub(super) fn begin_with(&mut self, seq: Seq, next: Option<Seq>) {
        match next.filter(|next| *next <= self.last) {
            Some(next) => (self.first, self.is_first_exact) = (next, true),
            None => self.begin_behind(seq),
        }
    }

    /// No message with the subject is at or before `seq`.
    pub(super) fn begin_behind(&mut self, seq: Seq) {
        (self.first, self.is_first_exact) = (self.first.max(seq + 1), false);
    }
}
