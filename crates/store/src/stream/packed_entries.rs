//! Entries of a packed segment, read one frame after the other.

use crate::damage::Damage;
use crate::pack::{self, FrameError, FrameTable};
use crate::record;
use crate::segment::Scanned;
use myelin_disk::File;
use std::ops::Range;

use super::segment_view::{Segment, SegmentFile};

/// Gives the entries of all frames of a packed segment to `visit`; answers the frames that do not
/// hold entries.
pub(crate) fn each_entry(
    segment: &Segment,
    visit: &mut dyn FnMut(Scanned<'_>),
) -> Result<Vec<Range<u64>>, Damage> {
    let SegmentFile::Packed(sealed, frames) = &segment.source else { return Ok(Vec::new()) };
    let (file, mut damaged) = (sealed.open()?, Vec::new());
    let mut buffer = Vec::new();
    for frame in frames.frames() {
        if !unpack(segment, &*file, frames, frame.raw_offset, &mut buffer, visit)? {
            damaged.push(frame.file());
        }
    }
    Ok(damaged)
}

/// Whether the frame with the entry at `offset` is what was written, and holds entries.
pub(super) fn can_unpack(segment: &Segment, offset: u64) -> bool {
    let SegmentFile::Packed(sealed, frames) = &segment.source else { return true };
    let Ok(file) = sealed.open() else { return false };
    unpack(segment, &*file, frames, offset, &mut Vec::new(), &mut |_| {}).unwrap_or(false)
}

fn unpack(
    segment: &Segment,
    file: &dyn File,
    frames: &FrameTable,
    raw_offset: u64,
    buffer: &mut Vec<u8>,
    visit: &mut dyn FnMut(Scanned<'_>),
) -> Result<bool, Damage> {
    let context = &segment.context;
    let read = pack::read_frame(file, frames, raw_offset, context.seed, context.cipher.as_ref(), buffer);
    let begin = match read {
        Ok(begin) => begin,
        Err(FrameError::Io(error)) => return Err(error.into()),
        Err(_) => return Ok(false),
    };
    let mut at = 0;
    while at < buffer.len() {
        let Ok(decoded) = record::decode_trusted(&buffer[at..]) else { return Ok(false) };
        let (offset, size) = (begin + at as u64, decoded.size);
        visit(Scanned { offset, size, timestamp: decoded.timestamp, entry: decoded.entry });
        at += size;
    }
    Ok(true)
}
