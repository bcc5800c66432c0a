//! Faults of the disk that pass: nothing is lost by them, and whoever asked may ask again.

use std::io;
use std::ops::RangeInclusive;
use std::sync::mpsc;
use std::thread;

use myelin_disk::File;
use myelin_disk::faulty::{DiskFault, FaultyDisk};

use super::*;
use crate::config::{Compression, Limits};
use crate::record::HEAD_BYTES;
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
        disk.fail_at(disk.points() + point, DiskFault::Error(io::ErrorKind::Other));
        if stream.close_segment(0, 2).is_ok() || Arc::ptr_eq(&file, &stream.active.file) {
            continue;
        }
        failed += 1;
        assert!(stream.failure().is_some());
        assert!(stream.closed.iter().any(|closed| Arc::ptr_eq(&closed.active.file, &file)));
    }
    assert!(failed > 0, "no point was the write of the old segment");
}

/// Its last messages may be nowhere.
#[test]
fn the_writer_of_a_stream_that_has_failed_reads_nothing() {
    let mut failed = 0;
    for point in 0..8 {
        let (disk, _bench, mut stream) = faulty(StreamConfig::default());
        put(&mut stream, "a", "x", 1).unwrap();
        disk.fail_at(disk.points() + point, DiskFault::Error(io::ErrorKind::Other));
        let message = NewMessage { subject: b"a", payload: b"y", timestamp: 2, ..NewMessage::default() };
        let appended = stream.append(&[message], Admission::Check, 2, &mut Vec::new());
        if appended.is_ok() || stream.failure().is_none() {
            continue;
        }
        failed += 1;
        let mut buffer = Vec::new();
        assert!(matches!(stream.read_last(b"a", &mut buffer), Err(ReadError::Io(_))));
    }
    assert!(failed > 0, "no point was the write of the second message");
}

/// How long a reader may take that looks at a few messages.
const PATIENCE: Duration = Duration::from_secs(20);

/// Where the size stands in an entry.
const SIZE_AT: u64 = 4;

/// Sequences of the messages that a cursor shows, and of those that it has to pass over. Fails
/// where it goes round in circles.
fn walk(stream: &Stream) -> (Vec<Seq>, Vec<Seq>) {
    let mut cursor = stream.reader().cursor(Filter::All, 0);
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let (mut seen, mut damaged) = (Vec::new(), Vec::new());
        loop {
            match cursor.next(Wait::Allowed) {
                Ok(Some(message)) => seen.push(message.seq),
                Ok(None) => break,
                Err(ReadError::Damaged(_)) => {
                    let at = cursor.position();
                    damaged.push(at);
                    cursor.skip(at);
                }
                Err(error) => panic!("{error}"),
            }
        }
        tell.send((seen, damaged))
    });
    told.recv_timeout(PATIENCE).expect("the cursor ends")
}

/// A stream of ten messages in one segment, and the segment's file.
fn ten(is_sealed: bool) -> (FaultyDisk, Bench, Stream, std::path::PathBuf) {
    let config = StreamConfig { durability: Durability::Synced, ..StreamConfig::default() };
    let (disk, bench, mut stream) = faulty(config);
    for n in 1..=10 {
        put(&mut stream, "a", "some bytes", n).unwrap();
    }
    if is_sealed {
        stream.close_segment(0, 11).unwrap();
        while let Some(job) = stream.next_job(11) {
            let done = job.run();
            stream.finish(done, 11).unwrap();
        }
    }
    bench.store.as_ref().unwrap().journal().round_now(&|| 11).unwrap();
    stream.shared.catalog().segments().iter().for_each(|view| {
        if let SegmentFile::Appended(file) = &view.segment.source {
            file.flush().unwrap();
        }
    });
    let mut segments = disk.files().into_keys().filter(|path| path.ends_with("0000000000000001.seg"));
    let path = segments.next_back().expect("there is a segment");
    (disk, bench, stream, path)
}

/// Where the entry of a message begins.
fn offset_of(stream: &Stream, seq: Seq) -> u64 {
    stream.shared.catalog().locate(seq).unwrap().expect("it is there").offset
}

