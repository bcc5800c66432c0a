//! Errors of the disk at every point, and a disk that fills up.

use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use myelin_disk::Disk;
use myelin_disk::faulty::{DiskFault, DiskOperation, FaultyDisk, Survival};

use super::world::{JOURNAL, World, check, id, path_of, recover, small};
use crate::Durability;
use crate::id::StreamPart;

/// Appends to many files until the journal has failed; errors of single files are passed over.
fn work(world: &mut World, files: usize, rounds: usize) {
    for stream in 0..files {
        if world.create(id(stream as u64 + 1, 1), Durability::Synced).is_err() {
            break;
        }
    }
    for round in 0..rounds {
        for index in 0..world.files.len() {
            // A file that failed refuses; that is what it must do.
            let _ = world.append(index, 200 + 37 * ((round + index) % 5));
        }
        if world.round().is_err() {
            return;
        }
    }
}

fn points(files: usize, rounds: usize) -> u64 {
    let disk = FaultyDisk::new(3);
    work(&mut World::new(disk.clone(), small(), 1).unwrap(), files, rounds);
    disk.points()
}

/// After any fault: what was reported durable is found, unless the only copy was set aside.
fn check_after(world: &World, context: &str) {
    for survival in [Survival::None, Survival::All, Survival::Random(7)] {
        let disk = world.disk.power_cycle(survival);
        disk.set_capacity(None);
        let (_, report) = recover(&disk, small()).unwrap();
        let mut twins = world.twins();
        if !report.kept.is_empty() {
            twins.retain(|(_, heard)| !heard.failed);
        }
        check(&disk, &twins, &format!("{context}, {survival:?}"));
    }
}

#[test]
fn an_error_anywhere_loses_nothing_durable() {
    for files in [1, 2, 5] {
        for point in 0..points(files, 40) {
            for fault in [DiskFault::Error(ErrorKind::Other), DiskFault::ErrorsFrom(ErrorKind::Other)] {
                let disk = FaultyDisk::new(point);
                disk.fail_at(point, fault);
                let Ok(mut world) = World::new(disk, small(), 1) else { continue };
                work(&mut world, files, 40);
                check_after(&world, &format!("{files} files, {fault:?} at {point}"));
            }
        }
    }
}

#[test]
fn a_disk_that_fills_up_anywhere_loses_nothing_durable() {
    for point in 0..points(5, 40) {
        for room in [0, 4096, 16384] {
            let disk = FaultyDisk::new(point);
            disk.fail_at(point, DiskFault::FullAfter(room));
            let Ok(mut world) = World::new(disk, small(), 1) else { continue };
            work(&mut world, 5, 40);
            check_after(&world, &format!("room for {room} from {point}"));
            assert!(world.journal.check().is_ok(), "a full disk is not fatal");
        }
    }
}

/// A disk that panics at each point while the switch is on.
fn panicking() -> (FaultyDisk, Arc<AtomicBool>) {
    let panics = Arc::new(AtomicBool::new(false));
    let armed = Arc::clone(&panics);
    (FaultyDisk::new(1).watched(Arc::new(move |_| assert!(!armed.load(Relaxed), "planned"))), panics)
}

/// Nobody else would ask for another round: nothing of the first one is dirty any more.
#[test]
fn a_round_is_due_at_once_when_one_has_panicked() {
    let (disk, panics) = panicking();
    let mut world = World::new(disk, small(), 1).unwrap();
    world.create(id(1, 1), Durability::Written).unwrap();
    world.append(0, 200).unwrap();
    panics.store(true, Relaxed);
    catch_unwind(AssertUnwindSafe(|| world.round())).unwrap_err();
    panics.store(false, Relaxed);
    assert_eq!(world.journal.next_due(world.clock.get()), Some(Duration::ZERO));
    world.round().unwrap_err();
}

/// The stream that wrote is opened anew then, and has to find them.
#[test]
fn bytes_whose_write_panicked_are_written_by_the_next_one() {
    let (disk, panics) = panicking();
    let mut world = World::new(disk, small(), 1).unwrap();
    world.create(id(1, 1), Durability::Memory).unwrap();
    world.append(0, 200).unwrap();
    let (twin, file) = &world.files[0];
    panics.store(true, Relaxed);
    catch_unwind(AssertUnwindSafe(|| file.flush())).unwrap_err();
    panics.store(false, Relaxed);
    file.flush().unwrap();
    let mut bytes = vec![0; twin.content.len()];
    file.file().read_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, twin.content);
}

