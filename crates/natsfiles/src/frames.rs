//! The framing of S2 streams: chunks of up to four megabytes, each with its checksum.
//!
//! A chunk is a type, its length in three bytes, and for data a masked CRC-32C of what it holds.
//! `minlz` compresses and decompresses blocks; its own reader of streams wants a source that
//! blocks, and its checksum is made by software.
//!
//! [`FrameReader`] takes bytes as they come and gives decompressed ones; it never holds more than a
//! chunk of each.

use minlz::s2;
use std::fmt;

/// Beginning of a stream.
const IDENTIFIER: &[u8] = b"\xff\x06\x00\x00S2sTwO";
const S2: &[u8] = b"S2sTwO";
const SNAPPY: &[u8] = b"sNaPpY";
/// Decompressed bytes of a chunk, at most.
pub const MAX_BLOCK: usize = 4 << 20;
/// Decompressed bytes of a chunk of Snappy, at most.
const MAX_SNAPPY_BLOCK: usize = 64 << 10;
/// Bytes of a chunk behind its head, at most: what a block that cannot be compressed takes.
const MAX_CHUNK: usize = MAX_BLOCK + MAX_BLOCK / 6 + 64;
/// Bytes of a chunk's head.
const HEAD: usize = 4;
const CHECKSUM: usize = 4;
/// Bytes that are compressed together.
const BLOCK: usize = 1 << 20;

const COMPRESSED: u8 = 0x00;
const PLAIN: u8 = 0x01;
/// From here on chunks of unknown meaning may be passed over.
const SKIPPABLE: u8 = 0x80;
const BEGINNING: u8 = 0xff;

/// Why a stream cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The stream does not begin as S2 does.
    NotS2,
    /// A chunk is longer than chunks can be.
    TooLong,
    /// A chunk of a kind that must be understood.
    Unsupported,
    /// A block does not decompress, or to something else.
    Corrupt,
    /// The checksum of a block is wrong.
    Checksum,
    /// The stream ends within a chunk.
    Truncated,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Compat: the words of the reference's library, as its answers to a failed restore have
        // them.
        f.write_str(match self {
            Self::NotS2 | Self::Corrupt | Self::TooLong | Self::Truncated => "s2: corrupt input",
            Self::Unsupported => "s2: unsupported input",
            Self::Checksum => "s2: crc mismatch",
        })
    }
}

impl std::error::Error for FrameError {}

fn masked(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Compresses what it is given, block by block.
#[derive(Default)]
pub struct FrameWriter {
    encoder: s2::Encoder,
    block: Vec<u8>,
    /// Compressed bytes that nobody has taken yet.
    pub out: Vec<u8>,
    has_begun: bool,
}

impl fmt::Debug for FrameWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameWriter").field("out", &self.out.len()).finish_non_exhaustive()
    }
}

impl FrameWriter {
    /// Adds bytes to the stream. What is complete is in `out` afterwards.
    pub fn write(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK - self.block.len()));
            self.block.extend_from_slice(now);
            bytes = later;
            if self.block.len() == BLOCK {
                self.flush();
            }
        }
    }

    /// Compresses what waits for a full block.
    pub fn flush(&mut self) {
        if !self.has_begun {
            self.has_begun = true;
            self.out.extend_from_slice(IDENTIFIER);
        }
        if self.block.is_empty() {
            return;
        }
        let packed = self.encoder.encode(&self.block);
        let is_smaller = packed.len() < self.block.len();
        let (kind, data) = if is_smaller { (COMPRESSED, &packed) } else { (PLAIN, &self.block) };
        let length = (data.len() + CHECKSUM) as u32;
        self.out.push(kind);
        self.out.extend_from_slice(&length.to_le_bytes()[..3]);
        self.out.extend_from_slice(&masked(&self.block).to_le_bytes());
        self.out.extend_from_slice(data);
        self.block.clear();
    }
}

/// Decompresses a stream that comes in pieces of any size.
#[derive(Debug, Default)]
pub struct FrameReader {
    /// Bytes that have come; the first `used` of them were used.
    input: Vec<u8>,
    used: usize,
    /// The block at hand; the first `taken` bytes of it were given away.
    block: Vec<u8>,
    taken: usize,
    /// Bytes of the largest block; 0 before the stream has begun.
    largest: usize,
    /// Bytes that are to be passed over.
    skipping: usize,
}

