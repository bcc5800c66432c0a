//! The bytes of `watermarks`: a head, and one slot of a fixed size for each stream
//! (docs/formats/watermarks.md).
//!
//! Slots are written in place. None crosses a sector, so that a loss of power leaves the old one or
//! the new one.

use crate::document::Fields;
use crate::{SegmentNo, Seq, StreamId};

/// Where the first slot begins: the head has a sector of its own.
pub(super) const HEAD_BYTES: usize = 512;
/// Bytes of a slot.
pub(super) const SLOT_BYTES: usize = 128;
/// Slots that are added at a time, and fill whole pages together with the head.
const STEP_BYTES: usize = 4096;

const MAGIC: [u8; 8] = *b"MYELMARK";
const VERSION: u32 = 1;
const CLEAN: u32 = 1;

/// Fault of a head or a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SectorFault {
    /// Nothing was ever written there.
    Blank,
    Damaged,
    /// A later version wrote it.
    Version(u32),
}

/// The first sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct WatermarkHead {
    /// Whether nothing was written to the store after the slots.
    pub(crate) is_clean: bool,
    /// The store's number.
    pub(crate) store: u64,
    /// Grows with every write of a head or a slot.
    pub(crate) serial: u64,
    /// In which run of the machine it was written; 0: not known.
    pub(crate) boot: u64,
    /// How many sequences a stream that states no mark may have given out behind those that are
    /// found.
    pub(crate) ahead: u64,
}

/// How far one stream had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WatermarkSlot {
    /// 0: the slot is free.
    pub(crate) stream: StreamId,
    pub(crate) serial: u64,
    /// As in the head.
    pub(crate) boot: u64,
    /// Whether nothing was appended after this was written; counts only if the head says so, too.
    pub(crate) is_clean: bool,
    /// Everything before this place was written, into the file or into the journal.
    pub(crate) written: LogPosition,
    /// Which rewrite of that segment.
    pub(crate) generation: u64,
    /// Everything before this place was synced.
    pub(crate) synced: LogPosition,
    /// The last sequence that was released, and how many messages there were.
    pub(crate) last_seq: Seq,
    pub(crate) messages: u64,
    /// No sequence behind this one was released. `None`: none but a few behind those that are
    /// found, see [`WatermarkHead::ahead`].
    pub(crate) reserved: Option<Seq>,
    /// The log of the consumers' states: its number, how far it was written and synced, and how
    /// many consumers it had.
    pub(crate) log: u64,
    pub(crate) log_written: u64,
    pub(crate) log_synced: u64,
    pub(crate) consumers: u32,
}

/// A place in a stream's log. Later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogPosition {
    pub(crate) segment: SegmentNo,
    pub(crate) offset: u64,
}

impl LogPosition {
    /// Before everything.
    pub(crate) const START: Self = Self { segment: SegmentNo(0), offset: 0 };
}

