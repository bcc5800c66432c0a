//! Segment files with any bytes behind the header.
//!
//! The first byte chooses how much is known to be synced. The input's entries have checksums that a
//! mutation breaks, so every entry that looks like one is given the right checksum first.
//!
//! Promised: a scan ends, gives entries in whole batches that lie one behind the other, reports
//! ranges within the file, and reading the entries that it gave one by one says the same.

use myelin_store::record::{self, FileContext, HEAD_BYTES};
use myelin_store::segment::{self, Extent, HEADER_BYTES, Scan, Scanned};

use crate::store_file::{Memory, header};

/// Any bytes as the entries of a segment.
pub fn store_segment(data: &[u8]) {
    let (known, body) = data.split_first().map_or((0, data), |(first, rest)| (*first, rest));
    let context = header().context(None);
    let mut bytes = header().encode().to_vec();
    bytes.extend_from_slice(body);
    mend(&mut bytes[HEADER_BYTES..], &context);
    let file = Memory::new(&bytes);
    let to = bytes.len() as u64;
    let durable = to * u64::from(known) / 255;
    let extent = Extent { from: HEADER_BYTES as u64, to, durable };
    let mut last = HEADER_BYTES as u64;
    let mut visit = |scanned: Scanned<'_>| {
        assert!(scanned.offset >= last, "an entry overlaps the one before");
        last = scanned.offset + scanned.size as u64;
        let mut entry = bytes[scanned.offset as usize..last as usize].to_vec();
        let decoded =
            record::decode(&mut entry, scanned.offset, &context).expect("a scan gives valid entries");
        assert_eq!(decoded.entry, scanned.entry);
    };
    let scan = segment::scan(&file, &header(), &context, extent, &mut visit).expect("the file can be read");
    check(&scan, last, extent);
}

fn check(scan: &Scan, last: u64, extent: Extent) {
    assert!((last..=extent.to).contains(&scan.end.offset()), "an end before the last entry");
    assert!(scan.end.offset() >= extent.durable, "what was synced is cut");
    let mut before = extent.from;
    for damaged in &scan.damaged {
        assert!(before <= damaged.bytes.start && damaged.bytes.start < damaged.bytes.end);
        assert!(damaged.bytes.end <= extent.to);
        before = damaged.bytes.end;
    }
}

/// Gives what looks like entries, one behind the other, the right checksums; every eighth keeps a
/// wrong one.
fn mend(mut rest: &mut [u8], context: &FileContext) {
    while let Some(head) = record::peek(rest) {
        if head.size() > rest.len() {
            return;
        }
        let (entry, behind) = rest.split_at_mut(head.size());
        if entry[HEAD_BYTES - 8] & 7 != 7 {
            let checksum = crc32c::crc32c_append(context.seed, &entry[4..]);
            entry[..4].copy_from_slice(&checksum.to_le_bytes());
        }
        rest = behind;
    }
}
