//! Batches in the log that are not released.

use std::path::PathBuf;

use myelin_disk::faulty::FaultyDisk;

use super::*;
use crate::stream::catalog::{Planned, PlannedBatch};

fn round(bench: &Bench, now: u64) {
    bench.store.as_ref().unwrap().journal().round_now(&|| now).unwrap();
}

/// Nobody who reads waits for the disk while a round releases: what was looked at for a decision
/// may have left the cache since.
#[test]
fn tables_that_a_release_needs_are_read_before_the_lock_is_taken() {
    let bench = Bench::new();
    let config =
        StreamConfig { durability: Durability::Synced, segment_bytes: Some(400), ..StreamConfig::default() };
    let mut stream = bench.create(config);
    for n in 1..=40 {
        put(&mut stream, &format!("s.{n}"), "some bytes to fill a segment", n).unwrap();
    }
    round(&bench, 41);
    while let Some(job) = stream.next_job(42) {
        stream.finish(job.run(), 42).unwrap();
        round(&bench, 42);
    }
    stream.compact(12, 100, 43).unwrap();
    stream.delete_all(&[16, 30, 40], 43).unwrap();
    assert_eq!(stream.reader().state().totals.messages, 40, "nothing of it is released");
    let slots = Arc::clone(&stream.files().unwrap().store_env.slots);
    let catalog = stream.shared.catalog();
    let segments: Vec<_> = catalog.segments().iter().map(|view| Arc::clone(&view.segment)).collect();
    segments.iter().for_each(|segment| slots.forget(segment));
    let tables = catalog.tables_to_release(2);
    let needed: Vec<_> = [1, 5, 11, 16, 30].iter().filter_map(|seq| catalog.segment_of(*seq)).collect();
    drop(catalog);
    tables.read();
    for (at, segment) in segments.iter().enumerate() {
        let is_needed = needed.contains(&at) && segment.is_sealed();
        assert!(slots.at_hand(segment).is_some() || !is_needed, "the table of segment {at} is needed");
        assert!(slots.at_hand(segment).is_none() || at <= needed[needed.len() - 1], "nobody needs {at}");
    }
    assert!(segments.iter().filter(|segment| slots.at_hand(segment).is_some()).count() > 3);
    round(&bench, 44);
    assert_eq!(stream.reader().state().totals.messages, 26);
}

/// In a group something waits all the time.
#[test]
fn lifetimes_that_were_looked_at_are_forgotten_with_their_messages() {
    let (_bench, mut stream) = member(StreamConfig::default());
    let mut committed = 0;
    for n in 1..=100 {
        let message =
            NewMessage { subject: b"a", timestamp: n, expires: Some(n + 1), ..NewMessage::default() };
        stream.append(&[message], Admission::Check, n, &mut Vec::new()).unwrap();
        stream.expire(n, 10, None).unwrap();
        stream.committed(committed);
        committed = stream.group().unwrap().index;
        let noted = stream.shared.catalog().noted_lifetimes();
        assert!(noted <= 4, "{noted} lifetimes are noted behind {n} messages");
    }
    assert!(stream.shared.catalog().has_unreleased());
    assert!(stream.state().totals.messages < 5);
}

/// A batch may be released already, and wait for the catalog alone: what comes behind it need not
/// wait, and is done behind it nevertheless.
#[test]
fn what_passes_at_once_is_done_behind_what_is_released() {
    let bench = Bench::new();
    let mut stream = bench.create(StreamConfig::default());
    put(&mut stream, "a", "x", 1).unwrap();
    stream.shared.release.set_mark(1);
    put(&mut stream, "a", "y", 2).unwrap();
    assert_eq!((stream.released(), stream.state().totals.last_seq), (1, 2), "it waits for the mark");
    // As if a round came just when the writer has the catalog: nobody looks at it in between.
    stream.shared.release.set_mark(100);
    assert!(stream.shared.release.has_unfollowed());
    let mut catalog = myelin_stdx::sync::write_lock(&stream.shared.catalog);
    let Entered::Passes(passing) = stream.shared.release.at_once(5) else { panic!("nothing waits") };
    let skip = PlannedBatch { index: 0, plans: vec![Planned::Skip(5, 3)] };
    let passing = Entered::Passes(passing);
    catalog.put(skip, &passing).unwrap();
    drop(catalog);
    stream.entered(passing, Ok(())).unwrap();
    assert_eq!((stream.released(), stream.reader().state().totals.last_seq), (5, 5));
    assert_eq!(sequences(&stream), [1, 2]);
    assert!(!stream.shared.catalog().has_unreleased());
}

