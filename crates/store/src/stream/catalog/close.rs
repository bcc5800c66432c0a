//! Closing a segment: what its footer has to say is taken together.

use crate::index::SubjectIndex;

use super::super::active::{Active, Closed, SegmentOrigin};
use super::super::segment_view::Times;
use super::Catalog;

impl Catalog {
    /// Takes together what the footer of the active segment has to say. There is no active one
    /// then.
    pub(crate) fn close_only(&mut self, active: Active) -> Closed {
        let totals = self.totals;
        debug_assert!(
            self.footer.expiries.is_sorted_by_key(|&(seq, _)| seq),
            "lifetimes are noted in the order of the stream"
        );
        debug_assert!(
            self.footer.deleted.iter().all(|range| *range.end() <= totals.last_seq),
            "only what was given out is removed"
        );
        debug_assert!(
            self.removed.deleted.ranges().all(|range| *range.end() <= totals.last_seq),
            "only what was given out is removed"
        );
        let index_epoch = self.subjects.epoch;
        let touched = self.subjects.index.take_touched();
        let deleted = std::mem::take(&mut self.footer.deleted);
        let expiries = std::mem::take(&mut self.footer.expiries);
        let times = self
            .segments
            .views
            .last()
            .filter(|_| self.segments.rows.len() > 0)
            .map_or(Times::NONE, |view| view.times);
        let rows = self.segments.close_active().unwrap_or_default();
        debug_assert!(self.segments.rows.len() == 0, "the table goes with its segment");
        debug_assert!(self.subjects.index.touched() == 0, "what has changed was taken");
        self.segments.unsealed += 1;
        self.check();
        let origin = SegmentOrigin::Written;
        let last_index = 0;
        Closed { active, rows, totals, touched, index_epoch, deleted, times, expiries, origin, last_index }
    }

    /// Forgets what the footer of the active segment would say: none will be written.
    pub(crate) fn forget_footer_changes(&mut self) {
        self.forget_touched_subjects();
        self.footer.clear();
    }

    /// Forgets which subjects have changed: what is restored stands in a footer or a base.
    pub(crate) fn forget_touched_subjects(&mut self) {
        let _ = self.subjects.index.take_touched();
    }

    /// The index whose numbers a table used that was closed at `epoch`.
    pub(crate) fn index_at(&self, epoch: u64) -> &SubjectIndex {
        self.subjects.at(epoch)
    }
}
