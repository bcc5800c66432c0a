//! Losses of power and disks that fail.

use super::super::cluster::{Cluster, PLACE, peer};
use super::super::house::stream;
use crate::engine::groups::{GroupReplica, MemberEvent};
use myelin_disk::faulty::{DiskFault, Survival};
use myelin_jsapi::config::{Storage, StreamConfig};
use myelin_replica::{RaftMessage, RaftMessageKind, Vote};
use myelin_stdx::sync::lock;
use myelin_streams::ReplicaRole;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

fn always() -> Cluster {
    Cluster::seeded(3, stream("S"), true, 1)
}

#[test]
fn with_always_a_loss_of_power_of_all_loses_nothing() {
    let mut cluster = always();
    for life in 1..=3 {
        let leader = cluster.elect();
        for n in 0..5 {
            cluster.publish(leader, &format!("{life}.{n}"));
        }
        assert_eq!(cluster.acks(), 5 * life);
        (0..3).for_each(|number| cluster.lose_power(number, Survival::None));
        (0..3).for_each(|number| cluster.begin(number));
        cluster.elect();
        cluster.pass(10);
        assert_eq!(cluster.contents(), [(5 * life as u64, 5 * life as u64); 3]);
    }
}

#[test]
fn with_always_nothing_is_acknowledged_that_a_majority_has_not_synced() {
    let mut cluster = always();
    let leader = cluster.elect();
    cluster.publish(leader, "first");
    cluster.are_syncs_held = true;
    cluster.publish(leader, "second");
    assert_eq!(cluster.acks(), 1, "nobody has synced it");
    cluster.are_syncs_held = false;
    cluster.settle();
    assert_eq!(cluster.acks(), 2);
}

#[test]
fn with_always_servers_lose_power_in_turn() {
    let mut cluster = always();
    let mut published = 0;
    for round in 0..6 {
        let leader = cluster.elect();
        for _ in 0..3 {
            published += 1;
            cluster.publish(leader, &format!("m{published}"));
        }
        let victim = if round % 2 == 0 { leader } else { (leader + 1) % 3 };
        cluster.lose_power(victim, Survival::None);
        let leader = cluster.elect();
        published += 1;
        cluster.publish(leader, &format!("m{published}"));
        cluster.begin(victim);
    }
    cluster.elect();
    cluster.pass(60);
    let all = published as u64;
    assert_eq!((cluster.acks(), cluster.contents()), (published, vec![(all, all); 3]));
}

/// In the default mode one server that loses power has lost what it had confirmed, and is given it
/// again.
#[test]
fn a_server_that_has_lost_power_is_given_what_it_had() {
    let mut cluster = Cluster::new(3);
    let leader = cluster.elect();
    for n in 0..10 {
        cluster.publish(leader, &format!("m{n}"));
    }
    for victim in [(leader + 1) % 3, leader] {
        cluster.lose_power(victim, Survival::None);
        cluster.elect();
        cluster.begin(victim);
        cluster.pass(60);
    }
    let leader = cluster.elect();
    cluster.publish(leader, "last");
    cluster.pass(60);
    assert_eq!((cluster.acks(), cluster.contents()), (11, vec![(11, 11); 3]));
}

/// Whether it was one that lost power is told by the run of the machine; others must not elect
/// somebody with its vote who lacks what it had confirmed.
#[test]
fn a_server_that_has_lost_power_does_not_vote_before_it_has_what_it_had() {
    let mut cluster = Cluster::new(3);
    let first = cluster.elect();
    let (helper, away) = ((first + 1) % 3, (first + 2) % 3);
    cluster.publish(first, "zero");
    cluster.pass(10);
    cluster.isolated.push(away);
    for n in 1..10 {
        cluster.publish(first, &format!("m{n}"));
    }
    cluster.isolated.push(first);
    cluster.lose_power(helper, Survival::None);
    cluster.begin(helper);
    // It remembers that it may have forgotten something.
    cluster.kill(helper);
    cluster.begin(helper);
    cluster.isolated.retain(|number| *number != away);
    cluster.pass(100);
    assert!(!cluster.leads(helper) && !cluster.leads(away), "{:?}", cluster.statuses());
    cluster.isolated.clear();
    cluster.elect();
    cluster.pass(60);
    assert_eq!((cluster.acks(), cluster.contents()), (10, vec![(10, 10); 3]));
    // It votes again, also in its next life.
    cluster.kill(helper);
    cluster.begin(helper);
    cluster.kill(first);
    let leader = cluster.elect();
    cluster.publish(leader, "last");
    assert_eq!(cluster.acks(), 11);
}

