//! One entry after the other goes through the catalog, as on the day it was written.
//!
//! What no writer would have written there is passed over, and reported: an entry with a right
//! checksum may still stand where it does not belong.

use std::ops::RangeInclusive;

use crate::config::Storage;
use crate::record::{Control, Entry};
use crate::segment::Scanned;
use crate::stream::{Catalog, Fate, segment_name};
use crate::{ReadError, SegmentNo, Seq};

use super::group::GroupTail;
use super::report::{Lost, among};
use super::{Notice, Recovering};

/// Entries of a segment on their way into the catalog. A walk tells them one by one and cannot be
/// told to stop.
pub(super) struct Applying<'a> {
    catalog: &'a mut Catalog,
    group: &'a mut GroupTail,
    entries: u64,
    kept_from: Seq,
    /// Losses that were found before.
    lost: &'a [Lost],
    /// Sequences among the lost ones that were removed.
    removed: Vec<RangeInclusive<Seq>>,
    passed: Passed,
    failure: Option<ReadError>,
}

/// Outcome of a segment's entries.
pub(super) struct Applied {
    /// Number of entries.
    pub(super) entries: u64,
    /// First sequence that nothing says was removed.
    pub(super) kept_from: Seq,
    /// Sequences among the lost ones that were removed.
    pub(super) removed: Vec<RangeInclusive<Seq>>,
    /// Entries that were passed over, or the error of the first table that could not be read.
    pub(super) passed: Result<Passed, ReadError>,
}

impl<'a> Applying<'a> {
    /// Begins with a log of which nothing at or behind `kept_from` is known to be removed, and of
    /// what was lost before, only what is `removed`.
    pub(super) fn to(
        (catalog, group): (&'a mut Catalog, &'a mut GroupTail),
        (kept_from, removed): (Seq, Vec<RangeInclusive<Seq>>),
        lost: &'a [Lost],
    ) -> Self {
        let passed = Passed::default();
        Self { catalog, group, entries: 0, kept_from, lost, removed, passed, failure: None }
    }

    pub(super) fn entry(&mut self, scanned: &Scanned<'_>) {
        self.entries += 1;
        let Scanned { entry, offset, timestamp, .. } = scanned;
        if let Entry::Control(Control::LogEntry(entry)) = entry {
            self.group.pass(entry);
            let begun = self.catalog.begin_entry(entry.index, self.group.commit());
            if let Err(error) = begun {
                self.failure.get_or_insert(error);
            }
        }
        if let Entry::Control(Control::Consumer(record)) = entry {
            self.group.note_consumer(record);
        }
        match self.catalog.replay_or_keep(entry, *offset, *timestamp, Storage::File) {
            // What is not released may not happen.
            Ok(Fate::Applied) if self.catalog.has_unreleased() => {}
            Ok(Fate::Applied) => self.note_kept(entry),
            Ok(Fate::PassedOver) => self.passed.add(scanned),
            Err(error) => drop(self.failure.get_or_insert(error)),
        }
    }

    /// Follows where the messages begin. What removes the first message says so in a `Trim`.
    fn note_kept(&mut self, entry: &Entry<'_>) {
        match entry {
            Entry::Control(Control::Trim { first }) => self.kept_from = self.kept_from.max(*first),
            Entry::Control(Control::Truncate { last }) => {
                self.kept_from = self.kept_from.min(last.saturating_add(1));
                self.removed.retain(|range| range.end() <= last);
            }
            Entry::Control(Control::Delete(ranges)) => self.removed.extend(among(self.lost, ranges)),
            _ => {}
        }
    }

    pub(super) fn end(self) -> Applied {
        let Self { entries, kept_from, removed, passed, failure, .. } = self;
        Applied { entries, kept_from, removed, passed: failure.map_or(Ok(passed), Err) }
    }
}

/// Entries of a segment that were passed over.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Passed {
    count: u64,
    /// Where the first stands.
    first: u64,
}

impl Passed {
    pub(super) fn add(&mut self, scanned: &Scanned<'_>) {
        if self.count == 0 {
            self.first = scanned.offset;
        }
        self.count += 1;
    }
}

impl Recovering<'_> {
    /// Takes over where the messages begin. Answers which entries were passed over.
    pub(super) fn take_applied(&mut self, applied: Applied) -> Result<Passed, ReadError> {
        self.report.entries += applied.entries;
        self.kept_from = applied.kept_from;
        self.removed = applied.removed;
        applied.passed
    }

    /// One notice for a segment, however many entries there are.
    pub(super) fn report_passed(&mut self, no: SegmentNo, passed: Passed) {
        if passed.count > 0 {
            let Passed { count, first } = passed;
            let what = format!(
                "entries passed over, because their sequences cannot be there: {count}, from {first} on"
            );
            self.report.note(Notice::Damaged { file: segment_name(no), what });
        }
    }
}
