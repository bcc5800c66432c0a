//! Streams of S2 without I/O: what compressed links between servers speak, and what backups are
//! written in.
//!
//! A stream is a row of chunks: a kind, a length in three bytes, and for data a masked CRC-32C of
//! the bytes before compression. [`S2Reader`] takes bytes as they come and gives decompressed ones,
//! [`S2Writer`] makes a stream of what is written at once, at one of four [`S2Level`]s. [`mode`] is
//! what two servers agree on. Blocks are compressed by `minlz`, whose own reader of streams wants a
//! source that blocks, and whose checksum is made by software.
//!
//! On a link a stream has no end: nats-server begins a new one, with an identifier, for each write
//! to the socket, and reads whatever identifiers, paddings and chunks to be passed over come. What
//! is sent before both sides know each other's mode is not compressed: the INFO of who accepts,
//! CONNECT and INFO of who dials. With the INFO that each side then sends anew, compression begins.

pub mod mode;
mod reader;
mod writer;

pub use reader::S2Reader;
pub(crate) use writer::put_chunk;
pub use writer::{S2Level, S2Writer};

use std::fmt;

/// Beginning of a stream of S2.
pub const IDENTIFIER: &[u8] = b"\xff\x06\x00\x00S2sTwO";
/// Beginning of a stream that readers of Snappy understand.
pub(crate) const SNAPPY_IDENTIFIER: &[u8] = b"\xff\x06\x00\x00sNaPpY";
/// Decompressed bytes of a chunk, at most.
pub const MAX_BLOCK: usize = 4 << 20;
/// Decompressed bytes of a chunk that a writer makes, at most. nats-server's are not larger.
pub const WRITTEN_BLOCK: usize = 1 << 20;
/// Decompressed bytes of a chunk of Snappy, at most.
pub(crate) const MAX_SNAPPY_BLOCK: usize = 64 << 10;

/// Bytes of a chunk's head.
const HEAD: usize = 4;
const CHECKSUM: usize = 4;

/// Kinds of chunks.
const COMPRESSED: u8 = 0x00;
const PLAIN: u8 = 0x01;
/// From here on chunks of unknown meaning, and padding, are passed over.
const SKIPPABLE: u8 = 0x80;
const BEGINNING: u8 = 0xff;

/// Reason why a stream cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum S2Error {
    /// The stream does not begin as S2 does.
    NotS2,
    /// A chunk is longer than chunks can be, or than the reader allows.
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

impl fmt::Display for S2Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Compat: the words of the reference's library, as its answers to a failed restore and its
        // log lines about a link have them.
        f.write_str(match self {
            Self::NotS2 | Self::Corrupt | Self::TooLong | Self::Truncated => "s2: corrupt input",
            Self::Unsupported => "s2: unsupported input",
            Self::Checksum => "s2: corrupt input, crc mismatch",
        })
    }
}

impl std::error::Error for S2Error {}

/// The checksum of a block. It is masked so that one over data with checksums in it is not always
/// the same.
fn masked(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}
