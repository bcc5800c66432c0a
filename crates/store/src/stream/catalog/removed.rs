//! Which sequences have no message any more, and what those are told who read along.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Seq;
use crate::index::Deleted;

/// Messages removed otherwise than from the front that are remembered by their sequences.
const REMEMBERED: usize = 512;

/// Sequences without a message.
#[derive(Debug, Default)]
pub(super) struct RemovedMessages {
    /// Sequences behind the first message that have none.
    pub(super) deleted: Deleted,
    /// Counts changes of `deleted` and of the first sequence.
    pub(super) removals: Arc<AtomicU64>,
    /// Counts messages that were removed otherwise than from the front.
    pub(super) interior: u64,
    /// The last of them, the newest at the end, for those who keep lists of messages.
    pub(super) recent: VecDeque<Seq>,
    /// Counts how often a segment came to show less at its end than its file holds.
    pub(super) truncations: Arc<AtomicU64>,
}

impl RemovedMessages {
    /// Enters sequences that have no message.
    pub(super) fn insert(&mut self, range: &RangeInclusive<Seq>) {
        self.removals.fetch_add(1, Ordering::Release);
        if range.start() == range.end() {
            self.deleted.insert(*range.start());
        } else {
            self.deleted.insert_range(range.clone());
        }
        debug_assert!(
            self.deleted.contains(*range.start()) && self.deleted.contains(*range.end()),
            "what was entered is in"
        );
    }

    /// Counts a message that was removed behind the first one.
    pub(super) fn note_interior(&mut self, seq: Seq) {
        debug_assert!(!self.deleted.contains(seq), "a message is removed once");
        self.interior += 1;
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(seq);
        debug_assert!(self.recent.len() <= REMEMBERED, "few removals are remembered");
    }

    /// Counts messages that were removed behind the first one, and of which nobody is told the
    /// sequences.
    pub(super) fn note_untold(&mut self, messages: u64) {
        self.removals.fetch_add(1, Ordering::Release);
        self.interior += messages;
        self.recent.clear();
    }

    /// Forgets what lies below the first sequence, which has moved.
    pub(super) fn first_moved(&mut self, first: Seq) {
        self.removals.fetch_add(1, Ordering::Release);
        if !self.deleted.is_empty() {
            self.deleted.remove_below(first);
        }
        debug_assert!(!self.deleted.contains(first - 1), "nothing before the first message is kept");
    }

    /// Forgets all: there are no messages.
    pub(super) fn clear(&mut self) {
        self.deleted = Deleted::new();
        self.removals.fetch_add(1, Ordering::Release);
    }
}
