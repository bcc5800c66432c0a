//! Rounds: what is synced how, who is told what, and when.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::time::Duration;

use super::super::{Journal, SyncInterval, Wake};
use super::world::{World, id, path_of, recover, small};
use crate::{AppendFile, Durability, FileId, FileKind, StreamId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use myelin_disk::Disk;
use myelin_disk::faulty::{DiskOperation, FaultyDisk, Survival};
use myelin_disk::memory::MemoryFile;

fn world() -> World {
    World::new(FaultyDisk::new(1), small(), 1).unwrap()
}

#[test]
fn few_files_are_synced_themselves_and_many_by_the_journal() {
    let mut world = world();
    world.create(id(1, 1), Durability::Written).unwrap();
    world.create(id(2, 1), Durability::Synced).unwrap();
    let round = world.round().unwrap();
    assert_eq!((round.direct, round.journaled, round.bytes), (2, 0, 16));
    world.create(id(3, 1), Durability::Memory).unwrap();
    for file in 0..3 {
        world.append(file, 100).unwrap();
    }
    let round = world.round().unwrap();
    assert_eq!((round.direct, round.journaled, round.bytes), (0, 3, 308));
    for (twin, heard) in world.twins() {
        assert_eq!(heard.durable, twin.content.len() as u64);
    }
    assert_eq!(world.round().unwrap(), super::super::RoundSummary::default());
}

#[test]
fn much_of_one_file_does_not_go_through_the_journal() {
    let mut world = world();
    for stream in 1..6 {
        world.create(id(stream, 1), Durability::Synced).unwrap();
    }
    world.append(0, 7000).unwrap();
    let round = world.round().unwrap();
    assert_eq!((round.direct, round.journaled), (1, 4));
}

#[test]
fn only_files_somebody_waits_for_are_taken_before_the_interval() {
    let mut world = world();
    let now = |world: &World| world.clock.get();
    let round_at = |world: &World, at: u64| {
        world.clock.set(at);
        world.journal.round(&|| at).unwrap()
    };
    world.create(id(1, 1), Durability::Written).unwrap();
    assert_eq!(world.journal.next_due(now(&world)), Some(Duration::ZERO), "the first is due at once");
    let first = now(&world);
    assert_eq!(round_at(&world, first).direct, 1);
    assert_eq!(world.journal.next_due(first), None);
    world.append(0, 10).unwrap();
    assert_eq!(world.journal.next_due(first + 1_000_000), Some(Duration::from_millis(4)));
    assert_eq!(round_at(&world, first + 4_999_999).direct, 0);
    world.create(id(2, 1), Durability::Synced).unwrap();
    assert_eq!(world.journal.next_due(first + 1), Some(Duration::ZERO));
    assert_eq!(round_at(&world, first + 4_999_999).direct, 1);
    assert_eq!(world.listener.of(id(1, 1)).durable, 8);
    assert_eq!(round_at(&world, first + 5_000_000).direct, 1);
    // A clock that went back makes everything due, not nothing.
    world.append(0, 10).unwrap();
    assert_eq!(world.journal.next_due(first - 1_000_000), Some(Duration::ZERO));
}

#[test]
fn positions_of_consumers_wait_for_another_reason_or_a_while() {
    let mut world = world();
    let positions = FileId { stream: StreamId(1), kind: FileKind::Consumers(1) };
    let awaited = FileId { stream: StreamId(2), ..positions };
    world.create(positions, Durability::Written).unwrap();
    let first = world.clock.get();
    let due = |world: &World, at: u64| world.journal.next_due(first + at);
    assert_eq!(due(&world, 0), Some(Duration::from_millis(50)));
    assert_eq!(due(&world, 49_000_000), Some(Duration::from_millis(1)));
    assert_eq!(world.journal.round(&|| first + 49_000_000).unwrap().direct, 0);
    assert_eq!(world.journal.round(&|| first + 50_000_000).unwrap().direct, 1);
    assert_eq!(due(&world, 50_000_000), None);
    // Together with messages, or with what somebody waits for.
    world.append(0, 10).unwrap();
    world.create(id(1, 1), Durability::Written).unwrap();
    assert_eq!(due(&world, 60_000_000), Some(Duration::ZERO));
    let round = world.journal.round(&|| first + 60_000_000).unwrap();
    assert_eq!((round.direct, round.journaled), (2, 0));
    world.create(awaited, Durability::Synced).unwrap();
    assert_eq!(due(&world, 60_000_001), Some(Duration::ZERO));
}

#[test]
fn positions_have_a_window_of_their_own() {
    let mut world = World::new(FaultyDisk::new(1), small(), 1).unwrap();
    let positions = FileId { stream: StreamId(3), kind: FileKind::Consumers(1) };
    world.create(positions, Durability::Written).unwrap();
    let since = world.clock.get();
    let statistics = world.journal.statistics(since + 500);
    assert_eq!((statistics.loss.now, statistics.positions.now), (0, 500));
    world.journal.round_now(&|| since + 700).unwrap();
    let statistics = world.journal.statistics(since + 900);
    assert_eq!((statistics.loss.max, statistics.positions.now), (0, 0));
    assert_eq!(statistics.positions.max, 700);
}

#[test]
fn the_loss_window_is_the_age_of_what_was_released_and_is_not_durable() {
    let config =
        super::super::JournalConfig { interval: SyncInterval::Every(Duration::from_secs(1)), ..small() };
    let mut world = World::new(FaultyDisk::new(1), config, 1).unwrap();
    world.create(id(1, 1), Durability::Written).unwrap();
    world.create(id(2, 1), Durability::Synced).unwrap();
    let since = 1_000_001_000;
    let statistics = world.journal.statistics(since + 500);
    assert_eq!((statistics.loss.now, statistics.dirty_files), (500, 2));
    world.journal.round(&|| since + 700).unwrap();
    let statistics = world.journal.statistics(since + 900);
    assert_eq!((statistics.loss.now, statistics.loss.max, statistics.dirty_files), (0, 700, 0));
    assert_eq!((statistics.rounds, statistics.spread.rounds.counts[0]), (1, 1));
}

/// Each look at the clock is a millisecond after the one before.
#[test]
fn syncs_are_timed_one_by_one_and_rounds_as_a_whole() {
    let mut world = world();
    for stream in 1..3 {
        world.create(id(stream, 1), Durability::Synced).unwrap();
    }
    let looks = Cell::new(1_000);
    let clock = || looks.replace(looks.get() + 1) * 1_000_000;
    let round = world.journal.round_now(&clock).unwrap();
    assert_eq!((round.direct, round.bytes), (2, 16));
    let spread = world.journal.statistics(0).spread;
    let total =
        |counts: &myelin_stdx::histogram::HistogramCounts| (counts.counts.iter().sum::<u64>(), counts.sum);
    assert_eq!(total(&spread.syncs), (2, 2_000_000), "two files of a millisecond each");
    assert_eq!(total(&spread.rounds), (1, 5_000_000), "the beginning, four looks, the end");
    assert_eq!(total(&spread.bytes), (1, 16));
    // What goes into the journal is one sync, however many files it is of.
    for file in 0..2 {
        world.append(file, 100).unwrap();
    }
    world.create(id(3, 1), Durability::Synced).unwrap();
    let round = world.journal.round_now(&clock).unwrap();
    assert_eq!((round.direct, round.journaled), (0, 3));
    assert_eq!(total(&world.journal.statistics(0).spread.syncs), (3, 3_000_000));
}

#[test]
fn reads_see_everything_appended_and_overwritten() {
    let mut world = world();
    for stream in 1..5 {
        world.create(id(stream, 1), Durability::Synced).unwrap();
        let index = stream as usize - 1;
        world.append(index, 500).unwrap();
    }
    let read = |world: &World, index: usize| {
        let (twin, file) = &world.files[index];
        let mut buffer = vec![0; twin.content.len() + 10];
        let length = file.read_at(&mut buffer, 0).unwrap();
        assert_eq!(file.read_cached_at(&mut buffer, 0).unwrap(), Some(length));
        buffer.truncate(length);
        buffer
    };
    let expect = |world: &World, index: usize| {
        let twin = &world.files[index].0;
        let mut content = twin.content.clone();
        for (offset, bytes) in &twin.unsure {
            content[*offset..offset + bytes.len()].copy_from_slice(bytes);
        }
        content
    };
    world.overwrite(0, 100, 50).unwrap();
    world.overwrite(1, 400, 100).unwrap();
    for _ in 0..3 {
        for index in 0..4 {
            assert_eq!(read(&world, index), expect(&world, index), "file {index}");
            world.append(index, 40).unwrap();
            assert_eq!(read(&world, index), expect(&world, index), "file {index}");
        }
        world.round().unwrap();
        world.note_overwrites();
        assert!(world.files[0].0.unsure.is_empty());
        world.overwrite(2, 300, 100).unwrap();
        world.files[2].1.flush().unwrap();
    }
    world.journal.close(&|| 0).unwrap();
    world.note_overwrites();
    for (twin, _) in world.twins() {
        assert_eq!(world.disk.power_cycle(Survival::None).read_all(&path_of(twin.id)).unwrap(), twin.content);
    }
    let (_, report) = recover(&world.disk.power_cycle(Survival::None), small()).unwrap();
    assert_eq!((report.bytes, report.problems.len()), (0, 0), "a closed journal has nothing to replay");
}

#[test]
fn overwriting_what_is_not_there_is_refused() {
    let mut world = world();
    world.create(id(1, 1), Durability::Written).unwrap();
    assert!(world.overwrite(0, 1, 8).is_err());
    assert!(world.files[0].1.overwrite(u64::MAX, &[1, 2], 0).is_err());
    assert!(world.append(0, 1).is_ok(), "that was the caller's mistake, not the file's");
}

#[test]
fn tails_are_written_when_they_hold_too_much() {
    let mut world = world();
    for stream in 1..5 {
        world.create(id(stream, 1), Durability::Synced).unwrap();
    }
    let mut most = 0;
    for _ in 0..30 {
        for index in 0..4 {
            world.append(index, 1000).unwrap();
        }
        world.round().unwrap();
        most = most.max(world.journal.statistics(0).tail_bytes);
    }
    assert!(most <= small().tail_bytes, "{most}");
    assert!(world.files[0].1.written() > 10_000);
    let files = std::mem::take(&mut world.files);
    let ends: Vec<u64> = files.iter().map(|(_, file)| file.end()).collect();
    assert_eq!(ends, [30_008; 4]);
    for (_, file) in &files {
        file.flush().unwrap();
        assert_eq!(file.written(), file.end());
    }
    assert_eq!(world.journal.statistics(0).tail_bytes, 0);
}

#[test]
fn a_full_tail_is_written_by_the_append() {
    let mut world = world();
    world.create(id(1, 1), Durability::Memory).unwrap();
    for _ in 0..600 {
        world.append(0, 1000).unwrap();
    }
    let file = &world.files[0].1;
    assert!(file.written() > 500_000 && file.written() < file.end());
    world.append(0, 600_000).unwrap();
    assert_eq!(world.files[0].1.written(), world.files[0].1.end());
}

#[test]
fn a_file_in_memory_is_durable_at_once() {
    let file = AppendFile::in_memory(id(1, 1), Arc::new(MemoryFile::default()));
    assert_eq!(file.append(b"hello", 0), Ok(5));
    file.overwrite(1, b"a", 0).unwrap();
    let mut buffer = [0; 9];
    assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 5);
    assert_eq!((&buffer[..5], file.durable(), file.releasable()), (&b"hallo"[..], 5, 5));
}

