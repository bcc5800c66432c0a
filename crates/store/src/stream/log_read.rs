//! Entries of a group's log, read back from its segments: for replicas that are behind, and for a
//! member that begins.
//!
//! They are read from segments that are not sealed: what is in those is neither compacted nor
//! packed, and each entry is there with all of its records.

use std::ops::Range;

use crate::damage::Damage;
use crate::record::{Control, Entry, LogEntry, canonical};
use crate::segment::{self, Extent, HEADER_BYTES, Scanned, SegmentHeader};

use super::errors::StoreError;
use super::group_log::DecidedEntry;
use super::{Active, Stream};

/// A segment with entries, and which indexes of it count: a later one gives the others out again.
struct LogSegment<'a> {
    active: &'a Active,
    header: SegmentHeader,
    counts: Range<u64>,
}

/// Gathers entries while a segment is read.
struct LogReader {
    wanted: Range<u64>,
    max_bytes: usize,
    bytes: usize,
    entries: Vec<DecidedEntry>,
    /// The entry whose records come now, if it is wanted.
    open: bool,
}

impl Stream {
    /// Index of the first entry that [`Stream::read_log`] can read; the next one that is decided if
    /// there is none. `None` without a group.
    ///
    /// # Errors
    /// A segment cannot be read.
    pub fn log_begin(&self) -> Result<Option<u64>, StoreError> {
        let Some(position) = self.group() else { return Ok(None) };
        let parts = self.log_segments()?;
        let begins = parts.iter().filter(|part| !part.counts.is_empty()).map(|part| part.counts.start);
        Ok(Some(begins.min().unwrap_or(position.index + 1)))
    }

    /// Entries of the group's log with an index in `wanted`, in order, as
    /// [`Stream::append_decided`] takes them: those from the first on which together have at most
    /// `max_bytes` of records, and at least one. Fewer, or none, where an entry is in a sealed
    /// segment, is damaged or is not there.
    ///
    /// # Errors
    /// A segment cannot be read.
    pub fn read_log(&self, wanted: Range<u64>, max_bytes: usize) -> Result<Vec<DecidedEntry>, StoreError> {
        let mut reader = LogReader { wanted, max_bytes, bytes: 0, entries: Vec::new(), open: false };
        for LogSegment { active, header, counts } in self.log_segments()? {
            let next = reader.next();
            if counts.end <= next {
                continue;
            }
            if counts.start > next || reader.is_full() {
                break;
            }
            let extent = Extent { from: HEADER_BYTES as u64, to: active.file.end(), durable: 0 };
            let mut visit = |scanned: Scanned<'_>| reader.visit(&scanned, counts.end);
            let context = &active.segment.context;
            segment::scan(&**active.file.file(), &header, context, extent, &mut visit).map_err(unread)?;
        }
        Ok(reader.finish())
    }

    /// Segments that are not sealed, oldest first, if they are of the group's log. Their bytes are
    /// in their files afterwards.
    fn log_segments(&self) -> Result<Vec<LogSegment<'_>>, StoreError> {
        let mut parts: Vec<LogSegment<'_>> = Vec::new();
        for active in self.open_segments() {
            active
                .file
                .flush()
                .map_err(|error| unread(Damage::Io(std::io::Error::other(error.to_string()))))?;
            let header = SegmentHeader::read(&**active.file.file()).map_err(unread)?;
            let Some(group) = header.group else { continue };
            for before in &mut parts {
                before.counts.end = before.counts.end.min(group.first_index);
            }
            parts.push(LogSegment { active, header, counts: group.first_index..u64::MAX });
        }
        Ok(parts)
    }
}

impl LogReader {
    /// Index of the next entry that is to be read.
    fn next(&self) -> u64 {
        self.wanted.start + self.entries.len() as u64
    }

    fn is_full(&self) -> bool {
        self.next() >= self.wanted.end || (!self.entries.is_empty() && self.bytes >= self.max_bytes)
    }

    /// Takes an entry of a segment in which those from `end` on do not count.
    fn visit(&mut self, scanned: &Scanned<'_>, end: u64) {
        match &scanned.entry {
            Entry::Control(Control::LogEntry(entry)) => {
                self.close();
                self.open = entry.index == self.next() && entry.index < end && !self.is_full();
                if self.open {
                    self.entries.push(DecidedEntry { entry: *entry, records: Vec::new() });
                }
            }
            // It stands behind the entries of its segment, and is none.
            Entry::Control(Control::TakenBack { .. }) => self.close(),
            record if self.open => self.add(record, scanned),
            _ => {}
        }
    }

    fn add(&mut self, record: &Entry<'_>, scanned: &Scanned<'_>) {
        let Some(last) = self.entries.last_mut() else { return };
        match record {
            Entry::Message(message) => canonical::write_message(message, &mut last.records),
            Entry::Control(control) => {
                canonical::write_control(control, scanned.timestamp, &mut last.records);
            }
            // Nobody has its bytes here: the chain will show that.
            Entry::Erased { .. } => {}
        }
    }

    /// The last entry is complete.
    fn close(&mut self) {
        if std::mem::take(&mut self.open) {
            self.bytes += self.entries.last().map_or(0, |last| last.records.len());
        }
    }

    fn finish(mut self) -> Vec<DecidedEntry> {
        self.close();
        let is_over = self.entries.len() > 1 && self.bytes > self.max_bytes;
        if is_over {
            self.entries.pop();
        }
        self.entries
    }
}

impl DecidedEntry {
    /// Whether the chain says that these are the records which were decided on behind an entry with
    /// the chain `before`.
    #[must_use]
    pub fn follows(&self, before: u64) -> bool {
        let Self { entry, records } = self;
        entry.chained(before, records) == entry.chain
    }

    /// The first entry of a new leader, which says nothing, behind an entry with the chain
    /// `before`. Where the log ends `within` a decision it leaves that open.
    #[must_use]
    pub fn empty(index: u64, term: u64, before: u64, within: bool) -> Self {
        let kind = crate::record::LogEntryKind::Empty;
        let mut entry = LogEntry { index, term, commit: 0, chain: 0, kind, more: within };
        entry.chain = entry.chained(before, &[]);
        Self { entry, records: Vec::new() }
    }
}

fn unread(damage: Damage) -> StoreError {
    StoreError::Failed(format!("the log of the group cannot be read: {damage}"))
}
