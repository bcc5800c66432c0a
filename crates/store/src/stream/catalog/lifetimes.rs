//! Lifetimes of single messages, and which messages the limit of age does not concern.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::index::ExpiryIndex;
use crate::{Seq, Timestamp};

/// Lifetimes of messages that are gone may be so many, and as many as there are messages twice.
const EXPIRY_SLACK: u64 = 1024;

/// Lifetimes that differ from the stream's limit of age.
#[derive(Debug, Default)]
pub(super) struct Lifetimes {
    /// Messages with a lifetime of their own; may name messages that are gone.
    pub(super) expiry: ExpiryIndex,
    /// Where a pass that drops those from it goes on.
    pub(super) pruning: Option<(Timestamp, Seq)>,
    /// Messages that no limit of age concerns.
    pub(super) never_expire: BTreeSet<Seq>,
    /// Every message from the first one up to here is in `never_expire`, so that a scan for one
    /// that is not can start here.
    pub(super) never_expire_until: AtomicU64,
}

impl Lifetimes {
    /// Remembers that a message has a lifetime of its own.
    pub(super) fn note(&mut self, seq: Seq, at: Timestamp) {
        let is_new = self.restore(seq, at);
        debug_assert!(is_new, "a message has one lifetime, and a sequence that is given out again none");
    }

    /// Remembers the lifetime of a message that may be known already: a search through stored
    /// messages meets those that have one, too. Answers whether it was not.
    pub(super) fn restore(&mut self, seq: Seq, at: Timestamp) -> bool {
        if at == Timestamp::MAX { self.never_expire.insert(seq) } else { self.expiry.insert(seq, at) }
    }

    /// Whether a pass is due, or under way, that drops lifetimes of messages that are gone from a
    /// stream of `messages`.
    pub(super) fn is_pruning(&self, messages: u64) -> bool {
        self.pruning.is_some() || self.expiry.len() as u64 > 2 * messages + EXPIRY_SLACK
    }

    /// Forgets a message that was removed.
    pub(super) fn forget(&mut self, seq: Seq) {
        if !self.never_expire.is_empty() {
            self.never_expire.remove(&seq);
        }
    }

    /// Forgets messages before `first`.
    pub(super) fn forget_below(&mut self, first: Seq) {
        if !self.never_expire.is_empty() {
            self.never_expire = self.never_expire.split_off(&first);
        }
        debug_assert!(
            self.never_expire.first().is_none_or(|seq| *seq >= first),
            "nothing is kept of messages that are gone"
        );
    }

    /// Forgets messages behind `last`, whose sequences are given out again: they must not inherit
    /// lifetimes.
    pub(super) fn forget_above(&mut self, last: Seq) {
        self.never_expire.split_off(&(last + 1));
        self.never_expire_until.fetch_min(last + 1, Ordering::Relaxed);
        if self.expiry.is_empty() {
            return;
        }
        let mut all = Vec::new();
        while self.expiry.take_due(Timestamp::MAX, usize::MAX, &mut all) {}
        debug_assert!(self.expiry.is_empty(), "all were taken");
        self.expiry = ExpiryIndex::new();
        for (at, seq) in all {
            if seq <= last {
                self.expiry.insert(seq, at);
            }
        }
    }

    /// Forgets all: there are no messages.
    pub(super) fn clear(&mut self) {
        self.expiry = ExpiryIndex::new();
        self.never_expire.clear();
    }
}
