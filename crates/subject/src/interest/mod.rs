//! The interest index: which subscriptions receive a subject.
//!
//! One [`Interest`] per account, shared by all threads. Literal subjects live in a sharded hash
//! table (`literals`), patterns in small tries (`patterns`, `trie`). A change takes one short write
//! lock of one shard and never copies a node, however many children it has.
//!
//! Callers are expected to keep what [`Interest::collect`] found and to ask
//! [`Interest::is_current`] before using it again: that costs two atomic loads. Changes are counted
//! per first token, so that subscriptions coming and going under `_INBOX` do not disturb publishers
//! to `orders`.
//!
//! This room stores what it is given. It checks no permission, keeps no cache of results, chooses
//! no queue member, and expects patterns that are well formed
//! ([`is_well_formed`](crate::is_well_formed)).
//!
//! Why tries and no persistent one: patterns live in small mutable tries, sharded by their first
//! two tokens, each behind its own read-write lock. Results are cached per shard and checked by
//! epoch, so readers rarely lock, and a SUB copies no node however many children it has.

mod bucket;
mod epochs;
mod hashing;
mod literals;
mod matched;
mod member;
mod members;
mod patterns;
mod trie;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod twin;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

pub use epochs::EpochStamp;
pub use matched::{Matched, QueueGroup};
pub use member::{Member, Sought, Subscribed};

use crate::pattern::{has_empty_token, has_wildcard, is_well_formed};
use epochs::Epochs;
use hashing::{FirstToken, Hashing};
use literals::Literals;
use patterns::Patterns;

/// All subscriptions of one account, found by subject.
pub struct Interest<M> {
    literals: Literals<M>,
    patterns: Patterns<M>,
    epochs: Epochs,
    hashing: Hashing,
    /// Members in `literals` and `patterns`.
    len: AtomicUsize,
    /// Members that ever were.
    inserted: AtomicU64,
}

impl<M: Member> Interest<M> {
    /// An index without members, for many that come and go on many threads. It takes about 300
    /// bytes, and 8 KiB more with its first members.
    #[must_use]
    pub fn new() -> Self {
        Self::with_breadth(256, 64)
    }

    /// An index for few members that hardly ever change. It takes about three quarters of a KiB
    /// with them.
    #[must_use]
    pub fn narrow() -> Self {
        Self::with_breadth(16, 8)
    }

    fn with_breadth(epochs: usize, literals: usize) -> Self {
        Self {
            literals: Literals::new(literals),
            patterns: Patterns::new(),
            epochs: Epochs::new(epochs),
            hashing: Hashing::default(),
            len: AtomicUsize::new(0),
            inserted: AtomicU64::new(0),
        }
    }

    /// Adds `m` under its own subject, which must be well formed. When this returns, every
    /// [`collect`](Self::collect) that begins later finds it and older stamps are no longer
    /// current.
    ///
    /// A member that is added twice is delivered to twice and must be removed twice.
    pub fn insert(&self, m: M) {
        debug_assert!(is_well_formed(m.subject()), "the caller refuses invalid subjects");
        let change = self.epochs.change(&FirstToken::first(m.subject(), &self.hashing));
        if has_wildcard(m.subject()) {
            self.patterns.insert(m, &self.hashing);
        } else {
            self.literals.insert(m, &self.hashing);
        }
        self.len.fetch_add(1, Ordering::Relaxed);
        self.inserted.fetch_add(1, Ordering::Relaxed);
        change.publish();
    }

    /// Outdates every stamp that `m` has a part in, because something about `m` itself has changed.
    pub fn touch(&self, m: &M) {
        self.epochs.change(&FirstToken::first(m.subject(), &self.hashing)).publish();
    }

    /// Outdates every stamp that members with this pattern would have a part in: something outside
    /// of the index that concerns the same subjects has changed.
    pub fn touch_pattern(&self, pattern: &[u8]) {
        self.epochs.change(&FirstToken::first(pattern, &self.hashing)).publish();
    }

    /// Outdates every stamp: what is done with a subject does not follow from the index alone, and
    /// the rest has changed.
    pub fn invalidate_all(&self) {
        self.epochs.change_all().publish();
    }

    /// Takes out the member that is the [same](Member::same) as `m`; false when there is none.
    pub fn remove(&self, m: &M) -> bool {
        let change = self.epochs.change(&FirstToken::first(m.subject(), &self.hashing));
        let removed = if has_wildcard(m.subject()) {
            self.patterns.remove(m, &self.hashing)
        } else {
            self.literals.remove(m, &self.hashing)
        };
        if removed {
            self.len.fetch_sub(1, Ordering::Relaxed);
            change.publish();
        }
        removed
    }

    /// The member that is sought, if it is here.
    pub fn find(&self, sought: &impl Sought<M>) -> Option<M> {
        if has_wildcard(sought.subject()) {
            self.patterns.find(sought, &self.hashing)
        } else {
            self.literals.find(sought, &self.hashing)
        }
    }

    /// A full fence against concurrent changes of who receives `subject`. Either each later
    /// [`collect`](Self::collect) of the caller sees the change, or the thread that makes the
    /// change sees everything that the caller wrote before this call (a store-buffer pattern).
    pub fn synchronize(&self, subject: &[u8]) {
        self.epochs.synchronize(&FirstToken::first(subject, &self.hashing));
    }

    /// How many members there are. While others change the index, an estimate.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// How many members were ever inserted.
    #[must_use]
    pub fn inserted(&self) -> u64 {
        self.inserted.load(Ordering::Relaxed)
    }

    /// Whether there are no members. While others change the index, an estimate.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether any member subscribed to a pattern with a wildcard. One atomic load.
    #[must_use]
    pub fn has_wildcards(&self) -> bool {
        self.patterns.len() != 0
    }

    /// Fills `out` with everybody who receives `subject`, after clearing it. The subject is taken
    /// literally; one with an empty token is received by nobody. Order means nothing.
    ///
    /// The stamp tells [`is_current`](Self::is_current) later whether the result still holds.
    /// Nothing is allocated once `out` has held a result of this size.
    pub fn collect(&self, subject: &[u8], out: &mut Matched<M>) -> EpochStamp {
        out.clear();
        // Before the data: a change that this misses moves the epoch after it and outdates the
        // stamp.
        let first = FirstToken::first(subject, &self.hashing);
        let stamp = self.epochs.stamp(&first);
        self.literals.collect(subject, &self.hashing, out);
        if self.has_wildcards() && !has_empty_token(subject) {
            self.patterns.collect(subject, &first, &self.hashing, out);
        }
        stamp
    }

    /// Whether [`collect`](Self::collect) would still find what it found when it gave this stamp
    /// (of this same index). May say no without need, never yes in error. Two atomic loads.
    #[must_use]
    #[inline]
    pub fn is_current(&self, stamp: &EpochStamp) -> bool {
        self.epochs.is_current(stamp)
    }

    /// Calls `f` for every member, in no order: for monitoring. Members that come or go meanwhile
    /// may be missed or seen.
    ///
    /// One shard at a time is copied under its lock; `f` runs without any, so it may use the index.
    pub fn for_each(&self, mut f: impl FnMut(&M)) {
        let mut shard = Vec::new();
        let mut visit = |shard: &mut Vec<M>| shard.drain(..).for_each(|m| f(&m));
        self.literals.for_each_shard(&mut shard, &mut visit);
        self.patterns.for_each_shard(&mut shard, &mut visit);
    }
}

impl<M: Member> Default for Interest<M> {
    fn default() -> Self {
        Self::new()
    }
}
