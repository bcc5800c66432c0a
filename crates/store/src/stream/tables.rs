//! Reading tables of sealed segments, and making them where their footer cannot be read.

use crate::damage::Damage;
use crate::segment::{self, Slots};

use super::errors::ReadError;
use super::place::{Segment, Source};

/// Reads the table in a sealed segment's footer.
pub(super) fn read_slots(segment: &Segment) -> Result<Slots, ReadError> {
    let file = match &segment.source {
        Source::Plain(file) | Source::Packed(file, _) => file.open()?,
        Source::Appended(_) => {
            return Err(ReadError::Damaged(format!("segment {} is not sealed", segment.no.0)));
        }
    };
    let trailer =
        segment::read_trailer(&*file, &segment.context).map_err(|damage| damaged(segment, damage))?;
    let Some(trailer) = trailer else {
        return Err(ReadError::Damaged(format!("segment {} has lost its footer", segment.no.0)));
    };
    segment::read_slots(&*file, &trailer, &segment.context).map_err(|damage| damaged(segment, damage))
}

fn damaged(segment: &Segment, damage: Damage) -> ReadError {
    match damage {
        Damage::Io(error) => ReadError::Io(error),
        other => ReadError::Damaged(format!("segment {}: {other}", segment.no.0)),
    }
}
