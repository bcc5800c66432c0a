//! A segment that was damaged is sealed again without what it lost, while those behind it were
//! sealed before and count that.

use super::*;
use crate::segment::TRAILER_BYTES;

/// Removals that only the segment told of.
const REMOVALS: [fn(&mut Stream); 4] = [
    |_| {},
    |stream| assert_eq!(stream.delete(5, 2).unwrap().messages, 1),
    |stream| assert!(!stream.compact(9, 100, 2).unwrap().more),
    |stream| assert!(!stream.compact(12, 100, 2).unwrap().more),
];

/// A stream of three sealed segments, the second of which, with messages of `subject`, has lost all
/// but its header and trailer.
fn damaged(compression: Compression, remove: fn(&mut Stream), subject: &[u8]) -> (Arc<FaultyDisk>, StreamId) {
    let disk = Arc::new(FaultyDisk::new(9));
    let store = open(&disk, 1);
    let mut stream = store.create_stream("A", "S", b"", config(compression), 1).unwrap();
    (0..10).for_each(|_| append_one(&mut stream));
    stream.close_segment(0, 2).unwrap();
    (0..2).for_each(|_| append_to(&mut stream, subject));
    remove(&mut stream);
    (0..2).for_each(|_| append_to(&mut stream, subject));
    stream.close_segment(0, 2).unwrap();
    (0..10).for_each(|_| append_one(&mut stream));
    stream.close_segment(0, 2).unwrap();
    settle(&store, &mut stream);
    store.write_watermarks().unwrap();
    let id = stream.id();
    drop((stream, store));
    let disk = Arc::new(disk.kill());
    // Nothing is left in the journal that would write the files again.
    drop(open(&disk, 2));
    let disk = Arc::new(disk.kill());
    let path = stream_directory(Path::new("/store"), id).join(segment_name(SegmentNo(2)));
    let length = disk.open(&path).unwrap().len().unwrap();
    disk.zero(&path, HEADER_BYTES as u64 + 8..length - TRAILER_BYTES as u64).unwrap();
    (disk, id)
}

/// The sequences that count, lost or not: as many as it says.
fn counted(stream: &Stream, context: &str) -> Vec<Seq> {
    let catalog = stream.shared().catalog();
    let totals = catalog.totals();
    let all: Vec<Seq> = (totals.first_seq..=totals.last_seq).filter(|seq| catalog.contains(*seq)).collect();
    assert_eq!(totals.messages, all.len() as u64, "{context}: {totals:?} {all:?}");
    assert_eq!(Some(&totals.first_seq), all.first(), "{context}: {totals:?}");
    all
}

#[test]
fn what_a_damaged_segment_has_lost_is_counted_in_one_way_at_each_start() {
    for compression in [Compression::None, Compression::S2] {
        for (story, remove) in REMOVALS.into_iter().enumerate() {
            for is_merged in [false, true] {
                let context = format!("{compression:?}, story {story}, merged: {is_merged}");
                let (disk, id) = damaged(compression, remove, b"s.1");
                let store = open(&disk, 3);
                let (mut stream, report) = store.open_stream(id, config(compression), 5).unwrap();
                assert!(report.is_damaged(), "{context}");
                counted(&stream, &context);
                settle(&store, &mut stream);
                for _ in 0..if is_merged { 10 } else { 0 } {
                    append_one(&mut stream);
                    stream.close_segment(0, 5).unwrap();
                }
                settle(&store, &mut stream);
                counted(&stream, &context);
                drop((stream, store));
                let store = open(&Arc::new(disk.kill()), 4);
                let (mut stream, _) = store.open_stream(id, config(compression), 5).unwrap();
                for seq in counted(&stream, &context) {
                    assert_eq!(stream.delete(seq, 6).unwrap().messages, 1, "{context}: {seq}");
                }
                assert_eq!(stream.state().totals.messages, 0, "{context}");
            }
        }
    }
}

/// A message of before it was back, which the footer behind it did not count: a limit per subject
/// took others for it.
#[test]
fn subjects_count_what_is_back_because_a_segment_was_damaged() {
    for compression in [Compression::None, Compression::S2] {
        for (remove, subject) in REMOVALS.into_iter().flat_map(|one| [(one, b"s.1"), (one, b"s.2")]) {
            let (disk, id) = damaged(compression, remove, subject);
            let store = open(&disk, 3);
            let (mut stream, _) = store.open_stream(id, config(compression), 5).unwrap();
            for round in 0..2 {
                let there = of_one_subject(&stream).len() as u64;
                let context = format!("{compression:?}, {round}, {:?}", str::from_utf8(subject));
                assert_eq!(stream.count_of(b"s.1"), there, "{context}");
                append_one(&mut stream);
            }
        }
    }
}