/// Three servers with a message, of which all have lost power and two are back.
fn two_back_of_three_without_power() -> Cluster {
    let mut cluster = Cluster::new(3);
    let leader = cluster.elect();
    cluster.publish(leader, "one");
    cluster.pass(10);
    (0..3).for_each(|number| cluster.lose_power(number, Survival::All));
    (0..2).for_each(|number| cluster.begin(number));
    cluster
}

#[test]
fn servers_that_all_have_lost_power_go_on_when_all_are_there() {
    let mut cluster = two_back_of_three_without_power();
    cluster.pass(150);
    assert_eq!(cluster.leader(), None, "the third may have more");
    cluster.begin(2);
    let leader = cluster.elect();
    cluster.publish(leader, "two");
    cluster.pass(10);
    assert_eq!((cluster.acks(), cluster.contents()), (2, vec![(2, 2); 3]));
    let warnings = lock(&cluster.house(leader).host.warnings).clone();
    assert!(!warnings.iter().any(|line| line.contains("may be lost")), "{warnings:?}");
}

#[test]
fn a_majority_that_has_lost_power_goes_on_alone_after_a_minute() {
    let mut cluster = two_back_of_three_without_power();
    cluster.pass(1_150);
    assert_eq!(cluster.leader(), None, "the third may come back");
    let leader = cluster.elect();
    cluster.publish(leader, "two");
    cluster.pass(10);
    assert_eq!((cluster.acks(), cluster.contents()), (2, vec![(2, 2); 2]));
    let warnings = lock(&cluster.house(leader).host.warnings).clone();
    assert!(warnings.iter().any(|line| line.contains("may be lost")), "{warnings:?}");
}

/// The minute is not one by the time of day: that may be set forward.
#[test]
fn a_majority_that_has_lost_power_waits_for_a_minute_whatever_the_time_of_day() {
    let mut cluster = two_back_of_three_without_power();
    cluster.pass(100);
    for number in 0..2 {
        cluster.house(number).host.now.fetch_add(100_000_000_000, Relaxed);
    }
    cluster.pass(150);
    assert_eq!(cluster.leader(), None, "the third may come back");
    cluster.begin(2);
    cluster.elect();
}

/// A thread that was asked to make it lead comes late, when its member follows again.
#[test]
fn a_stream_does_not_lead_while_its_member_follows() {
    let mut cluster = Cluster::new(3);
    let leader = cluster.elect();
    let other = (leader + 1) % 3;
    cluster.house(other).stream("S").set_role(ReplicaRole::Leader);
    assert!(!cluster.leads(other));
    cluster.publish(other, "x");
    assert_eq!((cluster.acks(), cluster.contents()), (0, vec![(0, 0); 3]));
}

/// Threads may come to what is behind their turns in another order than to the turns.
#[test]
fn of_two_votes_the_later_one_is_remembered() {
    let mut cluster = Cluster::new(3);
    cluster.settle();
    let live = cluster.house(0).stream("S");
    let asks = |other: usize, term| RaftMessage {
        kind: RaftMessageKind::Vote,
        from: peer(other),
        to: peer(0),
        term,
        index: 0,
        log_term: 0,
        commit: 0,
        commit_term: 0,
        is_refused: false,
        reject_hint: 0,
        is_transfer: true,
        entries: Vec::new(),
    };
    let [first, second] = [asks(1, 5), asks(2, 6)].map(|message| {
        live.tell(MemberEvent::Message(PLACE.epoch, 0, message));
        live.serve_member_by_half()
    });
    second();
    first();
    drop(live);
    cluster.settle();
    cluster.kill(0);
    cluster.begin(0);
    let (vote, _) = cluster.house(0).stream("S").group_vote().expect("it is a member");
    assert_eq!(vote, Vote { term: 6, voted_for: Some(peer(2)) });
}

/// Words between servers wait for no disk.
#[test]
fn a_server_in_which_something_waits_is_supported_still() {
    let mut cluster = Cluster::new(3);
    let leader = cluster.elect();
    let slow = (leader + 1) % 3;
    cluster.pass(10);
    cluster.is_waiting = Some(slow);
    cluster.pass(60);
    assert!(!cluster.house(slow).stream("S").lacks_quorum(), "others support it");
}

pub(super) fn break_disk(cluster: &Cluster, number: usize) {
    let disk = cluster.disk(number);
    disk.fail_at(disk.points(), DiskFault::ErrorsFrom(ErrorKind::Other));
}

