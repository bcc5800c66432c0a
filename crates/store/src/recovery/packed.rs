//! Packed segments whose footer, or a part of it, is gone: what their sound frames hold goes through the catalog.
//!
//! Nothing here cuts or writes: a packed file was synced as a whole before it got its name, so whatever is missing in
//! it is damage.

use std::sync::Arc;

use crate::damage::Damage;
use crate::pack::{self, FrameError, FrameTable};
use crate::record;
use crate::segment::{HEADER_BYTES, Header, Scanned, Trailer};
use crate::stream::{SealedFile, Segment, Source};

use super::apply::Applying;
use super::{Notice, OpenError, Recovering};

impl Recovering<'_> {
    /// Reads the frames of a packed segment into the catalog, one entry after the other.
    pub(super) fn walk_packed(
        &mut self,
        header: &Header,
        trailer: Option<&Trailer>,
    ) -> Result<(), OpenError> {
        let fault = |damage: Damage| OpenError::new(format!("segment {}", header.segment.0), damage);
        if trailer.is_none() {
            self.note_damaged(header.segment, &Damage::Short("segment footer"));
        }
        let segment = self.packed_segment(header, trailer).map_err(fault)?;
        let unread = |error: crate::ReadError| fault(std::io::Error::other(error.to_string()).into());
        self.begin_walked(Arc::clone(&segment)).map_err(unread)?;
        let mut applying = Applying::to(&mut self.catalog);
        let damaged = each_entry(&segment, &mut |scanned| applying.entry(&scanned)).map_err(fault)?;
        let (entries, passed) = applying.end();
        self.report.entries += entries;
        let passed = passed.map_err(unread)?;
        if let Some(trailer) = trailer {
            self.catalog.skip(trailer.summary.last_seq);
        }
        self.note_frames(header, &damaged);
        self.report_passed(header.segment, passed);
        self.catalog.close_walked();
        Ok(())
    }

    /// The segment, with the frames that can still be found.
    pub(super) fn packed_segment(
        &mut self,
        header: &Header,
        trailer: Option<&Trailer>,
    ) -> Result<Arc<Segment>, Damage> {
        let path = self.files.segment_path(header.segment);
        let context = self.files.context(header).ok_or(Damage::Locked("segment"))?;
        let file = self.files.ground.disk.open(&path)?;
        let length = file.len()?;
        let end = trailer.map_or(length, |trailer| trailer.records_end);
        let found = pack::rebuild(&*file, context.seed, HEADER_BYTES as u64..end)?;
        // Behind the last frame stand its table and what is left of the footer.
        let frames_end = found.table.frames().last().map_or(HEADER_BYTES as u64, |frame| frame.file().end);
        for bytes in found.damaged.into_iter().filter(|bytes| bytes.start < frames_end) {
            self.report.note(Notice::DamagedEntries { segment: header.segment, bytes, sequences: None });
        }
        let sealed = SealedFile::new(&path, &self.files.ground.handles, end, length);
        Ok(Arc::new(Segment {
            stream: self.id,
            no: header.segment,
            generation: header.generation,
            first_seq: header.first_seq,
            context,
            source: Source::Packed(sealed, found.table),
        }))
    }

    pub(super) fn note_frames(&mut self, header: &Header, damaged: &[std::ops::Range<u64>]) {
        for bytes in damaged {
            let (segment, bytes) = (header.segment, bytes.clone());
            self.report.note(Notice::DamagedEntries { segment, bytes, sequences: None });
        }
    }
}

/// Gives the entries of all frames of a packed segment to `visit`; answers the frames that do not hold entries.
pub(super) fn each_entry(
    segment: &Segment,
    visit: &mut dyn FnMut(Scanned<'_>),
) -> Result<Vec<std::ops::Range<u64>>, Damage> {
    let Source::Packed(sealed, frames) = &segment.source else { return Ok(Vec::new()) };
    let (file, mut damaged) = (sealed.open()?, Vec::new());
    let mut buffer = Vec::new();
    for frame in frames.frames() {
        if !unpack(segment, &*file, frames, frame.raw_offset, &mut buffer, visit)? {
            damaged.push(frame.file());
        }
    }
    Ok(damaged)
}

fn unpack(
    segment: &Segment,
    file: &dyn crate::disk::File,
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
