//! How many messages are left: kept from delivery to delivery, and always what a count from the
//! beginning says.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use myelin_disk::faulty::FaultyDisk;
use myelin_stdx::rng::Rng;
use myelin_store::entropy::SeededEntropy;
use myelin_store::{
    Admission, Filter, Limits, NewMessage, ReadError, Seq, Store, StoreOptions, Stream, StreamConfig, Wait,
};

use crate::consumer::stream_scan::{RETRY, Start, StreamScan};

const SUBJECTS: [&str; 4] = ["a.x", "a.y", "b", "c"];

fn publish(stream: &mut Stream, subject: &str) {
    let message =
        NewMessage { subject: subject.as_bytes(), payload: b"p", timestamp: 1, ..NewMessage::default() };
    stream.append(&[message], Admission::Granted, 1, &mut Vec::new()).unwrap();
}

fn source(stream: &Stream, filter: &Filter, lasts: &[Seq], next: Seq) -> StreamScan {
    let lasts: VecDeque<Seq> = lasts.iter().copied().collect();
    StreamScan::new(stream.reader(), filter.clone(), Start { next, lasts })
}

/// Delivers the next message; answers its sequence and what it tells of those behind it.
fn next(source: &mut StreamScan) -> Option<(Seq, u64)> {
    let found = source.next(Wait::Allowed).unwrap().map(|(message, left)| (message.seq, left));
    if found.is_some() {
        source.count_down();
    }
    found
}

#[test]
fn a_live_publisher_has_only_the_new_messages_counted() {
    let mut stream = Stream::in_memory(StreamConfig::default(), 1, 1);
    (0..1000).for_each(|at| publish(&mut stream, SUBJECTS[at % 4]));
    let filter = Filter::new(b"a.*");
    let mut source = source(&stream, &filter, &[], 1);
    assert_eq!((source.left(1), source.counted), (500, 1000));
    for at in 1..=100 {
        publish(&mut stream, "a.x");
        publish(&mut stream, "b");
        assert_eq!(source.left(1), 501, "one has come, and one went");
        assert_eq!(next(&mut source).map(|(_, left)| left), Some(500));
        assert_eq!(source.counted, 1000 + 2 * at, "what was counted is not counted again");
    }
    // What goes at the front was delivered, and is none of them.
    let position = source.position();
    stream.compact(position, 1000, 1).unwrap();
    assert_eq!((source.left(1), source.counted), (500, 1200));
    // A message that goes elsewhere may have been one of them.
    stream.delete(position + 1, 1).unwrap();
    let behind = stream.reader().pending(&filter, position).unwrap();
    assert_eq!(source.left(1), behind);
    assert!(source.counted > 1200);
}

#[test]
fn who_has_passed_what_was_counted_counts_the_rest() {
    let mut stream = Stream::in_memory(StreamConfig::default(), 1, 1);
    publish(&mut stream, "b");
    let mut source = source(&stream, &Filter::new(b"b"), &[], 1);
    assert_eq!(source.left(1), 1);
    (0..3).for_each(|_| publish(&mut stream, "b"));
    // Released behind the count, and delivered in the same turn.
    assert_eq!([next(&mut source), next(&mut source)], [Some((1, 0)), Some((2, 0))]);
    assert_eq!(source.left(1), 2);
}

#[test]
fn the_last_of_each_subject_count_until_they_are_gone() {
    let mut stream = Stream::in_memory(StreamConfig::default(), 1, 1);
    (0..8).for_each(|at| publish(&mut stream, SUBJECTS[at % 4]));
    let mut source = source(&stream, &Filter::All, &[5, 6, 7, 8], 9);
    assert_eq!((source.position(), source.left(1)), (5, 4));
    stream.delete(6, 1).unwrap();
    source.forget_removed();
    assert_eq!(source.left(1), 3);
    stream.delete(7, 1).unwrap();
    publish(&mut stream, "c");
    assert_eq!(next(&mut source).map(|(seq, _)| seq), Some(5));
    assert_eq!(next(&mut source), Some((8, 0)), "one that it was not told of is passed over");
    assert_eq!(source.left(1), 1);
    assert_eq!(next(&mut source), Some((9, 0)));
    assert_eq!((next(&mut source), source.left(1)), (None, 0));
}

fn open(disk: &FaultyDisk, seed: u64) -> Store {
    let options = StoreOptions { journal_file_bytes: 1 << 20, table_bytes: 0, ..StoreOptions::new("/store") };
    Store::open(Arc::new(disk.clone()), options, Arc::new(SeededEntropy::new(seed))).unwrap().0
}