#[test]
fn a_closed_file_becomes_durable_and_takes_nothing_more() {
    let mut world = world();
    world.create(id(1, 1), Durability::Synced).unwrap();
    world.append(0, 100).unwrap();
    world.files[0].1.close().unwrap();
    assert!(world.append(0, 1).is_err());
    assert_eq!(world.round().unwrap().direct, 1);
    assert_eq!(world.files[0].1.durable(), 108);
    assert_eq!(Arc::strong_count(&world.files[0].1), 1, "the journal has let go of it");
}

#[test]
fn an_abandoned_file_is_not_synced() {
    let mut world = world();
    for stream in 1..5 {
        world.create(id(stream, 1), Durability::Synced).unwrap();
    }
    world.files[0].1.abandon();
    assert_eq!(world.round().unwrap().journaled, 3);
    assert_eq!(world.listener.of(id(1, 1)).durable, 0);
}

fn holders(world: &World) -> usize {
    let rounds = world.journal.rounds.lock().unwrap();
    rounds.as_ref().unwrap().live.iter().map(|live| live.holders.len()).sum()
}

#[test]
fn files_of_deleted_streams_are_let_go() {
    let mut world = world();
    for stream in 1..6 {
        world.create(id(stream, 1), Durability::Synced).unwrap();
    }
    world.round().unwrap();
    world.append(0, 10).unwrap();
    assert_eq!(holders(&world), 5);
    world.journal.note_dropped(crate::StreamId(1)).unwrap();
    assert_eq!(holders(&world), 4);
    assert_eq!(world.round().unwrap(), super::super::RoundSummary::default(), "what was dirty is not wanted");
    assert_eq!(Arc::strong_count(&world.files[0].1), 1, "the journal has let go of it");
}

