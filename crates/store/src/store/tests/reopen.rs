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

/// The first sync of a stream's first file makes the name of its directory durable, too.
#[test]
fn power_does_not_take_a_stream_that_was_opened_anew_before_its_first_sync() {
    let mut reopened = 0;
    for point in 0.. {
        let disk = Arc::new(FaultyDisk::new(8));
        let (store, _) = open(&disk, 1);
        let config = StreamConfig { durability: Durability::Synced, ..StreamConfig::default() };
        let mut stream = store.create_stream("A", "S", b"", config, 1).unwrap();
        let first = disk.points();
        disk.fail_at(first + point, DiskFault::Error(std::io::ErrorKind::Other));
        let is_put = put(&mut stream, b"one", 2).is_ok();
        let is_synced = store.journal().round_now(&|| 2).is_ok();
        if disk.points() <= first + point {
            assert!(reopened > 0, "the stream fails at some points");
            return;
        }
        if !is_synced {
            // The journal has failed: the server ends.
            continue;
        }
        disk.heal();
        if stream.failure().is_some() {
            store.reopen_stream(&mut stream, 3).unwrap();
            reopened += 1;
        }
        put(&mut stream, b"two", 4).unwrap();
        store.journal().round_now(&|| 4).unwrap();
        assert_eq!(stream.released(), stream.state().totals.last_seq, "point {point}, put: {is_put}");
        drop((stream, store));
        let (store, report) = open(&Arc::new(disk.power_cycle(Survival::None)), 2);
        let (stream, _) = store.open_stream(report.streams[0].id, config, 5).unwrap();
        assert_eq!(payloads(&stream).last().map(Vec::as_slice), Some(&b"two"[..]), "point {point}");
    }
}