/// The point of the next sync of `path`, found by a rehearsal.
fn point_of(operation: &DiskOperation, path: &Path, after: usize, rehearse: impl Fn(FaultyDisk)) -> u64 {
    let disk = FaultyDisk::new(3);
    rehearse(disk.clone());
    let steps = disk.journal();
    let found = steps.iter().filter(|step| step.path == path && step.operation == *operation).nth(after);
    found.expect("the rehearsal syncs it").point
}

#[test]
fn a_file_whose_sync_failed_is_left_alone_and_the_others_go_on() {
    let run = |disk: FaultyDisk| {
        let mut world = World::new(disk, small(), 1).unwrap();
        for stream in 1..3 {
            world.create(id(stream, 1), Durability::Synced).unwrap();
        }
        world
    };
    let path = path_of(id(1, 1));
    let point = point_of(&DiskOperation::Sync, &path, 0, |disk| drop(run(disk).round()));
    let disk = FaultyDisk::new(3);
    disk.fail_at(point, DiskFault::Error(ErrorKind::Other));
    let mut world = run(disk);
    let round = world.round().unwrap();
    assert_eq!((round.direct, round.failed), (1, 1));
    assert!(world.listener.of(id(1, 1)).failed && !world.listener.of(id(2, 1)).failed);
    assert!(world.append(0, 1).is_err());
    assert!(world.files[0].1.flush().is_err());
    assert!(world.overwrite(0, 0, 1).is_err());
    world.append(1, 1).unwrap();
    assert_eq!(world.round().unwrap().direct, 1);
    let syncs = world
        .disk
        .journal()
        .into_iter()
        .filter(|step| step.path == path && step.operation == DiskOperation::Sync);
    assert_eq!(syncs.count(), 1, "never synced again");
}

#[test]
fn a_journal_whose_sync_failed_is_not_used_again() {
    let run = |disk: FaultyDisk| {
        let mut world = World::new(disk, small(), 1).unwrap();
        for stream in 1..6 {
            world.create(id(stream, 1), Durability::Synced).unwrap();
        }
        world
    };
    let path = Path::new(JOURNAL).join("00000001.jnl");
    let point = point_of(&DiskOperation::Sync, &path, 1, |disk| drop(run(disk).round()));
    let disk = FaultyDisk::new(3);
    disk.fail_at(point, DiskFault::Error(ErrorKind::Other));
    let mut world = run(disk);
    assert!(world.round().is_err());
    let points = world.disk.points();
    assert!(world.append(0, 1).is_err());
    assert!(world.round().is_err());
    assert!(world.journal.note_dropped(crate::StreamId(1)).is_err());
    assert_eq!(world.disk.points(), points, "nothing was tried again");
    for stream in 1..6 {
        let heard = world.listener.of(id(stream, 1));
        assert!(heard.failed && heard.durable == 0);
    }
}

#[test]
fn a_full_disk_makes_the_round_sync_files_and_passes_by() {
    let mut world = World::new(FaultyDisk::new(1), small(), 1).unwrap();
    for stream in 1..6 {
        world.create(id(stream, 1), Durability::Synced).unwrap();
        world.files.last().unwrap().1.reserve(400_000).unwrap();
    }
    world.round().unwrap();
    // Room for nothing but what was reserved.
    world.disk.set_capacity(Some(world.disk.used()));
    let mut direct = 0;
    for _ in 0..40 {
        for index in 0..5 {
            world.append(index, 1000).unwrap();
        }
        direct += world.round().unwrap().direct;
    }
    assert!(direct > 0 && world.journal.statistics(0).full_rounds > 0);
    world.overwrite(0, 10, 10).unwrap();
    check_after(&world, "while it is full");
    world.disk.set_capacity(None);
    world.append(0, 10).unwrap();
    world.round().unwrap();
    world.note_overwrites();
    assert!(world.files[0].0.unsure.is_empty(), "the overwrite waited for room");
    check_after(&world, "after it was full");
}

/// A disk on which not a page is free, behind a journal of several files or of one.
#[test]
fn a_start_without_a_free_page_takes_one_of_the_journal() {
    for rounds in [1, 3, 30] {
        let mut world = World::new(FaultyDisk::new(1), small(), 1).unwrap();
        for stream in 1..6 {
            world.create(id(stream, 1), Durability::Synced).unwrap();
            world.files.last().unwrap().1.reserve(400_000).unwrap();
        }
        for _ in 0..rounds {
            (0..5).for_each(|index| world.append(index, 900).unwrap());
            world.round().unwrap();
        }
        // The files have room for what the journal holds of them.
        world.files.iter().for_each(|(_, file)| file.flush().unwrap());
        let full = |disk: FaultyDisk| {
            disk.set_capacity(Some(disk.used()));
            disk
        };
        let mut disk = world.disk.kill();
        for start in 1..=3 {
            disk = full(disk);
            let (journal, report) = recover(&disk, small()).unwrap();
            assert_eq!((report.problems, report.kept), (vec![], vec![]), "{rounds}, start {start}");
            check(&disk, &world.twins(), &format!("{rounds}, start {start}"));
            drop(journal);
            disk = disk.kill();
        }
        let whole = full(world.disk.kill());
        recover(&whole, small()).unwrap();
        for point in 0..whole.points() {
            let disk = full(world.disk.kill());
            disk.fail_at(point, DiskFault::Crash);
            let _ = recover(&disk, small());
            for survival in [Survival::None, Survival::All, Survival::Random(point)] {
                let disk = disk.power_cycle(survival);
                recover(&disk, small()).unwrap();
                check(&disk, &world.twins(), &format!("{rounds}, point {point}, {survival:?}"));
            }
        }
    }
}

