//! A store on disks that fill up and fail.

use super::*;
use crate::config::Durability;
use crate::disk::faulty::{Fault, FaultyDisk};
use crate::entropy::SeededEntropy;
use crate::stream::{Admission, Filter, NewMessage, StoreError, Wait};

fn options() -> StoreOptions {
    StoreOptions { journal_file_bytes: 256 << 10, headroom_bytes: 256 << 10, ..StoreOptions::new("/store") }
}

fn open(disk: &Arc<FaultyDisk>, seed: u64) -> (Store, StoreReport) {
    let disk = Arc::clone(disk) as Arc<dyn Disk>;
    Store::open(disk, options(), Arc::new(SeededEntropy::new(seed))).unwrap()
}

fn put(stream: &mut Stream, payload: &[u8], now: i64) -> Result<u64, StoreError> {
    let message = NewMessage { subject: b"a", payload, timestamp: now, ..NewMessage::default() };
    let mut outcomes = Vec::new();
    stream.append(&[message], Admission::Check, now, &mut outcomes)?;
    Ok(outcomes.pop().unwrap().unwrap())
}

fn payloads(stream: &Stream) -> Vec<Vec<u8>> {
    let mut cursor = stream.reader().cursor(Filter::All, 0);
    let mut all = Vec::new();
    while let Some(message) = cursor.next(Wait::Allowed).unwrap() {
        all.push(message.payload.to_vec());
    }
    all
}

#[test]
fn a_full_disk_refuses_messages_and_takes_deletes_and_writing_resumes() {
    let disk = Arc::new(FaultyDisk::new(1));
    let (store, _) = open(&disk, 1);
    let config = StreamConfig { segment_bytes: Some(128 << 10), ..StreamConfig::default() };
    let mut stream = store.create_stream("A", "S", b"", config, 1).unwrap();
    disk.set_capacity(Some(disk.used() + (600 << 10)));
    let payload = vec![7; 10_000];
    let mut stored = 0;
    let error = loop {
        match put(&mut stream, &payload, 2) {
            Ok(seq) => stored = seq,
            Err(error) => break error,
        }
        assert!(stored < 1000, "the disk never fills up");
    };
    assert!(matches!(error, StoreError::Full), "{error}");
    assert!(stored > 10);
    assert_eq!(stream.failure(), None, "a full disk is no failure");
    assert!(matches!(put(&mut stream, &payload, 3), Err(StoreError::Full)), "refused again, at once");
    assert_eq!(payloads(&stream).len() as u64, stored);

    for seq in 1..=stored / 2 {
        assert_eq!(stream.delete(seq, 4).unwrap().messages, 1, "a delete of {seq} on a full disk");
    }
    disk.set_capacity(None);
    assert_eq!(put(&mut stream, b"again", 5).unwrap(), stored + 1);
    assert!(store.headroom().restore());

    let before = payloads(&stream);
    drop((stream, store));
    let (store, report) = open(&Arc::new(disk.kill()), 2);
    let (stream, report) = store.open_stream(report.streams[0].id, config, 6).unwrap();
    assert_eq!(report.notices, []);
    assert_eq!(payloads(&stream), before);
}

#[test]
fn a_failed_write_refuses_its_batch_and_the_stream_can_be_opened_anew() {
    let disk = Arc::new(FaultyDisk::new(2));
    let (store, _) = open(&disk, 1);
    let mut stream = store.create_stream("A", "S", b"", StreamConfig::default(), 1).unwrap();
    put(&mut stream, b"one", 1).unwrap();
    disk.fail_at(disk.points(), Fault::Error(io::ErrorKind::Other));
    assert!(matches!(put(&mut stream, b"two", 2), Err(StoreError::Failed(_))));
    assert!(matches!(put(&mut stream, b"three", 2), Err(StoreError::Failed(_))), "it stays failed");
    disk.heal();
    let (mut stream, _) = store.reopen_stream(stream, 3).unwrap();
    assert_eq!(put(&mut stream, b"four", 3).unwrap(), 2);
    assert_eq!(payloads(&stream), [b"one".to_vec(), b"four".to_vec()]);
}

#[test]
fn a_failed_sync_fails_the_stream_and_releases_nothing() {
    let disk = Arc::new(FaultyDisk::new(3));
    let (store, _) = open(&disk, 1);
    let config = StreamConfig { durability: Durability::Synced, ..StreamConfig::default() };
    let mut stream = store.create_stream("A", "S", b"", config, 1).unwrap();
    put(&mut stream, b"one", 1).unwrap();
    assert_eq!(stream.released(), 0, "not before a sync");
    store.journal().round(&|| 1).unwrap();
    assert_eq!(stream.released(), 1);
    put(&mut stream, b"two", 2).unwrap();
    // The round writes the tail, then syncs.
    disk.fail_at(disk.points() + 1, Fault::Error(io::ErrorKind::Other));
    let round = store.journal().round(&|| 2).unwrap();
    assert_eq!((round.failed, stream.released()), (1, 1));
    assert!(stream.failure().is_some());
    assert!(matches!(put(&mut stream, b"three", 3), Err(StoreError::Failed(_))));
}

#[test]
fn deleted_streams_are_gone_and_strange_names_are_set_aside() {
    let disk = Arc::new(FaultyDisk::new(4));
    let (store, _) = open(&disk, 1);
    let one = store.create_stream("A", "ONE", b"blob", StreamConfig::default(), 1).unwrap();
    let mut two = store.create_stream("A", "TWO", b"", StreamConfig::default(), 1).unwrap();
    put(&mut two, b"kept", 1).unwrap();
    let id = two.id();
    store.delete_stream(one).unwrap();
    disk.create(Path::new("/store/streams/notes.txt")).unwrap();
    disk.create(&stream_directory(Path::new("/store"), id).join("0000.old")).unwrap();
    disk.create(Path::new("/store/elsewhere")).unwrap();
    drop((two, store));
    let disk = Arc::new(disk.kill());
    let (store, report) = open(&disk, 2);
    let names: Vec<_> = report.streams.iter().map(|found| found.meta.name.as_str()).collect();
    assert_eq!(names, ["TWO"]);
    assert_eq!(report.notices.len(), 2, "{:?}", report.notices);
    let (stream, report) = store.open_stream(id, StreamConfig::default(), 2).unwrap();
    assert!(matches!(report.notices.as_slice(), [Notice::SetAside { name, .. }] if name == "0000.old"));
    assert_eq!(payloads(&stream), [b"kept".to_vec()]);
    let aside: Vec<_> =
        disk.files().into_keys().filter(|path| path.starts_with("/store/quarantine")).collect();
    assert_eq!(aside.len(), 2, "{aside:?}");
    assert!(disk.files().contains_key(Path::new("/store/elsewhere")), "left where it is");
}
