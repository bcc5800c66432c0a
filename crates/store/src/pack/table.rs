//! Where the frames of a packed segment are: from raw offsets to places in the file.
//!
//! Owns the section of the footer that holds them. A table is only made of frames in order that do
//! not overlap, so that whoever searches it needs no further checks.

use std::ops::Range;

use super::{FRAME_HEADER_BYTES, FrameError, MAX_FRAME, max_size};

/// Bytes of one frame in an encoded table.
pub const FRAME_ENTRY_BYTES: usize = 24;

/// Where one frame is, and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramePlace {
    /// Where its raw bytes begin in the raw file.
    pub raw_offset: u64,
    /// Where the frame begins in the packed file.
    pub file_offset: u64,
    /// How many raw bytes it holds.
    pub raw_len: u32,
    /// Bytes of the frame in the packed file, its header included.
    pub size: u32,
}

impl FramePlace {
    /// The raw bytes it holds.
    #[must_use]
    pub fn raw(&self) -> Range<u64> {
        self.raw_offset..self.raw_offset.saturating_add(u64::from(self.raw_len))
    }

    /// The bytes it takes in the packed file.
    #[must_use]
    pub fn file(&self) -> Range<u64> {
        self.file_offset..self.file_offset.saturating_add(u64::from(self.size))
    }

    /// Whether there can be such a frame at all.
    pub(super) fn is_plausible(&self) -> bool {
        let (raw_len, size) = (self.raw_len as usize, self.size as usize);
        (1..=MAX_FRAME).contains(&raw_len)
            && size > FRAME_HEADER_BYTES
            && size <= max_size(raw_len)
            && self.raw_offset.checked_add(u64::from(self.raw_len)).is_some()
            && self.file_offset.checked_add(u64::from(self.size)).is_some()
    }
}

/// The frames of one packed segment, ascending by raw offset and by file offset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameTable {
    pub(super) frames: Vec<FramePlace>,
}

impl FrameTable {
    /// The frame that holds the byte at `raw_offset` of the raw file.
    #[must_use]
    pub fn find(&self, raw_offset: u64) -> Option<FramePlace> {
        let behind = self.frames.partition_point(|frame| frame.raw_offset <= raw_offset);
        let frame = self.frames[..behind].last()?;
        frame.raw().contains(&raw_offset).then_some(*frame)
    }

    /// All of them, in order.
    #[must_use]
    pub fn frames(&self) -> &[FramePlace] {
        &self.frames
    }

    /// Appends the section of the footer: [`FRAME_ENTRY_BYTES`] per frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(self.frames.len() * FRAME_ENTRY_BYTES);
        for frame in &self.frames {
            out.extend_from_slice(&frame.raw_offset.to_le_bytes());
            out.extend_from_slice(&frame.file_offset.to_le_bytes());
            out.extend_from_slice(&frame.raw_len.to_le_bytes());
            out.extend_from_slice(&frame.size.to_le_bytes());
        }
    }

    /// Reads what [`FrameTable::encode`] wrote. All frames must lie in `file`: between the packed
    /// file's header and its footer.
    ///
    /// # Errors
    /// [`FrameError::Table`].
    pub fn decode(bytes: &[u8], file: Range<u64>) -> Result<Self, FrameError> {
        let (entries, rest) = bytes.as_chunks::<FRAME_ENTRY_BYTES>();
        if !rest.is_empty() {
            return Err(FrameError::Table { what: "it is cut" });
        }
        let mut table = Self { frames: Vec::with_capacity(entries.len()) };
        for entry in entries {
            let place = decode_place(entry);
            if place.file_offset < file.start || place.file().end > file.end {
                return Err(FrameError::Table { what: "a frame lies outside of the file" });
            }
            table.push(place)?;
        }
        Ok(table)
    }

    /// Appends a frame.
    pub(super) fn push(&mut self, place: FramePlace) -> Result<(), FrameError> {
        if !place.is_plausible() {
            return Err(FrameError::Table { what: "a frame has an impossible length" });
        }
        if let Some(last) = self.frames.last()
            && (place.raw_offset < last.raw().end || place.file_offset < last.file().end)
        {
            return Err(FrameError::Table { what: "frames overlap" });
        }
        self.frames.push(place);
        Ok(())
    }
}

fn decode_place(entry: &[u8; FRAME_ENTRY_BYTES]) -> FramePlace {
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| entry[at + byte]));
    let half = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| entry[at + byte]));
    FramePlace { raw_offset: word(0), file_offset: word(8), raw_len: half(16), size: half(20) }
}