/// Messages that were promised must not be missing from streams that are served, because their
/// files could not take them for lack of room.
#[test]
fn a_replay_that_has_no_room_in_the_files_is_no_start() {
    let mut world = World::new(FaultyDisk::new(1), small(), 1).unwrap();
    for stream in 1..6 {
        world.create(id(stream, 1), Durability::Synced).unwrap();
    }
    for _ in 0..10 {
        (0..5).for_each(|index| world.append(index, 900).unwrap());
        world.round().unwrap();
    }
    let disk = world.disk.kill();
    disk.set_capacity(Some(disk.used()));
    let error = recover(&disk, small()).map(|(_, report)| report).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    disk.set_capacity(None);
    let (_, report) = recover(&disk, small()).unwrap();
    assert_eq!((report.problems, report.kept), (vec![], vec![]));
    check(&disk, &world.twins(), "with room");
}

/// Runs the rounds that are due in `span` nanoseconds, and says how many these were.
fn rounds_in(world: &World, span: u64) -> usize {
    let end = world.clock.get() + span;
    let mut rounds = 0;
    while world.clock.get() < end && rounds < 10_000 {
        match world.journal.next_due(world.clock.get()) {
            Some(due) if due.is_zero() => {
                world.journal.round(&|| world.now()).unwrap();
                rounds += 1;
            }
            Some(due) => world.clock.set(world.clock.get() + due.as_nanos() as u64),
            None => break,
        }
    }
    rounds
}

#[test]
fn overwrites_that_wait_for_room_are_tried_less_and_less_and_told() {
    const SECOND: u64 = 1_000_000_000;
    for durability in [Durability::Synced, Durability::Written] {
        let mut world = World::new(FaultyDisk::new(1), small(), 1).unwrap();
        for stream in 1..6 {
            world.create(id(stream, 1), durability).unwrap();
            world.append(world.files.len() - 1, 400).unwrap();
            world.files.last().unwrap().1.reserve(400_000).unwrap();
        }
        world.round().unwrap();
        world.disk.set_capacity(Some(world.disk.used()));
        while world.journal.statistics(0).full_rounds == 0 {
            (0..5).for_each(|index| world.append(index, 900).unwrap());
            world.round().unwrap();
        }
        assert_eq!(world.journal.waiting(world.now()), None);
        world.overwrite(0, 10, 10).unwrap();
        let rounds = rounds_in(&world, SECOND);
        assert!((2..20).contains(&rounds), "{durability:?}: {rounds} in the first second");
        let rounds = rounds_in(&world, 100 * SECOND);
        assert!((5..30).contains(&rounds), "{durability:?}: {rounds} in the next hundred");
        let waiting = world.journal.waiting(world.now()).unwrap();
        assert!(waiting.overwritten == 1 && !waiting.is_carrying && waiting.age > 90 * SECOND);
        // An append is not to wait with it.
        world.append(0, 10).unwrap();
        assert!((1..10).contains(&rounds_in(&world, SECOND / 10)));
        assert_eq!(world.files[0].1.durable(), world.files[0].1.end());
        check_after(&world, "while it is full");
        world.disk.set_capacity(None);
        rounds_in(&world, 11 * SECOND);
        assert_eq!(world.journal.waiting(world.now()), None);
        world.note_overwrites();
        assert!(world.files[0].0.unsure.is_empty(), "the overwrite had room");
        check_after(&world, "after it was full");
    }
}

