//! Packed segments: frames of S2 in place of entries, for sealed segments of streams that are to be
//! compressed.
//!
//! A frame holds whole entries of the raw segment, about [`FRAME_TARGET`] bytes of them, and says
//! which range of the raw file they are; the table of frames (`table`) finds the frame of a raw
//! offset. So everything that names an entry by its offset goes on to work. Bytes are compressed
//! first and encrypted then; the checksum covers what is on disk and needs no key.
//! `docs/formats/encryption.md` has the layout.
//!
//! This room knows no entries: the caller gives and gets them in unencrypted form. It must never
//! trust a length before it is held against what is there: nothing is allocated for a frame whose
//! checksum is wrong.

use std::fmt;
use std::io;
use std::ops::Range;

use minlz::s2;
use myelin_disk::File;

use crate::cipher::{Cipher, Nonce, TAG_BYTES, Unauthentic};

mod rebuild;
mod table;

pub use rebuild::{Rebuilt, rebuild};
pub use table::{FRAME_ENTRY_BYTES, FramePlace, FrameTable};

/// Raw bytes after which a caller should close a frame. Small enough to read one entry without much
/// waste, large enough to find repetitions.
pub const FRAME_TARGET: usize = 64 * 1024;

/// Raw bytes that a frame may hold at most: a message of 64 MiB with its headers, subject and entry
/// header.
pub const MAX_FRAME: usize = 65 * 1024 * 1024;

/// Bytes of the header before a frame's data.
pub const FRAME_HEADER_BYTES: usize = 24;

/// The last four bytes of a frame's nonce.
const NONCE_TAG: u32 = u32::from_le_bytes(*b"pack");

/// A frame's only flag: its data is not compressed.
const STORED: u32 = 1;

/// The most bytes a frame of `raw_len` raw bytes can have: compressed data is never longer than
/// stored data.
const fn max_size(raw_len: usize) -> usize {
    FRAME_HEADER_BYTES + raw_len + TAG_BYTES
}

/// Why a frame or a table cannot be used.
#[derive(Debug)]
pub enum FrameError {
    /// The file cannot be read.
    Io(io::Error),
    /// No frame holds this raw offset.
    NotFound {
        /// Offset that was asked for.
        raw_offset: u64,
    },
    /// The bytes there are not the frame that the table tells of, or its checksum is wrong.
    Damaged {
        /// Where it begins in the file.
        file_offset: u64,
        /// Fault of the frame.
        what: &'static str,
    },
    /// The checksum is right, but the frame was not sealed here with this key.
    Unauthentic {
        /// Where it begins in the file.
        file_offset: u64,
    },
    /// The table of frames contradicts itself or the file's length.
    Table {
        /// Fault of the table.
        what: &'static str,
    },
    /// A frame to be written would be empty, or longer than [`MAX_FRAME`].
    Size {
        /// Its raw bytes.
        raw_len: usize,
    },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::NotFound { raw_offset } => write!(f, "no frame holds the raw offset {raw_offset}"),
            Self::Damaged { file_offset, what } => write!(f, "the frame at {file_offset} is damaged: {what}"),
            Self::Unauthentic { file_offset } => write!(f, "the frame at {file_offset}: {Unauthentic}"),
            Self::Table { what } => write!(f, "the table of frames is damaged: {what}"),
            Self::Size { raw_len } => {
                write!(f, "a frame of {raw_len} raw bytes; 1 to {MAX_FRAME} are possible")
            }
        }
    }
}

impl std::error::Error for FrameError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Self::Io(error) = self { Some(error) } else { None }
    }
}

/// Writes the frames of one packed segment, and remembers where they are.
pub struct Packer {
    seed: u32,
    cipher: Option<Cipher>,
    encoder: s2::Encoder,
    table: FrameTable,
}

impl Packer {
    /// For the file with the identity `seed`; `cipher` is that of this file (its salt, its
    /// generation), not the one of the raw file.
    #[must_use]
    pub fn new(seed: u32, cipher: Option<Cipher>) -> Self {
        Self { seed, cipher, encoder: s2::Encoder::new(), table: FrameTable::default() }
    }

