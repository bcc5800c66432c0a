//! Read access to a catalog, for everybody.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::index::{Deleted, SubjectIndex};
use crate::segment::Totals;
use crate::{Seq, Timestamp};

use super::super::segment_view::{Segment, SegmentView};
use super::super::table_cache::TableCache;
use super::Catalog;

impl Catalog {
    /// Counts and ends of the stream.
    #[inline]
    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    /// Subjects, with their counts and ends.
    #[inline]
    pub(crate) fn index(&self) -> &SubjectIndex {
        &self.subjects.index
    }

    /// Sequences behind the first message that have none.
    #[inline]
    pub(crate) fn deleted(&self) -> &Deleted {
        &self.removed.deleted
    }

    /// Visible segments, oldest first. The last is the active one.
    #[inline]
    pub(crate) fn segments(&self) -> &[SegmentView] {
        &self.segments.views
    }

    /// Segments without visible messages, whose files maintenance may remove once a manifest says
    /// so.
    pub(crate) fn retired(&self) -> &[Arc<Segment>] {
        &self.segments.retired
    }

    /// The counters of removals and of truncations, which readers watch without the catalog's lock.
    pub(crate) fn change_counters(&self) -> (Arc<AtomicU64>, Arc<AtomicU64>) {
        (Arc::clone(&self.removed.removals), Arc::clone(&self.removed.truncations))
    }

    /// How many messages were removed otherwise than from the front.
    pub(crate) fn interior(&self) -> u64 {
        self.removed.interior
    }

    /// The messages that were removed otherwise than from the front since [`Catalog::interior`] was
    /// `seen`. `None` if not all of them are remembered.
    pub(crate) fn gaps_since(&self, seen: u64) -> Option<Vec<Seq>> {
        let count = usize::try_from(self.removed.interior.checked_sub(seen)?).ok()?;
        let from = self.removed.recent.len().checked_sub(count)?;
        Some(self.removed.recent.range(from..).copied().collect())
    }

    /// Whether no limit of age concerns a message.
    pub(crate) fn never_expires(&self, seq: Seq) -> bool {
        self.lifetimes.never_expire.contains(&seq)
    }

    /// When the first message ends that has a lifetime of its own; never too late.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.lifetimes.expiry.next_deadline()
    }

    /// The first sequence at or behind `from` that a limit of age may concern: behind the last one
    /// if there is none.
    pub(crate) fn next_aging(&self, from: Seq) -> Seq {
        // Messages that never end gather at a stream's beginning: nobody walks through them twice.
        let known = self.lifetimes.never_expire_until.load(Ordering::Relaxed).max(self.totals.first_seq);
        let mut seq = from.max(self.totals.first_seq);
        let is_gapless = seq <= known;
        seq = if is_gapless { known } else { seq };
        while seq <= self.totals.last_seq {
            seq = self.removed.deleted.next_live(seq);
            if !self.lifetimes.never_expire.contains(&seq) {
                break;
            }
            seq += 1;
        }
        if is_gapless {
            let behind = self.totals.last_seq + 1;
            self.lifetimes.never_expire_until.store(seq.min(behind), Ordering::Relaxed);
        }
        seq
    }

    /// Where tables of sealed segments are kept.
    pub(in crate::stream) fn slots(&self) -> &Arc<TableCache> {
        &self.segments.slots
    }

    /// Memory of lists of removed messages and of lifetimes.
    pub(crate) fn bookkeeping_bytes(&self) -> usize {
        self.removed.deleted.memory_bytes() + self.lifetimes.expiry.memory_bytes()
    }

    /// How many lifetimes are listed, and up to where all messages are known to have none.
    #[cfg(test)]
    pub(crate) fn lifetimes(&self) -> (usize, Seq) {
        (self.lifetimes.expiry.len(), self.lifetimes.never_expire_until.load(Ordering::Relaxed))
    }
}
