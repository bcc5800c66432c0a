//! Frames: messages of groups as bytes of a connection between two servers.
//!
//! Owns the form of a frame. Must never read past what it was given, and never make something of
//! bytes whose checksum is wrong: whoever reads those closes the connection.
//!
//! All numbers are little-endian.
//!
//! ```text
//!  0 u32 bytes of the frame, these among them     4 u32 CRC32C of all that follows
//!  8 u8 kind of the message    9 u8 flags: 1 refused, 2 transfer    10 u16 0
//! 12 u64 group    20 u32 epoch of the group    24 u32 incarnation of the sender, low half
//! 28 u64 from, to, term, index, log term, commit, commit term, reject hint
//! 92 u32 entries, then for each: u64 term, u32 bytes, the bytes
//! ```

use bytes::Bytes;

use crate::consensus::RaftEntry;
use crate::{GroupId, Peer, RaftMessage, RaftMessageKind};

/// Bytes of a frame without entries.
const HEAD_BYTES: usize = 96;
/// Bytes before each entry.
const ENTRY_HEAD_BYTES: usize = 12;
/// Where the checksum begins to count.
const COUNTED_FROM: usize = 8;
const REFUSED: u8 = 1;
const TRANSFER: u8 = 2;

/// One message with the group that it is for, and the life of the server that it is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaftFrame {
    /// Which group.
    pub group: GroupId,
    /// Of the group, as its sender knows it: grows when the stream gets another group.
    pub epoch: u32,
    /// The life of the sender's store, its low half: a number that grows with each start.
    pub incarnation: u32,
    /// The message itself.
    pub message: RaftMessage,
}

/// Bytes that no server of ours has written: the connection is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// A frame would have more bytes than a reader takes, or fewer than a head has.
    Size,
    /// Bytes have changed on their way.
    Checksum,
    /// The checksum is right, and nobody says this.
    Malformed,
}

impl RaftFrame {
    /// Appends the frame to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let message = &self.message;
        let flags = if message.is_refused { REFUSED } else { 0 };
        let flags = flags | if message.is_transfer { TRANSFER } else { 0 };
        out.extend_from_slice(&[0; COUNTED_FROM]);
        out.extend_from_slice(&[message.kind as u8, flags, 0, 0]);
        out.extend_from_slice(&self.group.0.to_le_bytes());
        out.extend_from_slice(&self.epoch.to_le_bytes());
        out.extend_from_slice(&self.incarnation.to_le_bytes());
        let numbers = [
            message.from.number(),
            message.to.number(),
            message.term,
            message.index,
            message.log_term,
            message.commit,
            message.commit_term,
            message.reject_hint,
        ];
        numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        out.extend_from_slice(&length(message.entries.len()));
        for entry in &message.entries {
            out.extend_from_slice(&entry.term.to_le_bytes());
            out.extend_from_slice(&length(entry.data.len()));
            out.extend_from_slice(&entry.data);
        }
        let size = length(out.len() - start);
        out[start..start + 4].copy_from_slice(&size);
        let checksum = crc32c::crc32c(&out[start + COUNTED_FROM..]);
        out[start + 4..start + 8].copy_from_slice(&checksum.to_le_bytes());
    }

    /// The frame that `bytes` begin with, and how many bytes it has; `None` if it is not whole yet.
    /// Data of entries shares the memory of `bytes`.
    ///
    /// # Errors
    /// The connection is of no use any more.
    pub fn read(bytes: &Bytes, max_bytes: usize) -> Result<Option<(Self, usize)>, FrameError> {
        let Some(size) = bytes.first_chunk().map(|size| u32::from_le_bytes(*size) as usize) else {
            return Ok(None);
        };
        if size < HEAD_BYTES || size > max_bytes {
            return Err(FrameError::Size);
        }
        if bytes.len() < size {
            return Ok(None);
        }
        let bytes = bytes.slice(..size);
        let mut reader = FrameParser { bytes: &bytes, at: 4 };
        let checksum = reader.u32().ok_or(FrameError::Malformed)?;
        if checksum != crc32c::crc32c(&bytes[COUNTED_FROM..]) {
            return Err(FrameError::Checksum);
        }
        let frame = reader.frame().filter(|_| reader.at == size);
        frame.map(|frame| Some((frame, size))).ok_or(FrameError::Malformed)
    }
}

/// A length in a frame. A frame of 4 GiB is never made: the limits of messages are far below.
fn length(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes()
}

/// Reads one frame that is there as a whole.
struct FrameParser<'a> {
    bytes: &'a Bytes,
    at: usize,
}