    /// Appends a frame with `raw`, which stands at `raw_offset` of the raw file, to `out`;
    /// `file_offset` is where the frame will stand in the packed file. Frames come in ascending
    /// order of both.
    ///
    /// # Errors
    /// [`FrameError::Size`] and [`FrameError::Table`] (out of order); `out` is as it was then.
    pub fn push_frame(
        &mut self,
        raw_offset: u64,
        raw: &[u8],
        out: &mut Vec<u8>,
        file_offset: u64,
    ) -> Result<(), FrameError> {
        if raw.is_empty() || raw.len() > MAX_FRAME {
            return Err(FrameError::Size { raw_len: raw.len() });
        }
        let compressed = self.encoder.encode(raw);
        let (flags, data) = if gains(&compressed, raw) { (0, compressed.as_slice()) } else { (STORED, raw) };
        let tag = if self.cipher.is_some() { TAG_BYTES } else { 0 };
        let size = fits_u32(FRAME_HEADER_BYTES + data.len() + tag);
        let place = FramePlace { raw_offset, file_offset, raw_len: fits_u32(raw.len()), size };
        self.table.push(place)?;

        let begin = out.len();
        out.reserve(size as usize);
        out.extend_from_slice(&FrameHeader { place, flags, crc: 0 }.encode());
        out.extend_from_slice(data);
        if let Some(cipher) = &self.cipher {
            let aad = associated(&out[begin..]);
            cipher.seal(nonce(file_offset), &aad, out, begin + FRAME_HEADER_BYTES);
        }
        let crc = checksum(self.seed, &out[begin..]);
        out[begin + 4..begin + 8].copy_from_slice(&crc.to_le_bytes());
        Ok(())
    }

    /// Where the frames are.
    #[must_use]
    pub fn finish(self) -> FrameTable {
        self.table
    }
}

impl fmt::Debug for Packer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packer").field("table", &self.table).finish_non_exhaustive()
    }
}

/// A stored frame is read without decompressing it: that is worth a sixteenth of its size.
fn gains(compressed: &[u8], raw: &[u8]) -> bool {
    compressed.len() < raw.len() - raw.len() / 16
}

/// Reads the frame that holds `raw_offset` and leaves its raw bytes in `out` (what was in there is
/// lost). Answers the raw offset of `out[0]`. An `out` that is used again spares allocations.
///
/// # Errors
/// [`FrameError`]; `out` is unspecified then.
pub fn read_frame(
    file: &dyn File,
    table: &FrameTable,
    raw_offset: u64,
    seed: u32,
    cipher: Option<&Cipher>,
    out: &mut Vec<u8>,
) -> Result<u64, FrameError> {
    let place = table.find(raw_offset).ok_or(FrameError::NotFound { raw_offset })?;
    out.resize(place.size as usize, 0);
    if file.read_at(out, place.file_offset).map_err(FrameError::Io)? < out.len() {
        return Err(damaged(place.file_offset, "the file ends in it"));
    }
    unpack_frame(place, seed, cipher, out)?;
    Ok(place.raw_offset)
}

/// Turns the frame in `frame`, all of it and nothing else, into its raw bytes: for a caller that
/// reads by itself (`read_cached_at`). `place` is what the table says about it.
///
/// # Errors
/// [`FrameError::Damaged`] and [`FrameError::Unauthentic`]; `frame` is unspecified then.
pub fn unpack_frame(
    place: FramePlace,
    seed: u32,
    cipher: Option<&Cipher>,
    frame: &mut Vec<u8>,
) -> Result<(), FrameError> {
    let at = place.file_offset;
    let header = FrameHeader::decode(frame, at).ok_or(damaged(at, "its header is wrong"))?;
    if header.place != place || frame.len() != place.size as usize {
        return Err(damaged(at, "it is not the one in the table"));
    }
    if checksum(seed, frame) != header.crc {
        return Err(damaged(at, "its checksum is wrong"));
    }
    let aad = associated(frame);
    let body = &mut frame[FRAME_HEADER_BYTES..];
    let length = match cipher {
        Some(cipher) => cipher
            .open(nonce(at), &aad, body)
            .map_err(|Unauthentic| FrameError::Unauthentic { file_offset: at })?,
        None => body.len(),
    };
    let data = FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + length;
    let raw_len = place.raw_len as usize;
    if header.flags == STORED { take_stored(frame, data, raw_len) } else { decompress(frame, data, raw_len) }
        .map_err(|what| damaged(at, what))
}

