//! A store on disks that fill up and fail.

use std::sync::Mutex;

use myelin_disk::faulty::{DiskFault, DiskOperation, DiskStep, FaultyDisk, Survival};
use myelin_disk::interrupted::{Interrupted, Moment};

use super::*;
use crate::SegmentNo;
use crate::config::Durability;
use crate::entropy::SeededEntropy;
use crate::stream::{Admission, Filter, NewMessage, StoreError, Wait};

mod reopen;

fn options() -> StoreOptions {
    StoreOptions {
        journal_file_bytes: 256 << 10,
        headroom_bytes: 256 << 10,
        reserve: Reserve::Nothing,
        ..StoreOptions::new("/store")
    }
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
    let mut were_gone = 0;
    for seed in 0..20 {
        let disk = Arc::new(FaultyDisk::new(seed));
        let (store, _) = open(&disk, 1);
        let mut stream = store.create_stream("A", "S", b"", StreamConfig::default(), 1).unwrap();
        put(&mut stream, b"one", 1).unwrap();
        disk.fail_at(disk.points(), DiskFault::Error(io::ErrorKind::Other));
        assert!(matches!(put(&mut stream, b"two", 2), Err(StoreError::Failed(_))));
        assert!(matches!(put(&mut stream, b"three", 2), Err(StoreError::Failed(_))), "it stays failed");
        disk.heal();
        let report = store.reopen_stream(&mut stream, 3).unwrap();
        assert_eq!(report.notices, [], "seed {seed}");
        // A device may have written what it says it has not.
        let mut expected = payloads(&stream);
        assert!(expected == [b"one".to_vec()] || expected == [b"one".to_vec(), b"two".to_vec()]);
        were_gone += usize::from(expected.len() == 1);
        expected.push(b"four".to_vec());
        assert_eq!(put(&mut stream, b"four", 3).unwrap(), expected.len() as u64);
        assert_eq!(payloads(&stream), expected);
    }
    assert!(were_gone > 0);
}

#[test]
fn a_segment_is_sealed_when_all_in_it_is_released() {
    let disk = Arc::new(FaultyDisk::new(2));
    let (store, _) = open(&disk, 1);
    let config = StreamConfig { durability: Durability::Synced, ..StreamConfig::default() };
    let mut stream = store.create_stream("A", "S", b"", config, 1).unwrap();
    put(&mut stream, b"one", 1).unwrap();
    stream.close_segment(0, 2).unwrap();
    assert_eq!(stream.reader().release().seq(), 0);
    assert!(stream.next_job(2).is_none(), "its footer says what is released");
    store.journal().round_now(&|| 3).unwrap();
    assert_eq!(stream.reader().release().seq(), 1);
    let job = stream.next_job(4).expect("a segment to seal");
    stream.finish(job.run(), 4).unwrap();
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
    disk.fail_at(disk.points() + 1, DiskFault::Error(io::ErrorKind::Other));
    let round = store.journal().round(&|| 2).unwrap();
    assert_eq!((round.failed, stream.released()), (1, 1));
    assert!(stream.failure().is_some());
    assert!(matches!(put(&mut stream, b"three", 3), Err(StoreError::Failed(_))));
}

