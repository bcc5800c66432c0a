//! Bases, manifests and `meta` files, out of any bytes.
//!
//! The input's first byte chooses which. A base's blocks, and the frame of the others, get the
//! right checksums.
//!
//! Promised: reading ends in a value or in damage, subjects and expiries come in order, and what
//! was read as a manifest or `meta` is written to bytes that read as the same.

use std::sync::Arc;

use myelin_disk::File;
use myelin_store::base::{BaseHeader, BaseReader, HEADER_BYTES};
use myelin_store::damage::Damage;
use myelin_store::manifest::Manifest;
use myelin_store::meta::{Marker, Meta};
use myelin_store::record::FileContext;
use myelin_store::{SegmentNo, StreamId};

use crate::store_file::Memory;

/// Any bytes as one of the files beside the segments.
pub fn store_base(data: &[u8]) {
    let (which, body) = data.split_first().map_or((0, data), |(first, rest)| (*first, rest));
    match which % 4 {
        0 => same(Manifest::decode, Manifest::encode, &framed(b"MYELMANI", 1, body)),
        1 => same(Meta::decode, Meta::encode, &framed(b"MYELMETA", 2, body)),
        2 => same(Marker::decode, Marker::encode, &framed(b"MYELSTOR", 1, body)),
        _ => base(body),
    }
}

fn framed(magic: &[u8; 8], version: u32, body: &[u8]) -> Vec<u8> {
    let length = body.len() as u32 + 20;
    let mut bytes = [&magic[..], &version.to_le_bytes(), &length.to_le_bytes(), body].concat();
    let checksum = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

fn same<T>(decode: fn(&[u8]) -> Result<T, Damage>, encode: fn(&T) -> Vec<u8>, bytes: &[u8]) {
    let Ok(value) = decode(bytes) else { return };
    let again = encode(&value);
    let twice = decode(&again).expect("what was written can be read");
    assert_eq!(again, encode(&twice));
}

/// The counts of subjects and expiries, a byte each in 256s and 1s, then blocks: kind, length in 16
/// bits, body.
fn base(data: &[u8]) {
    let Some((counts, mut rest)) = data.split_first_chunk::<4>() else { return };
    let header = BaseHeader {
        stream: StreamId(1),
        covers: SegmentNo(2),
        generation: 3,
        salt: [4; 16],
        encryption: None,
    };
    let context = header.context(None);
    let mut bytes = header.encode().to_vec();
    while let Some(([kind, low, high], behind)) = rest.split_first_chunk::<3>() {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(behind.len());
        let (body, behind) = behind.split_at(length);
        put_block(*kind, body, &context, &mut bytes);
        rest = behind;
    }
    let numbers = [
        u64::from(u16::from_be_bytes([counts[0], counts[1]])),
        u64::from(u16::from_be_bytes([counts[2], counts[3]])),
        bytes.len() as u64 + 40,
    ];
    let mut trailer = b"MYELBEND".to_vec();
    numbers.iter().for_each(|number| trailer.extend_from_slice(&number.to_le_bytes()));
    trailer.extend_from_slice(&[0; 4]);
    let checksum = crc32c::crc32c_append(context.seed, &trailer);
    trailer.extend_from_slice(&checksum.to_le_bytes());
    bytes.extend_from_slice(&trailer);
    assert!(bytes.len() > HEADER_BYTES);
    let _ = read(Arc::new(Memory::new(&bytes)), &header, context);
}

fn put_block(kind: u8, body: &[u8], context: &FileContext, out: &mut Vec<u8>) {
    let mut behind = (body.len() as u32).to_le_bytes().to_vec();
    behind.extend_from_slice(&[kind, 0, 0, 0, 0, 0, 0, 0]);
    behind.extend_from_slice(body);
    out.extend_from_slice(&crc32c::crc32c_append(context.seed, &behind).to_le_bytes());
    out.extend_from_slice(&behind);
}

fn read(file: Arc<dyn File>, header: &BaseHeader, context: FileContext) -> Result<(), Damage> {
    assert_eq!(&BaseHeader::read(&*file)?, header);
    let mut reader = BaseReader::open(file, header, context)?;
    let mut last = Vec::new();
    while let Some(subjects) = reader.next_subjects()? {
        for subject in subjects.iter() {
            assert!(subject.text > &last[..], "subjects out of order");
            last = subject.text.to_vec();
        }
    }
    let mut last = None;
    while let Some(expiries) = reader.next_expiries()? {
        for (seq, _) in expiries {
            assert!(last.is_none_or(|last| last < seq), "expiries out of order");
            last = Some(seq);
        }
    }
    Ok(())
}