/// A stream of six sealed segments, in a store that keeps one table in memory.
fn in_segments(disk: &FaultyDisk) -> (Store, Stream) {
    let store = open(disk, 1);
    let mut stream = store.create_stream("A", "S", b"", StreamConfig::default(), 1).unwrap();
    for _ in 0..6 {
        SUBJECTS.iter().for_each(|subject| publish(&mut stream, subject));
        stream.close_segment(0, 1).unwrap();
    }
    store.journal().round(&|| 1).unwrap();
    while let Some(job) = stream.next_job(1) {
        let _ = stream.finish(job.run(), 1);
    }
    store.write_watermarks().unwrap();
    (store, stream)
}

fn segment_path(disk: &FaultyDisk, no: u64) -> PathBuf {
    let name = format!("{no:016}.seg");
    disk.files().into_keys().find(|path| path.ends_with(&name)).unwrap()
}

/// A stream that has lost the messages of its second segment, which cannot be read.
pub(super) fn stream_with_losses() -> (Store, Stream) {
    let disk = FaultyDisk::new(1);
    let (store, stream) = in_segments(&disk);
    let id = stream.id();
    drop((stream, store));
    let disk = disk.kill();
    // Nothing is left in the journal then that would write the segment again.
    drop(open(&disk, 2));
    let disk = disk.kill();
    disk.zero(&segment_path(&disk, 2), 0..64).unwrap();
    let store = open(&disk, 3);
    let (stream, report) = store.open_stream(id, StreamConfig::default(), 1).unwrap();
    assert!(report.is_damaged());
    (store, stream)
}

#[test]
fn what_was_lost_counts_until_the_end_is_reached() {
    let (_store, mut stream) = stream_with_losses();
    for filter in [Filter::All, Filter::any(vec![b"a.*".to_vec(), b"b".to_vec()])] {
        let mut source = source(&stream, &filter, &[], 1);
        let behind = source.left(1);
        let mut delivered = 0;
        while next(&mut source).is_some() {
            delivered += 1;
        }
        // Nobody knows what their subjects were.
        assert_eq!(delivered < behind, matches!(filter, Filter::All), "lost messages count for all");
        assert_eq!(source.left(1), 0, "none of them is waited for");
        publish(&mut stream, "b");
        assert_eq!((source.left(1), next(&mut source).map(|(_, left)| left)), (1, Some(0)));
    }
}

#[test]
fn what_cannot_be_counted_does_not_keep_the_next_message_out_of_memory() {
    let disk = FaultyDisk::new(1);
    let (_store, stream) = in_segments(&disk);
    let path = segment_path(&disk, 6);
    disk.fail_reads(&path, 0..u64::MAX).unwrap();
    let filter = Filter::any(vec![b"a.*".to_vec(), b"b".to_vec()]);
    let mut source = source(&stream, &filter, &[], 14);
    // As a consumer does: it counts, reads what is in memory, and has the rest brought there.
    assert_eq!(source.left(1), 0, "it is not known");
    assert!(matches!(source.next(Wait::Forbidden), Err(ReadError::WouldWait)));
    let next_seq = stream.reader().warm(&filter, source.position()).unwrap();
    source.warmed(14, Some(next_seq));
    source.left(2);
    assert_eq!(source.next(Wait::Forbidden).unwrap().map(|(message, _)| message.seq), Some(14));
    disk.fail_reads(&path, 0..0).unwrap();
    assert_eq!(source.left(RETRY), 0, "it was tried just now");
    assert_eq!(source.left(RETRY + 1), 7);
}

#[test]
fn it_is_always_what_a_count_from_the_beginning_says() {
    for seed in 0..40 {
        let mut rng = Rng::seeded(seed);
        let limits = Limits {
            messages: (seed % 2 == 0).then_some(30),
            messages_per_subject: (seed % 3 == 0).then_some(7),
            ..Limits::default()
        };
        let mut stream = Stream::in_memory(StreamConfig { limits, ..StreamConfig::default() }, 1, 1);
        let filter = [Filter::All, Filter::new(b"a.*"), Filter::new(b"b")][(seed % 3) as usize].clone();
        let mut source = source(&stream, &filter, &[], 1);
        for step in 0..300 {
            match rng.below(10) {
                0..5 => publish(&mut stream, SUBJECTS[rng.below(4) as usize]),
                5..8 => drop(next(&mut source)),
                8 => {
                    let first = stream.state().totals.first_seq;
                    stream.delete(first + rng.below(12), 1).unwrap();
                }
                _ => {
                    let first = stream.state().totals.first_seq + rng.below(3);
                    stream.compact(first, 1000, 1).unwrap();
                }
            }
            let all = stream.reader().pending(&filter, source.position()).unwrap();
            assert_eq!(source.left(1), all, "seed {seed}, step {step}");
        }
    }
}