#[test]
fn deleted_streams_are_gone_and_strange_names_are_set_aside() {
    let disk = Arc::new(FaultyDisk::new(4));
    let (store, _) = open(&disk, 1);
    let mut one = store.create_stream("A", "ONE", b"blob", StreamConfig::default(), 1).unwrap();
    let mut two = store.create_stream("A", "TWO", b"", StreamConfig::default(), 1).unwrap();
    put(&mut two, b"kept", 1).unwrap();
    let id = two.id();
    store.delete_stream(&mut one).unwrap();
    disk.create(Path::new("/store/streams/notes.txt")).unwrap();
    disk.create(&stream_directory(Path::new("/store"), id).join("0000.old")).unwrap();
    disk.create(Path::new("/store/elsewhere")).unwrap();
    drop((one, two, store));
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

/// A round that syncs files themselves, and one that writes them into the journal.
#[test]
fn a_stream_that_is_opened_anew_during_a_round_loses_nothing_of_it() {
    for streams in [1, 8] {
        let disk = Interrupted::at(Moment::Write, FaultyDisk::new(5));
        let opened = Store::open(Arc::new(disk.clone()), options(), Arc::new(SeededEntropy::new(1)));
        let (store_here, _) = opened.unwrap();
        let store = &store_here;
        let config = StreamConfig { durability: Durability::Synced, ..StreamConfig::default() };
        let mut all: Vec<_> =
            (0..streams).map(|n| store.create_stream("A", &n.to_string(), b"", config, 1).unwrap()).collect();
        store.journal().round_now(&|| 1).unwrap();
        for stream in &mut all {
            put(stream, b"one", 1).unwrap();
        }
        let mut stream = all.remove(0);
        let (to_other, in_round) = std::sync::mpsc::channel();
        let (to_round, done) = std::sync::mpsc::channel();
        disk.interrupt(move || {
            to_other.send(()).unwrap();
            // It must wait for the round, which therefore cannot wait for it for long.
            let _ = done.recv_timeout(std::time::Duration::from_millis(50));
        });
        let stream = std::thread::scope(|scope| {
            let other = scope.spawn(move || {
                in_round.recv().unwrap();
                store.reopen_stream(&mut stream, 2).unwrap();
                let _ = to_round.send(());
                put(&mut stream, b"two", 3).unwrap();
                stream
            });
            store.journal().round_now(&|| 2).unwrap();
            other.join().unwrap()
        });
        assert_eq!(payloads(&stream), [b"one".to_vec()], "{streams} streams: what the round took");
        store.journal().round_now(&|| 4).unwrap();
        assert_eq!(payloads(&stream), [b"one".to_vec(), b"two".to_vec()]);
        let number = stream.id();
        drop((stream, all, store_here));
        let (store, _) = open(&Arc::new(disk.disk.power_cycle(Survival::None)), 2);
        let (stream, report) = store.open_stream(number, config, 5).unwrap();
        assert_eq!(report.notices, []);
        assert_eq!(payloads(&stream), [b"one".to_vec(), b"two".to_vec()]);
    }
}

/// Power is lost after the next process's replay, before it has opened the stream.
#[test]
fn a_seal_that_was_interrupted_anywhere_keeps_what_only_the_journal_made_durable() {
    let config = StreamConfig {
        durability: Durability::Synced,
        compression: crate::Compression::S2,
        ..StreamConfig::default()
    };
    let mut names = 0;
    for point in 0.. {
        let disk = Arc::new(FaultyDisk::new(7));
        let (store, _) = open(&disk, 1);
        let create = |n: usize| store.create_stream("A", &n.to_string(), b"", config, 1).unwrap();
        // So many that a round goes through the journal.
        let mut all: Vec<_> = (0..8).map(create).collect();
        for stream in &mut all {
            put(stream, b"one", 1).unwrap();
        }
        assert_eq!(store.journal().round_now(&|| 1).unwrap().journaled, 8);
        let mut stream = all.swap_remove(0);
        stream.close_segment(0, 2).unwrap();
        let job = stream.next_job(2).unwrap();
        disk.fail_at(disk.points() + point, DiskFault::Crash);
        let _ = job.run();
        let killed = Arc::new(disk.kill());
        let directory = stream_directory(Path::new("/store"), stream.id());
        let path = directory.join(crate::stream::segment_name(SegmentNo(1)));
        let header = crate::segment::SegmentHeader::read(&*killed.open(&path).unwrap());
        names += usize::from(disk.is_off() && header.is_ok_and(|header| header.generation == 1));
        drop(open(&killed, 2));
        let (store, report) = open(&Arc::new(killed.power_cycle(Survival::None)), 3);
        assert_eq!(report.replay.problems, [], "point {point}");
        let (anew, report) = store.open_stream(stream.id(), config, 3).unwrap();
        assert_eq!((payloads(&anew), report.notices), (vec![b"one".to_vec()], vec![]), "point {point}");
        if !disk.is_off() {
            break;
        }
    }
    assert!(names > 0, "never between the new name and its sync");
}

/// The clock is asked between the round's end and its news.
#[test]
fn news_of_a_round_do_not_move_a_stream_that_was_left() {
    let disk = Arc::new(FaultyDisk::new(6));
    let (store, _) = open(&disk, 1);
    let config = StreamConfig { durability: Durability::Synced, ..StreamConfig::default() };
    let mut stream = store.create_stream("A", "S", b"", config, 1).unwrap();
    put(&mut stream, b"one", 1).unwrap();
    let old = Arc::clone(stream.shared());
    let stream = std::cell::RefCell::new(stream);
    let asked = std::cell::Cell::new(0);
    let clock = || {
        asked.set(asked.get() + 1);
        // At the beginning, around the one sync, and at the end: then.
        if asked.get() == 4 {
            store.reopen_stream(&mut stream.borrow_mut(), 2).unwrap();
        }
        asked.get()
    };
    store.journal().round_now(&clock).unwrap();
    assert_eq!((asked.get() >= 4, old.release.seq()), (true, 0));
    let stream = stream.into_inner();
    assert_eq!((stream.released(), payloads(&stream)), (1, vec![b"one".to_vec()]));
}

#[test]
fn what_waits_in_memory_survives_that_a_stream_is_opened_anew() {
    let (store, _) = open(&Arc::new(FaultyDisk::new(7)), 1);
    for durability in [Durability::Memory, Durability::Synced, Durability::Written] {
        let config = StreamConfig { durability, ..StreamConfig::default() };
        let mut stream = store.create_stream("A", "S", b"", config, 1).unwrap();
        put(&mut stream, b"one", 1).unwrap();
        store.reopen_stream(&mut stream, 2).unwrap();
        assert_eq!(put(&mut stream, b"two", 2).unwrap(), 2);
        store.journal().round_now(&|| 3).unwrap();
        assert_eq!(payloads(&stream), [b"one".to_vec(), b"two".to_vec()], "{durability:?}");
    }
}

#[test]
fn a_stream_with_a_job_out_is_not_opened_anew() {
    let (store, _) = open(&Arc::new(FaultyDisk::new(8)), 1);
    let config = StreamConfig { segment_bytes: Some(128 << 10), ..StreamConfig::default() };
    let mut stream = store.create_stream("A", "S", b"", config, 1).unwrap();
    for _ in 0..30 {
        put(&mut stream, &[1; 10_000], 1).unwrap();
    }
    let job = stream.next_job(2).expect("a segment to seal");
    let error = store.reopen_stream(&mut stream, 2).unwrap_err();
    assert!(error.to_string().contains("job"), "{error}");
    assert_eq!(stream.failure(), None, "nothing has changed");
    stream.finish(job.run(), 2).unwrap();
    store.reopen_stream(&mut stream, 2).unwrap();
    assert_eq!(payloads(&stream).len(), 30);
}

#[test]
fn a_stream_that_could_not_be_deleted_goes_on() {
    // Behind the two steps for room, which are tried twice: both copies of the register, and the
    // sync of the first.
    for point in 2..5 {
        let disk = Arc::new(FaultyDisk::new(9));
        let (store, _) = open(&disk, 1);
        let config = StreamConfig { durability: Durability::Synced, ..StreamConfig::default() };
        let mut stream = store.create_stream("A", "S", b"", config, 1).unwrap();
        put(&mut stream, b"in memory", 1).unwrap();
        disk.fail_at(disk.points() + point, DiskFault::Error(io::ErrorKind::Other));
        store.delete_stream(&mut stream).unwrap_err();
        disk.heal();
        assert_eq!(stream.failure(), None);
        put(&mut stream, b"two", 2).unwrap();
        store.journal().round_now(&|| 2).unwrap();
        assert_eq!(payloads(&stream), [b"in memory".to_vec(), b"two".to_vec()], "point {point}");
        drop((stream, store));
        let (store, report) = open(&Arc::new(disk.power_cycle(Survival::None)), 2);
        let (mut stream, _) = store.open_stream(report.streams[0].id, config, 3).unwrap();
        assert_eq!(payloads(&stream).len(), 2, "point {point}");
        store.delete_stream(&mut stream).unwrap();
        assert!(stream.failure().is_some());
    }
}

/// Of small messages that are durable the journal has the only copy at first.
#[test]
fn a_stream_that_may_be_deleted_keeps_all_it_has() {
    let disk = Arc::new(FaultyDisk::new(9));
    let (store, _) = open(&disk, 1);
    let config = StreamConfig { durability: Durability::Synced, ..StreamConfig::default() };
    let mut stream = store.create_stream("A", "S", b"", config, 1).unwrap();
    put(&mut stream, b"one", 1).unwrap();
    store.journal().round_now(&|| 1).unwrap();
    store.abandon_stream(&mut stream);
    put(&mut stream, b"two", 2).unwrap_err();
    store.close(&|| 2).unwrap();
    drop((stream, store));
    let (store, report) = open(&Arc::new(disk.kill()), 2);
    let (stream, _) = store.open_stream(report.streams[0].id, config, 3).unwrap();
    assert_eq!(payloads(&stream), [b"one".to_vec()]);
}

/// The next round must not look for files of a deleted stream, nor a replay.
#[test]
fn a_deleted_stream_leaves_nothing_to_do() {
    let disk = Arc::new(FaultyDisk::new(10));
    let (store, _) = open(&disk, 1);
    let config = StreamConfig { durability: Durability::Synced, ..StreamConfig::default() };
    let mut all: Vec<_> =
        (0..8).map(|n| store.create_stream("A", &n.to_string(), b"", config, 1).unwrap()).collect();
    for stream in &mut all {
        put(stream, b"one", 1).unwrap();
    }
    let (mut consumers, _) = store.open_consumers(all[0].id(), Durability::Synced, None).unwrap();
    consumers.create("C", crate::consumer::AckRules::default(), b"").unwrap();
    consumers.flush(1).unwrap();
    store.journal().round_now(&|| 2).unwrap();
    put(&mut all[0], b"two", 3).unwrap();
    store.delete_stream(&mut all[0]).unwrap();
    let round = store.journal().round_now(&|| 4).unwrap();
    assert_eq!((round.failed, round.journaled + round.direct), (0, 0));
    drop((all, consumers, store));
    let (_, report) = open(&Arc::new(disk.kill()), 2);
    assert_eq!((report.streams.len(), report.replay.problems), (7, Vec::new()));
}

#[test]
fn consumers_are_open_once_and_what_dropped_ones_had_in_memory_is_there() {
    let disk = Arc::new(FaultyDisk::new(16));
    let (store, _) = open(&disk, 1);
    let stream = store.create_stream("A", "S", b"", StreamConfig::default(), 1).unwrap();
    let id = stream.id();
    let (mut consumers, _) = store.open_consumers(id, Durability::Synced, None).unwrap();
    let consumer = consumers.create("C", crate::consumer::AckRules::default(), b"").unwrap();
    consumers.flush(1).unwrap();
    store.journal().round_now(&|| 2).unwrap();
    let refused = store.open_consumers(id, Durability::Synced, None).map(drop).unwrap_err();
    assert!(refused.to_string().contains("open already"), "{refused}");
    // It waits in memory for a round, which comes when others write to the log.
    consumers.apply_one(consumer, crate::consumer::Delta::Reset { seq: 7 }).unwrap();
    consumers.flush(3).unwrap();
    let before = consumers.state(consumer).unwrap().clone();
    drop(consumers);
    let (mut again, report) = store.open_consumers(id, Durability::Synced, None).unwrap();
    assert!(report.torn.is_none() && report.bad.is_empty(), "{report:?}");
    let found = again.find("C").unwrap();
    assert_eq!(again.state(found).unwrap(), &before);
    again.apply_one(found, crate::consumer::Delta::Reset { seq: 9 }).unwrap();
    again.flush(4).unwrap();
    store.journal().round_now(&|| 5).unwrap();
    let after = again.state(found).unwrap().clone();
    drop((again, stream, store));
    let (store, _) = open(&Arc::new(disk.power_cycle(Survival::None)), 2);
    let (last, _) = store.open_consumers(id, Durability::Synced, None).unwrap();
    assert_eq!(last.state(last.find("C").unwrap()).unwrap(), &after);
}

#[test]
fn a_damaged_log_of_consumers_goes_to_quarantine_and_an_old_one_goes() {
    let disk = Arc::new(FaultyDisk::new(12));
    let (store, _) = open(&disk, 1);
    let stream = store.create_stream("A", "S", b"", StreamConfig::default(), 1).unwrap();
    let (mut consumers, _) = store.open_consumers(stream.id(), Durability::Written, None).unwrap();
    let id = consumers.create("C", crate::consumer::AckRules::default(), b"").unwrap();
    consumers.flush(1).unwrap();
    consumers.checkpoint().unwrap();
    assert_eq!(store.put_away(&mut consumers), []);
    consumers.apply_one(id, crate::consumer::Delta::Reset { seq: 7 }).unwrap();
    let end = consumers.flush(2).unwrap().unwrap().end;
    let logs = |disk: &FaultyDisk| -> Vec<_> {
        let paths = disk.files().into_keys().filter(|path| path.to_string_lossy().contains("consumers."));
        paths.map(|path| path.strip_prefix("/store").unwrap().to_string_lossy().into_owned()).collect()
    };
    let directory = format!("streams/{:016x}", stream.id().0);
    assert_eq!(logs(&disk), [format!("{directory}/consumers.00000002")]);
    let path = std::path::Path::new("/store").join(&directory).join("consumers.00000002");
    drop(consumers);
    // One bit would be corrected.
    disk.flip_bit(&path, end - 1, 1).unwrap();
    disk.flip_bit(&path, end - 2, 1).unwrap();

    let (mut again, report) = store.open_consumers(stream.id(), Durability::Written, None).unwrap();
    assert!(report.torn.is_some());
    assert_eq!(store.put_away(&mut again), [], "nothing has taken its place yet");
    again.flush(3).unwrap();
    let notices = store.put_away(&mut again);
    assert!(matches!(&notices[..], [Notice::SetAside { .. }]), "{notices:?}");
    let aside = format!("quarantine/{:016x}.consumers.00000002", stream.id().0);
    assert_eq!(logs(&disk), [aside, format!("{directory}/consumers.00000003")]);
}

#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl crate::stream::OnRelease for Told {
    fn released(&self, _: StreamId, seq: u64, ticket: crate::stream::Ticket) {
        self.0.lock().unwrap().push(format!("released {seq} ticket {}", ticket.0));
    }
    fn failed(&self, _: StreamId, why: &str) {
        self.0.lock().unwrap().push(format!("failed {why}"));
    }
    fn damaged(&self, _: StreamId, lost: &crate::Lost, count: usize) {
        self.0.lock().unwrap().push(format!("damaged {:?}, {count}", lost.sequences));
    }
}

