//! Replicas that lack what is no more in their group's log get the whole stream.

use super::super::cluster::Cluster;
use super::super::house::stream;
use super::consumers::{ask, consumer};
use crate::engine::Host;
use myelin_disk::faulty::{DiskFault, Survival};
use myelin_jsapi::config::{Compression, Storage, StreamConfig};
use myelin_stdx::sync::lock;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Waker};

/// A stream of which most is removed soon, so that its segments are.
fn ring() -> StreamConfig {
    StreamConfig { max_msgs: 40, ..stream("S") }
}

pub(super) fn publish(cluster: &mut Cluster, leader: usize, count: usize) {
    for n in 0..count {
        // More than stays in memory.
        cluster.publish(leader, &format!("m{n} {}", "x".repeat(6_000)));
    }
}

/// All replicas have the same, and consumers the same states.
pub(super) fn assert_equal(cluster: &mut Cluster) {
    let (contents, expected) = (cluster.contents()[0], cluster.payloads(0));
    let states = cluster.consumer_states(0);
    for number in 1..cluster.size() {
        assert_eq!(cluster.contents()[number], contents, "{:?}", cluster.statuses());
        assert_eq!(cluster.payloads(number), expected, "{:?}", cluster.statuses());
        assert_eq!(cluster.consumer_states(number), states);
    }
}

/// Three servers whose log is gone but for its end, who leads, and another one.
fn without_a_log(config: StreamConfig) -> (Cluster, usize, usize) {
    let mut cluster = Cluster::lean(3, config);
    let leader = cluster.elect();
    publish(&mut cluster, leader, 220);
    cluster.pass(30);
    cluster.house(leader).consume("S", consumer("C"));
    ask(&mut cluster, leader, "C", 7);
    publish(&mut cluster, leader, 5);
    (cluster, leader, (leader + 1) % 3)
}

/// Three servers of which one has ended, when most of what is there had not come yet: who leads,
/// and that one.
fn with_one_away(config: StreamConfig) -> (Cluster, usize, usize) {
    let mut cluster = Cluster::lean(3, config);
    let leader = cluster.elect();
    publish(&mut cluster, leader, 20);
    let victim = (leader + 1) % 3;
    cluster.kill(victim);
    publish(&mut cluster, leader, 300);
    (cluster, leader, victim)
}

#[test]
fn a_new_disk_is_filled_with_what_is_left_of_the_stream() {
    let (mut cluster, leader, victim) = without_a_log(ring());
    cluster.replace_disk(victim);
    cluster.begin(victim);
    cluster.pass(100);
    assert_eq!(cluster.installs(), 1, "{:?}", cluster.statuses());
    assert_equal(&mut cluster);
    assert!(!cluster.consumer_states(victim).is_empty());
    publish(&mut cluster, leader, 10);
    cluster.pass(4);
    assert_equal(&mut cluster);
    // It has all that the others had.
    cluster.kill(leader);
    cluster.kill((leader + 2) % 3);
    cluster.begin((leader + 2) % 3);
    let next = cluster.elect();
    publish(&mut cluster, next, 3);
    cluster.begin(leader);
    cluster.pass(100);
    assert_equal(&mut cluster);
}

#[test]
fn a_server_that_was_away_gets_what_is_gone_from_the_log() {
    let compressed = StreamConfig { compression: Compression::S2, ..stream("S") };
    let memory = StreamConfig { storage: Storage::Memory, ..ring() };
    for config in [ring(), compressed, memory] {
        let (mut cluster, leader, victim) = with_one_away(config);
        // Segments with what consumers say stay as they were written for long.
        cluster.house(leader).consume("S", consumer("C"));
        ask(&mut cluster, leader, "C", 7);
        publish(&mut cluster, leader, 2);
        cluster.begin(victim);
        cluster.pass(100);
        assert_eq!(cluster.installs(), 1, "{:?}", cluster.statuses());
        assert_equal(&mut cluster);
        // What it has got is there after a start, too.
        cluster.kill(victim);
        publish(&mut cluster, leader, 3);
        cluster.begin(victim);
        cluster.pass(100);
        assert_equal(&mut cluster);
    }
}

/// Its files go while they are to be sent: whoever has removed it knows.
#[test]
fn a_stream_that_is_removed_while_it_is_sent_is_no_error() {
    let (mut cluster, leader, victim) = with_one_away(ring());
    cluster.begin(victim);
    let is_sent = |cluster: &mut Cluster| cluster.house(leader).host.infos_with("is sent to server") > 0;
    for _ in 0..200 {
        (0..3).for_each(|number| cluster.beat(number));
        for _ in 0..10 {
            (0..3).for_each(|number| cluster.settle_one(number));
            if is_sent(&mut cluster) {
                break;
            }
            cluster.collect().into_iter().for_each(|parcel| cluster.carry(parcel));
        }
        if is_sent(&mut cluster) {
            break;
        }
    }
    assert!(is_sent(&mut cluster), "{:?}", cluster.statuses());
    cluster.house(leader).delete_and_wait("S");
    cluster.pass(10);
    let warnings = lock(&cluster.house(leader).host.warnings).clone();
    assert!(!warnings.iter().any(|line| line.contains("cannot be sent")), "{warnings:?}");
}