impl FrameReader {
    /// Bytes that it holds.
    #[must_use]
    pub fn held(&self) -> usize {
        self.input.capacity() + self.block.capacity()
    }

    /// Takes the next bytes of the stream. Read all there is before giving more: nothing here
    /// bounds what is given.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.used > 0 {
            self.input.drain(..self.used);
            self.used = 0;
        }
        self.input.extend_from_slice(bytes);
    }

    /// Decompressed bytes: the rest of the block at hand, or the next one. Empty: more must come
    /// first.
    ///
    /// # Errors
    /// The stream cannot be gone on with.
    pub fn fill(&mut self) -> Result<&[u8], FrameError> {
        while self.taken == self.block.len() {
            if !self.next_chunk()? {
                return Ok(&[]);
            }
        }
        Ok(&self.block[self.taken..])
    }

    /// The first `count` bytes of what [`fill`](Self::fill) gave were used.
    pub fn consume(&mut self, count: usize) {
        self.taken = (self.taken + count).min(self.block.len());
    }

    /// The last `count` bytes that were used, which were all in one block.
    pub(super) fn last(&self, count: usize) -> &[u8] {
        &self.block[self.taken.saturating_sub(count)..self.taken]
    }

    /// Whether the stream may end here.
    ///
    /// # Errors
    /// It ends within a chunk.
    pub fn finish(&self) -> Result<(), FrameError> {
        let is_whole = self.used == self.input.len() && self.skipping == 0;
        if is_whole { Ok(()) } else { Err(FrameError::Truncated) }
    }

    /// Reads one chunk. `false`: it is not there yet.
    fn next_chunk(&mut self) -> Result<bool, FrameError> {
        let input = &self.input[self.used..];
        if self.skipping > 0 {
            let now = self.skipping.min(input.len());
            self.used += now;
            self.skipping -= now;
            return Ok(now > 0);
        }
        let Some(head) = input.first_chunk::<HEAD>() else { return Ok(false) };
        let length = u32::from_le_bytes([head[1], head[2], head[3], 0]) as usize;
        let kind = head[0];
        if self.largest == 0 && kind != BEGINNING {
            return Err(FrameError::NotS2);
        }
        let is_skipped = (SKIPPABLE..BEGINNING).contains(&kind);
        if is_skipped {
            self.used += HEAD;
            self.skipping = length;
            return Ok(true);
        }
        if length > MAX_CHUNK {
            return Err(FrameError::TooLong);
        }
        let Some(body) = input.get(HEAD..HEAD + length) else { return Ok(false) };
        match kind {
            BEGINNING => self.largest = largest(body)?,
            COMPRESSED => unpack(body, self.largest, &mut self.block)?,
            PLAIN => copy(body, self.largest, &mut self.block)?,
            _ => return Err(FrameError::Unsupported),
        }
        if kind != BEGINNING {
            self.taken = 0;
        }
        self.used += HEAD + length;
        Ok(true)
    }
}

fn largest(body: &[u8]) -> Result<usize, FrameError> {
    match body {
        S2 => Ok(MAX_BLOCK),
        SNAPPY => Ok(MAX_SNAPPY_BLOCK),
        _ => Err(FrameError::NotS2),
    }
}

fn unpack(body: &[u8], largest: usize, block: &mut Vec<u8>) -> Result<(), FrameError> {
    let (checksum, packed) = body.split_first_chunk::<CHECKSUM>().ok_or(FrameError::Corrupt)?;
    let (length, _) = s2::decode_len(packed).map_err(|_| FrameError::Corrupt)?;
    if length > largest {
        return Err(FrameError::TooLong);
    }
    block.resize(length, 0);
    let decoded = s2::decode_into(block, packed);
    if !matches!(decoded, Ok(count) if count == length) {
        block.clear();
        return Err(FrameError::Corrupt);
    }
    check(*checksum, block)
}

fn copy(body: &[u8], largest: usize, block: &mut Vec<u8>) -> Result<(), FrameError> {
    let (checksum, plain) = body.split_first_chunk::<CHECKSUM>().ok_or(FrameError::Corrupt)?;
    if plain.len() > largest {
        return Err(FrameError::TooLong);
    }
    block.clear();
    block.extend_from_slice(plain);
    check(*checksum, block)
}

