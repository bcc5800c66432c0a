//! The base: all subjects of a stream as of the end of one segment, sorted, and the expiries of its
//! messages.
//!
//! Owns the files `index.NNNN` (`docs/formats/index.md`). A base is a shortcut: everything in it
//! can be found again from the segments, and a damaged one is rebuilt. It is written once, front to
//! back, and read the same way.
//!
//! ```text
//!  0 header, 64 bytes:  0 "MYELBASE"  8 u32 version  12 u32 0  16 u64 stream  24 u64 covers
//!                      32 u64 generation  40 [16] salt  56 u8 cipher  57 [3] 0  60 u32 checksum
//! 64 blocks:  0 u32 checksum of bytes 4..  4 u32 body length  8 u8 kind  9 [7] 0
//!            16 body (encrypted, if at all)
//!    trailer, 40 bytes:  0 "MYELBEND"  8 u64 subjects  16 u64 expiries  24 u64 file length
//!                       32 u32 0  36 u32 checksum
//! ```

use myelin_disk::File;

use crate::cipher::{Cipher, CipherKind};
use crate::damage::Damage;
use crate::record::FileContext;
use crate::{SegmentNo, StreamId};

mod merge;
mod reader;
mod structure;
mod writer;

pub use merge::merge;
pub use reader::BaseReader;
pub use structure::check_structure;
pub use writer::BaseWriter;

/// Bytes of the header; the first block follows.
pub const HEADER_BYTES: usize = 64;

const TRAILER_BYTES: usize = 40;
const BLOCK_HEAD_BYTES: usize = 16;
/// Bytes of text at which a block is closed, and subjects or expiries.
const BLOCK_TEXT: usize = 64 << 10;
const BLOCK_ROWS: usize = 4096;

const MAGIC: [u8; 8] = *b"MYELBASE";
const END_MAGIC: [u8; 8] = *b"MYELBEND";
const VERSION: u32 = 1;
const WHAT: &str = "base";

/// Kind of a block. The codes are those of its nonce, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockKind {
    Subjects,
    Expiries,
}

impl BlockKind {
    const fn code(self) -> u8 {
        match self {
            Self::Subjects => 4,
            Self::Expiries => 5,
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        match code {
            4 => Some(Self::Subjects),
            5 => Some(Self::Expiries),
            _ => None,
        }
    }
}

/// Header of a base: the stream and store that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaseHeader {
    /// The stream.
    pub stream: StreamId,
    /// The last segment whose effects are in it.
    pub covers: SegmentNo,
    /// Of the manifest that was the first to count on it.
    pub generation: u64,
    /// Random: makes its checksums, and its key, its own.
    pub salt: [u8; 16],
    /// How its blocks are encrypted.
    pub encryption: Option<CipherKind>,
}

impl BaseHeader {
    /// The header as bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.stream.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.covers.0.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.generation.to_le_bytes());
        bytes[40..56].copy_from_slice(&self.salt);
        bytes[56] = self.encryption.map_or(0, CipherKind::code);
        let checksum = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads the header of a file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(file: &dyn File) -> Result<Self, Damage> {
        let mut bytes = [0; HEADER_BYTES];
        if file.read_at(&mut bytes, 0)? < HEADER_BYTES {
            return Err(Damage::Short(WHAT));
        }
        if bytes[..8] != MAGIC {
            return Err(Damage::Magic(WHAT));
        }
        if crc32c::crc32c(&bytes[..60]).to_le_bytes() != bytes[60..] {
            return Err(Damage::Checksum(WHAT));
        }
        let (words, numbers) = (bytes.as_chunks::<4>().0, bytes.as_chunks::<8>().0);
        let (word, number) =
            (|at: usize| u32::from_le_bytes(words[at]), |at: usize| u64::from_le_bytes(numbers[at]));
        if word(2) != VERSION {
            return Err(Damage::Version(WHAT, word(2)));
        }
        let encryption = match bytes[56] {
            0 => None,
            code => Some(CipherKind::from_code(code).ok_or(Damage::Content(WHAT))?),
        };
        if word(3) != 0 || bytes[57..60] != [0; 3] {
            return Err(Damage::Content(WHAT));
        }
        let mut salt = [0; 16];
        salt.copy_from_slice(&bytes[40..56]);
        let (stream, covers) = (StreamId(number(2)), SegmentNo(number(3)));
        Ok(Self { stream, covers, generation: number(4), salt, encryption })
    }

    /// Context that its blocks share. `cipher` is the file's own key, and `None` if it is not
    /// encrypted.
    #[must_use]
    pub fn context(&self, cipher: Option<Cipher>) -> FileContext {
        let seed = crc32c::crc32c(&self.stream.0.to_le_bytes());
        let seed = crc32c::crc32c_append(seed, &self.covers.0.to_le_bytes());
        let seed = crc32c::crc32c_append(seed, &self.generation.to_le_bytes());
        FileContext { seed: crc32c::crc32c_append(seed, &self.salt), cipher }
    }
}

/// Summary at the end of a base.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BaseSummary {
    /// Subjects in it.
    pub subjects: u64,
    /// Expiries in it.
    pub expiries: u64,
    /// Length of the file.
    pub file_len: u64,
}

impl BaseSummary {
    fn encode(&self, context: &FileContext) -> [u8; TRAILER_BYTES] {
        let mut bytes = [0; TRAILER_BYTES];
        bytes[..8].copy_from_slice(&END_MAGIC);
        bytes[8..16].copy_from_slice(&self.subjects.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.expiries.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.file_len.to_le_bytes());
        let checksum = crc32c::crc32c_append(context.seed, &bytes[..36]);
        bytes[36..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn read(file: &dyn File, context: &FileContext) -> Result<Self, Damage> {
        let file_len = file.len()?;
        let mut bytes = [0; TRAILER_BYTES];
        let at = file_len.checked_sub(TRAILER_BYTES as u64).filter(|at| *at >= HEADER_BYTES as u64);
        if file.read_at(&mut bytes, at.ok_or(Damage::Short(WHAT))?)? < TRAILER_BYTES {
            return Err(Damage::Short(WHAT));
        }
        if bytes[..8] != END_MAGIC {
            return Err(Damage::Short(WHAT));
        }
        if crc32c::crc32c_append(context.seed, &bytes[..36]).to_le_bytes() != bytes[36..] {
            return Err(Damage::Checksum(WHAT));
        }
        let numbers = bytes.as_chunks::<8>().0;
        let number = |at: usize| u64::from_le_bytes(numbers[at]);
        let summary = Self { subjects: number(1), expiries: number(2), file_len: number(3) };
        if summary.file_len == file_len && bytes[32..36] == [0; 4] {
            Ok(summary)
        } else {
            Err(Damage::Content(WHAT))
        }
    }
}

#[cfg(test)]
mod tests;