#[test]
fn what_cannot_be_carried_is_tried_less_and_less_and_told() {
    let mut world = World::new(FaultyDisk::new(1), small(), 1).unwrap();
    for stream in 1..6 {
        world.create(id(stream, 1), Durability::Synced).unwrap();
        world.files.last().unwrap().1.reserve(400_000).unwrap();
    }
    // So much of one file that it needs a file of the journal for itself.
    for _ in 0..3 {
        world.append(0, 5500).unwrap();
        (1..5).for_each(|index| world.append(index, 100).unwrap());
        world.round().unwrap();
    }
    world.files[0].1.lose(&crate::WriteFailed::new(Path::new("x"), &io::Error::other("planned")));
    (1..5).for_each(|index| world.append(index, 100).unwrap());
    world.round().unwrap();
    world.disk.set_capacity(Some(world.disk.used()));
    for _ in 0..200 {
        (1..5).for_each(|index| world.append(index, 300).unwrap());
        world.round().unwrap();
    }
    let refused = world.journal.statistics(0).carries_refused;
    assert!((1..5).contains(&refused), "{refused} times in less than 10 ms");
    let waiting = world.journal.waiting(world.now()).unwrap();
    assert!(waiting.is_carrying && waiting.overwritten == 0);
    check_after(&world, "while it is full");
    world.disk.set_capacity(None);
    world.clock.set(world.clock.get() + 10_000_000_000);
    for _ in 0..40 {
        (1..5).for_each(|index| world.append(index, 900).unwrap());
        world.round().unwrap();
    }
    assert!(world.journal.statistics(0).carried_bytes > 0);
    assert_eq!(world.journal.waiting(world.now()), None);
    check_after(&world, "after it was full");
}

/// Five streams with something in the journal, and one of them lost.
fn one_lost(disk: FaultyDisk) -> World {
    let mut world = World::new(disk, small(), 1).unwrap();
    for stream in 1..6 {
        world.create(id(stream, 1), Durability::Synced).unwrap();
    }
    world.round().unwrap();
    world.files[0].1.lose(&crate::WriteFailed::new(Path::new("x"), &io::Error::other("planned")));
    world
}

#[test]
fn what_only_the_journal_has_of_a_failed_file_is_carried_on_and_replayed() {
    let mut world = one_lost(FaultyDisk::new(1));
    for _ in 0..200 {
        for index in 1..5 {
            world.append(index, 900).unwrap();
        }
        world.round().unwrap();
        check_after(&world, "while it is carried");
    }
    let carried = world.journal.statistics(0).carried_bytes;
    assert!((2 * 4096..100 * 4096).contains(&carried), "{carried}");
    assert!(world.disk.list(Path::new(JOURNAL)).unwrap().len() <= 5, "the journal does not grow for it");
    world.journal.close(&|| 0).unwrap();
    check_after(&world, "after it was closed");
    let (_, report) = recover(&world.disk.power_cycle(Survival::None), small()).unwrap();
    assert_eq!((report.problems.len(), report.kept.len()), (0, 0));
}

#[test]
fn a_failed_file_that_is_left_gets_what_only_the_journal_has() {
    let world = one_lost(FaultyDisk::new(1));
    let stream = id(1, 1).stream;
    assert_eq!(holders(&world, stream), 1);
    world.journal.leave(stream, StreamPart::Messages, Vec::new()).unwrap();
    world.journal.close(&|| 0).unwrap();
    assert_eq!(holders(&world, stream), 0);
    check_after(&world, "after it was left");
}

#[test]
fn a_journal_that_was_closed_with_a_lost_file_still_knows_whose_bytes_it_takes() {
    let mut world = one_lost(FaultyDisk::new(1));
    let stream = id(2, 1).stream;
    world.journal.close(&|| 0).unwrap();
    assert_eq!(holders(&world, stream), 0, "it was synced");
    for index in 1..5 {
        world.append(index, 900).unwrap();
    }
    world.round().unwrap();
    assert_eq!(holders(&world, stream), 1, "the journal has bytes of it again");
    for _ in 0..200 {
        // Now another one is written only.
        for index in 2..5 {
            world.append(index, 900).unwrap();
        }
        world.round().unwrap();
    }
    check_after(&world, "after the journal came round");
}

#[test]
fn a_failed_file_that_was_left_is_carried_no_further() {
    let mut world = one_lost(FaultyDisk::new(1));
    // So that the journal knows it as lost already.
    world.journal.close(&|| 0).unwrap();
    world.journal.leave(id(1, 1).stream, StreamPart::Messages, Vec::new()).unwrap();
    for _ in 0..200 {
        for index in 1..5 {
            world.append(index, 900).unwrap();
        }
        world.round().unwrap();
    }
    assert_eq!(world.journal.statistics(0).carried_bytes, 0);
    world.journal.close(&|| 0).unwrap();
    assert_eq!(holders(&world, id(1, 1).stream), 0);
    check_after(&world, "after it was left");
}

fn holders(world: &World, stream: crate::StreamId) -> usize {
    let guard = world.journal.lock().unwrap();
    guard.as_ref().map_or(0, |files| files.holders_of(stream).count())
}