fn check(checksum: [u8; CHECKSUM], block: &mut Vec<u8>) -> Result<(), FrameError> {
    if u32::from_le_bytes(checksum) == masked(block) {
        return Ok(());
    }
    block.clear();
    Err(FrameError::Checksum)
}

/// Decompresses a stream that is there as a whole, to at most `limit` bytes.
///
/// # Errors
/// It is damaged, or larger.
pub fn unpack_all(packed: &[u8], limit: usize) -> Result<Vec<u8>, FrameError> {
    let mut reader = FrameReader::default();
    reader.feed(packed);
    let mut all = Vec::new();
    loop {
        let more = reader.fill()?;
        if more.is_empty() {
            reader.finish()?;
            return Ok(all);
        }
        if all.len() + more.len() > limit {
            return Err(FrameError::TooLong);
        }
        all.extend_from_slice(more);
        let count = more.len();
        reader.consume(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packed(parts: &[&[u8]]) -> Vec<u8> {
        let mut writer = FrameWriter::default();
        parts.iter().for_each(|part| writer.write(part));
        writer.flush();
        writer.out
    }

    fn read(bytes: &[u8], step: usize) -> Result<Vec<u8>, FrameError> {
        let mut reader = FrameReader::default();
        let mut all = Vec::new();
        for piece in bytes.chunks(step.max(1)) {
            reader.feed(piece);
            loop {
                let more = reader.fill()?;
                if more.is_empty() {
                    break;
                }
                all.extend_from_slice(more);
                let count = more.len();
                reader.consume(count);
            }
        }
        reader.finish().map(|()| all)
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(words in prop::collection::vec(0_u8..5, 0..5000), step in 1_usize..100) {
            let text: Vec<u8> = words.iter().flat_map(|word| b"abcdefgh"[..usize::from(*word)].to_vec()).collect();
            prop_assert_eq!(read(&packed(&[&text]), step), Ok(text));
        }

        #[test]
        fn what_comes_from_strangers_breaks_nothing(bytes in prop::collection::vec(any::<u8>(), 0..300), at in any::<usize>()) {
            let _ = read(&bytes, 7);
            let mut hurt = packed(&[b"some text that is text", &bytes]);
            let at = at % hurt.len();
            hurt[at] ^= 1;
            let _ = read(&hurt, 11);
        }
    }

    #[test]
    fn large_streams_come_in_blocks() {
        let text: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        let bytes = packed(&[&text[..5], &text[5..]]);
        assert!(bytes.len() < text.len() / 10);
        assert_eq!(read(&bytes, 100_000), Ok(text));
    }

    #[test]
    fn each_fault_has_its_name() {
        let good = packed(&[b"text text text text"]);
        assert_eq!(read(&good[..good.len() - 1], 99), Err(FrameError::Truncated));
        assert_eq!(read(b"plain text", 99), Err(FrameError::NotS2));
        let mut other = good.clone();
        other[10] = 0x02;
        assert_eq!(read(&other, 99), Err(FrameError::Unsupported));
        let mut other = good.clone();
        other[14] ^= 1;
        assert_eq!(read(&other, 99), Err(FrameError::Checksum));
        let mut long = IDENTIFIER.to_vec();
        long.extend_from_slice(&[PLAIN, 0xff, 0xff, 0xff]);
        assert_eq!(read(&long, 99), Err(FrameError::TooLong));
        let mut skipped = IDENTIFIER.to_vec();
        skipped.extend_from_slice(&[0x99, 3, 0, 0, 1, 2, 3]);
        skipped.extend_from_slice(&good);
        assert_eq!(read(&skipped, 1), Ok(b"text text text text".to_vec()));
    }

    #[test]
    fn a_bomb_is_not_unpacked_beyond_its_budget() {
        let bomb = packed(&[&vec![0; 8 << 20]]);
        assert!(bomb.len() < 10_000);
        assert_eq!(unpack_all(&bomb, 1 << 20), Err(FrameError::TooLong));
        assert_eq!(unpack_all(&bomb, 8 << 20).map(|all| all.len()), Ok(8 << 20));
    }
}
