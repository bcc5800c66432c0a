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

use std::sync::atomic::{AtomicU64, Ordering};

pub use epochs::EpochStamp;
pub use matched::{Matched, QueueGroup};
pub use member::{Member, Sought, Subscribed};

use crate::pattern::{has_empty_token, has_wildcard, is_well_formed};
use epochs::{EpochChange, Epochs};
use hashing::{FirstToken, Hashing};
use literals::Literals;
use patterns::Patterns;

/// All subscriptions of one account, found by subject.
pub struct Interest<M> {
    literals: Literals<M>,
    patterns: Patterns<M>,
    /// None where nobody keeps what was collected.
    epochs: Option<Epochs>,
    hashing: Hashing,
    /// Members that ever were.
    inserted: AtomicU64,
    /// Members that are no more.
    removed: AtomicU64,
}

impl<M: Member> Interest<M> {
    /// An index without members, for many that come and go on many threads. It takes about 300
    /// bytes, and 8 KiB more with its first members.
    #[must_use]
    pub fn new() -> Self {
        Self::with_breadth(Some(Epochs::new(256)), 64)
    }

    /// An index for few members that hardly ever change. It takes about three quarters of a KiB
    /// with them.
    #[must_use]
    pub fn narrow() -> Self {
        Self::with_breadth(Some(Epochs::new(16)), 8)
    }

    /// An index as [`Interest::new`] makes it, of which nobody keeps what was collected: its stamps
    /// are never current, and changes are not counted.
    #[must_use]
    pub fn without_stamps() -> Self {
        Self::with_breadth(None, 64)
    }

    fn with_breadth(epochs: Option<Epochs>, literals: usize) -> Self {
        Self {
            literals: Literals::new(literals),
            patterns: Patterns::new(),
            epochs,
            hashing: Hashing::default(),
            inserted: AtomicU64::new(0),
            removed: AtomicU64::new(0),
        }
    }

    /// Adds `m` under its own subject, which must be well formed. When this returns, every
    /// [`collect`](Self::collect) that begins later finds it and older stamps are no longer
    /// current.
    ///
    /// A member that is added twice is delivered to twice and must be removed twice.
    pub fn insert(&self, m: M) {
        debug_assert!(is_well_formed(m.subject()), "the caller refuses invalid subjects");
        let change = self.change(m.subject());
        if has_wildcard(m.subject()) {
            self.patterns.insert(m, &self.hashing);
        } else {
            self.literals.insert(m, &self.hashing);
        }
        self.inserted.fetch_add(1, Ordering::Relaxed);
        publish(change);
    }

    /// The member that is sought; where there is none, what `make` makes of that description is
    /// [inserted](Self::insert), and `None` is the answer. `make` must not use the index.
    pub fn find_or_insert(&self, sought: &impl Sought<M>, make: impl FnOnce() -> M) -> Option<M> {
        debug_assert!(is_well_formed(sought.subject()), "the caller refuses invalid subjects");
        let change = self.change(sought.subject());
        let found = if has_wildcard(sought.subject()) {
            self.patterns.find_or_insert(sought, make, &self.hashing)
        } else {
            self.literals.find_or_insert(sought, make, &self.hashing)
        };
        if found.is_none() {
            self.inserted.fetch_add(1, Ordering::Relaxed);
            publish(change);
        }
        found
    }

    /// Outdates every stamp that `m` has a part in, because something about `m` itself has changed.
    pub fn touch(&self, m: &M) {
        self.touch_pattern(m.subject());
    }

    /// Outdates every stamp that members with this pattern would have a part in: something outside
    /// of the index that concerns the same subjects has changed.
    pub fn touch_pattern(&self, pattern: &[u8]) {
        publish(self.change(pattern));
    }

    /// Outdates every stamp: what is done with a subject does not follow from the index alone, and
    /// the rest has changed.
    pub fn invalidate_all(&self) {
        publish(self.epochs.as_ref().map(Epochs::change_all));
    }

    /// Takes out the member that is the [same](Member::same) as `m`; false when there is none.
    pub fn remove(&self, m: &M) -> bool {
        let change = self.change(m.subject());
        let removed = if has_wildcard(m.subject()) {
            self.patterns.remove(m, &self.hashing)
        } else {
            self.literals.remove(m, &self.hashing)
        };
        if removed {
            self.removed.fetch_add(1, Ordering::Relaxed);
            publish(change);
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
        if let Some(epochs) = &self.epochs {
            epochs.synchronize(&FirstToken::first(subject, &self.hashing));
        }
    }

    /// How many members there are. While others change the index, an estimate.
    #[must_use]
    pub fn len(&self) -> usize {
        let removed = self.removed.load(Ordering::Relaxed);
        usize::try_from(self.inserted().saturating_sub(removed)).unwrap_or(usize::MAX)
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
        let stamp = self.epochs.as_ref().map_or(EpochStamp::NEVER, |epochs| epochs.stamp(&first));
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
        self.epochs.as_ref().is_some_and(|epochs| epochs.is_current(stamp))
    }

    /// A change of what `pattern` matches, if such are counted.
    fn change(&self, pattern: &[u8]) -> Option<EpochChange<'_>> {
        let epochs = self.epochs.as_ref()?;
        Some(epochs.change(&FirstToken::first(pattern, &self.hashing)))
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

/// Makes a change count, which is over.
fn publish(change: Option<EpochChange<'_>>) {
    change.into_iter().for_each(EpochChange::publish);
}

impl<M: Member> Default for Interest<M> {
    fn default() -> Self {
        Self::new()
    }
}
