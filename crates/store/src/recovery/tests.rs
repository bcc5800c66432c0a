//! Opening streams whose files are damaged.

mod first;
mod older;
mod remembered;
mod uncounted;

use std::path::Path;
use std::sync::Arc;

use myelin_disk::Disk;
use myelin_disk::faulty::FaultyDisk;

use super::*;
use crate::config::{Compression, Storage};
use crate::entropy::SeededEntropy;
use crate::record::{Control, Entry, Message};
use crate::segment::Totals;
use crate::stream::{Admission, Fate, Filter, NewMessage, Wait};
use crate::{Seq, Store, StoreOptions};

const MESSAGES: u64 = 60;

fn config(compression: Compression) -> StreamConfig {
    StreamConfig { segment_bytes: Some(16 << 10), compression, ..StreamConfig::default() }
}

fn open(disk: &Arc<FaultyDisk>, seed: u64) -> Store {
    let options =
        StoreOptions { journal_file_bytes: 256 << 10, headroom_bytes: 0, ..StoreOptions::new("/store") };
    let disk = Arc::clone(disk) as Arc<dyn Disk>;
    Store::open(disk, options, Arc::new(SeededEntropy::new(seed))).unwrap().0
}

/// A stream of a few sealed segments, and what is on the disk behind it.
fn written(compression: Compression) -> (Arc<FaultyDisk>, StreamId) {
    let disk = Arc::new(FaultyDisk::new(9));
    let store = open(&disk, 1);
    let mut stream = store.create_stream("A", "S", b"", config(compression), 1).unwrap();
    for n in 0..MESSAGES {
        let payload = vec![b'a' + (n % 7) as u8; 1000];
        let subject = format!("s.{}", n % 5);
        let message = NewMessage {
            subject: subject.as_bytes(),
            payload: &payload,
            timestamp: 2,
            ..NewMessage::default()
        };
        stream.append(&[message], Admission::Check, 2, &mut Vec::new()).unwrap();
    }
    store.journal().round(&|| 3).unwrap();
    while let Some(job) = stream.next_job(3) {
        let _ = stream.finish(job.run(), 3);
    }
    store.journal().round(&|| 4).unwrap();
    let id = stream.id();
    drop((stream, store));
    (Arc::new(disk.kill()), id)
}

fn flip(disk: &FaultyDisk, path: &Path, from_end: u64) {
    let file = disk.open(path).unwrap();
    let at = file.len().unwrap() - from_end;
    let mut byte = [0];
    file.read_at(&mut byte, at).unwrap();
    file.write_at(&[byte[0] ^ 0x40], at).unwrap();
}

fn sequences(stream: &Stream) -> Vec<u64> {
    let mut cursor = stream.reader().cursor(Filter::All, 0);
    let mut all = Vec::new();
    while let Some(message) = cursor.next(Wait::Allowed).unwrap() {
        all.push(message.seq);
    }
    all
}

#[test]
fn packed_segments_with_a_damaged_trailer_keep_their_messages() {
    let (disk, id) = written(Compression::S2);
    let path =
        stream_directory(std::path::Path::new("/store"), id).join(crate::stream::segment_name(SegmentNo(2)));
    assert!(SegmentHeader::read(&*disk.open(&path).unwrap()).unwrap().packed);
    let length = disk.open(&path).unwrap().len().unwrap();
    flip(&disk, &path, 60);
    let store = open(&disk, 2);
    let (stream, report) = store.open_stream(id, config(Compression::S2), 5).unwrap();
    assert!(report.is_damaged());
    assert_eq!(disk.open(&path).unwrap().len().unwrap(), length, "nothing was cut");
    assert_eq!(sequences(&stream), (1..=MESSAGES).collect::<Vec<_>>(), "{:?}", report.notices);
}

#[test]
fn what_is_missing_of_a_packed_segment_is_listed() {
    let (disk, id) = written(Compression::S2);
    let path =
        stream_directory(std::path::Path::new("/store"), id).join(crate::stream::segment_name(SegmentNo(2)));
    let length = disk.open(&path).unwrap().len().unwrap();
    for part in 1..8 {
        let disk = Arc::new(disk.kill());
        disk.truncate(&path, length * part / 8).unwrap();
        let store = open(&disk, 2);
        let (stream, report) = store.open_stream(id, config(Compression::S2), 5).unwrap();
        let there = sequences(&stream);
        let told: Vec<u64> = report.lost.iter().flat_map(|lost| lost.sequences.clone()).collect();
        let missing: Vec<u64> = (1..=MESSAGES).filter(|seq| !there.contains(seq)).collect();
        assert_eq!(told, missing, "{part} eighths: {:?}", report.notices);
    }
}