impl WatermarkHead {
    pub(super) fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(if self.is_clean { CLEAN } else { 0 }).to_le_bytes());
        for (at, number) in [(16, self.store), (24, self.serial), (32, self.boot), (40, self.ahead)] {
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        let checksum = crc32c::crc32c(&bytes[..HEAD_BYTES - 4]);
        bytes[HEAD_BYTES - 4..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, SectorFault> {
        let bytes = &bytes[..bytes.len().min(HEAD_BYTES)];
        if bytes.iter().all(|byte| *byte == 0) {
            return Err(SectorFault::Blank);
        }
        if bytes.len() < HEAD_BYTES {
            return Err(SectorFault::Damaged);
        }
        let (body, checksum) = bytes.split_at(HEAD_BYTES - 4);
        if body[..8] != MAGIC || crc32c::crc32c(body).to_le_bytes() != *checksum {
            return Err(SectorFault::Damaged);
        }
        let mut fields = Fields(&body[8..]);
        let mut next = || fields.u64().ok_or(SectorFault::Damaged);
        let (first, store, serial, boot, ahead) = (next()?, next()?, next()?, next()?, next()?);
        let [version, flags] = [first & u64::from(u32::MAX), first >> 32]
            .map(|half| u32::try_from(half).expect("half of the word is left"));
        match (version, flags) {
            (VERSION, flags) if flags & !CLEAN == 0 => {
                Ok(Self { is_clean: flags == CLEAN, store, serial, boot, ahead })
            }
            (VERSION, _) => Err(SectorFault::Damaged),
            (version, _) => Err(SectorFault::Version(version)),
        }
    }
}

impl WatermarkSlot {
    /// Of a stream of which nothing is known.
    pub(super) fn new(stream: StreamId) -> Self {
        Self {
            stream,
            serial: 0,
            boot: 0,
            is_clean: false,
            written: LogPosition::START,
            generation: 0,
            synced: LogPosition::START,
            last_seq: 0,
            messages: 0,
            reserved: None,
            log: 0,
            log_written: 0,
            log_synced: 0,
            consumers: 0,
        }
    }

    /// `seed` is that of the place, see [`seed`].
    pub(super) fn encode(&self, seed: u32) -> [u8; SLOT_BYTES] {
        let numbers = [
            self.stream.0,
            self.serial,
            self.boot,
            self.written.segment.0,
            self.written.offset,
            self.generation,
            self.synced.segment.0,
            self.synced.offset,
            self.last_seq,
            self.messages,
            self.reserved.map_or(0, |mark| mark.saturating_add(1)),
            self.log,
            self.log_written,
            self.log_synced,
        ];
        let mut bytes = [0; SLOT_BYTES];
        for (place, number) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(numbers) {
            *place = number.to_le_bytes();
        }
        bytes[112..116].copy_from_slice(&self.consumers.to_le_bytes());
        bytes[116..120].copy_from_slice(&(if self.is_clean { CLEAN } else { 0 }).to_le_bytes());
        let checksum = crc32c::crc32c_append(seed, &bytes[..SLOT_BYTES - 4]);
        bytes[SLOT_BYTES - 4..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; SLOT_BYTES], seed: u32) -> Result<Self, SectorFault> {
        if bytes.iter().all(|byte| *byte == 0) {
            return Err(SectorFault::Blank);
        }
        let (body, checksum) = bytes.split_at(SLOT_BYTES - 4);
        if crc32c::crc32c_append(seed, body).to_le_bytes() != *checksum {
            return Err(SectorFault::Damaged);
        }
        let mut fields = Fields(body);
        let mut next = || fields.u64().ok_or(SectorFault::Damaged);
        let mut slot = Self {
            stream: StreamId(next()?),
            serial: next()?,
            boot: next()?,
            is_clean: false,
            written: LogPosition { segment: SegmentNo(next()?), offset: next()? },
            generation: next()?,
            synced: LogPosition { segment: SegmentNo(next()?), offset: next()? },
            last_seq: next()?,
            messages: next()?,
            reserved: next()?.checked_sub(1),
            log: next()?,
            log_written: next()?,
            log_synced: next()?,
            consumers: 0,
        };
        slot.consumers = fields.u32().ok_or(SectorFault::Damaged)?;
        let flags = fields.u32().ok_or(SectorFault::Damaged)?;
        if flags & !CLEAN != 0 || fields.0.iter().any(|byte| *byte != 0) {
            return Err(SectorFault::Damaged);
        }
        slot.is_clean = flags == CLEAN;
        Ok(slot)
    }
}

/// Where slot `index` begins.
pub(super) fn offset_of(index: usize) -> usize {
    HEAD_BYTES + index * SLOT_BYTES
}

/// Seed of the checksum of slot `index`: a slot elsewhere, or of another store, is none.
pub(super) fn seed(store: u64, index: usize) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&store.to_le_bytes()), &(offset_of(index) as u64).to_le_bytes())
}

/// The length of a file with room for `slots`.
pub(super) fn length_for(slots: usize) -> usize {
    offset_of(slots).next_multiple_of(STEP_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot() -> WatermarkSlot {
        WatermarkSlot {
            serial: 2,
            boot: 3,
            is_clean: true,
            written: LogPosition { segment: SegmentNo(4), offset: 5 },
            generation: 6,
            synced: LogPosition { segment: SegmentNo(7), offset: 8 },
            last_seq: 9,
            messages: 10,
            reserved: Some(11),
            log: 12,
            log_written: 13,
            log_synced: 14,
            consumers: 15,
            ..WatermarkSlot::new(StreamId(1))
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let head = WatermarkHead { is_clean: true, store: 7, serial: 8, boot: 9, ahead: 10 };
        assert_eq!(WatermarkHead::decode(&head.encode()), Ok(head));
        let seed = seed(7, 3);
        assert_eq!(WatermarkSlot::decode(&slot().encode(seed), seed), Ok(slot()));
    }

    #[test]
    fn no_flipped_bit_is_believed() {
        let head = WatermarkHead { is_clean: false, store: 7, serial: 8, boot: 9, ahead: 10 };
        for bit in 0..HEAD_BYTES * 8 {
            let mut bytes = head.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(WatermarkHead::decode(&bytes), Err(SectorFault::Damaged), "bit {bit}");
        }
        let seed = seed(7, 3);
        for bit in 0..SLOT_BYTES * 8 {
            let mut bytes = slot().encode(seed);
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(WatermarkSlot::decode(&bytes, seed), Err(SectorFault::Damaged), "bit {bit}");
        }
    }

    #[test]
    fn a_slot_of_another_place_is_none() {
        let bytes = slot().encode(seed(7, 3));
        assert_eq!(WatermarkSlot::decode(&bytes, seed(7, 4)), Err(SectorFault::Damaged));
        assert_eq!(WatermarkSlot::decode(&bytes, seed(8, 3)), Err(SectorFault::Damaged));
        assert_eq!(WatermarkSlot::decode(&[0; SLOT_BYTES], seed(7, 3)), Err(SectorFault::Blank));
    }

    #[test]
    fn no_slot_crosses_a_sector() {
        for index in 0..100 {
            assert_eq!(offset_of(index) / 512, (offset_of(index) + SLOT_BYTES - 1) / 512);
        }
        assert_eq!(length_for(0), 4096);
        assert_eq!(length_for(28), 4096);
        assert_eq!(length_for(29), 8192);
    }
}
