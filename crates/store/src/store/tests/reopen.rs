//! A stream that cannot be opened anew.

use super::*;

/// No round takes it any more, and the next attempt may be far away.
#[test]
fn what_no_round_has_taken_is_durable_though_a_stream_cannot_be_opened_anew() {
    let disk = Arc::new(FaultyDisk::new(8));
    let (store, _) = open(&disk, 1);
    let mut stream = store.create_stream("A", "S", b"", StreamConfig::default(), 1).unwrap();
    put(&mut stream, b"one", 1).unwrap();
    store.journal().round_now(&|| 1).unwrap();
    put(&mut stream, b"two", 2).unwrap();
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "seg");
    let segment = disk.files().into_keys().find(is_segment).unwrap();
    disk.fail_reads(&segment, 0..u64::MAX).unwrap();
    store.reopen_stream(&mut stream, 3).unwrap_err();
    store.journal().round_now(&|| 4).unwrap();
    drop((stream, store));
    let disk = disk.power_cycle(Survival::None);
    disk.fail_reads(&segment, 0..0).unwrap();
    let (store, report) = open(&Arc::new(disk), 2);
    let (stream, _) = store.open_stream(report.streams[0].id, StreamConfig::default(), 5).unwrap();
    assert_eq!(payloads(&stream), [b"one".to_vec(), b"two".to_vec()]);
}

/// Nobody was told that it is stored.
#[test]
fn what_is_not_released_and_cannot_be_written_hinders_no_stream_from_being_opened_anew() {
    let disk = Arc::new(FaultyDisk::new(8));
    let (store, _) = open(&disk, 1);
    let config = StreamConfig { durability: Durability::Synced, ..StreamConfig::default() };
    let mut stream = store.create_stream("A", "S", b"", config, 1).unwrap();
    put(&mut stream, b"one", 1).unwrap();
    store.journal().round_now(&|| 1).unwrap();
    put(&mut stream, b"two", 2).unwrap();
    disk.fail_at(disk.points(), DiskFault::Error(std::io::ErrorKind::Other));
    store.reopen_stream(&mut stream, 3).unwrap();
    assert_eq!(payloads(&stream), [b"one".to_vec()]);
}
