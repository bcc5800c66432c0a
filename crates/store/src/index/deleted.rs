//! The sequences between a stream's first and last message that are no messages any more.
//!
//! Single sequences and short ranges are bits of a roaring map. Long ranges (a purge in the middle,
//! a jump of the sequence) are kept as their two ends: whoever names a range must not make us spend
//! memory on all of it. No sequence is in both. It does not know where the stream begins and ends:
//! the owner drops what is outside.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::{Bound, RangeInclusive};

use roaring::{RoaringBitmap, RoaringTreemap, bitmap, treemap};

use crate::Seq;

/// Sequences from which on a range is kept by its ends.
const LONG: u64 = 1 << 17;
/// Ranges that a cursor steps over before it searches anew.
const STEPS: usize = 8;
/// Sequences before the first one that may stay in the map until they are worth a pass through it.
const STALE: u64 = 1 << 16;

/// A set of deleted sequences.
#[derive(Clone, Debug, Default)]
pub struct Deleted {
    /// Perf: what is before `first` is dropped in one go from time to time (`benches/index.rs`): a
    /// stream at its limit trims with every message.
    points: RoaringTreemap,
    /// Everything before this is not in the set, whatever the map says.
    first: Seq,
    /// The map has nothing before this.
    cleared: Seq,
    /// Long ranges: first and last sequence. They neither overlap nor touch each other.
    spans: BTreeMap<Seq, Seq>,
}

impl Deleted {
    /// Nothing deleted.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// From ranges in any order, which may overlap.
    #[must_use]
    pub fn load(ranges: impl IntoIterator<Item = RangeInclusive<Seq>>) -> Self {
        let mut deleted = Self::new();
        for range in ranges {
            deleted.insert_range(range);
        }
        deleted.optimize();
        deleted
    }

    /// Adds a sequence; false if it was in already, or is before what [`Deleted::remove_below`]
    /// dropped.
    pub fn insert(&mut self, seq: Seq) -> bool {
        seq >= self.first.max(1) && self.span_with(seq).is_none() && self.points.insert(seq)
    }

    /// Adds a range, and says how many of its sequences were not in. What [`Deleted::remove_below`]
    /// dropped stays out.
    pub fn insert_range(&mut self, range: RangeInclusive<Seq>) -> u64 {
        let (first, last) = ((*range.start()).max(self.first).max(1), *range.end());
        if first > last {
            return 0;
        }
        let before = self.count_in(first..=last);
        debug_assert!(before <= last - first + 1, "a sequence is deleted once");
        if last - first >= LONG {
            self.insert_span(first, last)
        } else {
            self.insert_points(first, last)
        }
        debug_assert!(self.count_in(first..=last) == last - first + 1, "a range is deleted as a whole");
        (last - first + 1) - before
    }

    /// Drops everything before `first`, for good.
    pub fn remove_below(&mut self, first: Seq) {
        if first <= self.first {
            return;
        }
        debug_assert!(self.cleared <= self.first, "what is cleared was dropped");
        self.first = first;
        if first - self.cleared >= STALE {
            self.points.remove_range(..first);
            self.cleared = first;
        }
        while let Some(entry) = self.spans.first_entry().filter(|entry| *entry.key() < first) {
            let last = entry.remove();
            if last >= first {
                self.spans.insert(first, last);
            }
        }
    }

    /// Drops everything behind `last`. Sequences there are given out again and may be deleted
    /// again, even if they were before what [`Deleted::remove_below`] dropped.
    pub fn remove_above(&mut self, last: Seq) {
        self.first = self.first.min(last.saturating_add(1));
        self.cleared = self.cleared.min(self.first);
        debug_assert!(self.cleared <= self.first, "what is cleared was dropped");
        if self.points.max().is_some_and(|seq| seq > last) {
            self.points.remove_range(last + 1..);
        }
        while let Some(mut entry) = self.spans.last_entry().filter(|entry| *entry.get() > last) {
            if *entry.key() <= last {
                entry.insert(last);
            } else {
                entry.remove();
            }
        }
    }

    /// Whether a sequence is deleted. To ask for many in order, use [`Deleted::cursor`].
    #[must_use]
    pub fn contains(&self, seq: Seq) -> bool {
        (self.points.contains(seq) && seq >= self.first) || self.span_with(seq).is_some()
    }