/// Does what is to be done, until there is nothing.
fn settle(store: &Store, stream: &mut Stream) {
    loop {
        store.journal().round_now(&|| 6).unwrap();
        let Some(job) = stream.next_job(6) else { return };
        stream.finish(job.run(), 6).unwrap();
    }
}

#[test]
fn a_packed_segment_without_its_footer_gets_one_and_stops_no_merge() {
    for cut in ["a bit of the trailer", "a part of the trailer", "half of the file"] {
        let (disk, id) = written(Compression::S2);
        let directory = stream_directory(Path::new("/store"), id);
        let name = crate::stream::segment_name(SegmentNo(2));
        let path = directory.join(&name);
        let bytes = disk.read_all(&path).unwrap();
        match cut {
            "a bit of the trailer" => flip(&disk, &path, 60),
            "a part of the trailer" => disk.truncate(&path, bytes.len() as u64 - 60).unwrap(),
            _ => disk.truncate(&path, bytes.len() as u64 / 2).unwrap(),
        }
        let damaged = disk.read_all(&path).unwrap();
        let store = open(&disk, 2);
        let (mut stream, report) = store.open_stream(id, config(Compression::S2), 5).unwrap();
        assert!(report.is_damaged());
        let mut expected = sequences(&stream);
        settle(&store, &mut stream);
        for n in 0..200u64 {
            let payload = vec![n as u8; 1000];
            let message =
                NewMessage { subject: b"s.1", payload: &payload, timestamp: 6, ..NewMessage::default() };
            stream.append(&[message], Admission::Check, 6, &mut Vec::new()).unwrap();
            expected.push(MESSAGES + n + 1);
        }
        settle(&store, &mut stream);
        let covers = manifest::read(&*disk, &directory).best.unwrap().covers;
        assert!(covers > SegmentNo(6), "{cut}: {covers:?}");
        assert_eq!(sequences(&stream), expected, "{cut}");
        let kept = Path::new("/store").join(QUARANTINE).join(format!("{:016x}.{name}.damaged", id.0));
        assert_eq!(disk.read_all(&kept).unwrap(), damaged, "{cut}: what was damaged is kept");
        drop((stream, store));
        let disk = Arc::new(disk.kill());
        let store = open(&disk, 3);
        let (stream, report) = store.open_stream(id, config(Compression::S2), 5).unwrap();
        assert!(!report.is_damaged(), "{cut}: {:?}", report.notices);
        assert_eq!(sequences(&stream), expected, "{cut}");
    }
}

/// Messages written behind the truncation are missing, and of those that it cut off none comes in
/// their place.
#[test]
fn what_was_truncated_stays_away_though_the_next_segment_is_missing() {
    let append = |stream: &mut Stream, count: u64, payload: &[u8]| {
        for _ in 0..count {
            let message = NewMessage { subject: b"s.1", payload, timestamp: 2, ..NewMessage::default() };
            stream.append(&[message], Admission::Check, 2, &mut Vec::new()).unwrap();
        }
    };
    // Within the segment, and before it.
    for (last, is_sealed) in [(25, false), (25, true), (3, false), (3, true)] {
        for compression in [Compression::None, Compression::S2] {
            let context = format!("{last}, {is_sealed}, {compression:?}");
            let disk = Arc::new(FaultyDisk::new(9));
            let store = open(&disk, 1);
            let mut stream = store.create_stream("A", "S", b"", config(compression), 1).unwrap();
            append(&mut stream, 10, b"old");
            stream.close_segment(0, 2).unwrap();
            append(&mut stream, 20, b"cut off");
            store.journal().round_now(&|| 2).unwrap();
            stream.truncate(last, 2).unwrap();
            append(&mut stream, 20, b"new");
            stream.close_segment(0, 2).unwrap();
            append(&mut stream, 5, b"last");
            store.journal().round_now(&|| 3).unwrap();
            if is_sealed {
                settle(&store, &mut stream);
            }
            let id = stream.id();
            drop((stream, store));
            let disk = Arc::new(disk.kill());
            // A replay leaves nothing in the journal that could restore it.
            drop(open(&disk, 2));
            let name = crate::stream::segment_name(SegmentNo(3));
            disk.remove_file(&stream_directory(Path::new("/store"), id).join(name)).unwrap();
            let expected: Vec<u64> = (1..=last).chain(last + 21..=last + 25).collect();
            let store = open(&disk, 2);
            let (mut stream, report) = store.open_stream(id, config(compression), 5).unwrap();
            assert_eq!(sequences(&stream), expected, "{context}");
            let lost: Vec<u64> = report.lost.iter().flat_map(|lost| lost.sequences.clone()).collect();
            assert_eq!(lost, (last + 1..=last + 20).collect::<Vec<_>>(), "{context}");
            for _ in 0..10 {
                append(&mut stream, 1, b"more");
                stream.close_segment(0, 6).unwrap();
            }
            settle(&store, &mut stream);
            assert_eq!(sequences(&stream)[..expected.len()], expected, "{context}, merged");
            drop((stream, store));
            let disk = Arc::new(disk.kill());
            let store = open(&disk, 2);
            let (stream, _) = store.open_stream(id, config(compression), 5).unwrap();
            assert_eq!(sequences(&stream)[..expected.len()], expected, "{context}, opened again");
        }
    }
}

