//! Giving memory back: of subjects without messages, of lifetimes of messages that are gone, of tables that nobody uses.
//!
//! Owns when that happens. Whatever takes messages away does a share of it at once, in proportion to what went, so that
//! what is to be given back cannot grow for ever; what is left over then is done slice by slice by whoever has time
//! ([`Stream::tidy`]), also when nothing comes to the stream any more.
//!
//! Perf: a subject that dies is looked at some four times (taken out of the table, twice gone past in the order, freed):
//! amortised it costs the same however many there are. Measured by `myelin bench store --rows limit-*`.

use crate::Timestamp;

use super::Stream;
use super::catalog::Catalog;
use super::place::Form;

/// Subjects looked at in one slice of tidying.
const SLICE: usize = 2048;
/// Subjects looked at for each message that came or went: twice what one that dies needs.
const PER_MESSAGE: usize = 8;
/// A backlog is worked off by this part with each batch, and by so many at most: while a segment waits to be sealed
/// nothing can be done, and that may be most of the time.
const PART: usize = 64;
const PART_MOST: usize = 2048;
/// So many subjects that the active segment has touched are reason to close it, if they are far more than have messages:
/// those that died there take memory until a footer has named them.
const MANY_TOUCHED: usize = 16 << 10;

impl Catalog {
    /// Does the share of tidying that a change of `messages` messages owes. Answers whether there is something left for
    /// [`Stream::tidy`].
    pub(super) fn tidy_after(&mut self, messages: usize) -> bool {
        let backlog = self.index.backlog();
        if backlog > 0 {
            self.recycle_subjects(messages * PER_MESSAGE + (backlog / PART).min(PART_MOST));
        }
        self.prune_expiry(messages * PER_MESSAGE);
        backlog > 0 || self.is_untidy()
    }

    fn is_untidy(&self) -> bool {
        let has_touched = if self.keeps_dead { self.is_crowded() } else { self.index.touched() > 0 };
        let has_dead = self.index.backlog() > 0 || self.index.is_sparse();
        has_dead || has_touched || self.has_head() || self.is_pruning() || self.has_sparse
    }

    fn is_crowded(&self) -> bool {
        self.index.touched() > MANY_TOUCHED.max(2 * self.index.len())
    }

    /// Lets numbers of subjects that are gone be given out again, a few at a time. Answers whether there are more. Not
    /// while tables in files' stead name subjects by number.
    pub(crate) fn recycle_subjects(&mut self, limit: usize) -> bool {
        !self.numbers_are_out() && self.index.recycle_some(limit)
    }

    /// Whether a table names subjects by their numbers that may be without messages: of a segment that waits to be sealed,
    /// or was found without a footer.
    fn numbers_are_out(&mut self) -> bool {
        if self.unsealed == 0 && self.has_walked {
            self.has_walked = self.places.iter().any(|place| matches!(place.form, Form::Closed(_)));
        }
        self.unsealed > 0 || self.has_walked
    }
}

impl Stream {
    /// Gives memory back that nobody uses, and puts the index of subjects in order if nothing was stored since the last
    /// call: a slice of work of well under a millisecond. Answers whether there is more to do at once. To be called now
    /// and then while the stream [is untidy](Stream::is_untidy).
    pub fn tidy(&mut self, now: Timestamp) -> bool {
        let last = self.shared.catalog().totals.last_seq;
        let rests = std::mem::replace(&mut self.tidied_at, last) == last;
        let mut more = self.shared.catalog().has_sparse && self.reclaim_next();
        if rests && !self.home.is_memory() && self.shared.catalog().is_crowded() && self.check().is_ok() {
            // If that fails, on a full disk for instance, the next call tries again.
            let _ = self.roll(now);
        }
        let mut catalog = self.shared.catalog_mut();
        if rests && self.home.is_memory() {
            // Nobody writes footers. Rows of messages that are gone may name other subjects from here on.
            more |= catalog.index.forget_touched(SLICE);
        }
        more |= rests && catalog.index.settle(SLICE);
        catalog.rest_head();
        more |= catalog.recycle_subjects(SLICE) | catalog.prune_expiry(SLICE);
        // What was taken out of the table just now has still to go out of the order.
        let has_dead = catalog.index.backlog() > 0 || catalog.index.is_sparse();
        more |= rests && has_dead && !catalog.numbers_are_out();
        self.is_untidy = more || catalog.is_untidy();
        more
    }

    /// Whether there is something for [`Stream::tidy`] to do, now or in a while, or [`Stream::next_job`] is to be asked again
    /// though nothing changes. Costs nothing.
    #[must_use]
    pub fn is_untidy(&self) -> bool {
        self.is_untidy || self.upkeep.waits_for_others()
    }

    /// What cannot be read is not tried again before more of it is gone.
    fn reclaim_next(&mut self) -> bool {
        let is_reclaimed = self.reclaim().unwrap_or(false);
        if !is_reclaimed {
            self.shared.catalog_mut().has_sparse = false;
        }
        is_reclaimed
    }
}
