//! Reading tables of sealed segments, and making them where their footer cannot be read.

use hashbrown::HashMap;
use myelin_disk::File;

use crate::config::Storage;
use crate::damage::Damage;
use crate::record::{self, Entry, FileContext};
use crate::segment::{self, Extent, HEADER_BYTES, Scanned, SegmentHeader, Sizes, Slots, Texts, Trailer};

use super::errors::ReadError;
use super::packed_entries::each_entry;
use super::segment_view::{Segment, SegmentFile};

/// Reads the table in a sealed segment's footer. Where that is damaged, the entries say the same,
/// and take longer.
pub(super) fn read_slots(segment: &Segment) -> Result<Slots, ReadError> {
    match read(segment, segment::read_slots) {
        Err(ReadError::Damaged(_)) if segment.is_sealed() => {
            slots_of_entries(segment).map_err(|damage| damaged(segment, damage))
        }
        read => read,
    }
}

fn slots_of_entries(segment: &Segment) -> Result<Slots, Damage> {
    let mut rows = Rows::default();
    let mut enter = |scanned: Scanned<'_>| rows.enter(segment, &scanned);
    if let SegmentFile::Plain(sealed) = &segment.source {
        let file = sealed.open()?;
        let header = SegmentHeader::read(&*file)?;
        let to = sealed.records_end;
        let extent = Extent { from: HEADER_BYTES as u64, to, durable: to };
        segment::scan(&*file, &header, &segment.context, extent, &mut enter)?;
    } else {
        each_entry(segment, &mut enter)?;
    }
    let Rows { deltas, offsets, sizes, subjects, texts, .. } = rows;
    Ok(Slots::assemble(segment.first_seq, deltas, offsets, sizes, subjects, &texts).partial())
}

/// A table that is being made.
#[derive(Default)]
struct Rows {
    deltas: Vec<u32>,
    offsets: Vec<u32>,
    sizes: Vec<u32>,
    subjects: Vec<u32>,
    texts: Texts,
    numbers: HashMap<Box<[u8]>, u32, foldhash::fast::FixedState>,
}

impl Rows {
    fn enter(&mut self, segment: &Segment, scanned: &Scanned<'_>) {
        let Entry::Message(message) = &scanned.entry else { return };
        let size = record::stored_size(
            Storage::File,
            message.subject.len(),
            message.headers.len(),
            message.payload.len(),
        );
        let (Ok(delta), Ok(offset), Ok(size)) = (
            u32::try_from(message.seq.wrapping_sub(segment.first_seq)),
            u32::try_from(scanned.offset),
            u32::try_from(size),
        ) else {
            return;
        };
        if self.deltas.last().is_some_and(|last| delta <= *last) {
            return;
        }
        let known = self.numbers.get(message.subject).copied();
        let number = known.unwrap_or_else(|| {
            let number = self.numbers.len() as u32;
            self.texts.push(message.subject);
            self.numbers.insert(Box::from(message.subject), number);
            number
        });
        self.deltas.push(delta);
        self.offsets.push(offset);
        self.sizes.push(size);
        self.subjects.push(number);
    }
}

/// Reads the sizes in a sealed segment's footer.
pub(super) fn read_sizes(segment: &Segment) -> Result<Sizes, ReadError> {
    read(segment, segment::read_sizes)
}

fn read<T>(
    segment: &Segment,
    read: impl FnOnce(&dyn File, &Trailer, &FileContext) -> Result<T, Damage>,
) -> Result<T, ReadError> {
    let file = match &segment.source {
        SegmentFile::Plain(file) | SegmentFile::Packed(file, _) => file.open()?,
        SegmentFile::Appended(_) => {
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