impl FrameParser<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let found = self.bytes.get(self.at..)?.first_chunk().copied()?;
        self.at += N;
        Some(found)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn frame(&mut self) -> Option<RaftFrame> {
        let [kind, flags, 0, 0] = self.array()? else { return None };
        let kind = RaftMessageKind::ALL.into_iter().find(|one| *one as u8 == kind)?;
        if flags & !(REFUSED | TRANSFER) != 0 {
            return None;
        }
        let (group, epoch, incarnation) = (GroupId(self.u64()?), self.u32()?, self.u32()?);
        let mut message = RaftMessage {
            kind,
            from: Peer::from_number(self.u64()?)?,
            to: Peer::from_number(self.u64()?)?,
            term: self.u64()?,
            index: self.u64()?,
            log_term: self.u64()?,
            commit: self.u64()?,
            commit_term: self.u64()?,
            reject_hint: self.u64()?,
            is_refused: flags & REFUSED != 0,
            is_transfer: flags & TRANSFER != 0,
            entries: Vec::new(),
        };
        for number in 1..=u64::from(self.u32()?) {
            let (term, size) = (self.u64()?, self.u32()? as usize);
            let end = self.at.checked_add(size).filter(|end| *end <= self.bytes.len())?;
            let data = self.bytes.slice(self.at..end);
            self.at = end;
            message.entries.push(RaftEntry { index: message.index.checked_add(number)?, term, data });
        }
        Some(RaftFrame { group, epoch, incarnation, message })
    }
}

/// Bytes that a frame with these entries has.
#[must_use]
pub fn size_of(entries: &[RaftEntry]) -> usize {
    HEAD_BYTES + entries.iter().map(|entry| ENTRY_HEAD_BYTES + entry.data.len()).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames() -> impl Strategy<Value = RaftFrame> {
        let numbers = proptest::array::uniform8(1_u64..u64::MAX / 2);
        let entries =
            proptest::collection::vec((1..9_u64, proptest::collection::vec(any::<u8>(), 0..50)), 0..5);
        let heads = (any::<u64>(), any::<u32>(), any::<u32>(), any::<bool>(), any::<bool>());
        (0..RaftMessageKind::ALL.len(), heads, numbers, entries).prop_map(|(kind, head, numbers, entries)| {
            let [from, to, term, index, log_term, commit, commit_term, reject_hint] = numbers;
            let (group, epoch, incarnation, is_refused, is_transfer) = head;
            let entries = (index + 1..)
                .zip(entries)
                .map(|(index, (term, data))| RaftEntry { index, term, data: data.into() })
                .collect();
            let message = RaftMessage {
                kind: RaftMessageKind::ALL[kind],
                from: Peer::from_number(from).expect("not zero"),
                to: Peer::from_number(to).expect("not zero"),
                term,
                index,
                log_term,
                commit,
                commit_term,
                is_refused,
                reject_hint,
                is_transfer,
                entries,
            };
            RaftFrame { group: GroupId(group), epoch, incarnation, message }
        })
    }

    proptest! {
        #[test]
        fn a_frame_is_read_as_it_was_written(frame in frames(), behind in 0_usize..9) {
            let mut bytes = Vec::new();
            frame.write(&mut bytes);
            let size = bytes.len();
            prop_assert_eq!(size, size_of(&frame.message.entries));
            bytes.resize(size + behind, 0x2a);
            let bytes = Bytes::from(bytes);
            prop_assert_eq!(RaftFrame::read(&bytes, size), Ok(Some((frame, size))));
            prop_assert_eq!(RaftFrame::read(&bytes, size - 1), Err(FrameError::Size));
            for end in 0..size {
                prop_assert_eq!(RaftFrame::read(&bytes.slice(..end), size), Ok(None), "{} of {}", end, size);
            }
        }

        #[test]
        fn a_bit_that_has_changed_is_seen(frame in frames(), bit in any::<prop::sample::Index>()) {
            let mut bytes = Vec::new();
            frame.write(&mut bytes);
            // A size that has changed may say that more is to come.
            let bit = 32 + bit.index(bytes.len() * 8 - 32);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(RaftFrame::read(&Bytes::from(bytes), 1 << 20), Err(FrameError::Checksum));
        }

        /// With a right checksum, as somebody hostile would send it.
        #[test]
        fn anything_is_read_to_its_end_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 96..300)) {
            let size = length(bytes.len());
            bytes[..4].copy_from_slice(&size);
            let checksum = crc32c::crc32c(&bytes[8..]).to_le_bytes();
            bytes[4..8].copy_from_slice(&checksum);
            bytes[8] %= 11;
            let bytes = Bytes::from(bytes);
            if let Ok(Some((frame, used))) = RaftFrame::read(&bytes, bytes.len()) {
                prop_assert_eq!(used, bytes.len());
                prop_assert_eq!(size_of(&frame.message.entries), used);
            }
        }
    }
}