#[test]
fn a_leader_whose_disk_fails_leads_no_more_and_is_repaired() {
    for sync_always in [false, true] {
        let mut cluster = Cluster::seeded(3, stream("S"), sync_always, 1);
        let first = cluster.elect();
        cluster.publish(first, "one");
        break_disk(&cluster, first);
        cluster.publish(first, "two");
        cluster.pass(4);
        assert!(!cluster.leads(first), "{sync_always}: {:?}", cluster.statuses());
        let second = cluster.elect();
        let before = cluster.acks();
        cluster.publish(second, "three");
        assert_eq!(cluster.acks(), before + 1, "{sync_always}");
        cluster.disk(first).heal();
        cluster.pass(2400);
        let [one, two, three] = cluster.contents()[..] else { panic!("three servers") };
        assert!(
            one == two && two == three,
            "{sync_always}: {:?} {:?}",
            cluster.contents(),
            cluster.statuses()
        );
    }
}

#[test]
fn a_follower_whose_disk_fails_is_repaired() {
    for sync_always in [false, true] {
        let mut cluster = Cluster::seeded(3, stream("S"), sync_always, 1);
        let leader = cluster.elect();
        cluster.publish(leader, "one");
        let victim = (leader + 1) % 3;
        break_disk(&cluster, victim);
        for n in 0..5 {
            cluster.publish(leader, &format!("m{n}"));
        }
        assert_eq!(cluster.acks(), 6, "{sync_always}");
        cluster.disk(victim).heal();
        cluster.pass(2400);
        assert_eq!(cluster.contents(), [(6, 6); 3], "{sync_always}: {:?}", cluster.statuses());
    }
}

/// A disk that fails for longer than one repair takes ends no replica for ever.
#[test]
fn a_follower_whose_disk_fails_again_is_repaired_after_a_pause() {
    let mut cluster = Cluster::new(3);
    let leader = cluster.elect();
    let victim = (leader + 1) % 3;
    for round in 0..2 {
        let disk = cluster.disk(victim);
        disk.fail_at(disk.points(), DiskFault::ErrorsFrom(ErrorKind::StorageFull));
        cluster.publish(leader, &format!("m{round}"));
        cluster.disk(victim).heal();
        cluster.pass(30);
    }
    cluster.publish(leader, "m2");
    assert_eq!(cluster.contents()[victim], (1, 1), "it has failed twice in some seconds");
    cluster.pass(60);
    assert_eq!((cluster.acks(), cluster.contents()), (3, vec![(3, 3); 3]), "{:?}", cluster.statuses());
}

/// Failing with its stream, a member is tried again with it.
#[test]
fn a_member_that_cannot_be_opened_anew_hears_nothing_and_is_tried_again() {
    let mut cluster = Cluster::new(3);
    let leader = cluster.elect();
    let victim = (leader + 1) % 3;
    cluster.publish(leader, "one");
    let live = cluster.house(victim).stream("S");
    let founders = live.set_founders(Vec::new());
    give_up(&mut cluster, victim);
    cluster.publish(leader, "two");
    cluster.pass(100);
    let warnings = lock(&cluster.house(victim).host.warnings).clone();
    let expected = "JetStream stream '$G > S' has failed: as a member of its group: the group has no members";
    assert!(warnings.iter().any(|line| line == expected), "{warnings:?}");
    assert_eq!((cluster.acks(), live.waiting_news()), (2, 0));
    live.set_founders(founders);
    cluster.pass(1_300);
    assert_eq!(cluster.contents(), [(2, 2); 3], "{:?}", cluster.statuses());
}

/// Has a server's stream fail.
fn give_up(cluster: &mut Cluster, number: usize) {
    let live = cluster.house(number).stream("S");
    let mut guard = live.lock_core().expect("it is there");
    let (core, effects) = guard.parts();
    core.store().give_up("a test asked for it");
    core.released(effects);
}

/// The reason may be in its own files, of which the others have the sound ones.
#[test]
fn a_replica_that_fails_again_and_again_is_given_the_stream() {
    let mut cluster = Cluster::new(3);
    let leader = cluster.elect();
    cluster.publish(leader, "x");
    let victim = (leader + 1) % 3;
    for failures in 1..=3 {
        assert_eq!(cluster.installs(), 0, "{failures}");
        give_up(&mut cluster, victim);
        cluster.pass(110);
    }
    cluster.pass(200);
    assert_eq!(cluster.installs(), 1, "{:?}", cluster.statuses());
    let leader = cluster.elect();
    cluster.publish(leader, "y");
    cluster.pass(10);
    assert_eq!((cluster.acks(), cluster.contents()), (2, vec![(2, 2); 3]), "{:?}", cluster.statuses());
    assert!(!cluster.house(victim).stream("S").is_damaged());
}

