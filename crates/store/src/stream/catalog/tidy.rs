//! Memory that a catalog gives back, a slice at a time.

use crate::Timestamp;

use super::super::segment_view::Form;
use super::Catalog;

/// Subjects looked at for each message that came or went: twice what one that dies needs.
const PER_MESSAGE: usize = 8;
/// A backlog is worked off by this part with each batch, and by so many at most: while a segment
/// waits to be sealed nothing can be done, and that may be most of the time.
const PART: usize = 64;
const PART_MOST: usize = 2048;
/// Subjects that the active segment has touched, from which on it is closed if they are far more
/// than have messages: those that died there take memory until a footer has named them.
const MANY_TOUCHED: usize = 16 << 10;

impl Catalog {
    /// Does the share of tidying that a change of `messages` messages owes. Answers whether there
    /// is something left for [`Stream::tidy`](crate::Stream::tidy).
    pub(in crate::stream) fn tidy_after(&mut self, messages: usize) -> bool {
        let backlog = self.subjects.index.backlog();
        if backlog > 0 {
            self.recycle_subjects(messages * PER_MESSAGE + (backlog / PART).min(PART_MOST));
        }
        self.prune_expiry(messages * PER_MESSAGE);
        backlog > 0 || self.is_untidy()
    }

    /// Whether there is something left for [`Stream::tidy`](crate::Stream::tidy).
    pub(in crate::stream) fn is_untidy(&self) -> bool {
        let has_touched =
            if self.segments.keeps_retired { self.is_crowded() } else { self.subjects.index.touched() > 0 };
        let has_dead = self.subjects.index.backlog() > 0 || self.subjects.index.is_sparse();
        has_dead || has_touched || self.has_head_table() || self.is_pruning() || self.segments.has_sparse
    }

    /// Whether the active segment has touched far more subjects than there are.
    pub(in crate::stream) fn is_crowded(&self) -> bool {
        self.subjects.index.touched() > MANY_TOUCHED.max(2 * self.subjects.index.len())
    }

    /// Lets numbers of subjects that are gone be given out again, a few at a time. Answers whether
    /// there are more. Not while tables in files' stead name subjects by number.
    pub(crate) fn recycle_subjects(&mut self, limit: usize) -> bool {
        !self.numbers_are_out() && self.subjects.index.recycle_some(limit)
    }

    /// Whether a table names subjects by their numbers that may be without messages: of a segment
    /// that waits to be sealed, or was found without a footer.
    pub(in crate::stream) fn numbers_are_out(&mut self) -> bool {
        if self.segments.unsealed == 0 && self.segments.has_walked {
            self.segments.has_walked =
                self.segments.views.iter().any(|view| matches!(view.form, Form::Closed(_)));
        }
        self.segments.unsealed > 0 || self.segments.has_walked
    }

    /// Lets go of the list of subjects that the active segment has touched, a few at a time, where
    /// nobody writes footers. Answers whether there are more.
    pub(in crate::stream) fn forget_some_touched(&mut self, limit: usize) -> bool {
        debug_assert!(!self.segments.keeps_retired, "footers name what was touched");
        self.subjects.index.forget_touched(limit)
    }

    /// Puts the index of subjects in order, a few at a time. Answers whether there is more to do.
    pub(in crate::stream) fn defragment(&mut self, limit: usize) -> bool {
        self.subjects.index.defragment(limit)
    }

    /// Whether there may be a segment in memory of which most was removed.
    pub(in crate::stream) fn has_sparse(&self) -> bool {
        self.segments.has_sparse
    }

    /// Notes that no segment in memory can be copied together.
    pub(in crate::stream) fn forget_sparse(&mut self) {
        self.segments.has_sparse = false;
    }

    /// Drops lifetimes of messages that are gone, if there are many: about `limit` are looked at.
    /// Answers whether there is more to do.
    pub(crate) fn prune_expiry(&mut self, limit: usize) -> bool {
        if !self.is_pruning() {
            return false;
        }
        let mut expiry = std::mem::take(&mut self.lifetimes.expiry);
        let from = self.lifetimes.pruning.unwrap_or((Timestamp::MIN, 0));
        self.lifetimes.pruning = expiry.retain_some(from, limit, |seq| self.contains(seq));
        self.lifetimes.expiry = expiry;
        self.lifetimes.pruning.is_some()
    }

    /// Whether a pass through lifetimes is due, or under way.
    fn is_pruning(&self) -> bool {
        self.lifetimes.is_pruning(self.totals.messages)
    }
}
