//! Statements of the register after damage and after syncs that fail; crashes are tried in
//! `tests/store/crash/register.rs`.

use myelin_disk::faulty::{DiskFault, FaultyDisk, Survival};

use super::*;
use crate::entropy::SeededEntropy;

const STORE: u64 = 9;

fn root() -> &'static Path {
    Path::new("/store")
}

fn meta(id: u64) -> Meta {
    Meta {
        stream: StreamId(id),
        created: 5,
        account: "A".into(),
        name: format!("S{id}"),
        config: vec![id as u8; 40],
        sealed_keys: Vec::new(),
        generation: 1,
    }
}

fn contents(disk: &FaultyDisk) -> RegisterContents {
    let is_announced = Marker::read(disk, root(), MARKER).unwrap().has_register;
    read(disk, root(), STORE, is_announced).unwrap()
}

fn open(disk: &FaultyDisk) -> Register {
    let contents = contents(disk);
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Register::resume(&disk, root(), STORE, &contents, contents.is_there)
}

fn entropy() -> SeededEntropy {
    SeededEntropy::new(3)
}

/// A store with a marker and these streams.
fn filled(ids: std::ops::RangeInclusive<u64>) -> FaultyDisk {
    let disk = FaultyDisk::new(1);
    disk.make_directory(&root().join("streams")).unwrap();
    disk.sync_directory(Path::new("/")).unwrap();
    for name in [MARKER, MARKER_COPY] {
        Marker { id: [7; 16], has_register: false }.write(&disk, root(), name).unwrap();
    }
    let register = open(&disk);
    for id in ids {
        register.state_stream(&meta(id), &entropy()).unwrap();
    }
    disk
}

fn ids(disk: &FaultyDisk) -> Vec<u64> {
    let mut ids: Vec<u64> = contents(disk).ids().map(|id| id.0).collect();
    ids.sort_unstable();
    ids
}

fn flip(disk: &FaultyDisk, name: &str, from: u64, bytes: u64) {
    let file = disk.open(&root().join(name)).unwrap();
    let mut piece = vec![0; bytes as usize];
    file.read_at(&mut piece, from).unwrap();
    piece.iter_mut().for_each(|byte| *byte ^= 0x55);
    file.write_at(&piece, from).unwrap();
}

#[test]
fn what_is_stated_survives_a_loss_of_power_with_one_sync_each() {
    let disk = filled(1..=1);
    let register = open(&disk);
    register.state_stream(&meta(2), &entropy()).unwrap();
    let before = disk.journal().len();
    for id in 3..=6 {
        register.state_stream(&meta(id), &entropy()).unwrap();
    }
    let syncs = disk.journal()[before..]
        .iter()
        .filter(|step| matches!(step.operation, myelin_disk::faulty::DiskOperation::Sync))
        .count();
    assert_eq!(syncs, 4);
    assert_eq!(ids(&disk.power_cycle(Survival::None)), [1, 2, 3, 4, 5, 6]);
    register.state_removed(StreamId(3), &entropy(), &headroom(&disk)).unwrap();
    let found = contents(&disk.power_cycle(Survival::None));
    assert!(found.removed.contains(&StreamId(3)) && !found.streams.contains_key(&StreamId(3)));
    assert!(found.healed.is_empty() && found.lost.is_empty(), "{found:?}");
}

fn headroom(disk: &FaultyDisk) -> Headroom {
    Headroom::open(Arc::new(disk.clone()), Path::new("/headroom"), 0..=0).unwrap()
}

#[test]
fn one_copy_makes_up_for_the_other() {
    for (damaged, whole) in [(NAMES[0], NAMES[1]), (NAMES[1], NAMES[0])] {
        let disk = filled(1..=4);
        flip(&disk, damaged, 200, 30);
        assert_eq!(ids(&disk), [1, 2, 3, 4]);
        let found = contents(&disk);
        assert_eq!((found.healed.len(), found.lost.len()), (1, 0), "{found:?}");
        flip(&disk, damaged, 0, 4);
        assert_eq!(ids(&disk), [1, 2, 3, 4]);
        disk.remove_file(&root().join(damaged)).unwrap();
        assert_eq!((ids(&disk), contents(&disk).healed.len()), (vec![1, 2, 3, 4], 1));
        disk.remove_file(&root().join(whole)).unwrap();
        let found = contents(&disk);
        assert_eq!((found.ids().count(), found.lost.len()), (0, 1), "{found:?}");
    }
}

#[test]
fn entries_that_neither_has_are_missed() {
    let disk = filled(1..=4);
    for name in NAMES {
        flip(&disk, name, 200, 30);
    }
    let found = contents(&disk);
    assert_eq!((found.ids().count(), found.lost.len()), (3, 1), "{found:?}");
}

#[test]
fn of_a_sync_that_fails_nothing_counts() {
    let disk = filled(1..=2);
    let register = open(&disk);
    register.state_stream(&meta(3), &entropy()).unwrap();
    // Behind the two steps for room, which are tried twice: both files, then the sync of the first.
    for ahead in 2..5 {
        disk.fail_at(disk.points() + ahead, DiskFault::Error(io::ErrorKind::Other));
        register.state_stream(&meta(4), &entropy()).unwrap_err();
        assert_eq!(register.meta(StreamId(4)), None);
        assert_eq!(ids(&disk.power_cycle(Survival::All)), [1, 2, 3]);
        assert_eq!(ids(&disk.power_cycle(Survival::None)), [1, 2, 3]);
    }
    register.state_stream(&meta(5), &entropy()).unwrap();
    assert_eq!(ids(&disk.power_cycle(Survival::None)), [1, 2, 3, 5]);
}