/// Nothing of it can be opened anew: it begins empty, and is given what the others have.
#[test]
fn a_replica_in_memory_that_fails_is_given_what_the_others_have() {
    let mut cluster = Cluster::with(3, StreamConfig { storage: Storage::Memory, ..stream("S") });
    let first = cluster.elect();
    for victim in [(first + 1) % 3, first] {
        let leader = cluster.elect();
        cluster.publish(leader, "x");
        give_up(&mut cluster, victim);
        cluster.pass(100);
        let leader = cluster.elect();
        cluster.publish(leader, "y");
        cluster.pass(10);
    }
    assert_eq!((cluster.acks(), cluster.contents()), (4, vec![(4, 4); 3]), "{:?}", cluster.statuses());
    // After a pause, as with one that has files.
    let leader = cluster.elect();
    let victim = if leader == first { (first + 1) % 3 } else { first };
    give_up(&mut cluster, victim);
    cluster.publish(leader, "z");
    cluster.pass(20);
    assert_eq!(cluster.contents()[victim].0, 4);
    cluster.pass(200);
    assert_eq!((cluster.acks(), cluster.contents()), (5, vec![(5, 5); 3]), "{:?}", cluster.statuses());
}

/// A group that rests hears of it, though the server is there.
#[test]
fn a_group_that_rests_gets_another_leader_when_its_leader_fails() {
    let mut cluster = Cluster::new(3);
    let first = cluster.elect();
    cluster.publish(first, "one");
    cluster.pass(100);
    assert!((0..3).all(|number| cluster.rests(number)), "nothing happens");
    break_disk(&cluster, first);
    cluster.publish(first, "two");
    cluster.pass(100);
    assert!(!cluster.leads(first), "{:?}", cluster.statuses());
    let second = cluster.elect();
    cluster.publish(second, "three");
    assert_eq!(cluster.acks(), 2);
    cluster.disk(first).heal();
    cluster.pass(100);
    assert_eq!(cluster.contents(), [(2, 2); 3], "{:?}", cluster.statuses());
}

/// One whose stream was opened anew before anybody has heard of its failure has time pass again.
#[test]
fn a_member_that_rested_does_not_when_it_was_opened_anew() {
    let mut cluster = Cluster::new(3);
    let first = cluster.elect();
    cluster.publish(first, "one");
    cluster.pass(100);
    let disk = cluster.disk(first);
    disk.fail_at(disk.points(), DiskFault::Error(ErrorKind::Other));
    cluster.isolated.push(first);
    cluster.publish(first, "two");
    cluster.isolated.clear();
    assert!(!cluster.rests(first));
    cluster.pass(100);
    let second = cluster.elect();
    cluster.publish(second, "three");
    assert_eq!((cluster.acks(), cluster.contents()), (2, vec![(2, 2); 3]), "{:?}", cluster.statuses());
}

/// One write that fails is one repair.
#[test]
fn a_write_that_fails_once_is_mended() {
    for sync_always in [false, true] {
        let mut cluster = Cluster::seeded(3, stream("S"), sync_always, 1);
        let leader = cluster.elect();
        let disk = cluster.disk((leader + 1) % 3);
        disk.fail_at(disk.points(), DiskFault::Error(ErrorKind::Other));
        for n in 0..5 {
            cluster.publish(leader, &format!("m{n}"));
        }
        cluster.pass(60);
        let contents = cluster.contents();
        assert_eq!(
            (cluster.acks(), contents),
            (5, vec![(5, 5); 3]),
            "{sync_always}: {:?}",
            cluster.statuses()
        );
    }
}

/// Nobody leads whose vote is not on a disk; when the disk takes it somebody does.
#[test]
fn votes_that_cannot_be_written_are_written_later() {
    let mut cluster = Cluster::new(3);
    (0..3).for_each(|number| break_disk(&cluster, number));
    cluster.pass(80);
    assert_eq!(cluster.raft_leaders(), []);
    for number in 0..3 {
        let warnings = lock(&cluster.house(number).host.warnings).clone();
        let is_told =
            warnings.iter().any(|line| line.starts_with("JetStream: votes of groups cannot be written"));
        assert!(is_told || warnings.is_empty(), "{warnings:?}");
        cluster.disk(number).heal();
    }
    let leader = cluster.elect();
    cluster.publish(leader, "one");
    assert_eq!(cluster.acks(), 1);
}

