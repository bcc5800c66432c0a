//! Segments that were sealed and have lost their footer: replaced by an older copy, or damaged at
//! their ends.

use std::path::PathBuf;

use super::*;
use crate::cipher::CipherKind;
use crate::keys::{Keys, MasterKey};
use crate::record::Entry;
use crate::segment::{self, Extent, HEADER_BYTES, Scanned, SegmentHeader};

const FIRST: SegmentNo = SegmentNo(1);
const PAGE: usize = 4096;

/// A stream of sealed segments.
struct Sealed {
    disk: Arc<FaultyDisk>,
    id: StreamId,
    first: PathBuf,
    /// The first segment, as it was with a few messages.
    older: Vec<u8>,
}

fn keyed(disk: &Arc<FaultyDisk>, seed: u64) -> Store {
    let options = StoreOptions {
        keys: Some(Keys { kind: CipherKind::Aes256Gcm, current: MasterKey::derive(b"key"), previous: None }),
        journal_file_bytes: 256 << 10,
        headroom_bytes: 0,
        ..StoreOptions::new("/store")
    };
    let disk = Arc::clone(disk) as Arc<dyn Disk>;
    Store::open(disk, options, Arc::new(SeededEntropy::new(seed))).unwrap().0
}

fn append(stream: &mut Stream, count: u64) {
    for n in 0..count {
        let payload = [b'a' + (n % 7) as u8; 1000];
        let message =
            NewMessage { subject: b"s.1", payload: &payload, timestamp: 2, ..NewMessage::default() };
        stream.append(&[message], Admission::Check, 2, &mut Vec::new()).unwrap();
    }
}

fn sealed(store: Store, disk: Arc<FaultyDisk>, compression: Compression, is_listed: bool) -> Sealed {
    let mut stream = store.create_stream("A", "S", b"", config(compression), 1).unwrap();
    let first = stream_directory(Path::new("/store"), stream.id()).join(segment_name(FIRST));
    append(&mut stream, 5);
    store.journal().round(&|| 3).unwrap();
    store.write_watermarks().unwrap();
    let older = disk.read_all(&first).unwrap();
    append(&mut stream, MESSAGES - 5);
    settle(&store, &mut stream);
    if is_listed {
        stream.renew(4).unwrap();
    }
    store.journal().round(&|| 4).unwrap();
    store.write_watermarks().unwrap();
    let id = stream.id();
    drop((stream, store));
    let disk = Arc::new(disk.kill());
    // Nothing is left in the journal that would write the files again.
    drop(open(&disk, 3));
    Sealed { disk: Arc::new(disk.kill()), id, first, older }
}

impl Sealed {
    /// Starts; answers which messages are missing and which are told as lost.
    fn start(&self, store: &Store, compression: Compression) -> (Vec<Seq>, Vec<Seq>, Vec<Notice>) {
        let (stream, report) = store.open_stream(self.id, config(compression), 5).unwrap();
        let there = sequences(&stream);
        let missing = (1..=MESSAGES).filter(|seq| !there.contains(seq)).collect();
        let mut told: Vec<Seq> = report.lost.iter().flat_map(|lost| lost.sequences.clone()).collect();
        told.dedup();
        assert!(stream.state().totals.last_seq >= MESSAGES);
        (missing, told, report.notices)
    }
}

#[test]
fn what_an_older_copy_of_a_segment_does_not_have_is_told() {
    for compression in [Compression::None, Compression::S2] {
        for is_listed in [false, true] {
            let disk = Arc::new(FaultyDisk::new(9));
            let left = sealed(open(&disk, 1), disk, compression, is_listed);
            left.disk.remove_file(&left.first).unwrap();
            left.disk.create(&left.first).unwrap().write_at(&left.older, 0).unwrap();
            let (missing, told, notices) = left.start(&open(&left.disk, 2), compression);
            let what = format!("{compression:?}, in a manifest: {is_listed}: {notices:#?}");
            assert!(missing.contains(&6) && !missing.contains(&5), "{what}: {missing:?}");
            assert_eq!(told, missing, "{what}");
        }
    }
}

