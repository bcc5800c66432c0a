//! Giving memory back: of subjects without messages, of lifetimes of messages that are gone, of
//! tables that nobody uses.
//!
//! Owns when that happens. Whatever takes messages away does a share of it at once, in proportion
//! to what went, so that what is to be given back cannot grow for ever; what is left over then is
//! done slice by slice by whoever has time ([`Stream::tidy`]), also when nothing comes to the
//! stream any more.
//!
//! Perf: a subject that dies is looked at some four times (taken out of the table, twice gone past
//! in the order, freed): amortised it costs the same however many there are. Measured by
//! `myelin bench store --rows limit-*`.

use crate::Timestamp;

use super::Stream;

/// Subjects looked at in one slice of tidying.
const SLICE: usize = 2048;
impl Stream {
    /// Gives memory back that nobody uses, and puts the index of subjects in order if nothing was
    /// stored since the last call: a slice of work of well under a millisecond. Answers whether
    /// there is more to do at once. To be called now and then while the stream
    /// [is untidy](Stream::is_untidy).
    pub fn tidy(&mut self, now: Timestamp) -> bool {
        self.take_closed();
        let last = self.shared.catalog().next_decided() - 1;
        let rests = std::mem::replace(&mut self.tidied_at, last) == last;
        let mut more = self.shared.catalog().has_sparse() && self.reclaim_next();
        if rests
            && !self.segment_storage.is_memory()
            && self.shared.catalog().is_crowded()
            && self.check().is_ok()
        {
            // If that fails, on a full disk for instance, the next call tries again.
            let _ = self.roll(now);
        }
        let mut catalog = self.shared.catalog_mut();
        if rests && self.segment_storage.is_memory() {
            // Nobody writes footers. Rows of messages that are gone may name other subjects from
            // here on.
            more |= catalog.forget_some_touched(SLICE);
        }
        more |= rests && catalog.defragment(SLICE);
        catalog.release_head_table();
        more |= catalog.recycle_subjects(SLICE) | catalog.prune_expiry(SLICE);
        // What was taken out of the table just now has still to go out of the order.
        let has_dead = catalog.index().backlog() > 0 || catalog.index().is_sparse();
        more |= rests && has_dead && !catalog.numbers_are_out();
        self.is_untidy = more || catalog.is_untidy();
        more
    }

    /// Whether there is something for [`Stream::tidy`] to do, now or in a while, or
    /// [`Stream::next_job`] is to be asked again though nothing changes. Costs nothing.
    #[must_use]
    pub fn is_untidy(&self) -> bool {
        self.is_untidy || self.upkeep.waits_for_others()
    }

    /// Reclaims memory and files of the next segment. What cannot be read is not tried again before
    /// more of it is gone.
    fn reclaim_next(&mut self) -> bool {
        let is_reclaimed = self.reclaim().unwrap_or(false);
        if !is_reclaimed {
            self.shared.catalog_mut().forget_sparse();
        }
        is_reclaimed
    }
}
