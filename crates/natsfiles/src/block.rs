//! A block of messages: records one behind the other, each with its checksum.
//!
//! A record is its length, its sequence and time, the length of its subject, the subject, the
//! headers with their length if it has some, the rest and the checksum; all numbers are little
//! endian. A sequence with its second highest bit set says that this message was deleted, one with
//! its highest bit that there is none with it. A block that is closed may be compressed as a whole,
//! and is encrypted as a whole.

use super::frames;
use super::hash::Hasher;
use super::keys::Seed;
use std::fmt;

use myelin_stdx::varint;

/// Set in a length: there are headers.
const HAS_HEADERS: u32 = 1 << 31;
/// Set in a sequence: it was erased, or never was.
const ERASED: u64 = 1 << 63;
/// Set in a sequence: it was deleted.
const TOMBSTONE: u64 = 1 << 62;
const HEAD: usize = 22;
const CHECKSUM: usize = 8;
/// Bytes of a record, at most.
const LARGEST_RECORD: usize = 32 << 20;
/// Beginning of a compressed block.
const PACKED: &[u8] = b"cmp\x01";

/// Content of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A message.
    Message {
        /// Its place.
        seq: u64,
        /// When it was accepted.
        timestamp: i64,
        /// Its subject.
        subject: &'a [u8],
        /// Its header block, or nothing.
        headers: &'a [u8],
        /// The rest.
        payload: &'a [u8],
    },
    /// A message that came before was deleted.
    Deleted(u64),
    /// There is nothing with this sequence.
    Nothing(u64),
}

/// Where a block cannot be read on, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRecord {
    /// In the readable form of the block.
    pub offset: usize,
    /// Fault that was found.
    pub why: &'static str,
}

impl fmt::Display for BadRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.why, self.offset)
    }
}

/// Makes a block readable: decrypts it, and decompresses it to at most `limit` bytes.
///
/// # Errors
/// It cannot be.
pub fn readable(mut block: Vec<u8>, seed: Option<&Seed>, limit: usize) -> Result<Vec<u8>, &'static str> {
    if let Some(seed) = seed
        && !seed.decrypt(&mut block)
    {
        return Err("it cannot be decrypted");
    }
    let Some(mut rest) = block.strip_prefix(PACKED) else { return Ok(block) };
    let unpacked = varint::take(&mut rest).and_then(|_| {
        // The checksum of the last record stands behind, as it is.
        let (packed, checksum) = rest.split_last_chunk::<CHECKSUM>()?;
        let mut all = frames::unpack_all(packed, limit).ok()?;
        all.extend_from_slice(checksum);
        Some(all)
    });
    match unpacked {
        Some(all) => Ok(all),
        // A record of just this length may begin so, too; its checksum tells.
        None if block.len() > 24_000_000 => Ok(block),
        None => Err("it cannot be decompressed"),
    }
}

/// The records of a readable block.
#[derive(Debug)]
pub struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
    hasher: Hasher,
    checksum: [u8; CHECKSUM],
}

impl<'a> Records<'a> {
    /// Of the block number `index` of a stream.
    #[must_use]
    pub fn new(bytes: &'a [u8], stream: &str, index: u32) -> Self {
        let hasher = Hasher::new(&format!("{stream}-{index}"));
        Self { bytes, at: 0, hasher, checksum: [0; CHECKSUM] }
    }

    /// The checksum of the last record that was read.
    #[must_use]
    pub fn checksum(&self) -> [u8; CHECKSUM] {
        self.checksum
    }

    fn read(&mut self, rest: &'a [u8]) -> Result<(Record<'a>, usize), &'static str> {
        let (head, _) = rest.split_first_chunk::<HEAD>().ok_or("a record is cut off")?;
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        let has_headers = length & HAS_HEADERS != 0;
        let length = (length & !HAS_HEADERS) as usize;
        let subject_length = usize::from(u16::from_le_bytes([head[20], head[21]]));
        if !(HEAD + CHECKSUM..=LARGEST_RECORD).contains(&length) {
            return Err("a record has an impossible length");
        }
        let body = rest.get(HEAD..length).ok_or("a record is cut off")?;
        let (body, checksum) = body.split_last_chunk::<CHECKSUM>().ok_or("a record is too short")?;
        let (subject, body) = body.split_at_checked(subject_length).ok_or("a subject is too long")?;
        let (headers, payload, summed) = if has_headers {
            let (size, parts) = body.split_first_chunk::<4>().ok_or("headers are cut off")?;
            let size = u32::from_le_bytes(*size) as usize;
            let (headers, payload) = parts.split_at_checked(size).ok_or("headers are too long")?;
            (headers, payload, parts)
        } else {
            (&body[..0], body, body)
        };
        if self.hasher.sum(&[&head[4..20], subject, summed]) != *checksum {
            return Err("a checksum is wrong");
        }
        self.checksum = *checksum;
        let number =
            |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes of a head of 22"));
        let (seq, timestamp) = (number(4), number(12).cast_signed());
        let record = if seq & TOMBSTONE != 0 {
            Record::Deleted(seq & !TOMBSTONE & !ERASED)
        } else if seq == 0 || seq & ERASED != 0 {
            Record::Nothing(seq & !ERASED)
        } else {
            Record::Message { seq, timestamp, subject, headers, payload }
        };
        Ok((record, length))
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, BadRecord>;

    /// The next record. What follows one that is bad is no use: nothing comes after it.
    fn next(&mut self) -> Option<Self::Item> {
        let rest = &self.bytes[self.at..];
        if rest.is_empty() {
            return None;
        }
        Some(match self.read(rest) {
            Ok((record, length)) => {
                self.at += length;
                Ok(record)
            }
            Err(why) => {
                let offset = std::mem::replace(&mut self.at, self.bytes.len());
                Err(BadRecord { offset, why })
            }
        })
    }
}
