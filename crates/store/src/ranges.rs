//! Sorted sets of sequences, written as ranges.
//!
//! Owns their encoding, which stands in `Delete` entries, footers and manifests. A set is always
//! sorted, and its ranges neither overlap nor touch: one set has one encoding.

use std::ops::RangeInclusive;

use myelin_stdx::varint;

use crate::Seq;

/// A sorted set of sequences, kept as ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    /// First and last of each range.
    list: Vec<(Seq, Seq)>,
}

impl Ranges {
    /// The empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self { list: Vec::new() }
    }

    /// Adds a range behind all others; one that touches the last is joined to it.
    ///
    /// # Panics
    /// If the range is empty, or does not begin behind the last sequence of the set.
    pub fn push(&mut self, range: RangeInclusive<Seq>) {
        let (first, last) = range.into_inner();
        assert!(first <= last, "an empty range of sequences");
        match self.list.last_mut() {
            Some(previous) if previous.1 >= first => panic!("ranges of sequences out of order"),
            Some(previous) if previous.1 + 1 == first => previous.1 = last,
            _ => self.list.push((first, last)),
        }
        debug_assert!(
            self.list.len() < 2 || self.list[self.list.len() - 2].1 + 1 < self.list[self.list.len() - 1].0,
            "ranges neither overlap nor touch"
        );
    }

    /// Empties the set and keeps its memory.
    pub fn clear(&mut self) {
        self.list.clear();
    }

    /// The set of `sequences`, which may come in any order and more than once.
    #[must_use]
    pub fn from_unsorted(mut sequences: Vec<Seq>) -> Self {
        sequences.sort_unstable();
        sequences.dedup();
        let mut ranges = Self::new();
        sequences.into_iter().for_each(|seq| ranges.push(seq..=seq));
        ranges
    }

    /// The set of what is in any of `ranges`, which may come in any order and overlap. Empty ones
    /// count for nothing.
    #[must_use]
    pub fn from_ranges(ranges: impl IntoIterator<Item = RangeInclusive<Seq>>) -> Self {
        let list =
            ranges.into_iter().filter(|range| !range.is_empty()).map(RangeInclusive::into_inner).collect();
        Self::join(list)
    }

    /// The ranges in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = RangeInclusive<Seq>> + '_ {
        self.list.iter().map(|(first, last)| *first..=*last)
    }

    /// How many ranges.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many sequences.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.list.iter().fold(0, |sum, (first, last)| sum.saturating_add((last - first).saturating_add(1)))
    }

    /// Whether `seq` is in the set.
    #[must_use]
    pub fn contains(&self, seq: Seq) -> bool {
        let behind = self.list.partition_point(|(first, _)| *first <= seq);
        behind > 0 && seq <= self.list[behind - 1].1
    }

    /// The set of what is in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self::join(self.list.iter().chain(&other.list).copied().collect())
    }

    /// The set of what is both in the set and in `range`.
    #[must_use]
    pub fn within(&self, range: RangeInclusive<Seq>) -> Self {
        let (first, last) = range.into_inner();
        if first > last {
            return Self::new();
        }
        let from = self.list.partition_point(|range| range.1 < first);
        let inside = self.list[from..].iter().take_while(|range| range.0 <= last);
        Self { list: inside.map(|range| (range.0.max(first), range.1.min(last))).collect() }
    }

    /// Whether all of `range` is in the set.
    #[must_use]
    pub fn covers(&self, range: &RangeInclusive<Seq>) -> bool {
        self.within(range.clone()).iter().eq([range.clone()])
    }

    fn join(mut list: Vec<(Seq, Seq)>) -> Self {
        list.sort_unstable();
        let mut joined: Vec<(Seq, Seq)> = Vec::with_capacity(list.len());
        for (first, last) in list {
            match joined.last_mut() {
                Some(previous) if first <= previous.1.saturating_add(1) => previous.1 = previous.1.max(last),
                _ => joined.push((first, last)),
            }
        }
        debug_assert!(
            joined.windows(2).all(|pair| pair[0].1.saturating_add(1) < pair[1].0),
            "ranges neither overlap nor touch"
        );
        Self { list: joined }
    }

    /// Appends the number of ranges, the first sequence, and then by turns the sequences in a range
    /// less one and the distance from its last to the next range's first; all varints.
    pub fn encode(&self, out: &mut Vec<u8>) {
        varint::put(self.list.len() as u64, out);
        let mut before = 0;
        for (first, last) in &self.list {
            varint::put(first - before, out);
            varint::put(last - first, out);
            before = *last;
        }
    }

    /// The most that [`Ranges::encode`] appends.
    #[must_use]
    pub fn max_encoded_len(&self) -> usize {
        (1 + 2 * self.list.len()) * varint::LONGEST
    }

    /// Takes a set off the front of `input`. `None` if it is cut or not a set; memory stays below 8
    /// bytes per byte read.
    pub fn decode(input: &mut &[u8]) -> Option<Self> {
        let count = usize::try_from(varint::take(input)?).ok()?;
        if count > input.len() / 2 {
            return None;
        }
        let mut list: Vec<(Seq, Seq)> = Vec::with_capacity(count);
        for index in 0..count {
            let gap = varint::take(input)?;
            if index > 0 && gap < 2 {
                return None;
            }
            let before = list.last().map_or(0, |range| range.1);
            let first = before.checked_add(gap)?;
            list.push((first, first.checked_add(varint::take(input)?)?));
        }
        Some(Self { list })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    use super::*;

    fn set(members: &BTreeSet<u64>) -> Ranges {
        Ranges::from_unsorted(members.iter().rev().copied().collect())
    }

    fn members(ranges: &Ranges) -> BTreeSet<u64> {
        ranges.iter().flatten().collect()
    }

    proptest! {
        #[test]
        fn a_set_is_what_a_tree_says(
            a in prop::collection::btree_set(0u64..200, 0..100),
            b in prop::collection::btree_set(0u64..200, 0..100),
        ) {
            let (one, two) = (set(&a), set(&b));
            prop_assert_eq!(members(&one), a.clone());
            prop_assert_eq!(one.count(), a.len() as u64);
            prop_assert!((0..201).all(|seq| one.contains(seq) == a.contains(&seq)));
            prop_assert_eq!(members(&one.union(&two)), &a | &b);
            let joined = Ranges::from_ranges(two.iter().chain(one.iter()).chain(two.iter()));
            prop_assert_eq!(joined, one.union(&two));
            let reversed = RangeInclusive::new(7, 6);
            for range in two.iter().chain([0..=u64::MAX, reversed]) {
                let inside: BTreeSet<u64> = a.iter().copied().filter(|seq| range.contains(seq)).collect();
                prop_assert_eq!(members(&one.within(range)), inside);
            }
            let mut bytes = Vec::new();
            one.encode(&mut bytes);
            prop_assert!(bytes.len() <= one.max_encoded_len());
            let mut input = &bytes[..];
            prop_assert_eq!(Ranges::decode(&mut input), Some(one));
            prop_assert!(input.is_empty());
        }

        #[test]
        fn any_bytes_are_a_set_or_none(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Some(ranges) = Ranges::decode(&mut &bytes[..]) {
                let list: Vec<_> = ranges.iter().collect();
                prop_assert!(list.windows(2).all(|pair| *pair[0].end() + 1 < *pair[1].start()));
            }
        }
    }

    #[test]
    fn ends_of_the_numbers() {
        let mut ranges = Ranges::new();
        ranges.push(0..=0);
        ranges.push(2..=u64::MAX);
        let mut bytes = Vec::new();
        ranges.encode(&mut bytes);
        assert_eq!(Ranges::decode(&mut &bytes[..]), Some(ranges.clone()));
        assert_eq!(ranges.count(), u64::MAX);
        assert_eq!(ranges.union(&Ranges::from_unsorted(vec![1])).len(), 1);
        assert_eq!(Ranges::decode(&mut &[0xff, 0xff, 0xff, 0xff, 0x0f, 1, 1][..]), None);
    }
}