#[test]
fn who_waits_for_a_release_is_told() {
    let (store, _) = open(&Arc::new(FaultyDisk::new(11)), 1);
    let told = Arc::new(Told::default());
    let take = || std::mem::take(&mut *told.0.lock().unwrap());
    let config = StreamConfig { durability: Durability::Synced, ..StreamConfig::default() };
    let mut stream = store.create_stream("A", "S", b"", config, 1).unwrap();
    stream.on_release(Arc::clone(&told) as Arc<dyn crate::stream::OnRelease>);
    put(&mut stream, b"one", 1).unwrap();
    put(&mut stream, b"two", 1).unwrap();
    assert_eq!(take(), [""; 0], "not before the round");
    store.journal().round_now(&|| 2).unwrap();
    assert_eq!(take(), ["released 2 ticket 2"]);
    put(&mut stream, b"three", 3).unwrap();
    store.reopen_stream(&mut stream, 4).unwrap();
    assert_eq!(take(), ["failed the stream was opened anew"]);
    put(&mut stream, b"four", 5).unwrap();
    let weaker = StreamConfig { durability: Durability::Written, ..config };
    stream.set_config(weaker, 6).unwrap();
    put(&mut stream, b"five", 7).unwrap();
    assert_eq!(take().len(), 1, "what waited is released by the weaker mode, and told");
    put(&mut stream, b"six", 8).unwrap();
    assert_eq!(take(), [""; 0], "released at once");
}

