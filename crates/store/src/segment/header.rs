//! The first 128 bytes of a segment file: whose it is, and what stands in it.
//!
//! Owns the identity that every checksum of the file begins with.

use myelin_disk::File;

use crate::cipher::{Cipher, CipherKind};
use crate::damage::Damage;
use crate::flipped;
use crate::record::FileContext;
use crate::{SegmentNo, Seq, StreamId};

/// Bytes of the header; the first entry follows.
pub const HEADER_BYTES: usize = 128;

/// Sequences in files end here: so what is added to one does not overflow.
pub(crate) const MAX_SEQ: Seq = 1 << 63;

const MAGIC: [u8; 8] = *b"MYELSEG1";
const VERSION: u32 = 1;
/// Version of a segment whose entries are those of a group's log.
const VERSION_IN_GROUP: u32 = 2;
const PACKED: u32 = 1;
const IN_GROUP: u32 = 2;
const WITHIN: u32 = 4;
const WHAT: &str = "segment header";

/// A segment file's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The stream.
    pub stream: StreamId,
    /// Its number in the stream.
    pub segment: SegmentNo,
    /// How often it was written anew.
    pub generation: u64,
    /// The last segment number that the file stands for: its own, unless it was merged from
    /// several.
    pub through: SegmentNo,
    /// The next sequence when it was begun.
    pub first_seq: Seq,
    /// Where the entries of the segment before it ended then; 0 for the first, or where it does not
    /// matter any more. A segment that ends earlier has lost its tail, and what follows it was not
    /// synced either.
    pub before: u64,
    /// The epoch then.
    pub epoch: u64,
    /// The term then.
    pub term: u64,
    /// Random: makes its checksums, and its key, its own.
    pub salt: [u8; 16],
    /// How its entries are encrypted.
    pub encryption: Option<CipherKind>,
    /// Whether blocks of compressed entries stand between header and footer.
    pub packed: bool,
    /// Where it stands in the log of a group, if its stream has one.
    pub group: Option<GroupPlace>,
}

/// Place of a segment in the log of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupPlace {
    /// Index of the log entry that the group was to get next when the segment was begun.
    pub first_index: u64,
    /// The chain of the log entry before it.
    pub chain: u64,
    /// Whether the log entry before it is a part of a decision that goes on behind it.
    pub is_within: bool,
}

