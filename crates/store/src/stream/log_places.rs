//! Places in segments of a group's log at which a reading has ended: whoever reads for a member
//! that is behind reads what comes next, and need not look for it.

use std::sync::Mutex;

use myelin_stdx::sync::lock;

use crate::SegmentNo;

/// Members for which it is read at once, as a rule, and some more.
const MOST: usize = 8;

/// Offset at which an entry begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogPlace {
    pub(super) segment: SegmentNo,
    pub(super) index: u64,
    pub(super) offset: u64,
}

/// Places at which readings have ended, the last one at the end. Each is one only in segments that
/// are as they were written, where an offset stays what it was.
#[derive(Debug, Default)]
pub(crate) struct LogPlaces(Mutex<Vec<LogPlace>>);

impl LogPlaces {
    /// Where the entry `index` begins, if a reading has ended there.
    pub(super) fn of(&self, segment: SegmentNo, index: u64) -> Option<u64> {
        let places = lock(&self.0);
        let found = places.iter().rev().find(|place| (place.segment, place.index) == (segment, index));
        found.map(|place| place.offset)
    }

    /// Entries are taken back: what comes in their place begins elsewhere.
    pub(super) fn clear(&mut self) {
        self.0 = Mutex::default();
    }

    /// A reading has ended there.
    pub(super) fn note(&self, place: LogPlace) {
        let mut places = lock(&self.0);
        places.retain(|other| (other.segment, other.index) != (place.segment, place.index));
        if places.len() >= MOST {
            places.remove(0);
        }
        places.push(place);
    }
}
