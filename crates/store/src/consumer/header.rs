//! The first 128 bytes of a consumer log, and its name.
//!
//! Owns what tells one log from another: the stream, the number, the salt. Every checksum in the
//! file is seeded with them, so that bytes of another file, or of an earlier use of this one, are
//! not taken for ours.

use crate::StreamId;
use crate::cipher::CipherKind;
use crate::flipped;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 128;

const MAGIC: &[u8; 8] = b"MYELCON1";
/// Version of a log that is appended to, and of the image of a group's consumers.
const VERSION: u32 = 1;
const IMAGE_VERSION: u32 = 2;
const PREFIX: &str = "consumers.";
/// Ending of a log's name until it is complete.
const TEMPORARY: &str = ".tmp";

/// Header of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogHeader {
    pub(super) stream: StreamId,
    /// Grows with each rewrite.
    pub(super) number: u64,
    /// The id of the next consumer to be created, when the file was begun.
    pub(super) next_consumer: u64,
    /// Where the image ends that the file began with: all before was synced before the file got its
    /// name.
    pub(super) image_end: u64,
    /// Consumers in the image.
    pub(super) consumers: u32,
    pub(super) salt: [u8; 16],
    pub(super) cipher: Option<CipherKind>,
    /// Of an image: the index of the group's log up to which it says all. `None`: a log that is
    /// appended to.
    pub(super) applied: Option<u64>,
}

/// Why bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderFault {
    /// Nothing was ever written: a name without a file, as replaying a journal may leave it.
    Empty,
    /// Too short, or not the bytes that were written, or not of this kind of file.
    Damaged,
    /// A later version wrote it.
    Version(u32),
    /// The log belongs to another stream, or has another number than its name says.
    Elsewhere,
}

impl LogHeader {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        let version = if self.applied.is_some() { IMAGE_VERSION } else { VERSION };
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.stream.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.number.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.next_consumer.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.image_end.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.consumers.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.applied.unwrap_or(0).to_le_bytes());
        bytes[72..88].copy_from_slice(&self.salt);
        bytes[88] = self.cipher.map_or(0, CipherKind::code);
        let crc = crc32c::crc32c(&bytes[..124]);
        bytes[124..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads the header of the file that is called `number` in the directory of `stream`.
    pub(super) fn decode(file: &[u8], stream: StreamId, number: u64) -> Result<Self, HeaderFault> {
        let bytes: &[u8; HEADER_BYTES] = match file.first_chunk() {
            Some(bytes) => bytes,
            None if file.iter().all(|byte| *byte == 0) => return Err(HeaderFault::Empty),
            None => return Err(HeaderFault::Damaged),
        };
        if bytes.iter().all(|byte| *byte == 0) {
            return Err(HeaderFault::Empty);
        }
        if bytes[..8] != *MAGIC || u32_at(bytes, 124) != crc32c::crc32c(&bytes[..124]) {
            return Err(HeaderFault::Damaged);
        }
        let version = u32_at(bytes, 8);
        let applied = match version {
            VERSION => None,
            IMAGE_VERSION => Some(u64_at(bytes, 56)),
            later => return Err(HeaderFault::Version(later)),
        };
        let cipher = match bytes[88] {
            0 => None,
            code => Some(CipherKind::from_code(code).ok_or(HeaderFault::Version(version))?),
        };
        let header = Self {
            stream: StreamId(u64_at(bytes, 16)),
            number: u64_at(bytes, 24),
            next_consumer: u64_at(bytes, 32),
            image_end: u64_at(bytes, 40),
            consumers: u32_at(bytes, 48),
            salt: *bytes[72..].first_chunk().expect("56 bytes are left"),
            cipher,
            applied,
        };
        if header.stream == stream && header.number == number {
            Ok(header)
        } else {
            Err(HeaderFault::Elsewhere)
        }
    }

    /// Reads a header as `decode` does, and puts a single wrong bit right in `file`. Also returns
    /// the position of that bit.
    pub(super) fn decode_corrected(
        file: &mut [u8],
        stream: StreamId,
        number: u64,
    ) -> (Result<Self, HeaderFault>, Option<usize>) {
        let decoded = Self::decode(file, stream, number);
        let Some(head) = file.first_chunk_mut::<HEADER_BYTES>() else { return (decoded, None) };
        let mut corrected = *head;
        let bit = flipped::correct(&mut corrected, 0).filter(|_| decoded == Err(HeaderFault::Damaged));
        let Some(bit) = bit else { return (decoded, None) };
        match Self::decode(&corrected, stream, number) {
            Err(HeaderFault::Damaged) => (decoded, None),
            corrected_header => {
                *head = corrected;
                (corrected_header, Some(bit))
            }
        }
    }

    /// The seed of every checksum in the file.
    pub(super) fn seed(&self) -> u32 {
        let seed = crc32c::crc32c(&self.stream.0.to_le_bytes());
        let seed = crc32c::crc32c_append(seed, &self.number.to_le_bytes());
        crc32c::crc32c_append(seed, &self.salt)
    }
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("the caller looked at the length"))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("the caller looked at the length"))
}