impl SegmentHeader {
    /// The header as bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(&MAGIC);
        let version = if self.group.is_some() { VERSION_IN_GROUP } else { VERSION };
        let packed = if self.packed { PACKED } else { 0 };
        let within = if self.group.is_some_and(|group| group.is_within) { WITHIN } else { 0 };
        let flags = if self.group.is_some() { packed | IN_GROUP | within } else { packed };
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        bytes[12..16].copy_from_slice(&flags.to_le_bytes());
        let numbers = [
            self.stream.0,
            self.segment.0,
            self.generation,
            self.through.0,
            self.first_seq,
            self.epoch,
            self.term,
        ];
        for (place, number) in bytes[16..72].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes[72..88].copy_from_slice(&self.salt);
        bytes[96..104].copy_from_slice(&self.before.to_le_bytes());
        bytes[88] = self.encryption.map_or(0, CipherKind::code);
        if let Some(GroupPlace { first_index, chain, .. }) = self.group {
            bytes[104..112].copy_from_slice(&first_index.to_le_bytes());
            bytes[112..120].copy_from_slice(&chain.to_le_bytes());
        }
        let checksum = crc32c::crc32c(&bytes[..124]);
        bytes[124..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads a header.
    ///
    /// # Errors
    /// `Short`, `Magic`, `Version`, `Checksum`, or `Content` if a later version of the same format
    /// wrote it.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        let bytes: &[u8; HEADER_BYTES] = bytes.first_chunk().ok_or(Damage::Short(WHAT))?;
        if bytes[..8] != MAGIC {
            return Err(Damage::Magic(WHAT));
        }
        if crc32c::crc32c(&bytes[..124]).to_le_bytes() != bytes[124..] {
            return Err(Damage::Checksum(WHAT));
        }
        let (words, _) = bytes.as_chunks::<4>();
        let (numbers, _) = bytes.as_chunks::<8>();
        let (word, number) =
            (|at: usize| u32::from_le_bytes(words[at]), |at: usize| u64::from_le_bytes(numbers[at]));
        let (allowed, used) = match word(2) {
            VERSION => (PACKED, 104),
            VERSION_IN_GROUP => (PACKED | IN_GROUP | WITHIN, 120),
            other => return Err(Damage::Version(WHAT, other)),
        };
        let encryption = match bytes[88] {
            0 => None,
            code => Some(CipherKind::from_code(code).ok_or(Damage::Content(WHAT))?),
        };
        let mut unused = bytes[89..96].iter().chain(&bytes[used..124]);
        if word(3) & !allowed != 0 || unused.any(|byte| *byte != 0) || number(5) < number(3) {
            return Err(Damage::Content(WHAT));
        }
        let is_in_group = word(2) == VERSION_IN_GROUP;
        if is_in_group != (word(3) & IN_GROUP != 0) || (is_in_group && number(13) == 0) {
            return Err(Damage::Content(WHAT));
        }
        let group = is_in_group.then(|| GroupPlace {
            first_index: number(13),
            chain: number(14),
            is_within: word(3) & WITHIN != 0,
        });
        if !(1..=MAX_SEQ).contains(&number(6)) {
            return Err(Damage::Content(WHAT));
        }
        let mut salt = [0; 16];
        salt.copy_from_slice(&bytes[72..88]);
        Ok(Self {
            stream: StreamId(number(2)),
            segment: SegmentNo(number(3)),
            generation: number(4),
            through: SegmentNo(number(5)),
            first_seq: number(6),
            before: number(12),
            epoch: number(7),
            term: number(8),
            salt,
            encryption,
            packed: word(3) & PACKED != 0,
            group,
        })
    }

    /// Reads the header of a file. One bit that is wrong in it is no damage: without the salt
    /// nothing in the file could be read.
    ///
    /// # Errors
    /// As [`SegmentHeader::decode`], and `Io`.
    pub fn read(file: &dyn File) -> Result<Self, Damage> {
        Self::read_corrected(file).map(|(header, _)| header)
    }

    /// Reads the header of a file, as [`SegmentHeader::read`] does, and returns the position of a
    /// wrong bit, counted from the start of the file, if there is one.
    ///
    /// # Errors
    /// As [`SegmentHeader::read`].
    pub fn read_corrected(file: &dyn File) -> Result<(Self, Option<usize>), Damage> {
        let mut bytes = [0; HEADER_BYTES];
        let read = file.read_at(&mut bytes, 0)?;
        match Self::decode(&bytes[..read]) {
            Err(damage @ (Damage::Magic(_) | Damage::Checksum(_))) => {
                let bit = flipped::correct(&mut bytes, 0);
                Ok((bit.and_then(|_| Self::decode(&bytes).ok()).ok_or(damage)?, bit))
            }
            decoded => decoded.map(|header| (header, None)),
        }
    }

    /// With what the file's checksums begin.
    #[must_use]
    pub fn seed(&self) -> u32 {
        let seed = crc32c::crc32c(&self.stream.0.to_le_bytes());
        let seed = crc32c::crc32c_append(seed, &self.segment.0.to_le_bytes());
        let seed = crc32c::crc32c_append(seed, &self.generation.to_le_bytes());
        crc32c::crc32c_append(seed, &self.salt)
    }

    /// Context that the segment's entries share. `cipher` is the file's own key, and `None` if it
    /// is not encrypted.
    #[must_use]
    pub fn context(&self, cipher: Option<Cipher>) -> FileContext {
        FileContext { seed: self.seed(), cipher }
    }
}