#[test]
fn a_full_disk_is_told_from_other_errors() {
    let disk = Arc::new(FaultyDisk::new(12));
    let (store, _) = open(&disk, 1);
    disk.set_capacity(Some(disk.used()));
    let full = store.create_stream("A", "S", b"", StreamConfig::default(), 1).unwrap_err();
    assert!(full.is_full(), "{full}");
    disk.set_capacity(None);
    disk.fail_at(disk.points(), DiskFault::Error(io::ErrorKind::Other));
    let other = store.create_stream("A", "S", b"", StreamConfig::default(), 1).unwrap_err();
    assert!(!other.is_full(), "{other}");
}

#[test]
fn what_a_dropped_stream_had_in_memory_is_there_when_it_is_opened_again() {
    let disk = Arc::new(FaultyDisk::new(13));
    let (store, _) = open(&disk, 1);
    for durability in [Durability::Memory, Durability::Synced, Durability::Written] {
        let config = StreamConfig { durability, segment_bytes: Some(128 << 10), ..StreamConfig::default() };
        let mut stream = store.create_stream("A", "S", b"", config, 1).unwrap();
        let id = stream.id();
        // One in a segment that was closed, one in the active one, and one that a round has taken.
        put(&mut stream, b"one", 1).unwrap();
        stream.close_segment(1, 1).unwrap();
        put(&mut stream, b"two", 1).unwrap();
        store.journal().round_now(&|| 2).unwrap();
        put(&mut stream, b"three", 3).unwrap();
        drop(stream);
        let (mut stream, report) = store.open_stream(id, config, 4).unwrap();
        assert_eq!(report.notices, [], "{durability:?}");
        assert_eq!(put(&mut stream, b"four", 5).unwrap(), 4);
        store.journal().round_now(&|| 6).unwrap();
        let all = [&b"one"[..], b"two", b"three", b"four"].map(<[u8]>::to_vec);
        assert_eq!(payloads(&stream), all, "{durability:?}");
        let other = Arc::new(disk.power_cycle(Survival::None));
        let (store, _) = open(&other, 2);
        let (stream, report) = store.open_stream(id, config, 7).unwrap();
        assert_eq!((report.notices, payloads(&stream)), (vec![], all.to_vec()), "{durability:?}");
    }
}

