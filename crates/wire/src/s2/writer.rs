//! The writing side: bytes that leave together become a stream of their own.

use super::{CHECKSUM, COMPRESSED, IDENTIFIER, PLAIN, WRITTEN_BLOCK, masked};
use minlz::s2;
use std::fmt;

/// How much work is spent on making blocks smaller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum S2Level {
    /// None: frames and checksums only.
    Uncompressed,
    /// `s2_fast`.
    #[default]
    Fast,
    /// `s2_better`.
    Better,
    /// `s2_best`.
    Best,
}

/// Compresses what leaves together. Tables of the encoder are kept between calls: up to 4.5 MiB at
/// [`S2Level::Best`], less than a megabyte otherwise.
#[derive(Default)]
pub struct S2Writer {
    level: S2Level,
    encoder: s2::Encoder,
    /// Pieces that share a block. Empty between calls.
    gathered: Vec<u8>,
}

impl fmt::Debug for S2Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S2Writer").field("level", &self.level).finish_non_exhaustive()
    }
}

impl S2Writer {
    /// Writer at this level.
    #[must_use]
    pub fn new(level: S2Level) -> Self {
        Self { level, ..Self::default() }
    }

    /// The level of what is written next.
    #[must_use]
    pub fn level(&self) -> S2Level {
        self.level
    }

    /// Changes the level, which may be done between any two writes. Tables of the level before are
    /// given back.
    pub fn set_level(&mut self, level: S2Level) {
        if level != self.level {
            *self = Self::new(level);
        }
    }

    /// Appends a stream that has these pieces end to end, in blocks of up to a megabyte: an
    /// identifier and the blocks, as nats-server writes them to a link. Nothing at all of nothing.
    pub fn write<'a>(&mut self, pieces: impl IntoIterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(IDENTIFIER);
        let mut pieces = pieces.into_iter().filter(|piece| !piece.is_empty()).peekable();
        let mut gathered = std::mem::take(&mut self.gathered);
        while let Some(mut piece) = pieces.next() {
            while !piece.is_empty() {
                let room = WRITTEN_BLOCK - gathered.len();
                let (now, later) = piece.split_at(piece.len().min(room));
                let is_complete = now.len() == room || (later.is_empty() && pieces.peek().is_none());
                match (gathered.is_empty(), is_complete) {
                    // Needs no copy.
                    (true, true) => self.block(now, out),
                    (_, false) => gathered.extend_from_slice(now),
                    (false, true) => {
                        gathered.extend_from_slice(now);
                        self.block(&gathered, out);
                        gathered.clear();
                    }
                }
                piece = later;
            }
        }
        // The last piece has completed its block.
        debug_assert!(gathered.is_empty());
        self.gathered = gathered;
        if out.len() == start + IDENTIFIER.len() {
            out.truncate(start);
        }
    }

    /// Appends one block of up to [`MAX_BLOCK`](super::MAX_BLOCK) bytes, without an identifier.
    pub fn block(&mut self, raw: &[u8], out: &mut Vec<u8>) {
        let packed = match self.level {
            S2Level::Uncompressed => return put_chunk(raw, None, out),
            S2Level::Fast => self.encoder.encode(raw),
            S2Level::Better => self.encoder.encode_better(raw),
            S2Level::Best => self.encoder.encode_best(raw),
        };
        put_chunk(raw, Some(&packed), out);
    }

    /// Bytes of the room for pieces.
    #[must_use]
    pub fn held(&self) -> usize {
        self.gathered.capacity()
    }

    /// Gives back all memory: an idle link needs none.
    pub fn release(&mut self) {
        *self = Self::new(self.level);
    }
}

/// Appends a chunk: the packed form if it is smaller, else the raw one.
pub(crate) fn put_chunk(raw: &[u8], packed: Option<&[u8]>, out: &mut Vec<u8>) {
    let (kind, data) = match packed {
        Some(packed) if packed.len() < raw.len() => (COMPRESSED, packed),
        _ => (PLAIN, raw),
    };
    let [first, second, third, _] =
        u32::try_from(data.len() + CHECKSUM).expect("chunks are short").to_le_bytes();
    out.reserve(super::HEAD + CHECKSUM + data.len());
    out.extend_from_slice(&[kind, first, second, third]);
    out.extend_from_slice(&masked(raw).to_le_bytes());
    out.extend_from_slice(data);
}
