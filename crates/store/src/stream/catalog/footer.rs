//! Removals and lifetimes for the footer of the active segment.

use std::ops::RangeInclusive;

use crate::{Seq, Timestamp};

/// Changes since the active segment became active, which its footer will state.
#[derive(Debug, Default)]
pub(super) struct FooterChanges {
    /// Removed sequences, in no order.
    pub(super) deleted: Vec<RangeInclusive<Seq>>,
    /// Lifetimes of its messages.
    pub(super) expiries: Vec<(Seq, Timestamp)>,
}

impl FooterChanges {
    /// Enters removed sequences.
    pub(super) fn note_removed(&mut self, range: RangeInclusive<Seq>) {
        debug_assert!(!range.is_empty(), "what is removed has a sequence");
        match self.deleted.last_mut() {
            Some(last) if *last.end() + 1 == *range.start() => *last = *last.start()..=*range.end(),
            _ => self.deleted.push(range),
        }
    }

    /// Forgets sequences behind `last`, which are given out again: the footer must not call them
    /// removed.
    pub(super) fn truncate(&mut self, last: Seq) {
        self.deleted.retain_mut(|range| {
            *range = *range.start()..=(*range.end()).min(last);
            !range.is_empty()
        });
        self.expiries.retain(|&(seq, _)| seq <= last);
        debug_assert!(
            self.deleted.iter().all(|range| *range.end() <= last),
            "a sequence that is given out again is not called removed"
        );
    }

    /// Forgets all: no footer will tell.
    pub(super) fn clear(&mut self) {
        self.deleted.clear();
        self.expiries.clear();
    }
}
