//! The file of hard states.

use std::path::Path;
use std::sync::Arc;

use myelin_disk::faulty::{FaultyDisk, Survival};
use myelin_replica::hard_state::{HardState, OF_STORE, RECORD_BYTES};
use myelin_replica::{GroupId, Peer, Vote};
use myelin_store::entropy::SeededEntropy;
use myelin_store::{Store, StoreOptions};

use crate::group::{DamagedVotes, GroupVotes};

/// The run of the machine.
const BOOT: u64 = 5;

fn open(disk: &FaultyDisk) -> (Store, GroupVotes, Option<DamagedVotes>) {
    let options =
        StoreOptions { journal_file_bytes: 1 << 20, headroom_bytes: 1 << 20, ..StoreOptions::new("/store") };
    let entropy = Arc::new(SeededEntropy::new(1));
    let (store, report) = Store::open(Arc::new(disk.clone()), options, entropy).unwrap();
    assert_eq!(report.notices, [], "the file is known");
    let (votes, damaged) = GroupVotes::open(&store, Some(BOOT)).unwrap();
    (store, votes, damaged)
}

fn voted(term: u64) -> HardState {
    let vote = Vote { term, voted_for: Peer::from_number(term % 3 + 1) };
    HardState { vote, ..HardState::default() }
}

#[test]
fn votes_outlive_a_loss_of_power_and_the_file_stays_short() {
    let mut disk = FaultyDisk::new(1);
    for life in 0..4 {
        let (_store, mut votes, _) = open(&disk);
        for group in 0..10 {
            let before = (life > 0).then(|| voted(life * 1000 + group));
            assert_eq!(votes.get(GroupId(group)), before, "group {group} in life {life}");
        }
        for term in 0..=900 {
            let state = |group| (GroupId(group), voted(life * 1000 + term + group + 100));
            let states: Vec<_> = (0..10).map(state).collect();
            votes.set(&states).unwrap();
        }
        drop(votes);
        disk = disk.power_cycle(Survival::None);
        let bytes = disk.read_all(Path::new("/store/hard")).unwrap().len();
        assert!(bytes < 1200 * RECORD_BYTES, "{bytes} bytes for 10 groups");
    }
}

/// A torn end is no damage; a record that is damaged in front of others is.
#[test]
fn groups_whose_votes_are_damaged_are_amnesiac() {
    let disk = FaultyDisk::new(1);
    let (store, mut votes, _) = open(&disk);
    for term in 1..=3 {
        votes.set(&[(GroupId(1), voted(term))]).unwrap();
    }
    votes.set(&[(GroupId(2), voted(4))]).unwrap();
    drop((votes, store));
    let path = Path::new("/store/hard");
    let torn = disk.kill();
    torn.truncate(path, 2 * RECORD_BYTES as u64 + 7).unwrap();
    let (store, mut votes, damaged) = open(&torn);
    assert_eq!((votes.get(GroupId(1)), damaged), (Some(voted(2)), None));
    votes.set(&[(GroupId(1), voted(9))]).unwrap();
    drop((votes, store));
    assert_eq!(open(&torn.kill()).1.get(GroupId(1)), Some(voted(9)));
    let flipped = disk.kill();
    flipped.flip_bit(path, 2 * RECORD_BYTES as u64 + 30, 1).unwrap();
    let before = flipped.read_all(path).unwrap();
    let amnesiac = |term| Some(HardState { is_amnesiac: true, is_damaged: true, ..voted(term) });
    let (store, votes, damaged) = open(&flipped);
    let DamagedVotes { at, kept } = damaged.expect("a vote is lost");
    assert_eq!((at, flipped.read_all(&kept).unwrap()), (2 * RECORD_BYTES, before));
    assert_eq!([1, 2].map(|group| votes.get(GroupId(group))), [amnesiac(2), amnesiac(4)]);
    drop((votes, store));
    let (_store, votes, damaged) = open(&flipped.kill());
    assert_eq!(damaged, None, "it is whole again");
    assert_eq!([1, 2].map(|group| votes.get(GroupId(group))), [amnesiac(2), amnesiac(4)]);
}

/// A killed process leaves what it has written: an end that is not whole was so once.
#[test]
fn an_end_that_is_not_whole_is_damage_unless_power_took_it() {
    for (boot, is_damaged) in [(BOOT, true), (BOOT + 1, false)] {
        for is_cut in [false, true] {
            let disk = FaultyDisk::new(1);
            let (store, mut votes, _) = open(&disk);
            votes.set(&[(OF_STORE, HardState { membership: boot, ..HardState::default() })]).unwrap();
            votes.set(&[(GroupId(1), voted(6))]).unwrap();
            votes.set(&[(GroupId(1), voted(7))]).unwrap();
            drop((votes, store));
            let (disk, path) = (disk.kill(), Path::new("/store/hard"));
            let end = disk.read_all(path).unwrap().len() as u64;
            let damaged =
                if is_cut { disk.truncate(path, end - 7) } else { disk.flip_bit(path, end - 30, 1) };
            damaged.unwrap();
            let (_store, votes, damaged) = open(&disk);
            assert_eq!(damaged.is_some(), is_damaged, "{is_cut}");
            let (is_amnesiac, before) = (is_damaged, voted(6));
            let expected = HardState { is_amnesiac, is_damaged, ..before };
            assert_eq!(votes.get(GroupId(1)), Some(expected), "{is_cut}");
        }
    }
}