#[test]
fn one_bit_in_a_header_is_corrected_in_the_file() {
    let (disk, id) = written(Compression::None);
    // A replay leaves nothing in the journal that would write it again.
    drop(open(&disk, 3));
    let directory = stream_directory(std::path::Path::new("/store"), id);
    let last = *disk
        .list(&directory)
        .unwrap()
        .iter()
        .filter_map(|entry| crate::stream::segment_number(&entry.name))
        .collect::<Vec<_>>()
        .last()
        .unwrap();
    for no in [SegmentNo(2), last] {
        let path = directory.join(crate::stream::segment_name(no));
        let whole = disk.read_all(&path).unwrap()[..HEADER_BYTES].to_vec();
        for byte in (0..HEADER_BYTES as u64).step_by(3) {
            let disk = Arc::new(disk.kill());
            disk.flip_bit(&path, byte, (byte % 8) as u8).unwrap();
            let store = open(&disk, 2);
            let (stream, report) = store.open_stream(id, config(Compression::None), 5).unwrap();
            assert_eq!(sequences(&stream), (1..=MESSAGES).collect::<Vec<_>>(), "{:?}", report.notices);
            let told: Vec<String> = report.notices.iter().map(ToString::to_string).collect();
            let expected =
                format!("bit {} of byte {byte} was not what was written; it was corrected", byte % 8);
            assert!(told.len() == 1 && told[0].contains(&expected), "{no:?}: {told:?}");
            assert!(!report.is_damaged());
            assert_eq!(disk.read_all(&path).unwrap()[..HEADER_BYTES], whole, "{no:?}, byte {byte}");
        }
    }
}

#[test]
fn a_missing_copy_of_a_manifest_is_written_and_is_no_damage() {
    let (disk, id) = written(Compression::None);
    let directory = stream_directory(std::path::Path::new("/store"), id);
    let manifest = Manifest {
        generation: 1,
        stream: id,
        covers: SegmentNo(0),
        base: None,
        totals: crate::segment::Totals { first_seq: 1, ..crate::segment::Totals::default() },
        epoch: 0,
        term: 0,
        deleted: crate::ranges::Ranges::default(),
        segments: Vec::new(),
    };
    manifest.write(&*disk, &directory).unwrap();
    let second = directory.join(manifest::COPIES[1]);
    disk.remove_file(&second).unwrap();
    let store = open(&disk, 2);
    let (_, report) = store.open_stream(id, config(Compression::None), 5).unwrap();
    assert!(!report.is_damaged(), "{:?}", report.notices);
    assert!(manifest::read(&*disk, &directory).equal);
}

/// Something that replays an entry, and says what became of it and what the stream is then.
type Apply<'a> = dyn FnMut(Entry<'_>) -> (Fate, Totals) + 'a;

/// Replays further entries of a stream that was opened.
fn with_catalog(act: impl FnOnce(&mut Apply<'_>)) {
    let (disk, id) = written(Compression::None);
    let store = open(&disk, 2);
    let (stream, _) = store.open_stream(id, config(Compression::None), 5).unwrap();
    let shared = Arc::clone(stream.shared());
    let mut catalog = shared.catalog_mut();
    let mut offset = 1 << 20;
    act(&mut |entry| {
        offset += 40;
        let fate = catalog.replay(&entry, offset, 1, Storage::File).unwrap();
        (fate, catalog.totals())
    });
}

fn bare(seq: Seq) -> Message<'static> {
    Message { seq, timestamp: 1, expires: None, subject: b"a", headers: b"", payload: b"" }
}