/// Garbage over the last entries and what stands behind them: nothing else goes.
#[test]
fn a_footer_that_is_damaged_with_entries_costs_only_those() {
    for is_encrypted in [false, true] {
        for length in [600, 3000] {
            let disk = Arc::new(FaultyDisk::new(9));
            let begin: fn(&Arc<FaultyDisk>, u64) -> Store = if is_encrypted { keyed } else { open };
            let left = sealed(begin(&disk, 1), disk, Compression::None, false);
            let end = left.disk.read_all(&left.first).unwrap().len() as u64;
            for behind in [0, 40, 200] {
                let disk = Arc::new(left.disk.kill());
                let garbage: Vec<u8> = (0..length - behind).map(|n| (n * 37 % 251) as u8).collect();
                disk.open(&left.first).unwrap().write_at(&garbage, end - length).unwrap();
                let left = Sealed { disk, first: left.first.clone(), older: Vec::new(), ..left };
                let (missing, told, notices) = left.start(&begin(&left.disk, 2), Compression::None);
                let what = format!("{is_encrypted}, {length} bytes, {behind}: {missing:?}: {notices:#?}");
                assert!(missing.len() <= 4 && missing.iter().all(|seq| *seq <= 16), "{what}");
                assert_eq!(told, missing, "{what}");
            }
        }
    }
}

/// A page that is there twice: all entries can be read, those behind where they are to end, too.
#[test]
fn a_page_that_is_put_into_a_sealed_segment_costs_nothing() {
    for is_listed in [false, true] {
        let disk = Arc::new(FaultyDisk::new(9));
        let left = sealed(open(&disk, 1), disk, Compression::None, is_listed);
        let bytes = left.disk.read_all(&left.first).unwrap();
        for at in [PAGE + 100, 2 * PAGE, 3 * PAGE] {
            let disk = Arc::new(left.disk.kill());
            let grown = [&bytes[..at], &bytes[at - PAGE..]].concat();
            disk.open(&left.first).unwrap().write_at(&grown, 0).unwrap();
            let left = Sealed { disk, first: left.first.clone(), older: Vec::new(), ..left };
            for start in 2..4 {
                let store = open(&left.disk, start);
                let (missing, told, notices) = left.start(&store, Compression::None);
                let what = format!("{at}, in a manifest: {is_listed}, start {start}: {notices:#?}");
                assert!(missing.is_empty() && told.is_empty(), "{what}: {missing:?}, {told:?}");
            }
        }
    }
}

/// A page that is there twice in the newest segment, with a journal that writes bytes again where
/// they were: what is told as lost is not there.
#[test]
fn nothing_is_told_as_lost_that_is_there() {
    for size in 90..130 {
        let (left, id, path) = newest_of(size);
        let bytes = left.read_all(&path).unwrap();
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        for at in (2 * PAGE..used).step_by(PAGE) {
            let disk = Arc::new(left.kill());
            let grown = [&bytes[..at], &bytes[at - PAGE..]].concat();
            disk.open(&path).unwrap().write_at(&grown, 0).unwrap();
            for start in 3..5 {
                let store = open(&disk, start);
                let (stream, report) = store.open_stream(id, StreamConfig::default(), 6).unwrap();
                let there = sequences(&stream);
                let told = report.lost.iter().flat_map(|lost| lost.sequences.clone());
                let wrong: Vec<Seq> = told.filter(|seq| there.contains(seq)).collect();
                let what = format!("{size} bytes, {at}, start {start}");
                assert!(wrong.is_empty(), "{what}: {wrong:?} of {:#?}", report.notices);
            }
        }
    }
}

