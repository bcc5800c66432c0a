//! Segment files: a header, entries, and once sealed a footer that makes reading the entries
//! needless.
//!
//! Owns their layout (`docs/formats/segment.md`). Knows a file as something to read; who writes,
//! syncs, cuts or removes one decides elsewhere. Nothing here trusts what it reads.

mod changes;
mod column;
mod footer;
mod frames;
mod header;
mod resync;
mod scan;
mod sizes;
mod slots;
mod structure;
mod subjects;
mod window;

pub use changes::Changes;
pub(crate) use changes::{decode_expiries, encode_expiries};
pub use footer::{
    Footer, TRAILER_BYTES, Trailer, check_sections, read_changes, read_sizes, read_slots, read_trailer,
};
pub(crate) use frames::encode_frames;
pub use frames::read_frames;
pub(crate) use header::MAX_SEQ;
pub use header::{GroupPlace, HEADER_BYTES, SegmentHeader};
pub use scan::{Damaged, Extent, Scan, ScanEnd, Scanned, scan};
pub use sizes::Sizes;
pub use slots::{Dictionary, SegmentSubject, Slots};
pub use structure::{Structure, check_structure};
pub use subjects::{SubjectChange, SubjectChanges, Texts};

use crate::{Seq, Timestamp};

/// Totals of a stream, or of a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Sequence of the first message; without messages, of the next one.
    pub first_seq: Seq,
    /// The last sequence given out, whether its message is still there or not; `first_seq - 1` in
    /// an empty part.
    pub last_seq: Seq,
    /// How many messages.
    pub messages: u64,
    /// Their stored size.
    pub bytes: u64,
    /// When the first was accepted; 0 without messages.
    pub first_timestamp: Timestamp,
    /// When the last was accepted; 0 if there never was one.
    pub last_timestamp: Timestamp,
}

impl Default for Totals {
    /// Of a new stream.
    fn default() -> Self {
        Self { first_seq: 1, last_seq: 0, messages: 0, bytes: 0, first_timestamp: 0, last_timestamp: 0 }
    }
}

impl Totals {
    /// Bytes of the encoding.
    pub(crate) const BYTES: usize = 48;

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let values = [
            self.first_seq,
            self.last_seq,
            self.messages,
            self.bytes,
            self.first_timestamp as u64,
            self.last_timestamp as u64,
        ];
        for (place, value) in bytes.chunks_exact_mut(8).zip(values) {
            place.copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// As [`Totals::from_bytes`]. `None` if no stream can have come to it: sequences that cannot be
    /// counted on from, or that end before they begin.
    pub(crate) fn decode(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let totals = Self::from_bytes(bytes);
        let is_possible = are_possible(totals.first_seq, totals.last_seq) && totals.first_seq > 0;
        is_possible.then_some(totals)
    }

    fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let mut values = [0u64; 6];
        for (value, place) in values.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *value = u64::from_le_bytes(*place);
        }
        let [first_seq, last_seq, messages, stored, first, last] = values;
        Self {
            first_seq,
            last_seq,
            messages,
            bytes: stored,
            first_timestamp: first as i64,
            last_timestamp: last as i64,
        }
    }
}

/// Whether something can have these as its first and last sequence; an empty one ends just before
/// it begins.
pub(crate) fn are_possible(first: Seq, last: Seq) -> bool {
    last <= MAX_SEQ && first <= last + 1
}

#[cfg(test)]
pub(crate) mod tests;
