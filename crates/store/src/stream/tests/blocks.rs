//! Messages of sealed segments that are read again and again.

use myelin_disk::faulty::FaultyDisk;

use super::*;
use crate::Store;
use crate::stream::ReadError;
use crate::stream::reader::fetch;

/// A stream whose messages lie in one sealed segment, on a disk whose reads can fail.
fn sealed(lengths: &[usize]) -> (FaultyDisk, Bench, Stream) {
    let disk = FaultyDisk::new(5);
    let mut bench = Bench { disk: Arc::new(disk.clone()), store: None, seed: 0 };
    bench.open();
    let mut stream = bench.create(StreamConfig::default());
    for (n, length) in (1..).zip(lengths) {
        put(&mut stream, "a", &payload(n, *length), n as i64).unwrap();
    }
    stream.close_segment(0, 1).unwrap();
    while let Some(job) = stream.next_job(1) {
        let done = job.run();
        stream.finish(done, 1).unwrap();
    }
    (disk, bench, stream)
}

fn payload(n: Seq, length: usize) -> String {
    (0..length as u64).map(|at| char::from(b'a' + ((at * n + at / 64) % 26) as u8)).collect()
}

/// A segment's file, of which a range may be made unreadable.
struct Medium<'a> {
    disk: &'a FaultyDisk,
    segment: Arc<Segment>,
}

impl<'a> Medium<'a> {
    fn of(disk: &'a FaultyDisk, stream: &Stream) -> Self {
        let segment = Arc::clone(&stream.shared.catalog().segments()[0].segment);
        assert!(matches!(segment.source, SegmentFile::Plain(_)));
        Self { disk, segment }
    }

    fn fail(&self, range: std::ops::Range<u64>) {
        self.disk.fail_reads(&self.segment.sealed().unwrap().path, range).unwrap();
    }

    fn fail_all(&self) {
        self.fail(0..u64::MAX);
    }
}

fn get(stream: &Stream, seq: Seq) -> Result<String, ReadError> {
    let mut buffer = Vec::new();
    let found = stream.reader().get(seq, Wait::Allowed, &mut buffer)?;
    Ok(String::from_utf8(found.expect("it is there").payload.to_vec()).unwrap())
}

fn in_use(bench: &Bench) -> usize {
    bench.store.as_ref().map_or(0, Store::block_bytes)
}

#[test]
fn what_is_read_twice_needs_no_file_any_more() {
    let (disk, bench, stream) = sealed(&[100; 200]);
    let medium = Medium::of(&disk, &stream);
    // The first and the last are in different blocks.
    get(&stream, 1).unwrap();
    get(&stream, 200).unwrap();
    assert_eq!(in_use(&bench), 0);
    get(&stream, 1).unwrap();
    assert_eq!(in_use(&bench), 4096);
    medium.fail_all();
    for seq in 1..20 {
        assert_eq!(get(&stream, seq).unwrap(), payload(seq, 100));
    }
    assert!(matches!(get(&stream, 200), Err(ReadError::Io(_))), "that was read once");
    medium.fail(0..0);
    assert_eq!(get(&stream, 200).unwrap(), payload(200, 100));
}

#[test]
fn walks_leave_no_blocks() {
    let (_disk, bench, stream) = sealed(&[100; 200]);
    for _ in 0..3 {
        assert_eq!(sequences(&stream).len(), 200);
    }
    assert_eq!(in_use(&bench), 0);
}

#[test]
fn long_messages_lie_in_several_blocks() {
    let (disk, bench, stream) = sealed(&[3000, 3000, 9000, 20_000, 10]);
    let medium = Medium::of(&disk, &stream);
    for _ in 0..2 {
        (1..=5).for_each(|seq| assert_eq!(get(&stream, seq).unwrap(), payload(seq, lengths(seq))));
    }
    medium.fail_all();
    for seq in [1, 2, 3, 5] {
        assert_eq!(get(&stream, seq).unwrap(), payload(seq, lengths(seq)));
    }
    assert!(get(&stream, 4).is_err(), "it is not worth the room");
    assert!(in_use(&bench) <= 6 * 4096, "{}", in_use(&bench));
}

fn lengths(seq: Seq) -> usize {
    [3000, 3000, 9000, 20_000, 10][seq as usize - 1]
}

#[test]
fn a_block_that_cannot_be_read_is_no_matter() {
    let (disk, bench, stream) = sealed(&[100; 20]);
    let medium = Medium::of(&disk, &stream);
    let at = |seq| stream.shared.catalog().locate(seq).unwrap().unwrap().offset;
    medium.fail(at(20)..at(20) + 10);
    for _ in 0..5 {
        assert_eq!(get(&stream, 3).unwrap(), payload(3, 100));
        assert!(matches!(get(&stream, 20), Err(ReadError::Io(_))));
    }
    assert_eq!(in_use(&bench), 0);
    medium.fail(0..0);
    assert_eq!(get(&stream, 20).unwrap(), payload(20, 100));
    assert!(in_use(&bench) > 0);
}

#[test]
fn a_place_behind_the_end_is_an_error() {
    let (_disk, bench, stream) = sealed(&[100; 20]);
    let mut located = stream.shared.catalog().locate(20).unwrap().unwrap();
    located.offset = located.segment.records_end() + 10_001;
    let mut buffer = Vec::new();
    for _ in 0..3 {
        let read = fetch(&stream.shared, &located, 20, Wait::Allowed, &mut buffer);
        assert!(matches!(read, Err(ReadError::Damaged(_))), "{read:?}");
    }
    assert_eq!(in_use(&bench), 0);
}

#[test]
fn damage_is_not_kept() {
    let (disk, _bench, stream) = sealed(&[100; 20]);
    let medium = Medium::of(&disk, &stream);
    let path = &medium.segment.sealed().unwrap().path;
    let at = stream.shared.catalog().locate(7).unwrap().unwrap().offset + 80;
    disk.flip_bit(path, at, 3).unwrap();
    for _ in 0..4 {
        assert_eq!(get(&stream, 6).unwrap(), payload(6, 100));
        assert!(matches!(get(&stream, 7), Err(ReadError::Damaged(_))));
    }
    disk.flip_bit(path, at, 3).unwrap();
    assert_eq!(get(&stream, 7).unwrap(), payload(7, 100));
}

#[test]
fn what_is_erased_is_not_kept() {
    let (disk, bench, mut stream) = sealed(&[100; 20]);
    for _ in 0..3 {
        get(&stream, 7).unwrap();
    }
    assert!(in_use(&bench) > 0);
    let before = Arc::clone(&Medium::of(&disk, &stream).segment);
    stream.erase(7, 1).unwrap();
    bench.store.as_ref().unwrap().journal().round_now(&|| 1).unwrap();
    while let Some(job) = stream.next_job(i64::MAX / 2) {
        stream.finish(job.run(), 1).unwrap();
    }
    assert_eq!(stream.erasing(), 0);
    assert!(!Arc::ptr_eq(&before, &Medium::of(&disk, &stream).segment), "it was written anew");
    assert_eq!(in_use(&bench), 0);
    for _ in 0..3 {
        assert_eq!(get(&stream, 8).unwrap(), payload(8, 100));
    }
}