/// A stream whose last 30 of 130 messages are in the journal.
fn newest_of(size: usize) -> (FaultyDisk, StreamId, PathBuf) {
    let append = |stream: &mut Stream, count: u64| {
        for n in 0..count {
            let payload = vec![b'a' + (n % 7) as u8; size];
            let message =
                NewMessage { subject: b"s.1", payload: &payload, timestamp: 2, ..NewMessage::default() };
            stream.append(&[message], Admission::Check, 2, &mut Vec::new()).unwrap();
        }
    };
    let disk = Arc::new(FaultyDisk::new(9));
    let store = open(&disk, 1);
    let mut stream = store.create_stream("A", "S", b"", StreamConfig::default(), 1).unwrap();
    let path = stream_directory(Path::new("/store"), stream.id()).join(segment_name(FIRST));
    let id = stream.id();
    append(&mut stream, 100);
    store.close(&|| 3).unwrap();
    drop((stream, store));
    let disk = Arc::new(disk.kill());
    let store = open(&disk, 2);
    let (mut stream, _) = store.open_stream(id, StreamConfig::default(), 4).unwrap();
    append(&mut stream, 30);
    store.journal().round(&|| 5).unwrap();
    store.write_watermarks().unwrap();
    drop((stream, store));
    (disk.kill(), id, path)
}

/// Entries in the place of others that fit without a seam, as a page does that is there twice.
#[test]
fn messages_in_whose_place_others_stand_twice_are_told_as_lost() {
    let (left, id, path) = newest_of(77);
    let bytes = left.read_all(&path).unwrap();
    let begin = |seq: Seq| begin_of(&left, &path, seq);
    let twice = bytes[begin(20)..begin(40)].to_vec();
    assert_eq!(begin(60) - begin(40), twice.len(), "entries of one length");
    let disk = Arc::new(left.kill());
    disk.open(&path).unwrap().write_at(&twice, begin(40) as u64).unwrap();
    let store = open(&disk, 3);
    let (stream, report) = store.open_stream(id, StreamConfig::default(), 6).unwrap();
    let there = sequences(&stream);
    let missing: Vec<Seq> = (1..=100).filter(|seq| !there.contains(seq)).collect();
    let told: Vec<Seq> = report.lost.iter().flat_map(|lost| lost.sequences.clone()).collect();
    assert_eq!(missing, (40..60).collect::<Vec<Seq>>(), "{:#?}", report.notices);
    assert_eq!(told, missing, "{:#?}", report.notices);
}

/// Damage behind entries that stand for the second time: what stands before both is not told as
/// lost.
#[test]
fn of_a_damaged_place_what_stands_elsewhere_is_not_told_as_lost() {
    let (left, id, path) = newest_of(77);
    let bytes = left.read_all(&path).unwrap();
    let begin = |seq: Seq| begin_of(&left, &path, seq);
    let twice = bytes[begin(20)..begin(36)].to_vec();
    let garbage = vec![7; begin(80) - begin(76)];
    let disk = Arc::new(left.kill());
    disk.open(&path).unwrap().write_at(&[twice, garbage].concat(), begin(60) as u64).unwrap();
    let store = open(&disk, 3);
    let (stream, report) = store.open_stream(id, StreamConfig::default(), 6).unwrap();
    let there = sequences(&stream);
    let missing: Vec<Seq> = (1..=100).filter(|seq| !there.contains(seq)).collect();
    let told: Vec<Seq> = report.lost.iter().flat_map(|lost| lost.sequences.clone()).collect();
    assert_eq!(missing, (60..80).collect::<Vec<Seq>>(), "{:#?}", report.notices);
    assert_eq!(told, missing, "{:#?}", report.notices);
}

/// Where the entry of a message begins.
fn begin_of(disk: &FaultyDisk, path: &Path, seq: Seq) -> usize {
    let file = disk.open(path).unwrap();
    let header = SegmentHeader::read(&*file).unwrap();
    let extent = Extent { from: HEADER_BYTES as u64, to: file.len().unwrap(), durable: 0 };
    let mut begin = None;
    let mut visit = |scanned: Scanned<'_>| {
        if matches!(&scanned.entry, Entry::Message(message) if message.seq == seq) {
            begin = Some(scanned.offset as usize);
        }
    };
    segment::scan(&*file, &header, &header.context(None), extent, &mut visit).unwrap();
    begin.unwrap()
}
