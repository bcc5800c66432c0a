//! When messages with lifetimes of their own end.
//!
//! Pairs of deadline and sequence, sorted, in buckets of a few hundred that split when they are
//! full: a tree of two levels, so that no call moves more than one bucket, however many pairs there
//! are. It never looks at a clock.

use std::collections::BTreeMap;

use crate::{Seq, Timestamp};

/// Pairs of a full bucket.
const BUCKET: usize = 256;

/// A message's end.
type Pair = (Timestamp, Seq);

/// Messages that expire, by deadline.
#[derive(Clone, Debug, Default)]
pub struct ExpiryIndex {
    /// Sorted pairs by a lower bound of theirs. No bucket is empty.
    buckets: BTreeMap<Pair, Vec<Pair>>,
    len: usize,
}

impl ExpiryIndex {
    /// Nothing expires.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Messages that expire.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing expires.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a message that ends at `at`. False if it was in already.
    pub fn insert(&mut self, seq: Seq, at: Timestamp) -> bool {
        let pair = (at, seq);
        let Some(bound) = self.bound_for(pair).or_else(|| self.lower_first(pair)) else {
            self.buckets.insert(pair, vec![pair]);
            self.len += 1;
            return true;
        };
        let is_last = self.buckets.last_key_value().is_some_and(|(&last, _)| last == bound);
        let bucket = self.buckets.get_mut(&bound).expect("the bound was just found");
        let Err(place) = bucket.binary_search(&pair) else { return false };
        self.len += 1;
        if bucket.len() < BUCKET {
            bucket.insert(place, pair);
            debug_assert!(bound <= bucket[0], "a bucket begins at its bound");
        } else if is_last && place == BUCKET {
            // Deadlines mostly grow: full buckets stay full.
            self.buckets.insert(pair, vec![pair]);
        } else {
            let mut upper = bucket.split_off(BUCKET / 2);
            match place.checked_sub(BUCKET / 2) {
                Some(place) if place > 0 => upper.insert(place, pair),
                _ => bucket.insert(place, pair),
            }
            debug_assert!(bucket.last() < upper.first(), "buckets ascend");
            debug_assert!(bucket.len() <= BUCKET && upper.len() <= BUCKET, "a full bucket is split");
            self.buckets.insert(upper[0], upper);
        }
        true
    }

    /// Takes a message out that would have ended at `at`. False if it was not in.
    pub fn remove(&mut self, seq: Seq, at: Timestamp) -> bool {
        let pair = (at, seq);
        let Some(bound) = self.bound_for(pair) else { return false };
        let bucket = self.buckets.get_mut(&bound).expect("the bound was just found");
        let Ok(place) = bucket.binary_search(&pair) else { return false };
        bucket.remove(place);
        debug_assert!(self.len > 0, "what is taken was counted");
        self.len -= 1;
        if bucket.is_empty() {
            self.buckets.remove(&bound);
        }
        true
    }

    /// The earliest deadline.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let (_, bucket) = self.buckets.first_key_value()?;
        bucket.first().map(|&(at, _)| at)
    }

    /// Moves up to `limit` messages whose deadline is not behind `now` to the end of `due`, by
    /// deadline, then sequence. True if there are more.
    pub fn take_due(&mut self, now: Timestamp, limit: usize, due: &mut Vec<(Timestamp, Seq)>) -> bool {
        let mut left = limit;
        while left > 0 {
            let Some(mut entry) = self.buckets.first_entry() else { return false };
            let bucket = entry.get_mut();
            let ended = bucket.partition_point(|&(at, _)| at <= now);
            let taken = ended.min(left);
            due.extend(bucket.drain(..taken));
            debug_assert!(taken <= self.len, "what is taken was counted");
            self.len -= taken;
            left -= taken;
            if bucket.is_empty() {
                entry.remove();
            } else if taken == ended {
                return false;
            }
        }
        self.next_deadline().is_some_and(|at| at <= now)
    }

    /// Drops messages that are not to be kept, from the pair `from` on; about `limit` are looked
    /// at. Answers where to go on, if there are more.
    pub fn retain_some(
        &mut self,
        from: (Timestamp, Seq),
        limit: usize,
        mut keep: impl FnMut(Seq) -> bool,
    ) -> Option<(Timestamp, Seq)> {
        let mut next = Some(self.bound_for(from).unwrap_or(from));
        let mut seen = 0;
        while let Some(bound) = next {
            let (&bound, bucket) = self.buckets.range_mut(bound..).next()?;
            if seen >= limit {
                return Some(bound);
            }
            let before = bucket.len();
            seen += before;
            bucket.retain(|&(_, seq)| keep(seq));
            self.len -= before - bucket.len();
            if bucket.is_empty() {
                self.buckets.remove(&bound);
            }
            next = bound.1.checked_add(1).map(|seq| (bound.0, seq));
        }
        None
    }

    /// About how much memory this takes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let pairs: usize = self.buckets.values().map(Vec::capacity).sum();
        let entries = self.buckets.len() * 2 * (size_of::<Pair>() + size_of::<Vec<Pair>>());
        size_of::<Self>() + pairs * size_of::<Pair>() + entries
    }

    /// The bound of the bucket where a pair is or belongs; none for a pair before all of them.
    fn bound_for(&self, pair: Pair) -> Option<Pair> {
        self.buckets.range(..=pair).next_back().map(|(&bound, _)| bound)
    }

    /// Makes a pair that is before all buckets the bound of the first one.
    fn lower_first(&mut self, pair: Pair) -> Option<Pair> {
        let (_, bucket) = self.buckets.pop_first()?;
        self.buckets.insert(pair, bucket);
        Some(pair)
    }
}

#[cfg(test)]
mod tests;
