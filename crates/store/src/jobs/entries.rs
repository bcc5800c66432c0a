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
            scan(segment, &Appended(Arc::clone(file)), file.end(), visit).map(drop)
        }
        SegmentFile::Plain(file) => scan(segment, &*file.open()?, file.records_end, visit).map(drop),
        SegmentFile::Packed(file, frames) => unpack(segment, &*file.open()?, frames, visit, &|| Ok(())),
    }
}

fn unreadable(segment: &Segment) -> JobError {
    JobError::Damage(segment.no, Damage::Checksum(WHAT))
}

/// The header of the segment's file.
pub(crate) fn header(segment: &Segment) -> Result<SegmentHeader, JobError> {
    let header = match &segment.source {
        SegmentFile::Appended(file) => SegmentHeader::read(&Appended(Arc::clone(file))),
        SegmentFile::Plain(file) | SegmentFile::Packed(file, _) => SegmentHeader::read(&*file.open()?),
    };
    header.map_err(|damage| JobError::of(segment, damage))
}

fn scan_whole(
    segment: &Segment,
    file: &dyn File,
    end: u64,
    visit: &mut dyn FnMut(Scanned<'_>) -> Result<(), JobError>,
) -> Result<(), JobError> {
    let scan = scan(segment, file, end, visit)?;
    if scan.damaged.is_empty() && scan.end.offset() == end {
        return Ok(());
    }
    Err(unreadable(segment))
}

fn scan(
    segment: &Segment,
    file: &dyn File,
    end: u64,
    visit: &mut dyn FnMut(Scanned<'_>) -> Result<(), JobError>,
) -> Result<Scan, JobError> {
    let header = header(segment)?;
    let mut result = Ok(());
    let extent = Extent { from: HEADER_BYTES as u64, to: end, durable: end };
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