/// Without the look at where the bytes end, the cursor of an open segment asked for more of them
/// for ever.
#[test]
fn a_cursor_does_not_wait_for_the_end_of_an_entry_that_is_longer_than_its_segment() {
    for is_sealed in [false, true] {
        let (disk, _bench, stream, path) = ten(is_sealed);
        disk.flip_bit(&path, offset_of(&stream, 4) + SIZE_AT + 2, 0).unwrap();
        assert_eq!(walk(&stream), (vec![1, 2, 3, 5, 6, 7, 8, 9, 10], vec![4]), "sealed: {is_sealed}");
    }
}

#[test]
fn one_bit_of_a_head_costs_a_cursor_one_message() {
    for is_sealed in [false, true] {
        for bit in 0..8 * HEAD_BYTES as u64 {
            let (disk, _bench, stream, path) = ten(is_sealed);
            disk.flip_bit(&path, offset_of(&stream, 4) + bit / 8, (bit % 8) as u8).unwrap();
            let what = format!("sealed: {is_sealed}, byte {}, bit {}", bit / 8, bit % 8);
            assert_eq!(walk(&stream), (vec![1, 2, 3, 5, 6, 7, 8, 9, 10], vec![4]), "{what}");
        }
    }
}

/// A stream with one wrong bit can be backed up all the same.
#[test]
fn a_damaged_message_that_was_removed_is_nobodys_concern() {
    for is_sealed in [false, true] {
        let (disk, bench, mut stream, path) = ten(is_sealed);
        let round = || bench.store.as_ref().unwrap().journal().round_now(&|| 12).unwrap();
        for seq in [4, 5] {
            disk.flip_bit(&path, offset_of(&stream, seq) + HEAD_BYTES as u64, 0).unwrap();
        }
        stream.delete(4, 12).unwrap();
        round();
        assert_eq!(walk(&stream), (vec![1, 2, 3, 6, 7, 8, 9, 10], vec![5]), "sealed: {is_sealed}");
        stream.delete(5, 12).unwrap();
        round();
        assert_eq!(walk(&stream), (vec![1, 2, 3, 6, 7, 8, 9, 10], vec![]), "sealed: {is_sealed}");
    }
}

#[test]
fn damage_that_a_reader_meets_is_told_once() {
    let (disk, _bench, stream, path) = ten(true);
    let told = Arc::new(Told::default());
    stream.on_release(Arc::clone(&told) as Arc<dyn OnRelease>);
    for seq in [4, 5, 8] {
        disk.flip_bit(&path, offset_of(&stream, seq) + HEAD_BYTES as u64, 0).unwrap();
    }
    let reader = stream.reader();
    assert_eq!(reader.met_damage(), []);
    assert!(reader.get(8, Wait::Allowed, &mut Vec::new()).is_err());
    assert_eq!(walk(&stream), (vec![1, 2, 3, 6, 7, 9, 10], vec![4, 5, 8]));
    assert_eq!(walk(&stream).1, [4, 5, 8]);
    assert_eq!(*told.0.lock().unwrap(), [(8..=8, 1), (4..=4, 2), (5..=5, 3)]);
    let met: Vec<_> = reader.met_damage().into_iter().map(|lost| lost.sequences).collect();
    assert_eq!(met, [8..=8, 4..=5]);
}

#[derive(Default)]
struct Told(std::sync::Mutex<Vec<(RangeInclusive<Seq>, usize)>>);

impl OnRelease for Told {
    fn released(&self, _: StreamId, _: Seq, _: Ticket) {}
    fn failed(&self, _: StreamId, _: &str) {}
    fn damaged(&self, _: StreamId, lost: &crate::Lost, count: usize) {
        self.0.lock().unwrap().push((lost.sequences.clone(), count));
    }
}

#[test]
fn a_frame_is_met_with_all_its_messages() {
    let (disk, _bench, stream) = packed();
    let segment = Arc::clone(&stream.shared.catalog().segments()[0].segment);
    let SegmentFile::Packed(sealed, frames) = &segment.source else { panic!("the segment is not packed") };
    let frame = frames.frames()[1].file();
    disk.flip_bit(&sealed.path, frame.start + 40, 0).unwrap();
    let (_, damaged) = walk(&stream);
    let met = stream.reader().met_damage();
    let sequences = met.iter().flat_map(|lost| lost.sequences.clone()).collect::<Vec<_>>();
    assert_eq!((met.len(), sequences), (1, damaged));
}

