//! One entry after the other goes through the catalog, as on the day it was written.
//!
//! What no writer would have written there is passed over, and reported: an entry with a right
//! checksum may still stand where it does not belong.

use crate::config::Storage;
use crate::record::{Control, Entry};
use crate::segment::{MAX_SEQ, Scanned};
use crate::stream::{Catalog, NewRow, segment_name, size_of};
use crate::{ReadError, SegmentNo, Seq};

use super::{Notice, Recovering};

/// Fate of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Applied,
    PassedOver,
}

/// Entries of a segment on their way into the catalog. A walk tells them one by one and cannot be
/// told to stop.
pub(super) struct Applying<'a> {
    catalog: &'a mut Catalog,
    entries: u64,
    kept_from: Seq,
    passed: Passed,
    failure: Option<ReadError>,
}

/// Outcome of a segment's entries.
pub(super) struct Applied {
    /// Number of entries.
    pub(super) entries: u64,
    /// First sequence that nothing says was removed.
    pub(super) kept_from: Seq,
    /// Entries that were passed over, or the error of the first table that could not be read.
    pub(super) passed: Result<Passed, ReadError>,
}

impl<'a> Applying<'a> {
    /// Begins with a log of which nothing at or behind `kept_from` is known to be removed.
    pub(super) fn to(catalog: &'a mut Catalog, kept_from: Seq) -> Self {
        Self { catalog, entries: 0, kept_from, passed: Passed::default(), failure: None }
    }

    pub(super) fn entry(&mut self, scanned: &Scanned<'_>) {
        self.entries += 1;
        match apply(self.catalog, scanned) {
            Ok(Fate::Applied) => self.note_kept(&scanned.entry),
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
            }
            _ => {}
        }
    }

    pub(super) fn end(self) -> Applied {
        let Self { entries, kept_from, passed, failure, .. } = self;
        Applied { entries, kept_from, passed: failure.map_or(Ok(passed), Err) }
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

/// Replays one entry.
///
/// No message comes twice: a place that is written again was cut before, the journal writes the
/// same bytes to the same place, and sequences that are given out again begin a segment, which was
/// truncated before its first entry. And no append writes one far from where its segment begins.
pub(super) fn apply(catalog: &mut Catalog, scanned: &Scanned<'_>) -> Result<Fate, ReadError> {
    match &scanned.entry {
        Entry::Message(message) => {
            if message.seq <= catalog.totals().last_seq || !is_in_span(catalog, message.seq) {
                return Ok(Fate::PassedOver);
            }
            let size = size_of(Storage::File, message.subject, message.headers, message.payload);
            catalog.append(&NewRow {
                seq: message.seq,
                timestamp: message.timestamp,
                expires: message.expires,
                subject: message.subject,
                offset: scanned.offset,
                size,
            });
        }
        Entry::Erased { seq } if is_in_span(catalog, *seq) => catalog.skip_at(*seq, scanned.timestamp),
        Entry::Control(Control::Delete(ranges)) => {
            let (first, last) = (catalog.totals().first_seq, catalog.totals().last_seq);
            for range in ranges.iter() {
                let last = (*range.end()).min(last);
                let mut seq = catalog.deleted().next_live((*range.start()).max(first));
                while seq <= last && catalog.totals().messages > 0 {
                    catalog.remove(seq)?;
                    // What lies below the first message is not among the deleted ones any more.
                    seq = catalog.deleted().next_live((seq + 1).max(catalog.totals().first_seq));
                }
            }
        }
        Entry::Control(Control::Trim { first }) if *first <= MAX_SEQ => {
            catalog.trim(*first)?;
        }
        Entry::Control(Control::Truncate { last }) => {
            catalog.truncate(*last)?;
        }
        Entry::Control(Control::Skip { last }) if *last <= MAX_SEQ => {
            catalog.skip_at(*last, scanned.timestamp)
        }
        Entry::Control(Control::Durable { .. } | Control::Term { .. }) => {}
        Entry::Erased { .. } | Entry::Control(Control::Trim { .. } | Control::Skip { .. }) => {
            return Ok(Fate::PassedOver);
        }
    }
    Ok(Fate::Applied)
}

/// Whether the active segment's table can name a sequence.
fn is_in_span(catalog: &Catalog, seq: Seq) -> bool {
    let first = catalog.segments().last().map_or(0, |view| view.segment.first_seq);
    seq <= MAX_SEQ && seq.checked_sub(first).is_some_and(|delta| u32::try_from(delta).is_ok())
}
