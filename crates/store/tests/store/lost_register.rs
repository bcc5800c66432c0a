//! The register of streams is damaged while nobody uses the store: one copy makes up for the other,
//! and without both the streams that have files come back from those, which is told.

use std::path::Path;
use std::sync::Arc;

use myelin_disk::Disk;
use myelin_disk::faulty::{FaultyDisk, Survival};
use myelin_store::entropy::SeededEntropy;
use myelin_store::{
    Admission, Durability, NewMessage, Reserve, Store, StoreOptions, StoreReport, StreamConfig, verify,
};

const ROOT: &str = "/store";
const COPIES: [&str; 2] = ["register", "register.copy"];
const MESSAGES: u64 = 10;

fn config() -> StreamConfig {
    StreamConfig { durability: Durability::Synced, ..StreamConfig::default() }
}

fn open(disk: &FaultyDisk, turn: u64) -> (Store, StoreReport) {
    let options = StoreOptions {
        headroom_bytes: 0,
        journal_file_bytes: 64 << 10,
        reserve: Reserve::Nothing,
        ..StoreOptions::new(ROOT)
    };
    let entropy = Arc::new(SeededEntropy::new(turn));
    Store::open(Arc::new(disk.clone()), options, entropy).expect("the store opens")
}

/// How the process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Stop,
    Kill,
    PowerLoss,
}

const ENDS: [End; 3] = [End::Stop, End::Kill, End::PowerLoss];

/// A store with `FULL`, which has messages, `EMPTY`, and one that was removed; and the two copies
/// as they were when there was `FULL` only.
fn left(end: End) -> (FaultyDisk, [Vec<u8>; 2]) {
    let disk = FaultyDisk::new(3);
    let (store, _) = open(&disk, 1);
    let make = |name: &str| store.create_stream("A", name, b"", config(), 1).expect("a stream");
    let mut full = make("FULL");
    let older = COPIES.map(|name| disk.read_all(&Path::new(ROOT).join(name)).expect("it is there"));
    let message = NewMessage { timestamp: 5, subject: b"a", payload: b"payload", ..NewMessage::default() };
    for _ in 0..MESSAGES {
        full.append(&[message], Admission::Check, 5, &mut Vec::new()).expect("there is room");
    }
    store.journal().round_now(&|| 5).expect("the disk works");
    let (empty, mut gone) = (make("EMPTY"), make("GONE"));
    gone.append(&[message], Admission::Check, 5, &mut Vec::new()).expect("there is room");
    store.delete_stream(&mut gone).expect("the disk works");
    match end {
        End::Stop => store.close(&|| 5).expect("the disk works"),
        End::Kill | End::PowerLoss => store.write_watermarks().expect("the disk works"),
    }
    drop((full, empty, gone, store));
    let disk = if end == End::PowerLoss { disk.power_cycle(Survival::None) } else { disk.kill() };
    (disk, older)
}

fn replace(disk: &FaultyDisk, name: &str, bytes: Option<&[u8]>) {
    let path = Path::new(ROOT).join(name);
    disk.remove_file(&path).expect("it is there");
    if let Some(bytes) = bytes {
        let written = disk.create(&path).and_then(|file| file.write_at(bytes, 0));
        written.expect("there is room");
    }
}

/// Names with messages, what the start says, and whether a check finds damage.
fn look(disk: &FaultyDisk, turn: u64) -> (Vec<(String, u64)>, Vec<String>, bool) {
    let as_disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let summary = verify::check(&as_disk, Path::new(ROOT), None, &mut |_| {}).expect("there is a store");
    let (store, report) = open(disk, turn);
    let mut streams = Vec::new();
    for found in &report.streams {
        let (stream, report) = store.open_stream(found.id, config(), 7).expect("it opens");
        assert!(!report.is_damaged(), "{report:?}");
        streams.push((found.meta.name.clone(), stream.state().totals.messages));
    }
    streams.sort();
    assert_eq!(report.unreadable, []);
    (streams, report.notices.iter().map(ToString::to_string).collect(), !summary.is_sound())
}

fn all() -> Vec<(String, u64)> {
    vec![("EMPTY".to_owned(), 0), ("FULL".to_owned(), MESSAGES)]
}

#[test]
fn one_copy_is_enough() {
    for end in ENDS {
        assert_eq!(look(&left(end).0, 2), (all(), Vec::new(), false), "{end:?}");
        for (at, name) in COPIES.into_iter().enumerate() {
            // A loss of power leaves of the copy what it will.
            if end == End::PowerLoss && at == 0 {
                continue;
            }
            let (disk, older) = left(end);
            replace(&disk, name, None);
            let (streams, told, is_damaged) = look(&disk, 2);
            assert_eq!((streams, is_damaged), (all(), true), "{name}, {end:?}");
            assert!(told.iter().any(|one| one.contains(name)), "{name}, {end:?}: {told:?}");
            assert_eq!(look(&disk, 3), (all(), Vec::new(), false), "{name}, {end:?}");
            let (disk, _) = left(end);
            replace(&disk, name, Some(&older[at]));
            assert_eq!(look(&disk, 2).0, all(), "an older {name}, {end:?}");
            assert_eq!(look(&disk, 3), (all(), Vec::new(), false), "an older {name}, {end:?}");
        }
    }
}

/// After a loss of power, before a start has made its `meta` durable, only the register has a
/// stream's name: without both copies it is told as one that cannot be read.
#[test]
fn without_both_streams_come_back_from_their_files_and_it_is_told() {
    for end in [End::Stop, End::Kill] {
        let (disk, _) = left(end);
        COPIES.iter().for_each(|name| replace(&disk, name, None));
        let (streams, told, is_damaged) = look(&disk, 2);
        assert_eq!((&streams[..], is_damaged), (&all()[1..], true), "{end:?}");
        assert!(told.iter().any(|one| one.contains("may be missing")), "{end:?}: {told:?}");
        // Said once: what is there now is written down again.
        let (again, told, is_damaged) = look(&disk, 3);
        assert_eq!((again, is_damaged), (streams, false), "{end:?}: {told:?}");
    }
}

#[test]
fn a_stream_with_files_is_there_whatever_older_copies_say() {
    for end in [End::Stop, End::Kill] {
        let (disk, older) = left(end);
        // Both are from before `EMPTY`; what has files has its name there, too.
        let (store, _) = open(&disk, 2);
        let mut late = store.create_stream("A", "LATE", b"", config(), 1).expect("a stream");
        let message = NewMessage { timestamp: 5, subject: b"a", ..NewMessage::default() };
        late.append(&[message], Admission::Check, 5, &mut Vec::new()).expect("there is room");
        store.journal().round_now(&|| 5).expect("the disk works");
        drop((late, store));
        let disk = disk.kill();
        COPIES.iter().zip(&older).for_each(|(name, bytes)| replace(&disk, name, Some(bytes)));
        let (streams, ..) = look(&disk, 3);
        let names: Vec<&str> = streams.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["FULL", "LATE"], "{end:?}");
    }
}