/// A start does not look at the table of a sealed segment: a bit of it was the end of all messages.
#[test]
fn a_table_is_made_of_the_entries_where_the_footer_is_damaged() {
    for compression in [Compression::None, Compression::S2] {
        let config = StreamConfig { compression, ..StreamConfig::default() };
        let (disk, mut bench, mut stream) = faulty(config);
        for n in 1..=100 {
            put(&mut stream, ["a", "b"][n as usize % 2], &"some bytes ".repeat(50), n).unwrap();
        }
        stream.close_segment(0, 101).unwrap();
        while let Some(job) = stream.next_job(101) {
            let done = job.run();
            stream.finish(done, 101).unwrap();
        }
        let before = contents(&stream);
        let segment = Arc::clone(&stream.shared.catalog().segments()[0].segment);
        let sealed = segment.sealed().expect("the segment is sealed");
        let (path, from, to) = (sealed.path.clone(), sealed.records_end, sealed.length);
        drop(stream);
        bench.store.take().unwrap().close(&|| 102).unwrap();
        for at in (from..to - 128).step_by(7) {
            disk.flip_bit(&path, at, 1).unwrap();
            let mut copy = Bench { disk: Arc::new(disk.kill()), store: None, seed: 1 };
            disk.flip_bit(&path, at, 1).unwrap();
            let (stream, _) = copy.reopen(config);
            assert_eq!(contents(&stream), before, "{compression:?}, byte {at} of {from}..{to}");
            let last = stream.reader().last_seq(&Filter::Subject(b"b".to_vec()));
            assert_eq!(last.unwrap(), Some(99), "{compression:?}, byte {at} of {from}..{to}");
        }
    }
}

fn put_some(stream: &mut Stream, timestamps: RangeInclusive<Timestamp>) {
    for timestamp in timestamps {
        put(stream, "a", "some bytes", timestamp).unwrap();
    }
}

/// Seals the segment that grows, with `timestamp`.
fn seal(stream: &mut Stream, timestamp: Timestamp) {
    stream.close_segment(0, timestamp).unwrap();
    while let Some(job) = stream.next_job(timestamp) {
        let done = job.run();
        stream.finish(done, timestamp).unwrap();
    }
}

/// The entry of the purge is in the log, and a part of it has happened: a consumer was given
/// messages that its stream had removed.
#[test]
fn a_purge_that_fails_half_way_takes_from_readers_what_it_has_removed() {
    let config = StreamConfig::default();
    let (disk, mut bench, mut stream) = faulty(config);
    put_some(&mut stream, 1..=10);
    seal(&mut stream, 10);
    put_some(&mut stream, 11..=20);
    seal(&mut stream, 20);
    drop(stream);
    bench.store.take().unwrap().close(&|| 21).unwrap();
    // No table is in memory.
    let (mut stream, _) = bench.reopen(config);
    let mut cursor = stream.reader().cursor(Filter::All, 0);
    assert_eq!(cursor.next(Wait::Allowed).unwrap().map(|message| message.seq), Some(1));
    let second = Arc::clone(&stream.shared.catalog().segments()[1].segment);
    let second = second.sealed().expect("the segment is sealed");
    disk.fail_reads(&second.path, 0..second.length).unwrap();
    let purged = stream.purge(&mut Purge { below: 16, ..Purge::default() }, 100, 22);
    assert!(purged.is_err() && stream.failure().is_some());
    assert_eq!(stream.state().totals.first_seq, 11);
    let next = cursor.next(Wait::Allowed);
    assert!(!matches!(next, Ok(Some(Message { seq: ..11, .. }))), "{next:?}");
}

