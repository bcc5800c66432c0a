//! State of a stream at the end of a sealed segment, from files that do not change: the manifest of
//! before, and the footers of the segments since.
//!
//! Owns the rule of what a segment still shows, which is the rule of what a manifest lists. Nothing
//! of the live catalog goes in here: it has gone on, and a state that is ahead of the log could not
//! be recovered.

use std::sync::Arc;

use myelin_disk::File;

use super::JobError;
use crate::damage::Damage;
use crate::manifest::{Manifest, SegmentEntry};
use crate::ranges::Ranges;
use crate::segment::{self, Changes, Slots, Totals, Trailer};
use crate::stream::Segment;
use crate::{SegmentNo, Seq};

/// A sealed segment behind the manifest, with what its footer says.
#[derive(Debug)]
pub(super) struct Newer {
    pub(super) segment: Arc<Segment>,
    pub(super) changes: Changes,
}

/// Which sequences of the stream are there.
#[derive(Debug)]
pub(super) struct Visible {
    pub(super) totals: Totals,
    /// Between the first and the last.
    pub(super) deleted: Ranges,
    /// Sequences that were deleted since the manifest of before.
    fresh: Ranges,
    /// Segments behind the manifest of before, with the sequence at which those before them end.
    begins: Vec<(SegmentNo, Seq)>,
}

impl Visible {
    /// The state behind the last of `newer`, which follow the manifest in order.
    pub(super) fn after(old: Option<&Manifest>, newer: &[Newer]) -> Self {
        let mut deleted = old.map(|manifest| manifest.deleted.clone()).unwrap_or_default();
        let mut fresh = Ranges::new();
        let mut totals = old.map(|manifest| manifest.totals).unwrap_or_default();
        let mut begins = Vec::with_capacity(2 * newer.len());
        for one in newer {
            // From here on sequences begin again, if they were cut off before: those of older
            // segments are not seen any more, deleted or not.
            let cut = one.changes.truncated_to.unwrap_or(Seq::MAX).min(one.segment.first_seq - 1);
            let before = 0..=cut;
            // A truncation that ends the segment hides what it has itself.
            let no = one.segment.no;
            begins.extend([(no, cut + 1), (SegmentNo(no.0 + 1), one.changes.totals.last_seq + 1)]);
            deleted = deleted.within(before.clone()).union(&one.changes.deleted);
            fresh = fresh.within(before).union(&one.changes.deleted);
            totals = one.changes.totals;
        }
        let there = totals.first_seq..=totals.last_seq;
        Self { totals, deleted: deleted.within(there.clone()), fresh: fresh.within(there), begins }
    }

    /// Narrows sequences `first..=last`, which segment `no` holds, to those that may still be seen.
    fn bounds(&self, no: SegmentNo, first: Seq, last: Seq) -> (Seq, Seq) {
        let later = self.begins.iter().filter(|(begun, _)| *begun > no).map(|(_, first_seq)| first_seq - 1);
        let end = later.fold(last.min(self.totals.last_seq), Seq::min);
        (first.max(self.totals.first_seq), end)
    }

    /// A listed segment as it is now. `None` if its messages have to be counted anew.
    pub(super) fn unchanged(&self, entry: &SegmentEntry) -> Option<SegmentEntry> {
        let (first, last) = self.bounds(entry.no, entry.first_seq, entry.last_seq);
        let is_whole = first == entry.first_seq && last == entry.last_seq;
        (is_whole && self.fresh.within(first..=last).is_empty()).then_some(*entry)
    }

    /// A listed segment whose file is not at hand: what it may still show. `None` if that is
    /// nothing.
    pub(super) fn clipped(&self, entry: &SegmentEntry) -> Option<SegmentEntry> {
        let (first_seq, last_seq) = self.bounds(entry.no, entry.first_seq, entry.last_seq);
        let is_there = |last: Seq| self.deleted.within(first_seq..=last).count() <= last - first_seq;
        (first_seq <= last_seq && is_there(last_seq)).then_some(SegmentEntry {
            first_seq,
            last_seq,
            ..*entry
        })
    }

    /// A segment as a manifest lists it, counted from its table: as far as it was `listed` before,
    /// if it was, because behind that its file may have what was truncated long ago. `None` if it
    /// has nothing to show.
    pub(super) fn count(
        &self,
        segment: &Segment,
        listed: Option<&SegmentEntry>,
        footer: &Sealed,
    ) -> Option<SegmentEntry> {
        let slots = &footer.slots;
        let all = (segment.first_seq, footer.trailer.summary.last_seq);
        let (first, last) = listed.map_or(all, |entry| (entry.first_seq, entry.last_seq.min(all.1)));
        let (first, last) = self.bounds(segment.no, first, last);
        let mut entry = SegmentEntry {
            no: segment.no,
            through: listed.map_or(segment.no, |entry| entry.through),
            generation: segment.generation,
            first_seq: 0,
            last_seq: 0,
            messages: 0,
            bytes: 0,
            file_len: segment.file_bytes(),
            sealed: true,
        };
        for row in live_rows(slots, first, last, &self.deleted) {
            let seq = slots.seq(row);
            if entry.messages == 0 {
                entry.first_seq = seq;
            }
            entry.last_seq = seq;
            entry.messages += 1;
            entry.bytes += u64::from(slots.size(row));
        }
        (entry.messages > 0).then_some(entry)
    }
}

/// Rows of messages within `first..=last` that are not deleted, in order.
pub(super) fn live_rows<'a>(
    slots: &'a Slots,
    first: Seq,
    last: Seq,
    deleted: &Ranges,
) -> impl Iterator<Item = usize> + 'a {
    let gaps = deleted.within(first..=last);
    let gaps: Vec<_> = gaps.iter().collect();
    let mut gap = 0;
    (0..slots.len()).filter(move |row| {
        let seq = slots.seq(*row);
        while gaps.get(gap).is_some_and(|range| *range.end() < seq) {
            gap += 1;
        }
        (first..=last).contains(&seq) && gaps.get(gap).is_none_or(|range| seq < *range.start())
    })
}

/// The end of a sealed file.
#[derive(Debug)]
pub(super) struct Sealed {
    pub(super) trailer: Trailer,
    pub(super) slots: Slots,
}

/// Reads a segment's trailer, and with it something more.
pub(super) fn read_footer<T>(
    segment: &Segment,
    read: impl FnOnce(&dyn File, Trailer) -> Result<T, Damage>,
) -> Result<T, JobError> {
    let fault = |damage| JobError::of(segment, damage);
    let sealed = segment.sealed().ok_or_else(|| fault(Damage::Content("segment")))?;
    let file = sealed.open()?;
    let trailer = segment::read_trailer(&*file, &segment.context).map_err(fault)?;
    let trailer = trailer.ok_or_else(|| fault(Damage::Short("segment trailer")))?;
    read(&*file, trailer).map_err(fault)
}

/// Reads where a sealed segment's messages stand.
pub(super) fn read_table(segment: &Segment) -> Result<Sealed, JobError> {
    read_footer(segment, |file, trailer| {
        let slots = segment::read_slots(file, &trailer, &segment.context)?;
        Ok(Sealed { trailer, slots })
    })
}
