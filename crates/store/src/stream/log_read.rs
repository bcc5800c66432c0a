//! Entries of a group's log, read back from its segments: for replicas that are behind, and for a
//! member that begins.
//!
//! They are read from segments that are as they were written, sealed or not: one that was compacted
//! has lost some of their records, and the log begins behind it.

use std::ops::Range;
use std::sync::Arc;

use crate::SegmentNo;
use crate::jobs::JobError;
use crate::jobs::entries::{header, walk_part, walk_sound};
use crate::record::{BODY_BYTES, Control, Entry, LogEntry, canonical};
use crate::segment::{Scanned, SegmentHeader};

use super::Stream;
use super::decided_entry::{DecidedEntry, EntryForm};
use super::errors::StoreError;
use super::group_log::GroupPosition;
use super::log_places::LogPlace;
use super::segment_view::Segment;

/// Sealed segments that are looked at, from the end of the log: each costs a member that begins the
/// reading of a header.
const SEALED_SEGMENTS: usize = 64;

/// Bytes that are read beyond those of the entries that are wanted, so that the next one is seen.
const BEYOND: u64 = 64 << 10;

/// Part of a group's log that can be read back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOutline {
    /// Index and term of the entry in front of the first one that can be read: the last one if none
    /// can, (0, 0) if there is none.
    pub base: (u64, u64),
    /// The terms of the entries behind that, in order: index of the first one, and the term.
    pub terms: Vec<(u64, u64)>,
}

/// A segment with entries, and which indexes of it count: a later one gives the others out again.
pub(super) struct LogSegment {
    pub(super) segment: Arc<Segment>,
    header: SegmentHeader,
    pub(super) counts: Range<u64>,
}

/// Bytes of an entry that are sent beside its records: its head, and what a frame says of it.
pub(super) const SENT_BESIDE: usize = BODY_BYTES + 12;

/// Gathers entries while a segment is read.
struct LogReader {
    wanted: Range<u64>,
    max_bytes: usize,
    bytes: usize,
    entries: Vec<(LogEntry, EntryForm)>,
    /// The entry whose records come now, if it is wanted.
    open: bool,
    /// The segment that is read.
    segment: SegmentNo,
    /// Index of the last entry that was passed; a lower one behind it is no place: a sector that
    /// stands twice has entries once more.
    passed_index: u64,
    /// Where entries begin that were passed, one in each part of it.
    passed: Vec<LogPlace>,
    /// Whether an entry is not there as it was written: nothing behind it is of use.
    is_broken: bool,
}

impl Stream {
    /// Describes what of the group's log [`Stream::read_log`] can read. `None` without a group.
    ///
    /// # Errors
    /// A segment cannot be read.
    pub fn log_outline(&self) -> Result<Option<LogOutline>, StoreError> {
        let Some(position) = self.group() else { return Ok(None) };
        let mut parts = self.log_segments(0)?;
        parts.retain(|part| !part.counts.is_empty());
        let first = parts.first();
        let base = first.map_or((position.index, position.term), LogSegment::before);
        // What was joined at the beginning of a log has a term, and no entry.
        let base = if base.0 == 0 { (0, 0) } else { base };
        let ends = parts.iter().skip(1).map(|next| next.header.term).chain([position.term]);
        let mut outline = LogOutline { base, terms: Vec::new() };
        if base.0 < position.index {
            for (part, last_term) in parts.iter().zip(ends) {
                part.note_terms(last_term, &mut outline).map_err(unread)?;
            }
        }
        Ok(Some(outline))
    }

    /// The first entry of a leader that is elected in `term`: it says nothing, and leaves the
    /// decision open that the log ends in. `None` without a group.
    #[must_use]
    pub fn first_entry(&self, term: u64) -> Option<DecidedEntry> {
        let GroupPosition { index, chain, .. } = self.group()?;
        Some(DecidedEntry::empty(index + 1, term, chain, self.is_within_decision()))
    }

    /// Entries of the group's log with an index in `wanted`, in order, as
    /// [`Stream::append_decided`] takes them: those from the first on which together have at most
    /// `max_bytes` where they are sent, and at least one. Fewer, or none, where an entry is in a
    /// segment that was compacted, was erased, is damaged or is not there.
    ///
    /// # Errors
    /// A segment cannot be read.
    pub fn read_log(&self, wanted: Range<u64>, max_bytes: usize) -> Result<Vec<DecidedEntry>, StoreError> {
        let parts = self.log_segments(wanted.start)?;
        let mut reader = LogReader {
            wanted,
            max_bytes,
            bytes: 0,
            entries: Vec::new(),
            open: false,
            segment: SegmentNo(0),
            passed_index: 0,
            passed: Vec::new(),
            is_broken: false,
        };
        for LogSegment { segment, counts, .. } in parts {
            let next = reader.next();
            if counts.end <= next {
                continue;
            }
            if counts.start > next || reader.is_full() {
                break;
            }
            self.read_segment(&segment, counts.end, &mut reader).map_err(unread)?;
        }
        if let Some(group) = &self.group {
            group.places.note(&reader.passed);
        }
        Ok(reader.finish())
    }