    /// How many sequences of a range are deleted.
    #[must_use]
    pub fn count_in(&self, range: RangeInclusive<Seq>) -> u64 {
        let (first, last) = ((*range.start()).max(self.first), *range.end());
        if first > last {
            return 0;
        }
        let from = self.span_with(first).map_or(first, |span| *span.start());
        let in_spans = self.spans.range(from..=last).map(|(&start, &end)| {
            let (start, end) = (start.max(first), end.min(last));
            end - start + 1
        });
        in_spans.sum::<u64>() + self.points.range_cardinality(first..=last)
    }

    /// The first sequence, from `from` on, that is not deleted.
    #[must_use]
    pub fn next_live(&self, from: Seq) -> Seq {
        // Perf: almost always; a stream at its limit asks with every message.
        if !self.contains(from) {
            return from;
        }
        match self.ranges_from(from).next() {
            Some(range) if *range.start() == from => range.end().saturating_add(1),
            _ => from,
        }
    }

    /// Everything deleted, as the fewest possible ranges in order.
    #[must_use]
    pub fn ranges(&self) -> Ranges<'_> {
        self.ranges_from(0)
    }

    /// As [`Deleted::ranges`], without what is before `from`.
    #[must_use]
    pub fn ranges_from(&self, from: Seq) -> Ranges<'_> {
        let from = from.max(self.first);
        Ranges {
            points: PointRanges::new(&self.points, from).peekable(),
            spans: SpanRanges::new(&self.spans, self.span_with(from), from).peekable(),
        }
    }

    /// Answers quickly for one sequence after the other.
    #[must_use]
    pub fn cursor(&self) -> DeletedCursor<'_> {
        DeletedCursor { deleted: self, ranges: self.ranges(), known: None, from: 0 }
    }

    /// Whether nothing is deleted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.points.max().is_none_or(|last| last < self.first) && self.spans.is_empty()
    }

    /// About how much memory this takes. Takes time with every 65,536 sequences that it spans.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let containers: usize = self.points.bitmaps().map(|(_, bitmap)| bitmap_bytes(bitmap)).sum();
        size_of::<Self>() + containers + self.spans.len() * 3 * size_of::<Seq>()
    }

    /// Packs neighbours into runs where that is smaller: for maintenance, now and then. Changes no
    /// answer.
    pub fn optimize(&mut self) {
        self.points.optimize();
    }

    fn span_with(&self, seq: Seq) -> Option<RangeInclusive<Seq>> {
        let (&start, &end) = self.spans.range(..=seq).next_back()?;
        (end >= seq).then_some(start..=end)
    }

    /// Adds what is not in a span already.
    fn insert_points(&mut self, first: Seq, last: Seq) {
        let mut from = Some(first);
        while let Some(first) = from.filter(|&first| first <= last) {
            if let Some(span) = self.span_with(first) {
                from = span.end().checked_add(1);
                continue;
            }
            let behind = self.spans.range(first..=last).next().map(|(&start, _)| start);
            let end = behind.map_or(last, |start| start - 1);
            debug_assert!((first..=last).contains(&end), "a part of a range is in it");
            self.points.insert_range(first..=end);
            from = end.checked_add(1);
        }
    }

    /// Makes one span of the range and all spans that overlap or touch it.
    fn insert_span(&mut self, mut first: Seq, mut last: Seq) {
        if let Some(span) = self.span_with(first.saturating_sub(1)) {
            first = first.min(*span.start());
        }
        while let Some((&start, &end)) = self.spans.range(first..=last.saturating_add(1)).next() {
            self.spans.remove(&start);
            last = last.max(end);
        }
        self.points.remove_range(first..=last);
        debug_assert!(first <= last, "a span has a sequence");
        debug_assert!(self.spans.range(first..=last).next().is_none(), "spans do not overlap");
        self.spans.insert(first, last);
    }
}

/// Bytes that a roaring bitmap takes, and 32 for each of its containers.
fn bitmap_bytes(bitmap: &RoaringBitmap) -> usize {
    let kinds = bitmap.statistics();
    let bytes =
        kinds.n_bytes_array_containers + kinds.n_bytes_bitset_containers + kinds.n_bytes_run_containers;
    usize::try_from(bytes).expect("it is in memory") + 32 * kinds.n_containers as usize
}

/// Deleted ranges in order. They do not touch each other.
pub struct Ranges<'a> {
    points: Peekable<PointRanges<'a>>,
    spans: Peekable<SpanRanges<'a>>,
}

