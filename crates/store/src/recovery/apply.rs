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
    /// The sequence that the next message has, where a jump is said before it is made.
    next: Option<Seq>,
    /// Whether what comes belongs to an entry of the group's log that stands in it already.
    is_repeated: bool,
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
        Self {
            catalog,
            group,
            entries: 0,
            kept_from,
            lost,
            removed,
            passed: Passed::default(),
            next: None,
            is_repeated: false,
            failure: None,
        }
    }

    /// Looks for gaps in what follows, which begins with `first`: of a segment from which nothing
    /// was left out when it was written.
    pub(super) fn seek_gaps(&mut self, first: Seq) {
        self.next = Some(first);
    }

    /// Follows which sequence comes next.
    fn follow(&mut self, entry: &Entry<'_>, offset: u64) {
        let Some(next) = self.next else { return };
        let (seq, is_said) = match entry {
            Entry::Message(message) => (message.seq, false),
            Entry::Erased { seq } => (*seq, false),
            Entry::Control(Control::Skip { last }) => (*last, true),
            Entry::Control(Control::Trim { first }) => (first.saturating_sub(1), true),
            Entry::Control(Control::Truncate { last }) => return self.next = Some(last.saturating_add(1)),
            Entry::Control(_) => return,
        };
        if seq > next && !is_said {
            self.passed.gaps.push((next..=seq - 1, offset));
        }
        self.next = Some(next.max(seq.saturating_add(1)));
    }

    pub(super) fn entry(&mut self, scanned: &Scanned<'_>) {
        self.entries += 1;
        let Scanned { entry, offset, timestamp, .. } = scanned;
        if let Entry::Control(Control::LogEntry(entry)) = entry {
            // No writer goes back without a word of what is taken back.
            self.is_repeated = self.group.has(entry.index);
        }
        if self.is_repeated {
            return self.passed.add(scanned);
        }
        if let Entry::Control(Control::LogEntry(entry)) = entry {
            self.group.pass(entry);
            let begun = self.catalog.begin_entry(entry.index, self.group.releasable());
            if let Err(error) = begun {
                self.failure.get_or_insert(error);
            }
        }
        if let Entry::Control(Control::Consumer(record)) = entry {
            self.group.note_consumer(record);
        }
        if let Entry::Control(Control::Config(_) | Control::Note(_)) = entry {
            self.group.note(entry);
        }
        if let Entry::Control(Control::TakenBack { first, chain }) = entry
            && self.group.take_back(*first, *chain)
            && let Err(error) = self.catalog.take_back(*first)
        {
            self.failure.get_or_insert(error);
        }
        let fate = self.catalog.replay_or_keep(entry, *offset, *timestamp, Storage::File);
        if matches!(fate, Ok(Fate::Applied)) {
            self.follow(entry, *offset);
        }
        match fate {
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

/// Entries of a segment that were passed over, and sequences.
#[derive(Debug, Default)]
pub(super) struct Passed {
    count: u64,
    /// Where the first stands.
    first: u64,
    /// Sequences that the entries pass over without a word, and where.
    gaps: Vec<(RangeInclusive<Seq>, u64)>,
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
    /// Notes gaps as lost that no damaged bytes stand for: a page that is there twice, in the place
    /// of another, may fit without a seam.
    fn report_gaps(&mut self, no: SegmentNo, gaps: Vec<(RangeInclusive<Seq>, u64)>) {
        for (gap, at) in gaps {
            let is_told =
                |lost: &Lost| lost.sequences.start() <= gap.start() && gap.end() <= lost.sequences.end();
            if !self.report.lost.iter().any(is_told) {
                self.lose(segment_name(no), Some(gap.clone()), 0);
                let sequences = Some(gap);
                self.report.note(Notice::DamagedEntries { segment: no, bytes: at..at, sequences });
            }
        }
    }

    /// Takes over where the messages begin. Answers which entries were passed over.
    pub(super) fn take_applied(&mut self, applied: Applied) -> Result<Passed, ReadError> {
        self.report.entries += applied.entries;
        self.kept_from = applied.kept_from;
        self.removed = applied.removed;
        applied.passed
    }

    /// One notice of entries for a segment, however many there are, and one of each gap. To be
    /// called when damaged bytes are reported.
    pub(super) fn report_passed(&mut self, no: SegmentNo, passed: Passed) {
        let Passed { count, first, gaps } = passed;
        self.report_gaps(no, gaps);
        if count > 0 {
            let what = format!(
                "entries passed over, because their sequences cannot be there: {count}, from {first} on"
            );
            self.report.note(Notice::Damaged { file: segment_name(no), what });
        }
    }
}