/// Moves the data to the front.
fn take_stored(frame: &mut Vec<u8>, data: Range<usize>, raw_len: usize) -> Result<(), &'static str> {
    if data.len() != raw_len {
        return Err("its length is wrong");
    }
    frame.copy_within(data, 0);
    frame.truncate(raw_len);
    Ok(())
}

/// Decompresses to the front. The compressed data moves out of the way first: it is the smaller
/// one.
fn decompress(frame: &mut Vec<u8>, data: Range<usize>, raw_len: usize) -> Result<(), &'static str> {
    if !matches!(s2::decode_len(&frame[data.clone()]), Ok((length, _)) if length == raw_len) {
        return Err("its length is wrong");
    }
    let moved = raw_len.max(data.start);
    frame.resize(moved + data.len(), 0);
    frame.copy_within(data, moved);
    let (raw, compressed) = frame.split_at_mut(moved);
    s2::decode_into(&mut raw[..raw_len], compressed).map_err(|_| "it does not decompress")?;
    frame.truncate(raw_len);
    Ok(())
}

/// Header before a frame's data: size | crc | raw offset | raw length | flags.
struct FrameHeader {
    place: FramePlace,
    crc: u32,
    flags: u32,
}

impl FrameHeader {
    fn encode(&self) -> [u8; FRAME_HEADER_BYTES] {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.place.size.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.crc.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.place.raw_offset.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.place.raw_len.to_le_bytes());
        bytes[20..].copy_from_slice(&self.flags.to_le_bytes());
        bytes
    }

    /// The header at the beginning of `frame`, which stands at `file_offset`. `None` if it is cut,
    /// or cannot be one.
    fn decode(frame: &[u8], file_offset: u64) -> Option<Self> {
        let (size, rest) = frame.split_first_chunk()?;
        let (crc, rest) = rest.split_first_chunk()?;
        let (raw_offset, rest) = rest.split_first_chunk()?;
        let (raw_len, rest) = rest.split_first_chunk()?;
        let (flags, _) = rest.split_first_chunk()?;
        let place = FramePlace {
            raw_offset: u64::from_le_bytes(*raw_offset),
            file_offset,
            raw_len: u32::from_le_bytes(*raw_len),
            size: u32::from_le_bytes(*size),
        };
        let header = Self { place, crc: u32::from_le_bytes(*crc), flags: u32::from_le_bytes(*flags) };
        (place.is_plausible() && header.flags <= STORED).then_some(header)
    }
}

/// Over all of the frame but the checksum itself. `frame` is longer than its header.
fn checksum(seed: u32, frame: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(seed, &frame[..4]), &frame[8..])
}

/// Raw offset, raw length and flags. The size needs none: another size is another text.
fn associated(frame: &[u8]) -> [u8; FRAME_HEADER_BYTES - 8] {
    let mut aad = [0; FRAME_HEADER_BYTES - 8];
    aad.copy_from_slice(&frame[8..FRAME_HEADER_BYTES]);
    aad
}

/// A frame's place in its file is written once.
const fn nonce(file_offset: u64) -> Nonce {
    Nonce::section_at(NONCE_TAG, file_offset)
}

const fn damaged(file_offset: u64, what: &'static str) -> FrameError {
    FrameError::Damaged { file_offset, what }
}

/// Lengths of frames are bounded by [`MAX_FRAME`].
fn fits_u32(length: usize) -> u32 {
    u32::try_from(length).expect("a frame is shorter than 4 GiB")
}

#[cfg(test)]
mod tests;