#[test]
fn entries_that_no_append_writes_are_passed_over() {
    with_catalog(|apply| {
        let mut apply = |entry| {
            let (fate, totals) = apply(entry);
            (totals.last_seq, totals.messages, fate)
        };
        let before = (MESSAGES, MESSAGES, Fate::PassedOver);
        for seq in [u64::MAX, 1 << 40, MESSAGES] {
            assert_eq!(apply(Entry::Message(bare(seq))), before);
        }
        assert_eq!(apply(Entry::Erased { seq: u64::MAX }), before);
        assert_eq!(apply(Entry::Erased { seq: 1 << 40 }), before);
        assert_eq!(apply(Entry::Control(Control::Skip { last: u64::MAX })), before);
        assert_eq!(apply(Entry::Control(Control::Trim { first: u64::MAX })), before);
        let mut all = crate::ranges::Ranges::default();
        all.push(1..=u64::MAX);
        assert_eq!(
            apply(Entry::Control(Control::Delete(std::borrow::Cow::Owned(all)))),
            (MESSAGES, 0, Fate::Applied)
        );
    });
}

/// Their checksums are right, and so are the messages around them.
#[test]
fn messages_that_stand_where_they_cannot_are_reported() {
    use crate::record::EntryBatch;
    let (disk, id) = written(Compression::None);
    let store = open(&disk, 2);
    let (stream, _) = store.open_stream(id, config(Compression::None), 5).unwrap();
    let segment = Arc::clone(&stream.shared().catalog().segments().last().unwrap().segment);
    let name = crate::stream::segment_name(segment.no);
    let path = stream_directory(Path::new("/store"), id).join(&name);
    let mut bytes = Vec::new();
    let mut batch = EntryBatch::begin(&mut bytes, segment.records_end(), &segment.context);
    let first = segment.records_end();
    for seq in [MESSAGES, 1 << 40, MESSAGES + 1] {
        batch.message(&bare(seq));
    }
    batch.finish();
    drop((stream, store));
    let disk = Arc::new(disk.kill());
    disk.open(&path).unwrap().write_at(&bytes, first).unwrap();
    let store = open(&disk, 3);
    let (stream, report) = store.open_stream(id, config(Compression::None), 5).unwrap();
    assert_eq!(sequences(&stream), (1..=MESSAGES + 1).collect::<Vec<_>>(), "{:?}", report.notices);
    let [Notice::Damaged { file, what }] = &report.notices[..] else { panic!("{:?}", report.notices) };
    assert_eq!(*file, name);
    assert!(what.contains(&format!("2, from {first} on")), "{what}");
}

/// A stream of which segment 2 is missing: of its messages there is nothing but what the totals
/// say.
fn with_a_missing_segment(limits: crate::config::Limits) -> Stream {
    let (disk, id) = written(Compression::None);
    // A replay leaves nothing in the journal that could restore it.
    drop(open(&disk, 2));
    let name = crate::stream::segment_name(SegmentNo(2));
    disk.remove_file(&stream_directory(Path::new("/store"), id).join(name)).unwrap();
    let store = open(&disk, 2);
    let config = config(Compression::None);
    let (mut stream, report) = store.open_stream(id, config, 5).unwrap();
    assert!(!report.notices.is_empty());
    let totals = stream.state().totals;
    assert_eq!(totals.messages, MESSAGES);
    stream.set_config(StreamConfig { limits, ..config }, 5).unwrap();
    stream
}

#[test]
fn bytes_of_a_lost_segment_do_not_evict_what_is_new() {
    let limits = crate::config::Limits { bytes: Some(5000), ..Default::default() };
    let mut stream = with_a_missing_segment(limits);
    for n in 1..=3 {
        let message =
            NewMessage { subject: b"s.1", payload: &[1; 100], timestamp: 6, ..NewMessage::default() };
        stream.append(&[message], Admission::Check, 6, &mut Vec::new()).unwrap();
        assert_eq!(sequences(&stream), (MESSAGES + 1..=MESSAGES + n).collect::<Vec<_>>());
    }
    let totals = stream.state().totals;
    assert!(totals.messages == 3 && totals.bytes < 600, "{totals:?}");
    stream.delete_all(&[MESSAGES + 1, MESSAGES + 2, MESSAGES + 3], 7).unwrap();
    assert_eq!(stream.state().totals.bytes, 0);
}

