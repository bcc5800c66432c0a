//! The bytes of `register`: a header, and an entry for each stream that was made or removed
//! (docs/formats/register.md).

use std::collections::BTreeMap;
use std::ops::Range;

use crate::StreamId;
use crate::document::Fields;
use crate::flipped;

/// Bytes before the first entry.
pub(super) const HEADER_BYTES: usize = 64;
const MAGIC: [u8; 8] = *b"MYELREGI";
/// Version of what is written; the one before has no logs.
pub(super) const VERSION: u32 = 2;
const FIRST_VERSION: u32 = 1;
/// Bytes of an entry besides its body: in front of it, and the checksum behind it.
const FRONT_BYTES: usize = 16;
const FRAME_BYTES: usize = FRONT_BYTES + 4;
/// Bytes of the number of a stream.
const ID_BYTES: usize = 8;
/// Longer entries are not corrected: only short blocks are (`flipped`).
const MOST_CORRECTED: usize = 64 << 10;
/// Entries begin at multiples of this.
const STEP: usize = 8;

/// The first bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RegisterHeader {
    pub(super) version: u32,
    /// The store's number.
    pub(super) store: u64,
    /// Grows each time the file is written anew: of two copies the larger one counts.
    pub(super) number: u64,
    /// The serial of the first entry.
    pub(super) first: u64,
    pub(super) salt: [u8; 16],
}

/// Why a file has no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderFault {
    Damaged,
    /// The file belongs to another store.
    Elsewhere,
    /// A later version wrote it.
    Version(u32),
}

/// Statement of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RegisterEntry {
    /// A stream was made, or has another configuration: the body of a `meta`.
    Stream(Vec<u8>),
    /// A stream was removed.
    Removed(StreamId),
    /// The first log of a stream's consumers begins with these bytes; none: another log has taken
    /// its place.
    Log(StreamId, Vec<u8>),
}

impl RegisterHeader {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.version.to_le_bytes());
        for (at, number) in [(16, self.store), (24, self.number), (32, self.first)] {
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        bytes[40..56].copy_from_slice(&self.salt);
        let checksum = crc32c::crc32c(&bytes[..HEADER_BYTES - 4]);
        bytes[HEADER_BYTES - 4..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads a header, and puts a single wrong bit right.
    pub(super) fn decode(bytes: &[u8], store: u64) -> Result<Self, HeaderFault> {
        let mut bytes = *bytes.first_chunk::<HEADER_BYTES>().ok_or(HeaderFault::Damaged)?;
        flipped::correct(&mut bytes, 0);
        let (body, checksum) = bytes.split_at(HEADER_BYTES - 4);
        if body[..8] != MAGIC || crc32c::crc32c(body).to_le_bytes() != *checksum {
            return Err(HeaderFault::Damaged);
        }
        let mut fields = Fields(&body[8..]);
        let (zero, header) = Self::take(&mut fields).ok_or(HeaderFault::Damaged)?;
        match (header.version, zero) {
            (FIRST_VERSION..=VERSION, 0) if header.store == store => Ok(header),
            (FIRST_VERSION..=VERSION, 0) => Err(HeaderFault::Elsewhere),
            (version, _) => Err(HeaderFault::Version(version)),
        }
    }

    fn take(fields: &mut Fields<'_>) -> Option<(u32, Self)> {
        let (version, zero) = (fields.u32()?, fields.u32()?);
        let (store, number, first) = (fields.u64()?, fields.u64()?, fields.u64()?);
        Some((zero, Self { version, store, number, first, salt: *fields.bytes()? }))
    }

    /// The seed of every entry's checksum.
    pub(super) fn seed(&self) -> u32 {
        crc32c::crc32c(&self.encode())
    }
}

impl RegisterEntry {
    /// Appends the entry to `out`.
    pub(super) fn encode(&self, seed: u32, serial: u64, out: &mut Vec<u8>) {
        let id;
        let (kind, front, body): (u32, &[u8], &[u8]) = match self {
            Self::Stream(body) => (1, &[], body),
            Self::Removed(stream) => {
                id = stream.0.to_le_bytes();
                (2, &id, &[])
            }
            Self::Log(stream, bytes) => {
                id = stream.0.to_le_bytes();
                (3, &id, bytes)
            }
        };
        let from = out.len();
        let length = front.len() + body.len();
        let length = u32::try_from(length).expect("a meta and a short log are far below 4 GiB");
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&kind.to_le_bytes());
        out.extend_from_slice(&serial.to_le_bytes());
        out.extend_from_slice(front);
        out.extend_from_slice(body);
        let checksum = crc32c::crc32c_append(seed, &out[from..]);
        out.extend_from_slice(&checksum.to_le_bytes());
        out.resize(from + (out.len() - from).next_multiple_of(STEP), 0);
    }

    /// Bytes that it takes in a file.
    pub(super) fn length(&self) -> usize {
        let body = match self {
            Self::Stream(body) => body.len(),
            Self::Removed(_) => ID_BYTES,
            Self::Log(_, bytes) => ID_BYTES + bytes.len(),
        };
        (FRAME_BYTES + body).next_multiple_of(STEP)
    }
}

/// Entries of a file.
#[derive(Debug, Default)]
pub(super) struct RegisterScan {
    /// By serial.
    pub(super) entries: BTreeMap<u64, RegisterEntry>,
    /// Behind the last entry.
    pub(super) end: usize,
    /// Places between two entries where there is none.
    pub(super) damaged: Vec<Range<usize>>,
    /// Whether anything but zeros stands behind the last entry.
    pub(super) has_more: bool,
    /// Bits that were not what was written.
    pub(super) corrected: Vec<usize>,
}