/// Tables of messages and of frames are made of what is left, and do not name what is lost.
#[test]
fn a_message_that_has_lost_its_frame_and_its_row_is_told_when_it_is_met() {
    for has_row in [false, true] {
        let (disk, mut bench, stream) = packed();
        let config = *stream.config();
        let segment = Arc::clone(&stream.shared.catalog().segments()[0].segment);
        let SegmentFile::Packed(sealed, frames) = &segment.source else { panic!("it is not packed") };
        let frame = frames.frames()[1].file();
        let (path, end, length) = (sealed.path.clone(), sealed.records_end, sealed.length);
        drop((stream, segment));
        bench.store.take().unwrap().close(&|| 2).unwrap();
        disk.zero(&path, frame.start..frame.start + 40).unwrap();
        // Before the footer stands the table of frames, in the middle of it that of messages.
        disk.flip_bit(&path, if has_row { end - 1 } else { (end + length) / 2 }, 0).unwrap();
        let (stream, report) = bench.reopen(config);
        assert_eq!(report.lost, [], "a start does not read sealed segments");
        let (reader, mut buffer) = (stream.reader(), Vec::new());
        let damaged: Vec<Seq> =
            (1..=300).filter(|seq| reader.get(*seq, Wait::Allowed, &mut buffer).is_err()).collect();
        let met: Vec<Seq> = reader.met_damage().into_iter().flat_map(|lost| lost.sequences).collect();
        assert!(damaged.len() > 1 && damaged.len() < 300, "{damaged:?}");
        assert_eq!(met, damaged, "it has a row: {has_row}");
    }
}

/// Nobody knows which of them would pass its filter.
#[test]
fn messages_without_rows_are_told_when_a_cursor_passes_over_them() {
    for filter in [Filter::All, Filter::Subject(b"a".to_vec()), Filter::Patterns(vec![b"*".to_vec()])] {
        for lost in [0..1, 1..2, 2..usize::MAX, 0..usize::MAX] {
            let (disk, mut bench, stream) = packed();
            let config = *stream.config();
            let segment = Arc::clone(&stream.shared.catalog().segments()[0].segment);
            let SegmentFile::Packed(sealed, frames) = &segment.source else { panic!("it is not packed") };
            let lost = &frames.frames()[lost.start..lost.end.min(frames.frames().len())];
            let is_lost =
                |seq: &Seq| lost.iter().any(|frame| frame.raw().contains(&offset_of(&stream, *seq)));
            let (expected, frames) = ((1..=300).filter(is_lost).collect::<Vec<Seq>>(), lost.to_vec());
            let (path, middle) = (sealed.path.clone(), (sealed.records_end + sealed.length) / 2);
            drop((stream, segment));
            bench.store.take().unwrap().close(&|| 2).unwrap();
            for frame in frames {
                disk.zero(&path, frame.file_offset..frame.file_offset + 40).unwrap();
            }
            // In the middle of the footer stands the table of messages.
            disk.flip_bit(&path, middle, 0).unwrap();
            let (stream, report) = bench.reopen(config);
            assert_eq!(report.lost, [], "a start does not read sealed segments");
            let told = Arc::new(Told::default());
            stream.on_release(Arc::clone(&told) as Arc<dyn OnRelease>);
            let reader = stream.reader();
            let mut cursor = reader.cursor(filter.clone(), 1);
            let mut there = Vec::new();
            while let Some(message) = cursor.next(Wait::Allowed).unwrap() {
                there.push(message.seq);
            }
            let missing: Vec<Seq> = (1..=300).filter(|seq| !there.contains(seq)).collect();
            let met: Vec<Seq> = reader.met_damage().into_iter().flat_map(|lost| lost.sequences).collect();
            assert_eq!(missing, expected, "{filter:?}");
            assert_eq!(met, expected, "{filter:?}");
            assert_eq!(told.0.lock().unwrap().len(), 1, "{filter:?}");
            let again = reader.cursor(filter.clone(), 1).next(Wait::Allowed).unwrap().map(|one| one.seq);
            assert_eq!(again, there.first().copied());
            assert_eq!(told.0.lock().unwrap().len(), 1, "it is told once");
        }
    }
}