/// A stream on a disk that can fail, with forty messages of which most are in sealed segments.
fn forty_in_sealed_segments() -> (Bench, FaultyDisk, StreamConfig, Stream) {
    let disk = FaultyDisk::new(3);
    let mut bench = Bench { disk: Arc::new(disk.clone()), store: None, seed: 0 };
    bench.open();
    let config =
        StreamConfig { durability: Durability::Synced, segment_bytes: Some(400), ..StreamConfig::default() };
    let mut stream = bench.create(config);
    for n in 1..=40 {
        put(&mut stream, "a", "some bytes to fill a segment", n).unwrap();
    }
    round(&bench, 41);
    while let Some(job) = stream.next_job(42) {
        stream.finish(job.run(), 42).unwrap();
        round(&bench, 42);
    }
    (bench, disk, config, stream)
}

/// Releases a removal of message 3, for which a table is needed that cannot be read, and message 41
/// behind it. Answers with the file that cannot be read.
fn release_unreadable(bench: &Bench, disk: &FaultyDisk, stream: &mut Stream) -> PathBuf {
    stream.delete_all(&[3], 43).unwrap();
    put(stream, "a", "z", 44).unwrap();
    let segment = {
        let catalog = stream.shared.catalog();
        let at = catalog.segment_of(3).unwrap();
        Arc::clone(&catalog.segments()[at].segment)
    };
    let slots = Arc::clone(&stream.files().unwrap().store_env.slots);
    slots.forget(&segment);
    let path = stream.files().unwrap().segment_path(segment.no);
    disk.fail_reads(&path, 0..u64::MAX).unwrap();
    round(bench, 45);
    assert!(stream.shared.release.has_unfollowed());
    path
}

/// A table cannot be read, so that the catalog cannot follow: nobody passes over what is behind it,
/// the stream has failed, and who reads hears of it. Opened anew it has everything.
#[test]
fn nobody_steps_over_what_a_catalog_could_not_follow() {
    let (mut bench, disk, config, mut stream) = forty_in_sealed_segments();
    let mut cursor = stream.reader().cursor(Filter::All, 0);
    while cursor.next(Wait::Allowed).unwrap().is_some() {}
    let mut at_end = stream.reader().cursor(Filter::Subject(b"a".to_vec()), 41);
    assert!(at_end.next(Wait::Allowed).unwrap().is_none());
    let path = release_unreadable(&bench, &disk, &mut stream);
    assert!(matches!(at_end.next(Wait::Forbidden), Err(ReadError::WouldWait)), "it would have to be read");
    for cursor in [&mut cursor, &mut at_end] {
        assert!(matches!(cursor.next(Wait::Allowed), Err(ReadError::Io(_))));
        assert_eq!(cursor.position(), 41);
    }
    assert!(stream.failure().is_some());
    let released = stream.released();
    round(&bench, 46);
    assert_eq!(stream.released(), released, "nothing is released any more");
    disk.fail_reads(&path, 0..0).unwrap();
    drop((stream, cursor, at_end));
    let (stream, report) = bench.reopen(config);
    assert_eq!(report.notices, []);
    let all = sequences(&stream);
    assert!(all.contains(&41) && !all.contains(&3) && all.len() == 40, "{all:?}");
}

/// A catalog that could not follow shows a stream that ends earlier: nothing is decided on that,
/// and no segment begins with it.
#[test]
fn nothing_is_appended_behind_what_a_catalog_could_not_follow() {
    // The second one would need a new segment, and so does the third.
    type Act = fn(&mut Stream) -> Result<(), StoreError>;
    fn append(stream: &mut Stream, payload: &[u8]) -> Result<(), StoreError> {
        let message = NewMessage { subject: b"a", payload, timestamp: 46, ..NewMessage::default() };
        stream.append(&[message], Admission::Check, 46, &mut Vec::new())
    }
    let acts: [Act; 3] = [
        |stream| append(stream, b"twice"),
        |stream| append(stream, &[b'x'; 380]),
        |stream| stream.set_config(StreamConfig { durability: Durability::Written, ..*stream.config() }, 46),
    ];
    for (at, act) in acts.into_iter().enumerate() {
        let (mut bench, disk, config, mut stream) = forty_in_sealed_segments();
        let path = release_unreadable(&bench, &disk, &mut stream);
        assert!(matches!(act(&mut stream), Err(StoreError::Failed(_))), "{at}");
        assert_eq!(stream.released(), 41);
        disk.fail_reads(&path, 0..0).unwrap();
        drop(stream);
        let (mut stream, report) = bench.reopen(config);
        assert_eq!(report.notices, []);
        assert_eq!(stream.state().totals.last_seq, 41, "no sequence is there twice ({at})");
        assert_eq!(put(&mut stream, "a", "next", 47).unwrap(), 42);
    }
}
