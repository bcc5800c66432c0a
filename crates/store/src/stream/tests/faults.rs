//! What cannot be read or written just now: nothing is lost by it, and whoever asked may ask again.

use std::io;

use super::*;
use crate::config::Compression;
use crate::disk::File;
use crate::disk::faulty::{Fault, FaultyDisk};
use crate::stream::reader::unpack;

fn faulty(config: StreamConfig) -> (FaultyDisk, Bench, Stream) {
    let disk = FaultyDisk::new(3);
    let mut bench = Bench { disk: Arc::new(disk.clone()), store: None, seed: 0 };
    bench.open();
    let stream = bench.create(config);
    (disk, bench, stream)
}

#[test]
fn a_segment_whose_closing_failed_is_still_let_go_of() {
    // In this mode closing is what writes the entries.
    let config = StreamConfig { durability: Durability::Memory, ..StreamConfig::default() };
    let mut failed = 0;
    for point in 0..12 {
        let (disk, _bench, mut stream) = faulty(config);
        put(&mut stream, "a", "x", 1).unwrap();
        let file = Arc::clone(&stream.active.file);
        disk.fail_at(disk.points() + point, Fault::Error(io::ErrorKind::Other));
        if stream.close_segment(0, 2).is_ok() || Arc::ptr_eq(&file, &stream.active.file) {
            continue;
        }
        failed += 1;
        assert!(stream.failure().is_some());
        assert!(stream.closed.iter().any(|closed| Arc::ptr_eq(&closed.active.file, &file)));
    }
    assert!(failed > 0, "no point was the write of the old segment");
}

/// A stream whose messages lie in several frames of one packed segment, and the segment's file.
fn packed() -> (FaultyDisk, Bench, Stream) {
    let config = StreamConfig { compression: Compression::S2, ..StreamConfig::default() };
    let (disk, bench, mut stream) = faulty(config);
    for n in 1..=300_u32 {
        // Bytes that do not repeat, so that the frames lie behind one another with some length.
        let payload: String =
            (0..200).map(|at| format!("{:08x}", (n * 211 + at).wrapping_mul(0x9E37_79B9))).collect();
        put(&mut stream, "a", &payload, i64::from(n)).unwrap();
    }
    stream.close_segment(0, 1).unwrap();
    while let Some(job) = stream.next_job(1) {
        let done = job.run();
        stream.finish(done, 1).unwrap();
    }
    (disk, bench, stream)
}

#[test]
fn a_cursor_goes_on_after_an_error() {
    let (disk, _bench, stream) = packed();
    let segment = Arc::clone(&stream.shared.catalog().places[0].segment);
    let sealed = segment.sealed().expect("the segment is sealed");
    let mut cursor = stream.reader().cursor(Filter::All, 0);
    let mut seen = Vec::new();
    for _ in 0..10 {
        seen.push(cursor.next(Wait::Allowed).unwrap().unwrap().seq);
    }
    disk.fail_reads(&sealed.path, 0..sealed.length).unwrap();
    while let Ok(message) = cursor.next(Wait::Allowed) {
        seen.push(message.unwrap().seq);
    }
    assert!(seen.len() < 300);
    assert!(cursor.next(Wait::Allowed).is_err(), "it is still not there");
    assert_eq!(cursor.position(), seen.len() as Seq + 1);
    disk.fail_reads(&sealed.path, 0..0).unwrap();
    while let Some(message) = cursor.next(Wait::Allowed).unwrap() {
        seen.push(message.seq);
    }
    assert_eq!(seen, (1..=300).collect::<Vec<_>>());
}

/// A file of which nothing is in memory.
#[derive(Debug)]
struct Cold;

impl File for Cold {
    fn len(&self) -> io::Result<u64> {
        unreachable!()
    }
    fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        panic!("this waits for the device");
    }
    fn read_cached_at(&self, _: &mut [u8], _: u64) -> io::Result<Option<usize>> {
        Ok(None)
    }
    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        unreachable!()
    }
    fn allocate(&self, _: u64) -> io::Result<()> {
        unreachable!()
    }
    fn set_len(&self, _: u64) -> io::Result<()> {
        unreachable!()
    }
    fn sync(&self) -> io::Result<()> {
        unreachable!()
    }
}

#[test]
fn a_frame_is_not_waited_for_either() {
    let (_disk, _bench, stream) = packed();
    let segment = Arc::clone(&stream.shared.catalog().places[0].segment);
    let Source::Packed(_, frames) = &segment.source else { panic!("the segment is not packed") };
    assert!(frames.frames().len() > 1);
    let offset = frames.frames()[0].raw_offset;
    let read = unpack(&segment, &Cold, frames, offset, Wait::Forbidden, &mut Vec::new());
    assert!(matches!(read, Err(ReadError::WouldWait)), "{read:?}");
}
