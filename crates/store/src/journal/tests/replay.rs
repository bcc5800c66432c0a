//! Replays: damage is reported, what nobody knows is kept, and the same journal gives the same
//! files.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use myelin_disk::Disk;
use myelin_disk::faulty::{DiskFault, FaultyDisk, Survival};

use super::super::{Journal, JournalConfig, Problem, Resolution};
use super::world::{JOURNAL, World, check, id, path_of, recover, small};
use crate::{Durability, StreamId};

fn config() -> JournalConfig {
    JournalConfig { direct_files_max: 0, ..small() }
}

/// Files whose bytes only the journal has, in `rounds` rounds of a page each.
fn journaled(rounds: usize) -> World {
    journaled_on(FaultyDisk::new(1), rounds)
}

fn journaled_on(disk: FaultyDisk, rounds: usize) -> World {
    let mut world = World::new(disk, config(), 1).unwrap();
    for stream in 1..4 {
        world.create(id(stream, 1), Durability::Synced).unwrap();
    }
    for _ in 0..rounds {
        for index in 0..3 {
            world.append(index, 200).unwrap();
        }
        world.round().unwrap();
    }
    world
}

fn journal_file(number: u64) -> PathBuf {
    Path::new(JOURNAL).join(format!("{number:08}.jnl"))
}

#[test]
fn everything_comes_back() {
    let world = journaled(4);
    let disk = world.disk.power_cycle(Survival::None);
    let (_, report) = recover(&disk, config()).unwrap();
    // The first round is the empty one that began the file.
    assert_eq!((report.rounds, report.files, report.bytes), (5, 3, 3 * 808));
    check(&disk, &world.twins(), "replayed");
    let (_, report) = recover(&disk, config()).unwrap();
    assert_eq!((report.rounds, report.bytes), (1, 0));
}

#[test]
fn a_torn_end_is_cut() {
    let world = journaled(3);
    let disk = world.disk.power_cycle(Survival::All);
    disk.flip_bit(&journal_file(1), 4096 * 3 + 100, 3).unwrap();
    let (_, report) = recover(&disk, config()).unwrap();
    assert_eq!((report.rounds, report.problems.len(), report.kept.len()), (3, 0, 0));
}

#[test]
fn damage_in_the_middle_is_reported_and_the_rest_applied() {
    for place in [0, 13, 60, 90, 200] {
        let world = journaled(3);
        let disk = world.disk.power_cycle(Survival::None);
        for bit in [3, 5] {
            disk.flip_bit(&journal_file(1), 4096 * 2 + place, bit).unwrap();
        }
        let (_, report) = recover(&disk, config()).unwrap();
        let problem = Problem::MissingRounds { file: journal_file(1), after: 2, before: 4 };
        assert_eq!(report.problems, [problem]);
        assert_eq!(report.kept, [Path::new(JOURNAL).join("kept-00000001.jnl")]);
        assert_eq!(disk.read_all(&path_of(id(1, 1))).unwrap()[408..], world.files[0].0.content[408..]);
        let (_, report) = recover(&disk, config()).unwrap();
        assert_eq!((report.problems.len(), report.kept.len()), (0, 1));
    }
}

#[test]
fn one_bit_in_a_header_costs_nothing() {
    for place in 0..80 {
        let world = journaled(3);
        let disk = world.disk.power_cycle(Survival::None);
        let at = 4096 * 2 + place;
        disk.flip_bit(&journal_file(1), at, (place % 8) as u8).unwrap();
        let (_, report) = recover(&disk, config()).unwrap();
        assert_eq!((report.rounds, report.problems.len(), report.kept.len()), (4, 0, 0), "byte {place}");
        assert_eq!(report.corrected, [(journal_file(1), at * 8 + place % 8)]);
        check(&disk, &world.twins(), "corrected");
    }
}

/// The write that failed may have done all of its sectors, and the next round may be too long for
/// the place.
#[test]
fn a_round_that_was_given_up_and_is_there_is_no_damage() {
    let mut whole = 0;
    for seed in 0..20 {
        let mut world = journaled_on(FaultyDisk::new(seed), 4);
        world.append(0, 50).unwrap();
        world.disk.fail_at(world.disk.points(), DiskFault::Error(ErrorKind::StorageFull));
        assert_eq!(world.round().unwrap().direct, 1);
        (0..3).for_each(|index| world.append(index, 2000).unwrap());
        assert_eq!(world.round().unwrap().journaled, 3);
        let disk = world.disk.kill();
        let (_, report) = recover(&disk, config()).unwrap();
        assert_eq!((report.problems, report.kept), (vec![], vec![]), "seed {seed}");
        check(&disk, &world.twins(), "replayed");
        // The empty one, four, and the last.
        whole += report.rounds - 6;
    }
    assert!(whole > 0, "no write that failed was whole");
}

#[test]
fn a_missing_beginning_is_reported() {
    let world = journaled(3);
    let disk = world.disk.power_cycle(Survival::None);
    disk.zero(&journal_file(1), 0..4096).unwrap();
    let (_, report) = recover(&disk, config()).unwrap();
    assert_eq!(report.problems, [Problem::MissingStart { needed: 1 }]);
    assert_eq!(report.kept.len(), 1);
}

