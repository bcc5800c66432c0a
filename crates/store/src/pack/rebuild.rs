//! Finds the frames of a packed segment whose table is lost: a walk from frame to frame, and past
//! damaged ones.
//!
//! Needs no key, for checksums cover what is on disk. Reads in windows; never holds a frame whole.

use std::io;
use std::ops::Range;

use myelin_disk::File;

use super::{FRAME_HEADER_BYTES, FrameHeader, FramePlace, FrameTable};

/// Bytes read at once.
const WINDOW: usize = 64 * 1024;

/// Result of a walk through the frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// The frames whose checksums are right.
    pub table: FrameTable,
    /// The ranges of the file between them that are no frames.
    pub damaged: Vec<Range<u64>>,
}

/// Finds the frames in `range` of a packed file with the identity `seed`. Work is bounded by a
/// small multiple of the range, whatever it holds; a file made to look like many frames may leave
/// the rest of it reported as damaged.
///
/// # Errors
/// Those of reading. Damage is none.
pub fn rebuild(file: &dyn File, seed: u32, range: Range<u64>) -> io::Result<Rebuilt> {
    let end = range.end.min(file.len()?);
    let mut walk = Walk { window: FileWindow::new(file), seed, end, budget: 4 * end + WINDOW as u64 };
    let mut rebuilt = Rebuilt::default();
    let (mut at, mut sound) = (range.start, range.start);
    while at < end {
        let Some(place) = walk.frame_at(at)?.filter(|place| rebuilt.table.push(*place).is_ok()) else {
            at += 1;
            continue;
        };
        rebuilt.note_damage(sound..at);
        at = place.file().end;
        sound = at;
    }
    rebuilt.note_damage(sound..end);
    Ok(rebuilt)
}

impl Rebuilt {
    fn note_damage(&mut self, range: Range<u64>) {
        if !range.is_empty() {
            self.damaged.push(range);
        }
    }
}

struct Walk<'a> {
    window: FileWindow<'a>,
    seed: u32,
    end: u64,
    /// Bytes that may still be checked.
    budget: u64,
}

impl Walk<'_> {
    /// The frame that begins at `at`, if one does.
    fn frame_at(&mut self, at: u64) -> io::Result<Option<FramePlace>> {
        let header = FrameHeader::decode(self.window.at(at)?, at);
        let Some(header) = header.filter(|header| header.place.file().end <= self.end) else {
            return Ok(None);
        };
        let Some(left) = self.budget.checked_sub(u64::from(header.place.size)) else { return Ok(None) };
        self.budget = left;
        Ok((self.checksum(header.place)? == header.crc).then_some(header.place))
    }

    /// As `super::checksum`, piece by piece.
    fn checksum(&mut self, place: FramePlace) -> io::Result<u32> {
        let mut crc = crc32c::crc32c_append(self.seed, &place.size.to_le_bytes());
        let Range { start, end } = place.file();
        let mut at = start + 8;
        while at < end {
            let bytes = self.window.at(at)?;
            let taken = bytes.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
            if taken == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            crc = crc32c::crc32c_append(crc, &bytes[..taken]);
            at += taken as u64;
        }
        Ok(crc)
    }
}

/// The part of the file that was read last.
struct FileWindow<'a> {
    file: &'a dyn File,
    bytes: Vec<u8>,
    start: u64,
    len: usize,
}

impl<'a> FileWindow<'a> {
    fn new(file: &'a dyn File) -> Self {
        Self { file, bytes: vec![0; WINDOW], start: 0, len: 0 }
    }

    /// Bytes of the file from `at` on: at least a frame's header, unless the file ends before.
    fn at(&mut self, at: u64) -> io::Result<&[u8]> {
        let held = self.start..(self.start + self.len as u64).saturating_sub(FRAME_HEADER_BYTES as u64 - 1);
        if !held.contains(&at) {
            self.len = self.file.read_at(&mut self.bytes, at)?;
            self.start = at;
        }
        let skipped = usize::try_from(at - self.start).unwrap_or(self.len).min(self.len);
        Ok(&self.bytes[skipped..self.len])
    }
}