#[test]
fn what_is_noted_shares_a_sync() {
    let disk = filled(1..=1);
    let register = open(&disk);
    register.state_stream(&meta(2), &entropy()).unwrap();
    for id in 3..=60 {
        register.note_stream(&meta(id), &entropy()).unwrap();
    }
    assert_eq!(ids(&disk.power_cycle(Survival::None)), [1, 2]);
    let headroom = headroom(&disk);
    let before = disk.points();
    register.complete(&entropy(), &headroom).unwrap();
    assert_eq!(disk.points() - before, 1);
    assert_eq!(ids(&disk.power_cycle(Survival::None)).len(), 60);
    // A sync that fails: all of it is written anew.
    register.note_stream(&meta(61), &entropy()).unwrap();
    disk.fail_at(disk.points(), DiskFault::Error(io::ErrorKind::Other));
    register.complete(&entropy(), &headroom).unwrap();
    assert_eq!(ids(&disk.power_cycle(Survival::None)).len(), 61);
}

/// On a full disk a stream is refused, and those that were noted before it are made durable
/// nevertheless: the server ends where that cannot be.
#[test]
fn what_was_noted_is_made_durable_though_the_disk_is_full() {
    for fails in [false, true] {
        let disk = filled(1..=1);
        let register = open(&disk);
        let headroom =
            Headroom::open(Arc::new(disk.clone()), Path::new("/headroom"), 65_536..=65_536).unwrap();
        register.state_stream(&meta(2), &entropy()).unwrap();
        register.note_stream(&meta(3), &entropy()).unwrap();
        disk.set_capacity(Some(disk.used()));
        let large = Meta { config: vec![1; 100 << 10], ..meta(4) };
        let refused = register.note_stream(&large, &entropy()).unwrap_err();
        assert!(myelin_disk::is_full(&refused), "{refused}");
        if fails {
            // Then all of it is written anew, with the space that is kept for this.
            disk.fail_at(disk.points(), DiskFault::Error(io::ErrorKind::Other));
        }
        register.complete(&entropy(), &headroom).unwrap();
        assert_eq!(headroom.is_held(), !fails);
        assert_eq!(ids(&disk.power_cycle(Survival::None)), [1, 2, 3]);
    }
}

/// Else a stream that was made just before would never get files.
#[test]
fn a_register_that_could_not_be_written_is_written_anew_for_who_counts_on_it() {
    let mut tried = 0;
    for ahead in 0..4 {
        let disk = filled(1..=1);
        let register = open(&disk);
        register.note_stream(&meta(2), &entropy()).unwrap();
        disk.fail_at(disk.points() + ahead, DiskFault::ErrorsFrom(io::ErrorKind::Other));
        let noted = register.note_stream(&meta(3), &entropy());
        if noted.is_ok() || register.state().files.is_some() {
            // There was no write among what failed.
            continue;
        }
        tried += 1;
        register.renew_for(StreamId(2), &entropy()).unwrap_err();
        disk.heal();
        register.make_files(StreamId(2)).unwrap_err();
        register.renew_for(StreamId(2), &entropy()).unwrap();
        register.make_files(StreamId(2)).unwrap();
        assert_eq!(ids(&disk.power_cycle(Survival::None)), [1, 2]);
    }
    assert!(tried > 0, "no point was a write of the entry");
}

#[test]
fn what_says_nothing_any_more_goes() {
    let disk = filled(1..=1);
    let register = open(&disk);
    let large = |generation| Meta { config: vec![1; 100 << 10], generation, ..meta(1) };
    for generation in 2..=60 {
        register.state_stream(&large(generation), &entropy()).unwrap();
    }
    let length = disk.open(&root().join(NAMES[0])).unwrap().len().unwrap();
    assert!(length < 4 << 20, "{length}");
    assert_eq!(contents(&disk.power_cycle(Survival::None)).streams.len(), 1);
    assert_eq!(open(&disk).meta(StreamId(1)), Some(large(60)));
}

/// Files that were not renamed durably make nothing durable, and nothing more is written to those
/// before them.
#[test]
fn what_was_written_anew_by_half_is_not_durable() {
    for ahead in 0..40 {
        let disk = filled(1..=1);
        let register = open(&disk);
        register.state_stream(&meta(2), &entropy()).unwrap();
        register.note_stream(&meta(3), &entropy()).unwrap();
        let written = register.streams().there[&StreamId(3)].noted.unwrap();
        disk.fail_at(disk.points() + ahead, DiskFault::Error(io::ErrorKind::Other));
        if register.write_anew(&mut register.state(), &entropy()).is_ok() {
            assert!(ahead > 8, "{ahead}");
            return;
        }
        if register.sync(written).is_ok() {
            assert_eq!(ids(&disk.power_cycle(Survival::None)), [1, 2, 3], "{ahead}");
        }
        // What comes next goes to the files that have the names.
        let next = Meta { config: vec![9; 40], generation: 2, ..meta(3) };
        register.state_stream(&next, &entropy()).unwrap();
        let found = open(&disk.power_cycle(Survival::None));
        assert_eq!(found.meta(StreamId(3)), Some(next), "{ahead}");
    }
    panic!("it is written in fewer steps");
}

#[test]
fn nobody_finds_files_before_what_goes_with_them_is_done() {
    let disk = filled(1..=1);
    let register = open(&disk);
    let mut was_without = Vec::new();
    for _ in 0..2 {
        register
            .make_files_and(StreamId(1), || was_without.push(register.is_without_files(StreamId(1))))
            .unwrap();
    }
    assert_eq!((was_without, register.is_without_files(StreamId(1))), (vec![true], false));
}