#[test]
fn a_stream_that_is_open_is_not_opened_again() {
    let (store, _) = open(&Arc::new(FaultyDisk::new(14)), 1);
    let config = StreamConfig { segment_bytes: Some(128 << 10), ..StreamConfig::default() };
    let mut stream = store.create_stream("A", "S", b"", config, 1).unwrap();
    let id = stream.id();
    let is_refused = |store: &Store| {
        let error = store.open_stream(id, config, 2).unwrap_err();
        assert!(error.to_string().contains("open already"), "{error}");
    };
    for _ in 0..30 {
        put(&mut stream, &[1; 10_000], 1).unwrap();
    }
    is_refused(&store);
    store.reopen_stream(&mut stream, 2).unwrap();
    is_refused(&store);
    let job = stream.next_job(3).expect("a segment to seal");
    drop(stream);
    // The job would write into files that are another's.
    is_refused(&store);
    drop(job.run());
    let (mut stream, report) = store.open_stream(id, config, 4).unwrap();
    assert_eq!((report.notices, payloads(&stream).len()), (vec![], 30));
    is_refused(&store);
    store.delete_stream(&mut stream).unwrap();
    drop(stream);
    let gone = store.open_stream(id, config, 5).unwrap_err();
    assert!(!gone.to_string().contains("open already"), "{gone}");
}