/// All files of a server.
fn files(cluster: &Cluster, number: usize) -> Vec<(PathBuf, Vec<u8>)> {
    let disk = cluster.disk(number);
    disk.files().into_keys().map(|path| (path.clone(), disk.read_all(&path).expect("a file"))).collect()
}

/// Takes a message, and what was written with it since these were all files, from a server's disk,
/// and has its stream opened anew.
fn lose_message(cluster: &mut Cluster, number: usize, before: &[(PathBuf, Vec<u8>)], message: &str) {
    let is_in = |bytes: &Vec<u8>| bytes.windows(message.len()).any(|window| window == message.as_bytes());
    let after = files(cluster, number).into_iter().find(|(_, bytes)| is_in(bytes));
    let (path, bytes) = after.expect("it is written");
    let old = before.iter().find(|(other, _)| *other == path).map_or(&[][..], |(_, bytes)| bytes);
    let same = old.iter().zip(&bytes).take_while(|(old, new)| old == new).count() as u64;
    cluster.disk(number).zero(&path, same..bytes.len() as u64).expect("it is there");
    let live = cluster.house(number).stream("S");
    live.lock_core().expect("it is there").parts().0.store().give_up("a test");
}

fn is_amnesiac(cluster: &mut Cluster, number: usize) -> bool {
    cluster.house(number).stream("S").group_status().expect("it is a member").is_amnesiac
}

/// A member that has said that it has an entry, and has not when it is opened anew, may not vote as
/// if it had it.
#[test]
fn a_member_that_is_opened_anew_with_less_than_it_has_confirmed_does_not_vote() {
    let mut cluster = Cluster::new(3);
    let leader = cluster.elect();
    cluster.publish(leader, "kept");
    cluster.pass(10);
    let victim = (leader + 1) % 3;
    let before = files(&cluster, victim);
    cluster.publish(leader, "lost");
    cluster.pass(10);
    assert_eq!(cluster.contents()[victim], (2, 2));
    cluster.isolated.push(victim);
    lose_message(&mut cluster, victim, &before, "lost");
    cluster.pass(20);
    assert!(is_amnesiac(&mut cluster, victim), "{:?}", cluster.statuses());
    cluster.isolated.clear();
    cluster.pass(60);
    assert!(!is_amnesiac(&mut cluster, victim), "{:?}", cluster.statuses());
    assert_eq!(cluster.contents(), [(2, 2); 3]);
}

/// More of what it has confirmed may be lost before it has everything again.
#[test]
fn a_member_that_has_lost_something_and_loses_more_waits_for_that_too() {
    let mut cluster = Cluster::new(3);
    let leader = cluster.elect();
    let (victim, away) = ((leader + 1) % 3, (leader + 2) % 3);
    cluster.publish(leader, "kept");
    cluster.pass(10);
    cluster.isolated.push(away);
    let before = files(&cluster, victim);
    cluster.publish_unheard((leader, victim), "first");
    let lines = |cluster: &mut Cluster| {
        cluster.house(victim).host.warnings_with("'$G > S' has lost entries that it had confirmed")
    };
    for losses in 1..=2 {
        lose_message(&mut cluster, victim, &before, "first");
        // It is given that again, and the leader hears of no confirmation.
        cluster.pass_unheard((leader, victim), 60);
        assert!(is_amnesiac(&mut cluster, victim), "{:?}", cluster.statuses());
        assert!(cluster.house(victim).stream("S").lost_entry() > 0);
        assert_eq!(lines(&mut cluster), losses, "{:?}", cluster.statuses());
    }
    cluster.isolated.clear();
    cluster.pass(100);
    assert!((0..3).all(|number| !is_amnesiac(&mut cluster, number)), "{:?}", cluster.statuses());
    assert_eq!(cluster.contents(), [(2, 2); 3]);
}

#[test]
fn a_server_with_an_empty_disk_and_a_clock_that_is_behind_is_heard() {
    let mut cluster = Cluster::new(3);
    let leader = cluster.elect();
    let other = (leader + 1) % 3;
    for _ in 0..5 {
        cluster.kill(other);
        cluster.begin(other);
        cluster.pass(40);
    }
    let leader = cluster.elect();
    cluster.publish(leader, "one");
    cluster.replace_disk(other);
    cluster.forget_time(other);
    cluster.begin(other);
    cluster.pass(200);
    assert_eq!(cluster.contents(), [(1, 1); 3]);
}
