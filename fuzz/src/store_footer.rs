//! Footers of sealed segments, out of any bytes.
//!
//! The input is the three sections, each behind its length, and gets a trailer with the right
//! checksums.
//!
//! Promised: reading ends in a value or in damage; a value that was read can be written, and what
//! was written reads as the same value.

use myelin_store::segment::{self, Footer, HEADER_BYTES, TRAILER_BYTES, Totals};

use crate::store_file::{Memory, header};

/// Any bytes as a footer.
pub fn store_footer(data: &[u8]) {
    let context = header().context(None);
    let mut bytes = header().encode().to_vec();
    let (messages, mut rest) = data.split_first().map_or((0, data), |(first, rest)| (*first, rest));
    let messages = u64::from(messages);
    let summary = Totals { first_seq: 7, last_seq: 6 + messages, messages, ..Totals::default() };
    // The trailer of an empty footer, in which lengths and checksums are replaced.
    let empty = Footer { summary, ..Footer::default() }.encode(HEADER_BYTES as u64, &context);
    let mut trailer = empty[empty.len() - TRAILER_BYTES..].to_vec();
    for place in trailer[72..108].chunks_exact_mut(12) {
        let (length, behind) =
            rest.split_first_chunk().map_or((0, rest), |(l, r)| (u16::from_le_bytes(*l), r));
        let (section, behind) = behind.split_at(behind.len().min(usize::from(length)));
        place[..8].copy_from_slice(&(section.len() as u64).to_le_bytes());
        place[8..].copy_from_slice(&crc32c::crc32c_append(context.seed, section).to_le_bytes());
        bytes.extend_from_slice(section);
        rest = behind;
    }
    let checksum = crc32c::crc32c_append(context.seed, &trailer[..124]);
    trailer[124..].copy_from_slice(&checksum.to_le_bytes());
    bytes.extend_from_slice(&trailer);
    let file = Memory::new(&bytes);
    let trailer =
        segment::read_trailer(&file, &context).expect("its checksum is right").expect("it is there");
    let changes = segment::read_changes(&file, &trailer, &context);
    let slots = segment::read_slots(&file, &trailer, &context);
    let (Ok(changes), Ok(slots)) = (changes, slots) else { return };
    let footer = Footer { summary: trailer.summary, changes, slots };
    let mut again = header().encode().to_vec();
    again.extend_from_slice(&footer.encode(HEADER_BYTES as u64, &context));
    let file = Memory::new(&again);
    let trailer = segment::read_trailer(&file, &context).expect("ours").expect("ours");
    let changes = segment::read_changes(&file, &trailer, &context).expect("what was written can be read");
    let slots = segment::read_slots(&file, &trailer, &context).expect("what was written can be read");
    assert_eq!(Footer { summary: trailer.summary, changes, slots }, footer);
}