#[test]
fn a_stream_that_nobody_has_opened_is_deleted_like_another() {
    let disk = Arc::new(FaultyDisk::new(16));
    let (store, _) = open(&disk, 1);
    let mut stream = store.create_stream("A", "S", b"", StreamConfig::default(), 1).unwrap();
    let kept = store.create_stream("A", "T", b"", StreamConfig::default(), 1).unwrap().id();
    put(&mut stream, b"one", 1).unwrap();
    let id = stream.id();
    let refused = store.delete_unopened(id).unwrap_err();
    assert!(refused.to_string().contains("open already"), "{refused}");
    assert_eq!(payloads(&stream), [b"one".to_vec()]);
    drop((stream, store));
    let (store, report) = open(&disk, 2);
    assert_eq!(report.streams.len(), 2);
    store.delete_unopened(id).unwrap();
    assert!(store.open_stream(id, StreamConfig::default(), 3).is_err());
    drop(store);
    let (_, report) = open(&Arc::new(disk.kill()), 4);
    assert_eq!(report.streams.iter().map(|found| found.id).collect::<Vec<_>>(), [kept]);
    assert!(report.notices.is_empty(), "{:?}", report.notices);
}

#[test]
fn a_store_is_used_by_one_process_at_a_time() {
    let disk = Arc::new(FaultyDisk::new(15));
    let (store, _) = open(&disk, 1);
    let again = |disk: &FaultyDisk| {
        let opened = Store::open(Arc::new(disk.clone()), options(), Arc::new(SeededEntropy::new(2)));
        opened.map(drop).map_err(|error| error.to_string())
    };
    let refused = Err("the store in /store: another process uses it".to_owned());
    assert_eq!(again(&disk), refused);
    let stream = store.create_stream("A", "S", b"", StreamConfig::default(), 1).unwrap();
    drop(store);
    assert_eq!(again(&disk), refused, "a stream still writes");
    // The next process is alone, and the same one is again when it has let go of everything.
    assert_eq!(again(&disk.kill()), Ok(()));
    assert_eq!(again(&disk.power_cycle(Survival::None)), Ok(()));
    drop(stream);
    assert_eq!(again(&disk), Ok(()));
}