/// Number of the first log that a stream ever has.
pub(crate) const FIRST_LOG: u64 = 1;

/// `consumers.00000001`.
pub(crate) fn file_name(number: u64) -> String {
    format!("{PREFIX}{number:08}")
}

/// Name of the file while it is written.
pub(super) fn temporary_name(number: u64) -> String {
    format!("{PREFIX}{number:08}{TEMPORARY}")
}

/// Meaning of a name in a stream's directory for the logs of consumers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFileName {
    Log(u64),
    Temporary,
    Foreign,
}

pub(crate) fn read_name(name: &str) -> LogFileName {
    let (stem, temporary) = match name.strip_suffix(TEMPORARY) {
        Some(stem) => (stem, true),
        None => (name, false),
    };
    let number = stem.strip_prefix(PREFIX).and_then(|digits| digits.parse().ok());
    match number {
        Some(number) if file_name(number) != stem => LogFileName::Foreign,
        Some(_) if temporary => LogFileName::Temporary,
        Some(number) => LogFileName::Log(number),
        None => LogFileName::Foreign,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(file_name(7), "consumers.00000007");
        assert_eq!(read_name("consumers.00000007"), LogFileName::Log(7));
        assert_eq!(read_name("consumers.123456789"), LogFileName::Log(123_456_789));
        assert_eq!(read_name(&temporary_name(7)), LogFileName::Temporary);
        for foreign in
            ["consumers", "consumers.", "consumers.7", "consumers.0000000x", "meta", "consumers.+0000007"]
        {
            assert_eq!(read_name(foreign), LogFileName::Foreign, "{foreign}");
        }
    }

    #[test]
    fn a_header_is_read_back_and_every_flipped_bit_is_seen() {
        [None, Some(0), Some(9)].into_iter().for_each(is_read_back);
    }

    fn is_read_back(applied: Option<u64>) {
        let header = LogHeader {
            stream: StreamId(3),
            number: 4,
            next_consumer: 5,
            image_end: 128,
            consumers: 6,
            salt: [7; 16],
            cipher: Some(CipherKind::Aes256Gcm),
            applied,
        };
        let bytes = header.encode();
        assert_eq!(LogHeader::decode(&bytes, StreamId(3), 4), Ok(header));
        assert_eq!(bytes[8], if applied.is_none() { 1 } else { 2 });
        assert_eq!(LogHeader::decode(&bytes, StreamId(3), 5), Err(HeaderFault::Elsewhere));
        assert_eq!(LogHeader::decode(&bytes[..127], StreamId(3), 4), Err(HeaderFault::Damaged));
        assert_eq!(LogHeader::decode(&[0; 200], StreamId(3), 4), Err(HeaderFault::Empty));
        for bit in 0..HEADER_BYTES * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(LogHeader::decode(&flipped, StreamId(3), 4), Err(HeaderFault::Damaged), "bit {bit}");
            let corrected = LogHeader::decode_corrected(&mut flipped, StreamId(3), 4);
            assert_eq!((corrected, flipped), ((Ok(header), Some(bit)), bytes));
        }
    }
}