/// Reads the entries of a file with this seed.
pub(super) fn scan(bytes: &[u8], seed: u32) -> RegisterScan {
    let mut scan = RegisterScan { end: HEADER_BYTES, ..RegisterScan::default() };
    let mut at = HEADER_BYTES;
    while at + FRAME_BYTES <= bytes.len() {
        let Some((serial, entry, bit)) = entry_at(&bytes[at..], seed, at == scan.end) else {
            at += STEP;
            continue;
        };
        if at > scan.end {
            scan.damaged.push(scan.end..at);
        }
        scan.corrected.extend(bit.map(|bit| at * 8 + bit));
        at += entry.length();
        scan.end = at;
        scan.entries.insert(serial, entry);
    }
    scan.has_more = bytes.get(scan.end..).is_some_and(|rest| rest.iter().any(|byte| *byte != 0));
    scan
}

/// The entry at the beginning of `bytes`, and which bit of it was wrong. Only where an entry must
/// begin (`is_expected`) a wrong bit is looked for.
fn entry_at(bytes: &[u8], seed: u32, is_expected: bool) -> Option<(u64, RegisterEntry, Option<usize>)> {
    let length = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
    let whole = bytes.get(..length.checked_add(FRAME_BYTES)?)?;
    if let Some((serial, entry)) = decode(whole, seed) {
        return Some((serial, entry, None));
    }
    if !is_expected || whole.iter().all(|byte| *byte == 0) {
        return None;
    }
    if whole.len() > MOST_CORRECTED {
        return None;
    }
    let mut corrected = whole.to_vec();
    let bit = flipped::correct(&mut corrected, seed)?;
    let (serial, entry) = decode(&corrected, seed)?;
    Some((serial, entry, Some(bit)))
}

fn decode(whole: &[u8], seed: u32) -> Option<(u64, RegisterEntry)> {
    let (covered, checksum) = whole.split_last_chunk::<4>()?;
    let mut fields = Fields(covered);
    let (length, kind, serial) = (fields.u32()?, fields.u32()?, fields.u64()?);
    let is_possible = matches!(kind, 1..=3) && length as usize == fields.0.len();
    if !is_possible || crc32c::crc32c_append(seed, covered).to_le_bytes() != *checksum {
        return None;
    }
    let entry = match kind {
        1 => RegisterEntry::Stream(fields.0.to_vec()),
        2 => RegisterEntry::Removed(StreamId(u64::from_le_bytes(fields.0.try_into().ok()?))),
        _ => {
            let stream = StreamId(fields.u64()?);
            RegisterEntry::Log(stream, fields.0.to_vec())
        }
    };
    Some((serial, entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: RegisterHeader =
        RegisterHeader { version: VERSION, store: 7, number: 3, first: 11, salt: [5; 16] };

    fn file() -> Vec<u8> {
        let mut bytes = HEADER.encode().to_vec();
        for (at, entry) in entries().iter().enumerate() {
            let before = bytes.len();
            entry.encode(HEADER.seed(), 11 + at as u64, &mut bytes);
            assert_eq!(bytes.len() - before, entry.length());
        }
        bytes
    }

    fn entries() -> Vec<RegisterEntry> {
        vec![
            RegisterEntry::Stream(b"the body of a meta".to_vec()),
            RegisterEntry::Removed(StreamId(9)),
            RegisterEntry::Stream(vec![3; 300]),
        ]
    }

    #[test]
    fn a_header_is_read_back_with_one_wrong_bit_and_not_with_two() {
        let good = HEADER.encode();
        assert_eq!(RegisterHeader::decode(&good, 7), Ok(HEADER));
        assert_eq!(RegisterHeader::decode(&good, 8), Err(HeaderFault::Elsewhere));
        assert_eq!(RegisterHeader::decode(&good[..63], 7), Err(HeaderFault::Damaged));
        for bit in 0..HEADER_BYTES * 8 {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(RegisterHeader::decode(&bad, 7), Ok(HEADER), "bit {bit}");
            bad[(bit + 9) / 8 % HEADER_BYTES] ^= 1 << ((bit + 9) % 8);
            assert_eq!(RegisterHeader::decode(&bad, 7), Err(HeaderFault::Damaged), "bit {bit}");
        }
        let mut later = good;
        later[8] = 3;
        let checksum = crc32c::crc32c(&later[..60]);
        later[60..].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(RegisterHeader::decode(&later, 7), Err(HeaderFault::Version(3)));
    }

    #[test]
    fn entries_are_read_back_and_damage_hides_only_its_own() {
        let mut good = file();
        let end = good.len();
        good.resize(end + 100, 0);
        let found = scan(&good, HEADER.seed());
        assert_eq!(found.entries.into_values().collect::<Vec<_>>(), entries());
        assert_eq!((found.end, found.has_more), (end, false));
        for bit in HEADER_BYTES * 8..end * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let found = scan(&bad, HEADER.seed());
            let is_told = found.corrected == [bit] || !found.damaged.is_empty() || found.has_more;
            // Bytes that fill an entry up to the next are nobody's.
            let is_whole = found.entries.len() == 3 && found.damaged.is_empty();
            assert!(is_told || is_whole, "bit {bit}");
            assert!(found.entries.len() >= 2, "bit {bit}");
            for (serial, entry) in found.entries {
                assert_eq!(entry, entries()[serial as usize - 11], "bit {bit}");
            }
        }
    }

    #[test]
    fn a_torn_end_is_cut() {
        let good = file();
        let last = good.len() - entries()[2].length();
        for cut in last..good.len() {
            let mut torn = good.clone();
            torn[cut..].fill(0);
            let found = scan(&torn, HEADER.seed());
            if found.entries.len() == 2 {
                assert_eq!((found.end, found.damaged.len()), (last, 0), "cut at {cut}");
            }
        }
    }
}