/// Consumers that a start finds, and what it misses: the log as it is now, and consumers.
type Start = (usize, Option<(Option<u64>, u32)>);

/// A store with one consumer that was only made, closed or killed; then each start finds its log
/// removed. What the starts find of the consumer, and what they miss.
fn without_the_first_log(is_stopped: bool, starts: u64) -> Vec<Start> {
    let disk = Arc::new(FaultyDisk::new(16));
    let (store, _) = open(&disk, 1);
    let mut stream = store.create_stream("A", "S", b"", StreamConfig::default(), 1).unwrap();
    let id = stream.id();
    let (mut consumers, _) = store.open_consumers(id, Durability::Written, None).unwrap();
    put(&mut stream, b"one", 1).unwrap();
    store.write_watermarks().unwrap();
    // Nothing is appended to its log, which begins with it.
    consumers.create("C", crate::consumer::AckRules::default(), b"").unwrap();
    consumers.flush(2).unwrap();
    store.write_watermarks().unwrap();
    if is_stopped {
        store.close(&|| 3).unwrap();
    }
    drop((stream, consumers, store));
    let mut disk = disk;
    let start = |turn| {
        disk = Arc::new(disk.kill());
        let log = stream_directory(Path::new("/store"), id).join("consumers.00000001");
        disk.remove_file(&log).unwrap();
        let (store, _) = open(&disk, turn);
        let _stream = store.open_stream(id, StreamConfig::default(), 4).unwrap();
        let (consumers, report) = store.open_consumers(id, Durability::Written, None).unwrap();
        store.write_watermarks().unwrap();
        (consumers.iter().count(), report.set_back.map(|set_back| (set_back.now, set_back.lost)))
    };
    (2..2 + starts).map(start).collect()
}