/// Missed messages counted for ever, so that one too many went for each new one.
#[test]
fn a_limit_per_subject_counts_no_messages_that_a_reader_has_missed() {
    for is_behind_them in [false, true] {
        let (disk, mut bench, mut stream) = packed();
        let segment = Arc::clone(&stream.shared.catalog().segments()[0].segment);
        let SegmentFile::Packed(sealed, frames) = &segment.source else { panic!("it is not packed") };
        let frame = *frames.frames().last().expect("there are some");
        let (path, middle) = (sealed.path.clone(), (sealed.records_end + sealed.length) / 2);
        // All that is left of the subject before it goes is in the last frame.
        let first =
            (1..=300).find(|seq| frame.raw().contains(&offset_of(&stream, *seq))).expect("it has some");
        put(&mut stream, "b", "x", 301).unwrap();
        stream.purge(&mut Purge { below: first, ..Purge::default() }, 1000, 301).unwrap();
        let limits = Limits { messages_per_subject: Some(4), ..Limits::default() };
        let config = StreamConfig { limits, ..*stream.config() };
        drop((stream, segment));
        bench.store.take().unwrap().close(&|| 2).unwrap();
        disk.zero(&path, frame.file_offset..frame.file_offset + 40).unwrap();
        // In the middle of the footer stands the table of messages.
        disk.flip_bit(&path, middle, 0).unwrap();
        let (mut stream, report) = bench.reopen(config);
        assert_eq!(report.lost, [], "a start does not read sealed segments");
        assert_eq!(sequences(&stream), [301]);
        assert_eq!(stream.count_of(b"a"), 0);
        if is_behind_them {
            // They were removed, and the next start has nothing to miss.
            stream.purge(&mut Purge { below: 301, ..Purge::default() }, 1000, 302).unwrap();
            settle(&bench, &mut stream);
            drop(stream);
            bench.store.take().unwrap().close(&|| 303).unwrap();
            (stream, _) = bench.reopen(config);
            assert_eq!(stream.count_of(b"a"), 0);
        }
        for n in 1..=6 {
            put(&mut stream, "a", "y", 303).unwrap();
            let expected: Vec<Seq> = [301].into_iter().chain(302.max(298 + n)..=301 + n).collect();
            assert_eq!(sequences(&stream), expected, "behind them: {is_behind_them}");
        }
    }
}

/// Brings what the stream is like onto the disk.
fn settle(bench: &Bench, stream: &mut Stream) {
    bench.store.as_ref().unwrap().journal().round_now(&|| 302).unwrap();
    seal(stream, 302);
}

/// The removal of one of its messages stood in its footer alone.
#[test]
fn what_follows_a_packed_segment_that_is_lost_is_replayed() {
    let config = StreamConfig { compression: Compression::S2, ..StreamConfig::default() };
    let (disk, mut bench, mut stream) = faulty(config);
    for first in [1, 4, 7] {
        put_some(&mut stream, first..=first + 2);
        stream.delete(5, first + 2).unwrap();
        seal(&mut stream, first + 2);
    }
    put_some(&mut stream, 10..=10);
    stream.purge(&mut Purge { below: 2, ..Purge::default() }, 100, 11).unwrap();
    let segment = Arc::clone(&stream.shared.catalog().segments()[1].segment);
    let SegmentFile::Packed(sealed, frames) = &segment.source else { panic!("it is not packed") };
    let (path, damaged) = (sealed.path.clone(), frames.frames()[0].file().start + 20..sealed.length);
    drop((stream, segment));
    bench.store.take().unwrap().close(&|| 12).unwrap();
    disk.zero(&path, damaged).unwrap();
    let (stream, report) = bench.reopen(config);
    let lost: Vec<Seq> = report.lost.iter().flat_map(|lost| lost.sequences.clone()).collect();
    assert_eq!((sequences(&stream), lost), (vec![2, 3, 7, 8, 9, 10], vec![4, 5, 6]));
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
    let segment = Arc::clone(&stream.shared.catalog().segments()[0].segment);
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
    let segment = Arc::clone(&stream.shared.catalog().segments()[0].segment);
    let SegmentFile::Packed(_, frames) = &segment.source else { panic!("the segment is not packed") };
    assert!(frames.frames().len() > 1);
    let offset = frames.frames()[0].raw_offset;
    let read = unpack(&segment, &Cold, frames, offset, Wait::Forbidden, &mut Vec::new());
    assert!(matches!(read, Err(ReadError::WouldWait)), "{read:?}");
}
