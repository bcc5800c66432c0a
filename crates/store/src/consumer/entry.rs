//! The frame of one entry: size, checksum, whose it is, what it is.
//!
//! Owns finding entries in bytes that may be anything, and sealing them when the stream is
//! encrypted. What an entry says is `payload`'s. The checksum is over the sealed bytes, so the
//! structure can be verified without a key.

use super::ConsumerId;
use super::bytes::MalformedBytes;
use super::header::{LogHeader, u32_at, u64_at};
use crate::cipher::{Cipher, Nonce, TAG_BYTES};
use crate::flipped;

/// Bytes before the payload: u32 size, u32 checksum, u64 consumer, u8 kind.
pub(super) const HEAD_BYTES: usize = 17;
const CRC_AT: usize = 4;
const ID_AT: usize = 8;
const KIND_AT: usize = 16;

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogEntryKind {
    /// A consumer exists, with this name and configuration.
    Define,
    /// Its state changed.
    Delta,
    /// Its state, all of it.
    Checkpoint,
    /// The consumer exists no more.
    Remove,
}

impl LogEntryKind {
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Define => 1,
            Self::Delta => 2,
            Self::Checkpoint => 3,
            Self::Remove => 4,
        }
    }

    pub(super) fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Define),
            2 => Some(Self::Delta),
            3 => Some(Self::Checkpoint),
            4 => Some(Self::Remove),
            _ => None,
        }
    }
}

/// Context that all entries of one file have in common.
#[derive(Clone, Debug)]
pub(super) struct LogContext {
    seed: u32,
    cipher: Option<Cipher>,
}

/// An entry whose checksum is right.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundEntry {
    pub(super) at: usize,
    pub(super) size: usize,
    pub(super) id: ConsumerId,
    pub(super) kind: LogEntryKind,
}

/// Result of looking for the next entry.
#[derive(Clone, Copy, Debug)]
pub(super) enum EntrySearch {
    FoundEntry(FoundEntry),
    /// There is none.
    Nothing,
    /// There may be one.
    GivenUp,
}

impl FoundEntry {
    pub(super) fn end(&self) -> usize {
        self.at + self.size
    }
}

impl LogContext {
    pub(super) fn new(header: &LogHeader, cipher: Option<Cipher>) -> Self {
        Self { seed: header.seed(), cipher }
    }

    /// Whether payloads have to be decrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        self.cipher.is_some()
    }

    /// Appends an entry to `out`, whose end will be at `offset` of the file.
    ///
    /// # Panics
    /// If the payload has 4 GiB.
    pub(super) fn seal(
        &self,
        out: &mut Vec<u8>,
        offset: u64,
        id: ConsumerId,
        kind: LogEntryKind,
        payload: &[u8],
    ) {
        let at = out.len();
        let size = HEAD_BYTES + payload.len() + self.cipher.as_ref().map_or(0, |_| TAG_BYTES);
        let size = u32::try_from(size).expect("the state of a consumer has less than 4 GiB");
        out.extend_from_slice(&size.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&id.0.to_le_bytes());
        out.push(kind.code());
        out.extend_from_slice(payload);
        if let Some(cipher) = &self.cipher {
            let aad: [u8; HEAD_BYTES - ID_AT] =
                out[at + ID_AT..at + HEAD_BYTES].try_into().expect("the head was just written");
            cipher.seal(Nonce::entry(offset), &aad, out, at + HEAD_BYTES);
        }
        let crc = self.checksum(&out[at..]);
        out[at + CRC_AT..at + ID_AT].copy_from_slice(&crc.to_le_bytes());
    }

    /// The entry at `at`, if there is one.
    pub(super) fn find(&self, file: &[u8], at: usize) -> Option<FoundEntry> {
        let entry = self.plausible(file, at)?;
        let whole = &file[entry.at..entry.end()];
        (self.checksum(whole) == u32_at(whole, CRC_AT)).then_some(entry)
    }

    /// The first entry at or behind `from`, for as many bytes of checksums as `budget` allows:
    /// bytes that pretend to be entries cannot make it take for ever.
    pub(super) fn find_next(&self, file: &[u8], from: usize, budget: &mut usize) -> EntrySearch {
        for at in from..file.len().saturating_sub(HEAD_BYTES - 1) {
            let Some(entry) = self.plausible(file, at) else { continue };
            let Some(left) = budget.checked_sub(entry.size) else { return EntrySearch::GivenUp };
            *budget = left;
            if let Some(found) = self.find(file, at) {
                return EntrySearch::FoundEntry(found);
            }
        }
        EntrySearch::Nothing
    }

    /// Puts the single bit right that is wrong in an entry that is all of `file[from..to]`, or
    /// begins there and says where it ends. Answers which bit of the file that is.
    pub(super) fn correct(&self, file: &mut [u8], from: usize, to: usize) -> Option<usize> {
        let said = self.plausible(file, from).map(|entry| entry.end()).filter(|end| *end != to);
        [Some(to), said].into_iter().flatten().find_map(|to| {
            let length = to.checked_sub(from).filter(|length| *length >= HEAD_BYTES)?;
            let entry = file.get(from..to)?;
            // As if the checksum stood behind what it covers.
            let mut moved = [&entry[..CRC_AT], &entry[ID_AT..], &entry[CRC_AT..ID_AT]].concat();
            let bit = flipped::correct(&mut moved, self.seed)?;
            let (byte, checksum_at) = (bit / 8, length - (ID_AT - CRC_AT));
            let byte = if byte < CRC_AT {
                byte
            } else if byte < checksum_at {
                byte + (ID_AT - CRC_AT)
            } else {
                byte - checksum_at + CRC_AT
            };
            let bit = (from + byte) * 8 + bit % 8;
            file[bit / 8] ^= 1 << (bit % 8);
            if self.find(file, from).is_some_and(|found| found.end() == to) {
                return Some(bit);
            }
            file[bit / 8] ^= 1 << (bit % 8);
            None
        })
    }

    fn plausible(&self, file: &[u8], at: usize) -> Option<FoundEntry> {
        let head = file.get(at..at.checked_add(HEAD_BYTES)?)?;
        let size = usize::try_from(u32_at(head, 0)).ok()?;
        let least = HEAD_BYTES + self.cipher.as_ref().map_or(0, |_| TAG_BYTES);
        let id = ConsumerId(u64_at(head, ID_AT));
        let kind = LogEntryKind::from_code(head[KIND_AT])?;
        (size >= least && size <= file.len() - at && id.0 != 0).then_some(FoundEntry { at, size, id, kind })
    }

    /// The payload of an entry that was found, decrypted in place.
    pub(super) fn open<'a>(
        &self,
        file: &'a mut [u8],
        entry: &FoundEntry,
    ) -> Result<&'a [u8], MalformedBytes> {
        let (head, body) = file[entry.at..entry.end()].split_at_mut(HEAD_BYTES);
        match &self.cipher {
            None => Ok(body),
            Some(cipher) => {
                let nonce = Nonce::entry(entry.at as u64);
                let length = cipher.open(nonce, &head[ID_AT..], body).map_err(|_| MalformedBytes)?;
                Ok(&body[..length])
            }
        }
    }

    /// Over the size and what follows the checksum.
    fn checksum(&self, entry: &[u8]) -> u32 {
        let crc = crc32c::crc32c_append(self.seed, &entry[..CRC_AT]);
        crc32c::crc32c_append(crc, &entry[ID_AT..])
    }
}
