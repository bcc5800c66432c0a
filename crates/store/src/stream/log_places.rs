//! Places in segments of a group's log that readings have passed: whoever reads for a member that
//! is behind goes on from the next one before, and need not read the segment from its beginning.

use std::collections::BTreeMap;
use std::sync::Mutex;

use myelin_stdx::sync::lock;

use crate::SegmentNo;

/// Bytes between two places that are remembered.
const DISTANCE: u64 = 128 << 10;

/// Most places, of those in the last segments.
const MOST: usize = 4096;

/// Offset at which an entry begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogPlace {
    pub(super) segment: SegmentNo,
    pub(super) index: u64,
    pub(super) offset: u64,
}

impl LogPlace {
    /// Whether another place, behind this one, is worth remembering beside it.
    pub(super) fn is_far_from(self, later: Self) -> bool {
        later.segment != self.segment || later.offset >= self.offset.saturating_add(DISTANCE)
    }
}

/// Offsets by segment and index. Each is a place only in segments that are as they were written,
/// where an offset stays what it was.
#[derive(Debug, Default)]
pub(crate) struct LogPlaces(Mutex<BTreeMap<(SegmentNo, u64), u64>>);

impl LogPlaces {
    /// The last place that is known at the entry `index` or before it.
    pub(super) fn before(&self, segment: SegmentNo, index: u64) -> Option<LogPlace> {
        let places = lock(&self.0);
        let (&(_, index), &offset) = places.range((segment, 0)..=(segment, index)).next_back()?;
        Some(LogPlace { segment, index, offset })
    }

    /// Entries are taken back: what comes in their place begins elsewhere.
    pub(super) fn clear(&mut self) {
        self.0 = Mutex::default();
    }

    /// A reading has passed these, in order: those are remembered that are far enough from the one
    /// before.
    pub(super) fn note(&self, passed: &[LogPlace]) {
        let mut places = lock(&self.0);
        for &place in passed {
            let LogPlace { segment, index, offset } = place;
            let before = places.range((segment, 0)..=(segment, index)).next_back();
            let before = before.map(|(&(segment, index), &offset)| LogPlace { segment, index, offset });
            if before.is_none_or(|before| before.is_far_from(place)) {
                places.insert((segment, index), offset);
            }
        }
        while places.len() > MOST {
            places.pop_first();
        }
    }
}