#[test]
fn files_that_were_settled_otherwise_are_let_go_and_come_back() {
    let mut world = world();
    for stream in 1..6 {
        world.create(id(stream, 1), Durability::Synced).unwrap();
    }
    world.round().unwrap();
    world.append(0, 10).unwrap();
    assert_eq!(world.round().unwrap().direct, 1, "it is synced itself");
    world.files[1].1.abandon();
    world.round().unwrap();
    assert_eq!(holders(&world), 3);
    for file in [0, 2, 3, 4] {
        world.append(file, 10).unwrap();
    }
    assert_eq!(world.round().unwrap().journaled, 4);
    assert_eq!(holders(&world), 4, "the journal holds bytes of it again");
}

#[test]
fn a_round_on_its_way_when_a_file_is_sealed_leaves_nothing_of_it_in_the_journal() {
    for (has_patch, ends_behind) in [(false, false), (false, true), (true, true)] {
        let mut world = world();
        world.create(id(1, 1), Durability::Written).unwrap();
        let file = Arc::clone(&world.files[0].1);
        if has_patch {
            file.overwrite(0, b"x", 1).unwrap();
        }
        let taken = file.take().unwrap();
        assert!(file.enter_journal(1));
        let end_round = || file.journaled(taken.range.end, &taken.patches).unwrap();
        file.close().unwrap();
        let patchings = file.patchings();
        file.file().sync().unwrap();
        if !ends_behind {
            end_round();
        }
        file.mark_synced(patchings);
        world.journal.shared.has_settled.store(false, Ordering::Relaxed);
        if ends_behind {
            end_round();
        }
        assert_eq!(file.leave_journal(1), !has_patch, "replaced bytes were not synced by anybody");
        let is_told = world.journal.shared.has_settled.load(Ordering::Relaxed);
        assert_eq!(is_told, ends_behind && !has_patch);
    }
}