/// From the log, or as a whole: whoever operates it sees how far it is.
#[test]
fn a_replica_says_how_far_behind_it_is_until_it_is_not() {
    for (config, has_log) in [(stream("S"), true), (ring(), false)] {
        let (mut cluster, leader, victim) = with_one_away(config);
        cluster.begin(victim);
        let (mut behind, mut whole) = (Vec::new(), Vec::new());
        for _ in 0..100 {
            (0..3).for_each(|number| cluster.beat(number));
            loop {
                (0..3).for_each(|number| cluster.settle_one(number));
                let live = cluster.house(victim).stream("S");
                behind.extend(live.behind());
                whole.extend(live.install_progress(false));
                let parcels = cluster.collect();
                if parcels.is_empty() {
                    break;
                }
                parcels.into_iter().for_each(|parcel| cluster.carry(parcel));
            }
        }
        let wanted = cluster.house(leader).stream("S").group_status().unwrap().committed;
        assert!(behind.iter().all(|&(has, lacks)| has < lacks && lacks <= wanted), "{behind:?}");
        assert!(!behind.is_empty() && behind.len() < 90, "{behind:?}");
        assert_eq!(whole.is_empty(), has_log, "{whole:?}");
        let live = cluster.house(victim).stream("S");
        assert_eq!((live.behind(), live.install_progress(false)), (None, None));
    }
}

#[test]
fn who_leads_after_an_install_in_memory_keeps_the_limits() {
    let mut cluster = Cluster::lean(3, StreamConfig { storage: Storage::Memory, ..ring() });
    for _ in 0..4 {
        let leader = cluster.elect();
        publish(&mut cluster, leader, 60);
        cluster.pass(4);
        assert!(cluster.contents().iter().all(|(messages, _)| *messages == 40), "{:?}", cluster.contents());
        cluster.kill(leader);
        let next = cluster.elect();
        publish(&mut cluster, next, 250);
        cluster.begin(leader);
        cluster.pass(100);
    }
    assert!(cluster.installs() >= 3, "{:?}", cluster.statuses());
    assert_equal(&mut cluster);
}

/// Its entry stands in a segment that is not sealed, with zeros in the place of the message.
#[test]
fn a_server_that_lacks_an_entry_whose_message_was_erased_gets_the_stream() {
    let mut cluster = Cluster::new(3);
    let leader = cluster.elect();
    publish(&mut cluster, leader, 20);
    cluster.pass(10);
    let victim = (leader + 1) % 3;
    cluster.kill(victim);
    publish(&mut cluster, leader, 250);
    let house = cluster.house(leader);
    let (live, now) = (house.stream("S"), house.host.now());
    let mut guard = live.lock_core().expect("it is there");
    let (core, effects) = guard.parts();
    assert!(core.erase(25, now, effects).expect("a healthy disk"));
    drop(guard);
    cluster.pass(10);
    cluster.begin(victim);
    cluster.pass(100);
    assert_eq!(cluster.installs(), 1, "{:?}", cluster.statuses());
    assert_equal(&mut cluster);
}

#[test]
fn a_stream_goes_on_while_a_replica_gets_it() {
    let (mut cluster, leader, victim) = without_a_log(StreamConfig { max_msgs: 60, ..stream("S") });
    cluster.replace_disk(victim);
    cluster.begin(victim);
    for _ in 0..100 {
        publish(&mut cluster, leader, 2);
        cluster.pass(1);
    }
    cluster.pass(60);
    assert!(cluster.installs() >= 1, "{:?}", cluster.statuses());
    assert_eq!(cluster.acks(), 425);
    assert_equal(&mut cluster);
}

#[test]
fn an_install_that_is_cut_off_begins_anew() {
    let (mut cluster, leader, victim) = without_a_log(ring());
    cluster.replace_disk(victim);
    cluster.is_bulk_lost = true;
    cluster.begin(victim);
    cluster.pass(100);
    assert_eq!(cluster.installs(), 0);
    publish(&mut cluster, leader, 5);
    assert_eq!(cluster.acks(), 230, "the others go on");
    cluster.is_bulk_lost = false;
    cluster.pass(300);
    assert_eq!(cluster.installs(), 1, "{:?}", cluster.statuses());
    assert_equal(&mut cluster);
}

#[test]
fn another_leader_gives_the_stream_when_the_first_is_gone() {
    let (mut cluster, leader, victim) = without_a_log(ring());
    cluster.replace_disk(victim);
    cluster.is_bulk_lost = true;
    cluster.begin(victim);
    cluster.pass(40);
    cluster.house(leader).stream("S").hand_over();
    cluster.settle();
    cluster.is_bulk_lost = false;
    cluster.pass(400);
    assert_eq!(cluster.installs(), 1, "{:?}", cluster.statuses());
    assert_equal(&mut cluster);
}

