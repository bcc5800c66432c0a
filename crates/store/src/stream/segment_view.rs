//! One segment as a stream sees it: the file, the visible part of its sequences, and where its
//! table is.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use myelin_disk::File;
use myelin_disk::handles::Handles;

use crate::append_file::AppendFile;
use crate::pack::FrameTable;
use crate::record::FileContext;
use crate::segment::{SegmentHeader, Totals};
use crate::{SegmentNo, Seq, StreamId, Timestamp};

use super::table::Rows;

/// Segment file, as far as it never changes. Whoever holds it can read it, also after it was
/// replaced or removed.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) stream: StreamId,
    pub(crate) no: SegmentNo,
    /// Counts how often the file was rewritten.
    pub(crate) generation: u64,
    /// Sequence to which the table's deltas are relative.
    pub(crate) first_seq: Seq,
    pub(crate) context: FileContext,
    pub(crate) source: SegmentFile,
    /// Its header, from when it was first read.
    pub(crate) header: OnceLock<SegmentHeader>,
}

/// Where a segment's bytes are.
#[derive(Debug)]
pub(crate) enum SegmentFile {
    /// Still growing, or closed and not sealed yet; always, in memory streams.
    Appended(Arc<AppendFile>),
    /// Sealed: entries as they were appended.
    Plain(SealedFile),
    /// Sealed: frames of compressed entries.
    Packed(SealedFile, FrameTable),
}

/// A sealed segment file, opened when it is read.
#[derive(Debug)]
pub(crate) struct SealedFile {
    pub(crate) path: PathBuf,
    handles: Arc<Handles>,
    /// Where entries or frames end and the footer begins.
    pub(crate) records_end: u64,
    /// Length with the footer.
    pub(crate) length: u64,
    /// The file itself, from when its name is about to be taken away.
    pinned: OnceLock<Arc<dyn File>>,
}

impl SealedFile {
    pub(crate) fn new(path: &Path, handles: &Arc<Handles>, records_end: u64, length: u64) -> Self {
        let (path, handles) = (path.to_owned(), Arc::clone(handles));
        Self { path, handles, records_end, length, pinned: OnceLock::new() }
    }

    pub(crate) fn open(&self) -> io::Result<Arc<dyn File>> {
        if let Some(file) = self.pinned.get() {
            return Ok(Arc::clone(file));
        }
        let opened = self.handles.open(&self.path);
        // Another file may have got the name meanwhile: then this one was pinned before.
        self.pinned.get().map_or(opened, |file| Ok(Arc::clone(file)))
    }

    /// Holds the file open for whoever still reads it. To be called before the file is removed or
    /// replaced.
    pub(crate) fn pin(&self) -> io::Result<Arc<dyn File>> {
        let file = self.open()?;
        Ok(Arc::clone(self.pinned.get_or_init(|| file)))
    }
}

impl Segment {
    /// Bytes that the file takes.
    pub(crate) fn file_bytes(&self) -> u64 {
        match &self.source {
            SegmentFile::Appended(file) => file.end(),
            SegmentFile::Plain(file) | SegmentFile::Packed(file, _) => file.length,
        }
    }

    /// Where its entries or frames end, so far.
    pub(crate) fn records_end(&self) -> u64 {
        match &self.source {
            SegmentFile::Appended(file) => file.end(),
            SegmentFile::Plain(file) | SegmentFile::Packed(file, _) => file.records_end,
        }
    }

    /// The file, if it is sealed.
    pub(crate) fn sealed(&self) -> Option<&SealedFile> {
        match &self.source {
            SegmentFile::Appended(_) => None,
            SegmentFile::Plain(file) | SegmentFile::Packed(file, _) => Some(file),
        }
    }

    /// Whether a footer is on disk.
    pub(crate) fn is_sealed(&self) -> bool {
        !matches!(self.source, SegmentFile::Appended(_))
    }
}

/// Where the table of a segment is.
#[derive(Clone, Debug)]
pub(crate) enum Form {
    /// The stream's last segment: the table is the catalog's `rows`.
    Active,
    /// Closed, its footer not written yet (never, in memory streams).
    Closed(Arc<Rows>),
    /// In the footer, read when needed.
    Sealed,
}

/// When messages were accepted: the earliest and the latest time. Clocks may go back, so these need
/// not be those of the first and the last message; whether a segment is wholly before some time
/// must not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) earliest: Timestamp,
    pub(crate) latest: Timestamp,
}

impl Times {
    /// Of no message.
    pub(crate) const NONE: Self = Self { earliest: Timestamp::MAX, latest: Timestamp::MIN };

    pub(crate) fn add(&mut self, time: Timestamp) {
        self.earliest = self.earliest.min(time);
        self.latest = self.latest.max(time);
    }

    /// Times in the summary of a sealed segment.
    pub(crate) fn of(summary: &Totals) -> Self {
        if summary.messages == 0 {
            return Self::NONE;
        }
        Self { earliest: summary.first_timestamp, latest: summary.last_timestamp }
    }

    /// As a summary says it.
    pub(crate) fn told(self) -> (Timestamp, Timestamp) {
        if self == Self::NONE { (0, 0) } else { (self.earliest, self.latest) }
    }
}

/// A segment in a stream's list.
#[derive(Clone, Debug)]
pub(crate) struct SegmentView {
    pub(crate) segment: Arc<Segment>,
    /// Visible sequences: `first_seq..=last_seq`, empty while `last_seq < first_seq`.
    pub(crate) first_seq: Seq,
    pub(crate) last_seq: Seq,
    /// Of the messages of its table, visible or not.
    pub(crate) times: Times,
    /// The latest time of any message up to its end: never before that of the segments before it,
    /// even if it is empty.
    pub(crate) reached: Timestamp,
    pub(crate) form: Form,
    /// Messages that were removed one by one since the table was made.
    pub(crate) removed: u32,
}

impl SegmentView {
    pub(crate) fn is_empty(&self) -> bool {
        self.last_seq < self.first_seq
    }

    /// Whether more than half of what its table names, which is in memory, was removed.
    pub(crate) fn is_mostly_removed(&self) -> bool {
        matches!(&self.form, Form::Closed(rows) if rows.len() < 2 * self.removed as usize)
    }
}

/// The file name of a segment: numbers sort as text up to 10^16.
pub(crate) fn segment_name(no: SegmentNo) -> String {
    format!("{:016}.seg", no.0)
}

/// The number in a segment's file name.
pub(crate) fn segment_number(name: &str) -> Option<SegmentNo> {
    let digits = name.strip_suffix(".seg")?;
    // `parse` alone would take a sign and other lengths, too.
    let no = SegmentNo(digits.parse().ok()?);
    (segment_name(no) == name).then_some(no)
}