/// Enforces a stream's limits, until there is nothing to remove any more.
fn enforce(stream: &mut Stream) {
    let calls = (0..1000).take_while(|_| stream.enforce(10, 6).unwrap()).count();
    assert!(calls < 20, "{calls}");
}

#[test]
fn limits_are_enforced_in_the_end_though_a_segment_is_lost() {
    let limits = crate::config::Limits { bytes: Some(5000), ..Default::default() };
    let mut stream = with_a_missing_segment(limits);
    enforce(&mut stream);
}

#[test]
fn a_deletion_takes_time_for_messages_though_the_first_ones_go() {
    with_catalog(|apply| {
        // With the last message behind a gap as wide as a segment can have.
        let far = u64::from(u32::MAX);
        apply(Entry::Control(Control::Skip { last: far - 1 }));
        apply(Entry::Message(bare(far)));
        let mut before = crate::ranges::Ranges::default();
        before.push(1..=far - 1);
        let (_, totals) = apply(Entry::Control(Control::Delete(std::borrow::Cow::Owned(before))));
        assert_eq!((totals.messages, totals.first_seq), (1, far));
    });
}

/// The index counts them, and no table has them.
#[test]
fn the_newest_message_of_a_subject_stays_though_others_were_lost_with_a_segment() {
    let limits = crate::config::Limits { messages_per_subject: Some(3), ..Default::default() };
    let mut stream = with_a_missing_segment(limits);
    for n in 1..=5 {
        let message =
            NewMessage { subject: b"s.1", payload: &[1; 100], timestamp: 6, ..NewMessage::default() };
        stream.append(&[message], Admission::Check, 6, &mut Vec::new()).unwrap();
        let new: Vec<_> = sequences(&stream).into_iter().filter(|seq| *seq > MESSAGES).collect();
        assert_eq!(new, (MESSAGES + n.max(3) - 2..=MESSAGES + n).collect::<Vec<_>>());
    }
}

/// Sequences of subject `s.1` that are there.
fn of_one_subject(stream: &Stream) -> Vec<u64> {
    let mut cursor = stream.reader().cursor(Filter::Subject(b"s.1".to_vec()), 0);
    let mut all = Vec::new();
    while let Some(message) = cursor.next(Wait::Allowed).unwrap() {
        all.push(message.seq);
    }
    all
}

fn append_one(stream: &mut Stream) {
    append_to(stream, b"s.1");
}

fn append_to(stream: &mut Stream, subject: &[u8]) {
    let message = NewMessage { subject, payload: &[1; 100], timestamp: 6, ..NewMessage::default() };
    stream.append(&[message], Admission::Check, 6, &mut Vec::new()).unwrap();
}

#[test]
fn a_limit_per_subject_counts_messages_that_are_there_and_no_lost_ones() {
    for limit in 1..=12 {
        let limits = crate::config::Limits { messages_per_subject: Some(limit), ..Default::default() };
        let mut stream = with_a_missing_segment(limits);
        let mut expected = of_one_subject(&stream);
        assert!((6..12).contains(&expected.len()), "some of 12 are lost: {expected:?}");
        for n in 1..=20 {
            append_one(&mut stream);
            expected.push(MESSAGES + n);
            expected.drain(..expected.len().saturating_sub(limit as usize));
            assert_eq!(of_one_subject(&stream), expected, "limit {limit}, {n} more");
        }
        assert_eq!(stream.count_of(b"s.1"), limit);
    }
}

#[test]
fn a_tighter_limit_leaves_as_many_as_it_says_though_others_were_lost() {
    for limit in 1..=12 {
        let limits = crate::config::Limits { messages_per_subject: Some(limit), ..Default::default() };
        let mut stream = with_a_missing_segment(limits);
        let there = of_one_subject(&stream);
        enforce(&mut stream);
        let expected = &there[there.len().saturating_sub(limit as usize)..];
        assert_eq!(of_one_subject(&stream), expected, "limit {limit}");
    }
}