#[test]
fn space_is_reserved_ahead_in_growing_steps() {
    let mut world = world();
    world.create(id(1, 1), Durability::Written).unwrap();
    let length = |world: &World| world.disk.files()[&path_of(id(1, 1))];
    world.files[0].1.reserve(100).unwrap();
    assert_eq!(length(&world), 108 + 4 * 1024);
    world.append(0, 66_000).unwrap();
    world.files[0].1.reserve(1).unwrap();
    assert_eq!(length(&world), 66_009 + 8 * 1024);
    world.files[0].1.reserve(990_000).unwrap();
    let beyond = 66_008 + 990_000 + 16 * 1024;
    assert_eq!(length(&world), beyond, "a batch may go beyond the bound, with a little ahead");
    world.disk.set_capacity(Some(world.disk.used() + 8192));
    world.files[0].1.reserve(1_160_000).unwrap_err();
    // A full disk may have given a part of it.
    assert!((beyond..66_008 + 1_160_000).contains(&length(&world)));
    world.append(0, 10).unwrap();
}

#[test]
fn whoever_waits_is_woken() {
    let mut world = world();
    let long = Duration::from_secs(60);
    world.create(id(1, 1), Durability::Written).unwrap();
    assert_eq!(world.journal.wait(long), Wake::Dirty);
    assert_eq!(world.journal.wait(Duration::ZERO), Wake::TimedOut);
    world.create(id(2, 1), Durability::Synced).unwrap();
    assert_eq!(world.journal.wait(long), Wake::Urgent);
    world.create(id(3, 1), Durability::Synced).unwrap();
    world.round().unwrap();
    assert_eq!(world.journal.wait(Duration::ZERO), Wake::TimedOut);
    world.journal.wake();
    assert_eq!(world.journal.wait(long), Wake::Asked);
}

