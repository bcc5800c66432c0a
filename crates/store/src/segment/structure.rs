//! Whether entries are those that were written, which can be told without keys.
//!
//! A scan reads what entries say; this only looks at sizes and checksums.

use std::ops::Range;

use myelin_disk::File;

use super::window::ScanWindow;
use super::{HEADER_BYTES, SegmentHeader};
use crate::damage::Damage;

/// Structure of a file, from a look at its entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Structure {
    /// Valid entries.
    pub entries: u64,
    /// Ranges that are no entries, with entries or synced bytes behind them.
    pub damaged: Vec<Range<u64>>,
    /// Where an incomplete batch begins, if the file ends with one.
    pub torn: Option<u64>,
}

/// Looks at the entries up to `to`. Everything before `durable` is known to have been synced.
///
/// # Errors
/// `Io`.
pub fn check_structure(
    file: &dyn File,
    header: &SegmentHeader,
    to: u64,
    durable: u64,
) -> Result<Structure, Damage> {
    let context = header.context(None);
    let to = to.min(file.len()?);
    let mut window = ScanWindow::new(file, to, durable >= to);
    let mut found = Structure::default();
    let (mut batch, mut place) = (HEADER_BYTES as u64, HEADER_BYTES as u64);
    loop {
        if let Some(head) = window.entry(place, place, &context)? {
            found.entries += 1;
            place += head.size() as u64;
            batch = if head.continues() { batch } else { place };
            continue;
        }
        if place >= durable && window.is_zero_from(place)? {
            found.torn = (batch < place).then_some(batch);
            return Ok(found);
        }
        match window.next_entry(place + 1, &context)? {
            Some(next) => {
                found.damaged.push(place..next);
                (batch, place) = (next, next);
            }
            None if place < durable => {
                found.damaged.push(place..durable);
                return Ok(found);
            }
            None => {
                found.torn = Some(batch);
                return Ok(found);
            }
        }
    }
}
