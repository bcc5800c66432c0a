//! Counts changes of the index, so that a kept result can be checked without looking at the data.
//!
//! A subject can be affected by patterns that begin with its own first token and by patterns that
//! begin with a wildcard: one counter for a hash of each first token, and one for all of the
//! latter. A change touches the data first and its counter after; a reader reads the counters first
//! and the data after.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::hashing::{FirstToken, shard_of};

/// Says how old a result is. Only [`Interest::is_current`](super::Interest::is_current) can use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochStamp {
    shard: u8,
    /// The counter of the subject's first token.
    first: u64,
    /// The counter of patterns that begin with a wildcard.
    wild: u64,
}

impl EpochStamp {
    /// Stamp of a result that nobody keeps.
    pub(super) const NEVER: Self = Self { shard: 0, first: 0, wild: 0 };
}

pub(super) struct Epochs {
    /// How many counters there will be.
    breadth: usize,
    /// First tokens that share a counter outdate each other's results. Made for the first change:
    /// before it all are zero, and of ten thousand accounts most never see one.
    first: OnceLock<Box<[AtomicU64]>>,
    wild: AtomicU64,
}

impl Epochs {
    /// `breadth` is the number of counters that first tokens share, a power of two up to 256.
    pub(super) fn new(breadth: usize) -> Self {
        Self { breadth, first: OnceLock::new(), wild: AtomicU64::new(0) }
    }

    /// The counters that decide about subjects which begin with `first`, as they are now.
    pub(super) fn stamp(&self, first: &FirstToken<'_>) -> EpochStamp {
        let shard = shard_of(first.hash, self.breadth) as u8;
        EpochStamp { shard, first: self.count(shard), wild: self.wild.load(Ordering::Acquire) }
    }

    #[inline]
    fn count(&self, shard: u8) -> u64 {
        self.first.get().map_or(0, |counters| counters[usize::from(shard)].load(Ordering::Acquire))
    }

    /// The counter of patterns that begin with `first`.
    fn counter(&self, first: &FirstToken<'_>) -> &AtomicU64 {
        let counters = self.first.get_or_init(|| (0..self.breadth).map(|_| AtomicU64::new(0)).collect());
        &counters[shard_of(first.hash, self.breadth)]
    }

    #[inline]
    pub(super) fn is_current(&self, stamp: &EpochStamp) -> bool {
        self.count(stamp.shard) == stamp.first && self.wild.load(Ordering::Acquire) == stamp.wild
    }

    /// Falls between any two changes that can affect subjects which begin with `first`: those
    /// before it are seen by whoever comes after it, and those after it see what was written before
    /// it.
    pub(super) fn synchronize(&self, first: &FirstToken<'_>) {
        for counter in [self.counter(first), &self.wild] {
            // Takes its place in the order of changes of the counter and outdates nothing.
            counter.fetch_add(0, Ordering::AcqRel);
        }
    }

    /// Announces a change of patterns that begin with `first`; it counts once it is published.
    pub(super) fn change(&self, first: &FirstToken<'_>) -> EpochChange<'_> {
        EpochChange(match first.text {
            b"*" | b">" => &self.wild,
            _ => self.counter(first),
        })
    }

    /// A change that affects all subjects.
    pub(super) fn change_all(&self) -> EpochChange<'_> {
        EpochChange(&self.wild)
    }
}

/// A change that is being made. Dropped without effect if it turned out to be none.
pub(super) struct EpochChange<'a>(&'a AtomicU64);

impl EpochChange<'_> {
    /// To be called after the data has changed.
    pub(super) fn publish(self) {
        // Acquire is for those who meet changes.
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}