#[test]
fn a_log_of_consumers_that_was_only_begun_comes_back_or_is_missed() {
    for is_stopped in [false, true] {
        // The register vouches for it until a start has made it durable.
        assert_eq!(without_the_first_log(is_stopped, 2), [(1, None), (0, Some((None, 1)))], "{is_stopped}");
    }
}

/// Where a sync takes a millisecond, one for each of thousands of streams is all that a start does.
#[test]
fn a_start_syncs_no_directory_in_which_the_register_vouches_for_all() {
    const PLAIN: usize = 40;
    let disk = Arc::new(FaultyDisk::new(16));
    let (store, _) = open(&disk, 1);
    let mut made = Vec::new();
    for number in 0..PLAIN + 2 {
        let name = format!("S{number}");
        let stream = store.create_stream("A", &name, b"", StreamConfig::default(), 1).unwrap();
        let (mut consumers, _) = store.open_consumers(stream.id(), Durability::Written, None).unwrap();
        consumers.create("C", crate::consumer::AckRules::default(), b"").unwrap();
        consumers.flush(2).unwrap();
        made.push((stream, consumers));
    }
    // What these two say stands in their directories only.
    put(&mut made[PLAIN].0, b"one", 3).unwrap();
    let changed = made[PLAIN + 1].0.id();
    store.write_blob(changed, b"changed").unwrap();
    let ids: Vec<StreamId> = made.iter().map(|(stream, _)| stream.id()).collect();
    drop((made, store));
    let disk = Arc::new(disk.kill());
    let (store, _) = open(&disk, 2);
    let before = disk.journal().len();
    let opened = ids.iter().map(|id| store.open_stream(*id, StreamConfig::default(), 4).unwrap());
    let opened: Vec<_> = opened.collect();
    let steps = disk.journal();
    let is_synced = |id: &StreamId| {
        let directory = stream_directory(Path::new("/store"), *id);
        let is_it =
            |step: &DiskStep| step.operation == DiskOperation::SyncDirectory && step.path == directory;
        steps[before..].iter().any(is_it)
    };
    let synced = ids[..PLAIN].iter().filter(|id| is_synced(id)).count();
    // The register has let go of some, as each start does.
    assert!(synced <= 16, "{synced} of {PLAIN}");
    assert!(ids[PLAIN..].iter().all(is_synced));
    drop((opened, store));
    // Who opens a stream once more finds what this process has written.
    let (store, report) = open(&Arc::new(disk.power_cycle(Survival::None)), 3);
    assert_eq!(report.streams.len(), PLAIN + 2);
    for id in ids {
        let (consumers, _) = store.open_consumers(id, Durability::Written, None).unwrap();
        assert_eq!(consumers.iter().count(), 1);
    }
}