impl Ranges<'_> {
    fn next_piece(&mut self, touching: Option<Seq>) -> Option<RangeInclusive<Seq>> {
        let wanted = |range: &RangeInclusive<Seq>| touching.is_none_or(|end| *range.start() - 1 == end);
        let is_point_first = match (self.points.peek(), self.spans.peek()) {
            (Some(point), Some(span)) => point.start() < span.start(),
            (point, _) => point.is_some(),
        };
        if is_point_first { self.points.next_if(wanted) } else { self.spans.next_if(wanted) }
    }
}

impl Iterator for Ranges<'_> {
    type Item = RangeInclusive<Seq>;

    fn next(&mut self) -> Option<Self::Item> {
        let (first, mut last) = self.next_piece(None)?.into_inner();
        while let Some(more) = self.next_piece(Some(last)) {
            last = *more.end();
        }
        Some(first..=last)
    }
}

/// Ranges of single bits; those that touch may come in several pieces.
struct PointRanges<'a> {
    bitmaps: treemap::BitmapIter<'a>,
    /// The map of this part (the upper half of its sequences), and its place in it.
    current: Option<(u32, bitmap::Iter<'a>)>,
    from: Seq,
}

impl<'a> PointRanges<'a> {
    fn new(points: &'a RoaringTreemap, from: Seq) -> Self {
        Self { bitmaps: points.bitmaps(), current: None, from }
    }
}

impl Iterator for PointRanges<'_> {
    type Item = RangeInclusive<Seq>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((high, iter)) = &mut self.current
                && let Some(range) = iter.next_range()
            {
                let upper = u64::from(*high) << 32;
                return Some(upper | u64::from(*range.start())..=upper | u64::from(*range.end()));
            }
            let (high, bitmap) = self.bitmaps.next()?;
            let from = (self.from >> 32) as u32;
            let iter = match high.cmp(&from) {
                std::cmp::Ordering::Less => continue,
                std::cmp::Ordering::Equal => bitmap.range(self.from as u32..),
                std::cmp::Ordering::Greater => bitmap.iter(),
            };
            self.current = Some((high, iter));
        }
    }
}

/// Long ranges.
#[derive(Debug)]
struct SpanRanges<'a> {
    /// Remainder of the range in which it began.
    first: Option<RangeInclusive<Seq>>,
    rest: std::collections::btree_map::Range<'a, Seq, Seq>,
}

impl<'a> SpanRanges<'a> {
    fn new(spans: &'a BTreeMap<Seq, Seq>, around: Option<RangeInclusive<Seq>>, from: Seq) -> Self {
        let behind = around.as_ref().map_or(Bound::Included(from), |span| Bound::Excluded(*span.end()));
        Self { first: around.map(|span| from..=*span.end()), rest: spans.range((behind, Bound::Unbounded)) }
    }
}

impl Iterator for SpanRanges<'_> {
    type Item = RangeInclusive<Seq>;

    fn next(&mut self) -> Option<Self::Item> {
        self.first.take().or_else(|| self.rest.next().map(|(&first, &last)| first..=last))
    }
}

/// A place among the deleted sequences: remembers the range it looked at last.
pub struct DeletedCursor<'a> {
    deleted: &'a Deleted,
    ranges: Ranges<'a>,
    /// The first range that does not end before `from`.
    known: Option<RangeInclusive<Seq>>,
    /// Everything from here to the known range is live. 0 if nothing was asked yet.
    from: Seq,
}

impl DeletedCursor<'_> {
    /// Whether `seq` is deleted. Fastest if each question is for the sequence behind the last one
    /// or not far from it.
    pub fn contains(&mut self, seq: Seq) -> bool {
        self.range_at(seq).is_some_and(|range| *range.start() <= seq)
    }

    /// The first sequence, from `from` on, that is not deleted.
    pub fn next_live(&mut self, from: Seq) -> Seq {
        match self.range_at(from) {
            Some(range) if *range.start() <= from => range.end().saturating_add(1),
            _ => from,
        }
    }

    /// The first deleted range that does not end before `seq`. It may begin before it.
    pub fn range_at(&mut self, seq: Seq) -> Option<&RangeInclusive<Seq>> {
        if self.from == 0 || seq < self.from {
            self.search(seq);
        }
        let mut steps = 0;
        while self.known.as_ref().is_some_and(|range| *range.end() < seq) {
            if steps == STEPS {
                self.search(seq);
                break;
            }
            self.from = seq;
            self.known = self.ranges.next();
            steps += 1;
        }
        self.known.as_ref()
    }

    fn search(&mut self, seq: Seq) {
        self.ranges = self.deleted.ranges_from(seq);
        self.known = self.ranges.next();
        self.from = seq;
    }
}

#[cfg(test)]
mod tests;
