//! The entries of a segment, whatever its form: growing no more, sealed, or packed.
//!
//! Owns the way of them into a visitor. Bytes that are damaged end it with an error: what is
//! written from here replaces the original, and must not be less.

use std::io;
use std::sync::Arc;

use myelin_disk::File;

use super::JobError;
use crate::append_file::AppendFile;
use crate::damage::Damage;
use crate::pack::{FrameError, FrameTable, read_frame};
use crate::record;
use crate::segment::{self, Extent, HEADER_BYTES, Scan, Scanned, SegmentHeader};
use crate::stream::{Segment, SegmentFile};

const WHAT: &str = "segment";

/// Gives all entries of `segment` to `visit`, in order, until it fails.
pub(super) fn walk(
    segment: &Segment,
    visit: &mut dyn FnMut(Scanned<'_>) -> Result<(), JobError>,
) -> Result<(), JobError> {
    match &segment.source {
        SegmentFile::Appended(file) => scan_whole(segment, &Appended(Arc::clone(file)), file.end(), visit),
        SegmentFile::Plain(file) => scan_whole(segment, &*file.open()?, file.records_end, visit),
        SegmentFile::Packed(file, frames) => {
            unpack(segment, &*file.open()?, frames, visit, &|| Err(unreadable(segment)))
        }
    }
}

/// As [`walk`], of a segment that may be damaged: what can be read of it.
pub(crate) fn walk_sound(
    segment: &Segment,
    visit: &mut dyn FnMut(Scanned<'_>) -> Result<(), JobError>,
) -> Result<(), JobError> {
    match &segment.source {
        SegmentFile::Appended(file) => {
            scan(segment, &Appended(Arc::clone(file)), whole(file.end()), visit).map(drop)
        }
        SegmentFile::Plain(file) => scan(segment, &*file.open()?, whole(file.records_end), visit).map(drop),
        SegmentFile::Packed(file, frames) => unpack(segment, &*file.open()?, frames, visit, &|| Ok(())),
    }
}

/// As [`walk_sound`], of about so many bytes from an offset on, at which a batch begins; without
/// one from the first. Answers where to go on; `None`: there is no more. A packed segment is given
/// as a whole.
pub(crate) fn walk_part(
    segment: &Segment,
    (from, bytes): (Option<u64>, u64),
    visit: &mut dyn FnMut(Scanned<'_>) -> Result<(), JobError>,
) -> Result<Option<u64>, JobError> {
    let from = from.unwrap_or(HEADER_BYTES as u64);
    let mut part_of = |file: &dyn File, end: u64| {
        let to = end.min(from.saturating_add(bytes));
        // A batch that the part ends in is none that is damaged.
        let durable = if to == end { end } else { from };
        let scan = scan(segment, file, Extent { from, to, durable }, visit)?;
        Ok((to < end).then_some(scan.end.offset()))
    };
    match &segment.source {
        SegmentFile::Appended(file) => part_of(&Appended(Arc::clone(file)), file.end()),
        SegmentFile::Plain(file) => part_of(&*file.open()?, file.records_end),
        SegmentFile::Packed(..) => walk_sound(segment, visit).map(|()| None),
    }
}

fn unreadable(segment: &Segment) -> JobError {
    JobError::Damage(segment.no, Damage::Checksum(WHAT))
}

/// The header of the segment's file, which never changes: it is read once.
pub(crate) fn header(segment: &Segment) -> Result<SegmentHeader, JobError> {
    if let Some(header) = segment.header.get() {
        return Ok(*header);
    }
    let header = match &segment.source {
        SegmentFile::Appended(file) => SegmentHeader::read(&Appended(Arc::clone(file))),
        SegmentFile::Plain(file) | SegmentFile::Packed(file, _) => SegmentHeader::read(&*file.open()?),
    };
    let header = header.map_err(|damage| JobError::of(segment, damage))?;
    Ok(*segment.header.get_or_init(|| header))
}

fn scan_whole(
    segment: &Segment,
    file: &dyn File,
    end: u64,
    visit: &mut dyn FnMut(Scanned<'_>) -> Result<(), JobError>,
) -> Result<(), JobError> {
    let scan = scan(segment, file, whole(end), visit)?;
    if scan.damaged.is_empty() && scan.end.offset() == end {
        return Ok(());
    }
    Err(unreadable(segment))
}

/// All entries of a file, which end at `end`.
fn whole(end: u64) -> Extent {
    Extent { from: HEADER_BYTES as u64, to: end, durable: end }
}

fn scan(
    segment: &Segment,
    file: &dyn File,
    extent: Extent,
    visit: &mut dyn FnMut(Scanned<'_>) -> Result<(), JobError>,
) -> Result<Scan, JobError> {
    let header = header(segment)?;
    let mut result = Ok(());
    let scan = segment::scan(file, &header, &segment.context, extent, &mut |scanned| {
        if result.is_ok() {
            result = visit(scanned);
        }
    });
    let scan = scan.map_err(|damage| JobError::of(segment, damage))?;
    result.map(|()| scan)
}

/// `damaged` says what a frame costs that cannot be read.
fn unpack(
    segment: &Segment,
    file: &dyn File,
    frames: &FrameTable,
    visit: &mut dyn FnMut(Scanned<'_>) -> Result<(), JobError>,
    damaged: &dyn Fn() -> Result<(), JobError>,
) -> Result<(), JobError> {
    let (context, mut buffer) = (&segment.context, Vec::new());
    for frame in frames.frames() {
        let begin = match read_frame(
            file,
            frames,
            frame.raw_offset,
            context.seed,
            context.cipher.as_ref(),
            &mut buffer,
        ) {
            Ok(begin) => begin,
            // What the disk refuses now it may give later.
            Err(FrameError::Io(error)) => return Err(error.into()),
            Err(_) => {
                damaged()?;
                continue;
            }
        };
        let mut at = 0;
        while at < buffer.len() {
            let Ok(decoded) = record::decode_trusted(&buffer[at..]) else {
                damaged()?;
                break;
            };
            let (offset, size) = (begin + at as u64, decoded.size);
            visit(Scanned { offset, size, timestamp: decoded.timestamp, entry: decoded.entry })?;
            at += size;
        }
    }
    Ok(())
}

/// An append-only file with what of it is still in memory, to read.
#[derive(Debug)]
pub(super) struct Appended(pub(super) Arc<AppendFile>);

impl File for Appended {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.end())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, _bytes: &[u8], _offset: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn allocate(&self, _length: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_len(&self, _length: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