/// The replica is the old one, which has nothing, or the new one, whatever the disk has done when
/// the process ends.
#[test]
fn a_process_that_ends_while_a_replica_takes_its_place_leaves_one() {
    let (mut cluster, leader, victim) = without_a_log(ring());
    let mut installs = 0;
    for point in (0..).step_by(5) {
        cluster.replace_disk(victim);
        cluster.begin(victim);
        let disk = cluster.disk(victim).clone();
        disk.fail_at(disk.points() + point, DiskFault::Crash);
        cluster.pass(40);
        let is_through = !disk.is_off();
        cluster.lose_power(victim, Survival::Random(point));
        cluster.begin(victim);
        cluster.pass(60);
        assert_equal(&mut cluster);
        let found = cluster.house(victim).streams().streams().len();
        assert_eq!(found, 1, "nothing is left behind");
        installs += 1;
        publish(&mut cluster, leader, 1);
        if is_through {
            break;
        }
    }
    assert!(installs > 10, "only {installs} points");
}

/// Making durable what has come takes a slow disk longer than a server waits for a word.
#[test]
fn a_server_that_is_long_at_work_gets_the_stream_at_once() {
    let (mut cluster, leader, victim) = without_a_log(ring());
    cluster.replace_disk(victim);
    cluster.begin(victim);
    cluster.house(victim).host.are_reads_held.store(true, Relaxed);
    cluster.pass(400);
    assert_eq!(cluster.installs(), 0);
    cluster.house(victim).host.are_reads_held.store(false, Relaxed);
    cluster.pass(60);
    assert_eq!(cluster.installs(), 1, "{:?}", cluster.statuses());
    assert_equal(&mut cluster);
    let offers = cluster.house(leader).host.infos_with("is sent to server");
    assert_eq!(offers, 1, "it was waited for");
}

/// A sender that is busy has not heard nothing from the other one: it has not said anything yet.
#[test]
fn a_sender_that_is_long_at_work_offers_the_stream_once() {
    let (mut cluster, leader, victim) = without_a_log(ring());
    cluster.replace_disk(victim);
    cluster.house(leader).host.are_reads_held.store(true, Relaxed);
    cluster.begin(victim);
    cluster.pass(400);
    cluster.house(leader).host.are_reads_held.store(false, Relaxed);
    cluster.pass(60);
    assert_eq!(cluster.installs(), 1, "{:?}", cluster.statuses());
    assert_equal(&mut cluster);
    assert_eq!(cluster.house(leader).host.infos_with("is sent to server"), 1);
}

/// Where the old replica cannot be removed it is a member of nothing any more: what it confirmed
/// would be gone with the next start, which keeps the new one.
#[test]
fn a_disk_that_refuses_something_while_a_replica_takes_its_place_leaves_one() {
    let (mut cluster, leader, victim) = without_a_log(ring());
    let mut unfinished = 0;
    for point in (0..180).step_by(3) {
        cluster.replace_disk(victim);
        cluster.begin(victim);
        let disk = cluster.disk(victim).clone();
        disk.fail_at(disk.points() + point, DiskFault::Error(ErrorKind::Other));
        cluster.pass(40);
        let house = cluster.house(victim);
        let (streams, jetstream) = (house.streams(), Arc::clone(&house.jetstream));
        let replaced = streams.stream("S").filter(|live| live.replaced_by().is_some());
        if let Some(live) = replaced.filter(|live| live.replaced_by().is_some_and(|by| by.is_sure)) {
            unfinished += 1;
            assert!(live.group_status().is_none(), "it confirms nothing any more");
            let old = live.replaced_by().map_or(0, |by| by.old.0);
            let anew = streams.finish_install(&jetstream, &live).expect("the disk is well again");
            assert_eq!(anew.in_place_of(), old);
        }
        cluster.kill(victim);
        cluster.begin(victim);
        cluster.pass(60);
        assert_equal(&mut cluster);
        assert_eq!(cluster.house(victim).streams().streams().len(), 1, "nothing is left behind");
        publish(&mut cluster, leader, 1);
    }
    assert!(unfinished > 0, "nothing was refused between the two");
}

/// A start that finds both goes by that, also after the configuration was changed.
#[test]
fn a_changed_configuration_says_still_in_whose_place_a_stream_stands() {
    let (mut cluster, _, victim) = without_a_log(ring());
    cluster.replace_disk(victim);
    cluster.begin(victim);
    cluster.pass(100);
    let house = cluster.house(victim);
    let (live, streams, jetstream) = (house.stream("S"), house.streams(), Arc::clone(&house.jetstream));
    let old = live.in_place_of();
    assert!(old > 0);
    let changed = StreamConfig { max_msgs: 39, ..ring() };
    let (at, was) = (jetstream, live.clone());
    let mut update = Box::pin(streams.update(&at, &was, changed));
    while update.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        cluster.pass(1);
    }
    drop(update);
    drop((live, was, streams, at));
    cluster.kill(victim);
    cluster.begin(victim);
    let live = cluster.house(victim).stream("S");
    assert_eq!((live.config().max_msgs, live.in_place_of()), (39, old));
}
