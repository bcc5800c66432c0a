//! Reading tables of sealed segments, and making them where their footer cannot be read.

use crate::damage::Damage;
use crate::disk::File;
use crate::record::Context;
use crate::segment::{self, Sizes, Slots, Trailer};

use super::errors::ReadError;
use super::place::{Segment, Source};

/// Reads the table in a sealed segment's footer.
pub(super) fn read_slots(segment: &Segment) -> Result<Slots, ReadError> {
    read(segment, segment::read_slots)
}

/// Reads the sizes in a sealed segment's footer.
pub(super) fn read_sizes(segment: &Segment) -> Result<Sizes, ReadError> {
    read(segment, segment::read_sizes)
}

fn read<T>(
    segment: &Segment,
    read: impl FnOnce(&dyn File, &Trailer, &Context) -> Result<T, Damage>,
) -> Result<T, ReadError> {
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
    read(&*file, &trailer, &segment.context).map_err(|damage| damaged(segment, damage))
}

fn damaged(segment: &Segment, damage: Damage) -> ReadError {
    match damage {
        Damage::Io(error) => ReadError::Io(error),
        other => ReadError::Damaged(format!("segment {}: {other}", segment.no.0)),
    }
}