    /// Reads as much of a segment as is wanted, in which entries from `end` on do not count.
    ///
    /// Perf: each member that is behind asks for some hundred KiB at a time, in the stream's turn.
    fn read_segment(&self, segment: &Segment, end: u64, reader: &mut LogReader) -> Result<(), JobError> {
        reader.segment = segment.no;
        let places = self.group.as_ref().map(|group| &group.places);
        let place = places.and_then(|places| places.before(segment.no, reader.next()));
        let mut from = place.map(|place| place.offset);
        let mut bytes = (reader.max_bytes as u64).saturating_add(BEYOND);
        loop {
            let mut visit = |scanned: Scanned<'_>| {
                reader.visit(&scanned, end);
                Ok(())
            };
            let next = walk_part(segment, (from, bytes), &mut visit)?;
            reader.close();
            let Some(next) = next.filter(|_| !reader.is_full()) else { return Ok(()) };
            if from == Some(next) {
                // One entry is larger.
                bytes = bytes.saturating_mul(2);
            }
            from = Some(next);
        }
    }

    /// Segments of the group's log that are as they were written, oldest first, from the one on
    /// that has the entry `from`.
    pub(super) fn log_segments(&self, from: u64) -> Result<Vec<LogSegment>, StoreError> {
        let mut segments: Vec<Arc<Segment>> =
            self.open_segments().map(|open| Arc::clone(&open.segment)).collect();
        let catalog = self.shared.catalog();
        segments.extend(catalog.retired().iter().cloned());
        segments.extend(catalog.segments().iter().map(|view| Arc::clone(&view.segment)));
        drop(catalog);
        segments.sort_by_key(|segment| std::cmp::Reverse(segment.no));
        segments.dedup_by_key(|segment| segment.no);
        let mut parts: Vec<LogSegment> = Vec::new();
        let (mut end, mut sealed) = (u64::MAX, 0);
        for segment in segments {
            let is_next = parts.last().is_none_or(|later| later.segment.no.0 == segment.no.0 + 1);
            sealed += usize::from(segment.is_sealed());
            if !is_next || segment.generation > 0 || sealed > SEALED_SEGMENTS {
                break;
            }
            let header = match header(&segment) {
                Ok(header) => header,
                // The log begins behind it.
                Err(_) if segment.is_sealed() => break,
                Err(error) => return Err(unread(error)),
            };
            let Some(group) = header.group else { break };
            let first = group.first_index;
            parts.push(LogSegment { segment, header, counts: first..end });
            end = end.min(first);
            if first <= from {
                break;
            }
        }
        parts.reverse();
        Ok(parts)
    }
}

impl LogSegment {
    /// Index and term of the entry before the first one.
    fn before(&self) -> (u64, u64) {
        (self.counts.start - 1, self.header.term)
    }

    /// Notes the terms that begin in it; the last of its entries is of `last_term`. It need not be
    /// read where that began before.
    fn note_terms(&self, last_term: u64, outline: &mut LogOutline) -> Result<(), JobError> {
        let (before, term) = outline.terms.last().copied().unwrap_or(outline.base);
        if term == last_term {
            if outline.terms.is_empty() {
                outline.terms.push((before + 1, term));
            }
            return Ok(());
        }
        let mut next = self.counts.start;
        walk_sound(&self.segment, &mut |scanned| {
            if let Entry::Control(Control::LogEntry(entry)) = scanned.entry
                && self.counts.contains(&entry.index)
            {
                if entry.index != next {
                    // One is damaged, and may be the first one of its term.
                    *outline = LogOutline { base: (entry.index, entry.term), terms: Vec::new() };
                } else if outline.terms.last().is_none_or(|&(_, term)| term < entry.term) {
                    outline.terms.push((entry.index, entry.term));
                }
                next = entry.index + 1;
            }
            Ok(())
        })
    }
}

impl LogReader {
    /// Index of the next entry that is to be read.
    fn next(&self) -> u64 {
        self.wanted.start + self.entries.len() as u64
    }

    fn is_full(&self) -> bool {
        self.is_broken
            || self.next() >= self.wanted.end
            || (!self.entries.is_empty() && self.bytes >= self.max_bytes)
    }

    /// Takes an entry of a segment in which those from `end` on do not count.
    fn visit(&mut self, scanned: &Scanned<'_>, end: u64) {
        match &scanned.entry {
            Entry::Control(Control::LogEntry(entry)) => {
                self.close();
                if (self.passed_index + 1..end).contains(&entry.index) {
                    self.pass(entry.index, scanned.offset);
                }
                if entry.index == self.next() && entry.index < end && !self.is_full() {
                    self.open = true;
                    self.entries.push((*entry, EntryForm::with_room(0)));
                }
            }
            // It stands behind the entries of its segment, and is none.
            Entry::Control(Control::TakenBack { .. }) => self.close(),
            record if self.open => self.add(record, scanned),
            _ => {}
        }
    }

    fn add(&mut self, record: &Entry<'_>, scanned: &Scanned<'_>) {
        let Some((_, last)) = self.entries.last_mut() else { return };
        match record {
            Entry::Message(message) => canonical::write_message(message, last.end()),
            Entry::Control(control) => {
                canonical::write_control(control, scanned.timestamp, last.end());
            }
            Entry::Erased { .. } => {
                self.entries.pop();
                (self.open, self.is_broken) = (false, true);
            }
        }
    }

    /// An entry that counts begins there.
    fn pass(&mut self, index: u64, offset: u64) {
        self.passed_index = index;
        let place = LogPlace { segment: self.segment, index, offset };
        if self.passed.last().is_none_or(|last| last.is_far_from(place)) {
            self.passed.push(place);
        }
    }

    /// The last entry is complete.
    fn close(&mut self) {
        if std::mem::take(&mut self.open) {
            self.bytes += self.entries.last().map_or(0, |(_, last)| SENT_BESIDE + last.records().len());
        }
    }

    /// The entries that fit.
    fn finish(mut self) -> Vec<DecidedEntry> {
        self.close();
        if self.entries.len() > 1 && self.bytes > self.max_bytes {
            self.entries.pop();
        }
        self.entries.into_iter().map(|(entry, records)| records.decided(entry)).collect()
    }
}

fn unread(error: JobError) -> StoreError {
    StoreError::Failed(format!("the log of the group cannot be read: {error}"))
}