#[test]
fn a_tighter_limit_takes_the_oldest_whether_they_are_there_or_lost() {
    for limit in 1..=MESSAGES {
        let limits = crate::config::Limits { messages: Some(limit), ..Default::default() };
        let mut stream = with_a_missing_segment(limits);
        let mut expected = sequences(&stream);
        assert!((1..MESSAGES as usize).contains(&expected.len()), "some are lost: {expected:?}");
        enforce(&mut stream);
        expected.retain(|seq| *seq > MESSAGES - limit);
        assert_eq!(sequences(&stream), expected, "limit {limit}");
        assert_eq!(stream.state().totals.messages, limit);
    }
}

#[test]
fn a_tighter_limit_of_bytes_leaves_the_newest_message_that_fits() {
    let limits = crate::config::Limits { bytes: Some(1200), ..Default::default() };
    let mut stream = with_a_missing_segment(limits);
    enforce(&mut stream);
    assert_eq!(sequences(&stream), [MESSAGES]);
}

#[test]
fn a_subject_whose_messages_were_lost_takes_new_ones_where_the_limit_refuses() {
    let limits = crate::config::Limits {
        messages_per_subject: Some(12),
        discard: crate::config::Discard::New,
        discard_new_per_subject: true,
        ..Default::default()
    };
    let mut stream = with_a_missing_segment(limits);
    let room = 12 - of_one_subject(&stream).len();
    let message = NewMessage { subject: b"s.1", payload: b"x", timestamp: 6, ..NewMessage::default() };
    let mut results = Vec::new();
    for _ in 0..room {
        stream.append(&[message], Admission::Check, 6, &mut results).unwrap();
        assert!(results[0].is_ok(), "{results:?}");
    }
    stream.append(&[message], Admission::Check, 6, &mut results).unwrap();
    assert!(results[0].is_err(), "{results:?}");
    assert_eq!(of_one_subject(&stream).len(), 12);
}

#[test]
fn a_purge_spares_as_many_as_it_says_though_others_were_lost() {
    let mut stream = with_a_missing_segment(crate::config::Limits::default());
    let there = of_one_subject(&stream);
    let mut purge =
        crate::Purge { filter: Some(Filter::Subject(b"s.1".to_vec())), keep: 5, ..crate::Purge::default() };
    while stream.purge(&mut purge, 3, 6).unwrap().more {}
    assert_eq!(of_one_subject(&stream), there[there.len() - 5..]);
}

#[test]
fn a_tighter_limit_spares_the_newest_of_subjects_that_have_lost_messages() {
    let limits = crate::config::Limits { messages_per_subject: Some(1), ..Default::default() };
    let mut stream = with_a_missing_segment(limits);
    enforce(&mut stream);
    assert_eq!(sequences(&stream), (MESSAGES - 4..=MESSAGES).collect::<Vec<_>>());
}

/// The deletion is lost with its segment, and the erased message counts again: nothing else of its
/// frame is damaged.
#[test]
fn an_erased_message_that_is_back_takes_no_other_along() {
    let (disk, id) = written(Compression::S2);
    let directory = stream_directory(Path::new("/store"), id);
    let store = open(&disk, 2);
    let (mut stream, _) = store.open_stream(id, config(Compression::S2), 5).unwrap();
    settle(&store, &mut stream);
    stream.erase(5, 6).unwrap();
    settle(&store, &mut stream);
    drop((stream, store));
    let disk = Arc::new(disk.kill());
    drop(open(&disk, 3));
    let names = disk.list(&directory).unwrap().into_iter().map(|entry| entry.name);
    let newest = names.filter(|name| crate::stream::segment_number(name).is_some()).max().unwrap();
    disk.remove_file(&directory.join(newest)).unwrap();
    let store = open(&disk, 4);
    let (stream, report) = store.open_stream(id, config(Compression::S2), 7).unwrap();
    let told: Vec<u64> = report.lost.iter().flat_map(|lost| lost.sequences.clone()).collect();
    let (reader, mut buffer) = (stream.reader(), Vec::new());
    let there: Vec<u64> = (1..=MESSAGES)
        .filter(|seq| reader.get(*seq, Wait::Allowed, &mut buffer).is_ok_and(|m| m.is_some()))
        .collect();
    let met: Vec<u64> = reader.met_damage().into_iter().flat_map(|lost| lost.sequences).collect();
    assert!(
        !there.contains(&5) && met.iter().all(|seq| !there.contains(seq)),
        "{met:?}, {told:?}, {there:?}"
    );
    assert_eq!(met, [5]);
}
