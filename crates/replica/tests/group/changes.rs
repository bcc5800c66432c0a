//! Members come and go.

use crate::network::{Disk, MEMBERS, Network, peer};
use myelin_replica::{Members, Peer, RaftRole};
use myelin_stdx::rng::Rng;

fn peers(numbers: &[usize]) -> Vec<Peer> {
    numbers.iter().map(|&number| peer(number)).collect()
}

fn led(size: usize, others: usize) -> Network {
    let mut network = Network::with_others(size, others, 3);
    network.until(60, "a leader", |network| {
        network.leader().is_some_and(|leader| network.consensus(leader).can_propose())
    });
    network
}

fn change_to(network: &mut Network, wanted: &[Peer]) {
    network.until(400, "the change", |network| network.change(wanted));
}

fn store(network: &mut Network, members: &[usize]) {
    let mut last = None;
    network.until(100, "a proposal", |network| {
        last = last.or_else(|| network.leader().and_then(|leader| network.propose(leader, b"entry")));
        last.is_some_and(|last| {
            members.iter().all(|&member| network.members[member].written.committed >= last)
        })
    });
}

#[test]
fn one_becomes_three_becomes_five_and_one_again() {
    let mut network = led(1, 4);
    store(&mut network, &[0]);
    change_to(&mut network, &peers(&[0, 1, 2]));
    store(&mut network, &[0, 1, 2]);
    change_to(&mut network, &peers(&[0, 1, 2, 3, 4]));
    store(&mut network, &[0, 1, 2, 3, 4]);
    change_to(&mut network, &peers(&[3]));
    network.until(100, "the last one leads", |network| {
        network.leader() == Some(3) && network.consensus(3).can_propose()
    });
    (0..3).for_each(|other| network.die(other, false));
    store(&mut network, &[3]);
    network.die(3, false);
    network.come_back(3);
    assert_eq!(*network.consensus(3).members(), Members::of(&peers(&[3])), "its log says so");
    store(&mut network, &[3]);
}

/// A member that learns counts for nothing, and the old majority has to agree to a change.
#[test]
fn nothing_is_committed_by_those_who_learn() {
    let mut network = led(3, 2);
    let leader = network.leader().expect("one leads");
    network.until(100, "they learn", |network| {
        network.change(&peers(&[0, 1, 2, 3, 4]));
        !network.consensus(leader).members().learners.is_empty()
    });
    (0..3).filter(|&member| member != leader).for_each(|member| network.die(member, false));
    let last = network.propose(leader, b"not agreed to").expect("it leads");
    (0..8).for_each(|_| {
        network.tick();
        (0..5).for_each(|member| network.persist(member, usize::MAX));
    });
    assert!(network.members[4].written.entries.len() as u64 >= last, "they have it");
    assert!(network.members[leader].written.committed < last);
}

/// A member that learns and has lost its vote's rights stands for no election, and asks nobody.
#[test]
fn who_learns_does_not_stand_for_election() {
    let mut network = led(3, 1);
    let leader = network.leader().expect("one leads");
    network.until(100, "it learns", |network| {
        network.change(&peers(&[0, 1, 2, 3]));
        !network.consensus(leader).members().learners.is_empty() && network.members[3].written.committed > 1
    });
    (0..3).for_each(|member| network.die(member, false));
    for _ in 0..100 {
        network.tick();
        network.persist(3, usize::MAX);
    }
    assert_eq!(network.consensus(3).role(), RaftRole::Follower);
}

/// The leader of a group that goes on without it hands over before.
#[test]
fn a_leader_that_is_to_go_hands_over() {
    let mut network = led(3, 1);
    let leader = network.leader().expect("one leads");
    let rest: Vec<usize> = (0..4).filter(|&member| member != leader).collect();
    change_to(&mut network, &peers(&rest));
    assert_ne!(network.leader(), Some(leader));
    store(&mut network, &rest);
    // It may not have heard of that, and stands for no election that counts.
    for _ in 0..100 {
        network.tick();
        (0..4).for_each(|member| network.persist(member, usize::MAX));
    }
    assert!(network.leader().is_some_and(|now| now != leader));
    store(&mut network, &rest);
}

/// A change that its leader has begun and not ended is ended by the next one, whatever it wants.
#[test]
fn the_next_leader_ends_a_change() {
    let mut network = led(3, 2);
    let wanted = peers(&[0, 1, 2, 3, 4]);
    network.until(200, "two majorities", |network| {
        network.change(&wanted);
        network.leader().is_some_and(|leader| network.consensus(leader).members().is_joint())
    });
    let leader = network.leader().expect("one leads");
    network.die(leader, false);
    network.until(400, "another leader", |network| network.leader().is_some_and(|now| now != leader));
    network.until(400, "the end of the change", |network| {
        let now = network.leader().filter(|&now| now != leader);
        // What it wants is as it was before the change.
        network.change(&peers(&[0, 1, 2]));
        now.is_some_and(|now| network.consensus(now).members().is_settled())
    });
}

/// A new member whose disk is lost while it learns, or later, gets everything again.
#[test]
fn a_new_member_may_lose_its_disk() {
    let mut network = led(1, 2);
    store(&mut network, &[0]);
    change_to(&mut network, &peers(&[0, 1, 2]));
    network.die(2, false);
    (network.members[2].written, network.members[2].persisted) = (Disk::default(), Disk::default());
    // Who it was founded with is all that it knows.
    network.come_back(2);
    store(&mut network, &[0, 1, 2]);
    assert_eq!(network.consensus(2).members().voters, peers(&[0, 1, 2]));
}

/// Random changes, with losses, ends and repetitions: what is committed stays, each term has one
/// leader, and the group is there at the end.
#[test]
fn random_changes_lose_nothing() {
    for seed in 0..60 {
        let mut network = Network::with_others(3, 3, seed);
        let mut rng = Rng::seeded(seed ^ 0x5eed);
        network.loss = 12;
        let mut wanted = peers(&[0, 1, 2]);
        for _ in 0..600 {
            match rng.below(40) {
                0 => {
                    let mut all: Vec<usize> = (0..6).collect();
                    let size = 1 + rng.below(5) as usize;
                    while all.len() > size {
                        all.swap_remove(rng.below(all.len() as u64) as usize);
                    }
                    wanted = peers(&all);
                }
                1 => {
                    let member = rng.below(6) as usize;
                    if network.is_alive(member) {
                        network.die(member, false);
                    } else {
                        network.come_back(member);
                    }
                }
                2..8 => {
                    network.change(&wanted);
                }
                8..14 => {
                    if let Some(leader) = network.leader() {
                        network.propose(leader, b"some entry");
                    }
                }
                _ => {}
            }
            network.tick();
            (0..6).for_each(|member| network.persist(member, rng.below(3) as usize));
        }
        network.loss = 0;
        for member in 0..6 {
            if !network.is_alive(member) {
                network.come_back(member);
            }
        }
        network.until(2000, &format!("the last change of seed {seed}"), |network| network.change(&wanted));
        let last = network.committed.len() as u64;
        let rest: Vec<usize> = wanted.iter().map(|peer| peer.number() as usize - 1).collect();
        store(&mut network, &rest);
        for &member in &rest {
            let disk = &network.members[member].written;
            assert!(disk.committed > last, "seed {seed}");
            let said = disk.entries.iter().filter(|entry| entry.data.starts_with(MEMBERS)).count();
            assert!(said > 0 || wanted == peers(&[0, 1, 2]), "seed {seed}");
        }
    }
}