#[test]
fn a_sleeper_is_woken_by_another_thread() {
    let mut world = world();
    world.create(id(1, 1), Durability::Synced).unwrap();
    world.round().unwrap();
    let journal: Arc<Journal> = Arc::clone(&world.journal);
    for _ in 0..200 {
        let sleeper = std::thread::spawn({
            let journal = Arc::clone(&journal);
            move || journal.wait(Duration::from_secs(60))
        });
        world.append(0, 1).unwrap();
        assert_eq!(sleeper.join().unwrap(), Wake::Urgent);
        world.round().unwrap();
    }
}

#[test]
fn a_journal_that_is_dropped_lets_go_of_its_files() {
    let mut world = world();
    for stream in 1..5 {
        world.create(id(stream, 1), Durability::Synced).unwrap();
    }
    world.round().unwrap();
    world.append(0, 100).unwrap();
    let files: Vec<_> = world.files.iter().map(|(_, file)| Arc::downgrade(file)).collect();
    drop(world);
    assert!(files.iter().all(|file| file.upgrade().is_none()));
}

#[test]
fn files_that_are_appended_to_are_left_alone_while_syncs_are_slow() {
    let mut world = world();
    world.create(id(1, 1), Durability::Written).unwrap();
    let round = |world: &mut World, file: usize, took: u64| {
        world.append(file, 100).unwrap();
        let (began, is_running) = (world.clock.get(), Cell::new(false));
        let clock = || if is_running.replace(true) { began + took } else { began };
        let round = world.journal.round_now(&clock).unwrap();
        (round.direct, round.journaled)
    };
    assert_eq!(round(&mut world, 0, 3_999_999), (1, 0));
    assert_eq!(round(&mut world, 0, 4_000_000), (1, 0), "nobody knew");
    assert_eq!(round(&mut world, 0, 50_000_000), (0, 1));
    // What somebody waits for is synced as soon as may be.
    world.create(id(2, 1), Durability::Synced).unwrap();
    assert_eq!(round(&mut world, 1, 50_000_000), (1, 0));
    assert_eq!(round(&mut world, 0, 1_000_000), (0, 1));
    assert_eq!(round(&mut world, 0, 1_000_000), (1, 0), "the disk has become fast");
    for (twin, heard) in world.twins() {
        assert_eq!(heard.durable, twin.content.len() as u64);
    }
}

#[test]
fn nobody_waits_for_a_write_that_has_panicked() {
    let panics = Arc::new(AtomicBool::new(false));
    let watcher = Arc::clone(&panics);
    let disk = FaultyDisk::new(1).watched(Arc::new(move |operation| {
        let is_write = matches!(operation, DiskOperation::Write { .. });
        assert!(!is_write || !watcher.swap(false, Ordering::Relaxed), "a panic that is planned");
    }));
    let mut world = World::new(disk, small(), 1).unwrap();
    world.create(id(1, 1), Durability::Synced).unwrap();
    world.append(0, 100).unwrap();
    let file = Arc::clone(&world.files[0].1);
    panics.store(true, Ordering::Relaxed);
    let outcome = catch_unwind(AssertUnwindSafe(|| file.launch_tail()));
    assert!(outcome.is_err() && !panics.load(Ordering::Relaxed), "the write has panicked");
    // What was in flight is in front of what comes behind it, and all of it is written.
    world.append(0, 50).unwrap();
    let (done, is_done) = channel();
    let closing = Arc::clone(&file);
    std::thread::spawn(move || done.send(closing.close().is_ok()));
    assert_eq!(is_done.recv_timeout(Duration::from_secs(10)), Ok(true), "it waits for ever");
    let content = &world.files[0].0.content;
    let mut read = vec![0; content.len()];
    assert_eq!(world.disk.open(&path_of(id(1, 1))).unwrap().read_at(&mut read, 0).unwrap(), content.len());
    assert_eq!(&read, content);
}
