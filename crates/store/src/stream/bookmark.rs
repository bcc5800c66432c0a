//! The segment that a reader goes on with later, if it is still there then.
//!
//! Whoever rests holds nothing: a segment that is held keeps its file open, and a removed file that
//! is open keeps its space on the disk.

use std::sync::{Arc, Weak};

use super::segment_view::Segment;

/// Weak reference to the segment that a reader goes on with later.
#[derive(Debug, Default)]
pub(super) struct Bookmark {
    segment: Weak<Segment>,
    is_set: bool,
}

impl Bookmark {
    /// Lets go of `segment`.
    pub(super) fn set(&mut self, segment: Arc<Segment>) {
        // Perf: mostly it is the one of the last time. Cursors of many shards count on the same
        // segment.
        if self.segment.as_ptr() != Arc::as_ptr(&segment) {
            self.segment = Arc::downgrade(&segment);
        }
        self.is_set = true;
    }

    /// The segment, unless it was removed or replaced. There is no bookmark then.
    pub(super) fn take(&mut self) -> Option<Arc<Segment>> {
        if std::mem::take(&mut self.is_set) { self.segment.upgrade() } else { None }
    }

    pub(super) fn clear(&mut self) {
        self.is_set = false;
    }
}