#[test]
fn another_stores_journal_is_set_aside() {
    let world = journaled(3);
    let disk = world.disk.power_cycle(Survival::None);
    let other = JournalConfig { store_id: 78, ..config() };
    let (_, report) = recover(&disk, other).unwrap();
    assert_eq!(report.problems, [Problem::Foreign { file: journal_file(1) }]);
    assert_eq!((report.bytes, report.kept.len()), (0, 1));
}

#[test]
fn a_newer_version_is_refused() {
    let world = journaled(1);
    let disk = world.disk.power_cycle(Survival::None);
    let file = disk.open(&journal_file(1)).unwrap();
    let mut page = [0; 80];
    file.read_at(&mut page, 0).unwrap();
    page[8] = 2;
    let seed: Vec<u8> = [77_u64, 1, 0].into_iter().flat_map(u64::to_le_bytes).collect();
    let crc = crc32c::crc32c_append(crc32c::crc32c(&seed), &page[..76]);
    page[76..].copy_from_slice(&crc.to_le_bytes());
    file.write_at(&page, 0).unwrap();
    assert_eq!(recover(&disk, config()).err().unwrap().kind(), std::io::ErrorKind::Unsupported);
    assert_eq!(disk.files().into_keys().collect::<Vec<_>>(), [journal_file(1)], "nothing was touched");
}

#[test]
fn what_nobody_knows_is_reported_and_kept() {
    let world = journaled(2);
    let disk = world.disk.power_cycle(Survival::None);
    let (_, mut replay) = Journal::open(Arc::new(disk.clone()), Path::new(JOURNAL), config()).unwrap();
    let report = replay.run(&mut |_| Ok(Resolution::Unknown)).unwrap();
    assert_eq!(report.problems.len(), 3);
    let problem = Problem::UnknownTarget { file: id(1, 1), generation: 1, bytes: 408 };
    assert_eq!((&report.problems[0], report.kept.len()), (&problem, 1));
    assert_eq!(replay.run(&mut |_| panic!("there is nothing left")).unwrap().rounds, 0);
}

#[test]
fn a_stream_deleted_on_purpose_is_not_asked_for() {
    let mut world = journaled(2);
    world.drop_stream(StreamId(2)).unwrap();
    let disk = world.disk.power_cycle(Survival::None);
    let (_, report) = recover(&disk, config()).unwrap();
    assert_eq!((report.problems.len(), report.skipped, report.files), (0, 408, 2));
    assert!(!disk.files().contains_key(&path_of(id(2, 1))));
}

#[test]
fn a_stream_that_the_journal_does_not_hold_costs_no_note() {
    let world = journaled(1);
    let points = world.disk.points();
    world.journal.note_dropped(StreamId(99)).unwrap();
    assert_eq!(world.disk.points(), points);
}

#[test]
fn a_rewritten_file_is_left_alone() {
    let mut world = journaled(2);
    world.files[1].1.close().unwrap();
    world.round().unwrap();
    world.rewrite(1).unwrap();
    let disk = world.disk.power_cycle(Survival::None);
    let (_, report) = recover(&disk, config()).unwrap();
    assert_eq!((report.problems.len(), report.skipped, report.files), (0, 408, 2));
    check(&disk, &world.twins(), "rewritten");
}

#[test]
fn names_that_are_not_ours_stay() {
    let world = journaled(1);
    world.disk.create(&Path::new(JOURNAL).join("notes.txt")).unwrap();
    world.disk.make_directory(&Path::new(JOURNAL).join("00000009.jnl")).unwrap();
    let (_, report) = recover(&world.disk, config()).unwrap();
    assert_eq!(report.unknown.len(), 2);
    assert!(world.disk.files().contains_key(&Path::new(JOURNAL).join("notes.txt")));
}

#[test]
fn before_the_replay_there_are_no_rounds() {
    let disk = FaultyDisk::new(1);
    let (journal, mut replay) = Journal::open(Arc::new(disk), Path::new(JOURNAL), config()).unwrap();
    assert!(journal.round(&|| 0).is_err());
    assert_eq!(replay.run(&mut |_| Ok(Resolution::Unknown)).unwrap().rounds, 0);
    assert!(journal.round(&|| 0).is_ok());
}

#[test]
fn a_round_of_several_parts_counts_only_as_a_whole() {
    // Parts of up to 24 KiB: two of them for these bytes, the second in the next file.
    let big = JournalConfig { direct_bytes_per_file: u64::MAX, ..config() };
    let mut world = World::new(FaultyDisk::new(1), big, 1).unwrap();
    for stream in 1..4 {
        world.create(id(stream, 1), Durability::Synced).unwrap();
        world.append(stream as usize - 1, 12_000).unwrap();
    }
    world.round().unwrap();
    let whole = world.disk.power_cycle(Survival::None);
    let torn = world.disk.power_cycle(Survival::None);
    torn.flip_bit(&journal_file(2), 100, 1).unwrap();
    let (_, report) = recover(&torn, big).unwrap();
    assert_eq!(
        (report.rounds, report.bytes, report.problems.len()),
        (1, 0, 0),
        "the first part is not applied"
    );
    let (_, report) = recover(&whole, big).unwrap();
    assert_eq!((report.rounds, report.bytes), (2, 3 * 12_008));
    check(&whole, &world.twins(), "whole");
}
