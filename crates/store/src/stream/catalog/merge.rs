//! Segments that jobs may seal, merge and remove, and what they put in their place.

use std::sync::Arc;

use crate::SegmentNo;

use super::super::jobs::MISSING_MOST;
use super::super::segment_view::{Form, Segment};
use super::super::table::Rows;
use super::Catalog;

impl Catalog {
    /// All sealed segments, visible or not.
    pub(in crate::stream) fn all_sealed(&self) -> impl Iterator<Item = &Arc<Segment>> {
        let visible = self.segments.views.iter().map(|view| &view.segment);
        visible.chain(&self.segments.retired).filter(|segment| segment.is_sealed())
    }

    /// Segments that a merge behind `covers` takes, in order: all that are sealed, up to the first
    /// one that is not. A segment that is missing or cannot be read does not end them, unless too
    /// many are in a row: the footers behind it say what the stream was like after it, and the
    /// manifest lists it as lost.
    pub(in crate::stream) fn mergeable(&self, covers: SegmentNo) -> Vec<Arc<Segment>> {
        let all = self.segments.views.iter().map(|view| &view.segment).chain(&self.segments.retired);
        let mut all: Vec<_> = all.cloned().collect();
        all.sort_unstable_by_key(|segment| segment.no);
        all.dedup_by_key(|segment| segment.no);
        let mut before = covers;
        let is_next = |segment: &&Arc<Segment>| {
            if segment.no <= covers {
                return segment.is_sealed();
            }
            let missing = segment.no.0 - before.0 - 1;
            before = segment.no;
            segment.is_sealed() && missing <= MISSING_MOST
        };
        let taken = all.iter().take_while(is_next).count();
        all.truncate(taken);
        all
    }

    /// Whether a merge can come up to the active segment.
    pub(in crate::stream) fn is_sealed_behind(&self, covers: SegmentNo) -> bool {
        let Some(active) = self.segments.views.last().map(|view| view.segment.no) else { return false };
        let last = self.mergeable(covers).last().map_or(covers, |segment| segment.no);
        let all = self.segments.views.iter().map(|view| &view.segment).chain(&self.segments.retired);
        all.into_iter().all(|segment| segment.no <= last || segment.no == active)
    }

    /// Puts a sealed segment in the place of what it was before, and answers that.
    pub(in crate::stream) fn replace(&mut self, segment: Arc<Segment>) -> Option<Arc<Segment>> {
        if let Some(view) = self.segments.views.iter_mut().find(|view| view.segment.no == segment.no) {
            let before = std::mem::replace(&mut view.segment, segment);
            debug_assert!(view.segment.is_sealed(), "only a sealed segment takes the place of another");
            debug_assert!(!matches!(view.form, Form::Active), "the segment that grows is not sealed");
            view.form = Form::Sealed;
            view.removed = 0;
            self.forget_head_table();
            return Some(before);
        }
        let retired = self.segments.retired.iter_mut().find(|retired| retired.no == segment.no)?;
        Some(std::mem::replace(retired, segment))
    }

    /// Takes out segments that no manifest lists, by sorted numbers.
    pub(in crate::stream) fn forget(&mut self, numbers: &[SegmentNo]) -> Vec<Arc<Segment>> {
        let is_gone = |segment: &Arc<Segment>| numbers.binary_search(&segment.no).is_ok();
        let segments =
            self.segments.views.extract_if(.., |view| is_gone(&view.segment)).map(|view| view.segment);
        debug_assert!(numbers.is_sorted(), "numbers are searched");
        let mut gone: Vec<_> = segments.collect();
        gone.extend(self.segments.retired.extract_if(.., |segment| is_gone(segment)));
        gone
    }

    /// Puts a copy of a segment in memory, without what was removed of it, in its place.
    pub(in crate::stream) fn replace_sparse(&mut self, at: usize, segment: Segment, rows: Rows) {
        let view = &mut self.segments.views[at];
        debug_assert!(view.segment.no == segment.no, "a copy takes its own segment's place");
        view.segment = Arc::new(segment);
        view.form = Form::Closed(Arc::new(rows));
        view.removed = 0;
        self.forget_head_table();
    }
}
