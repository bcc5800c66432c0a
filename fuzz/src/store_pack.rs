//! Packed segments: frames of compressed entries, and the table that finds them.
//!
//! Promised: any bytes are a table or an error, and a table is in order and finds what a plain
//! search finds. Any bytes behind a right checksum are a frame of the declared length or an error.
//! A walk over any bytes gives frames and damage that cover them without overlap. Whatever is
//! packed is read as it was, encrypted or not.

use crate::store_file::Memory;
use myelin_store::cipher::{Cipher, CipherKind};
use myelin_store::pack::{
    FRAME_HEADER_BYTES, FramePlace, FrameTable, Packer, read_frame, rebuild, unpack_frame,
};

const SEED: u32 = 9;
/// Longer frames take time and find little.
const LONGEST_RAW: u32 = 4 << 20;

/// Any bytes as a table, as a frame, as a packed file, and as something to pack.
pub fn store_pack(data: &[u8]) {
    any_table(data);
    any_frame(data);
    any_file(data);
    packed_reads_as_raw(data);
}

fn any_table(data: &[u8]) {
    let Ok(table) = FrameTable::decode(data, 128..1 << 40) else { return };
    let mut encoded = Vec::new();
    table.encode(&mut encoded);
    assert_eq!(encoded, data);
    for place in table.frames() {
        for at in [place.raw_offset.wrapping_sub(1), place.raw_offset, place.raw().end - 1, place.raw().end] {
            let plainly = table.frames().iter().find(|place| place.raw().contains(&at));
            assert_eq!(table.find(at).as_ref(), plainly);
        }
    }
}

/// The bytes are a frame's from its raw offset on: size and checksum are put before them.
fn any_frame(data: &[u8]) {
    let Some((head, _)) = data.split_first_chunk::<16>() else { return };
    let size = data.len() as u32 + 8;
    let place = FramePlace {
        raw_offset: u64::from_le_bytes(head[..8].try_into().expect("eight bytes")),
        file_offset: 128,
        raw_len: u32::from_le_bytes(head[8..12].try_into().expect("four bytes")),
        size,
    };
    if place.raw_len > LONGEST_RAW {
        return;
    }
    let mut frame = size.to_le_bytes().to_vec();
    let crc = crc32c::crc32c_append(crc32c::crc32c_append(SEED, &frame), data);
    frame.extend_from_slice(&crc.to_le_bytes());
    frame.extend_from_slice(data);
    if unpack_frame(place, SEED, None, &mut frame).is_ok() {
        assert_eq!(frame.len(), place.raw_len as usize);
        packed_reads_as_raw(&frame);
    }
}

fn any_file(data: &[u8]) {
    let end = data.len() as u64;
    let found = rebuild(&Memory::new(data), SEED, 0..end).expect("memory can be read");
    let frames = found.table.frames().iter().map(FramePlace::file);
    let mut ranges: Vec<_> = frames.chain(found.damaged.iter().cloned()).collect();
    ranges.sort_by_key(|range| range.start);
    let covered = ranges.iter().fold(0, |at, range| {
        assert_eq!(range.start, at);
        range.end
    });
    assert_eq!(covered, end);
}

/// Packs the bytes as one frame and as two.
fn packed_reads_as_raw(raw: &[u8]) {
    for cipher in [None, Some(Cipher::new(CipherKind::Aes256Gcm, &[1; 32]))] {
        for cut in [raw.len(), raw.len() / 3] {
            let (first, second) = raw.split_at(cut);
            let (mut packer, mut file) = (Packer::new(SEED, cipher.clone()), Vec::new());
            for (raw_offset, part) in [(0, first), (cut as u64, second)] {
                let file_offset = file.len() as u64;
                if !part.is_empty() {
                    packer.push_frame(raw_offset, part, &mut file, file_offset).expect("a frame in order");
                    assert!(file.len() as u64 - file_offset <= (part.len() + FRAME_HEADER_BYTES + 16) as u64);
                }
            }
            let (table, file, mut out) = (packer.finish(), Memory::new(&file), Vec::new());
            for (at, part) in
                [(0, first), (cut as u64, second)].into_iter().filter(|(_, part)| !part.is_empty())
            {
                let begin =
                    read_frame(&file, &table, at, SEED, cipher.as_ref(), &mut out).expect("a whole frame");
                assert_eq!((begin, out.as_slice()), (at, part));
            }
        }
    }
}
