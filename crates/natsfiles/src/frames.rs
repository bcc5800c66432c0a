//! The framing of S2 streams as files and backups have it: one stream with an end.
//!
//! The chunks are those of [`myelin_wire::s2`]. [`FrameReader`] takes bytes as they come and gives
//! decompressed ones; it never holds more than a chunk of each.

use myelin_wire::s2::{IDENTIFIER, S2Reader, S2Writer};

pub use myelin_wire::s2::{MAX_BLOCK, S2Error as FrameError};

/// Bytes that are compressed together.
const BLOCK: usize = myelin_wire::s2::WRITTEN_BLOCK;

/// Compresses what it is given, block by block.
#[derive(Debug, Default)]
pub struct FrameWriter {
    writer: S2Writer,
    block: Vec<u8>,
    /// Compressed bytes that nobody has taken yet.
    pub out: Vec<u8>,
    has_begun: bool,
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
        if !self.block.is_empty() {
            self.writer.block(&self.block, &mut self.out);
            self.block.clear();
        }
    }
}

/// Decompresses a stream that comes in pieces of any size.
#[derive(Debug, Default)]
pub struct FrameReader {
    chunks: S2Reader,
    /// Bytes that have come; the first `used` of them were used.
    input: Vec<u8>,
    used: usize,
    /// The block at hand; the first `taken` bytes of it were given away.
    block: Vec<u8>,
    taken: usize,
}

impl FrameReader {
    /// Bytes that it holds.
    #[must_use]
    pub fn held(&self) -> usize {
        self.input.capacity() + self.block.capacity() + self.chunks.held()
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
        if self.taken == self.block.len() && self.used < self.input.len() {
            self.taken = 0;
            match self.chunks.read_into(&self.input[self.used..], &mut self.block) {
                Ok(used) => self.used += used,
                Err(error) => {
                    self.block.clear();
                    return Err(error);
                }
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
        let is_whole = self.used == self.input.len() && self.chunks.is_between_chunks();
        if is_whole { Ok(()) } else { Err(FrameError::Truncated) }
    }
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
        long.extend_from_slice(&[0x01, 0xff, 0xff, 0xff]);
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
