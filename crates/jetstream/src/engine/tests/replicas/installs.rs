//! Replicas that lack what is no more in their group's log get the whole stream.

use super::super::cluster::Cluster;
use super::super::house::stream;
use super::consumers::{ask, consumer};
use crate::engine::Host;
use myelin_disk::faulty::{DiskFault, Survival};
use myelin_jsapi::config::{Compression, Storage, StreamConfig};

/// A stream of which most is removed soon, so that its segments are.
fn ring() -> StreamConfig {
    StreamConfig { max_msgs: 40, ..stream("S") }
}

fn publish(cluster: &mut Cluster, leader: usize, count: usize) {
    for n in 0..count {
        // More than stays in memory.
        cluster.publish(leader, &format!("m{n} {}", "x".repeat(6_000)));
    }
}

/// All replicas have the same, and consumers the same states.
fn assert_equal(cluster: &mut Cluster) {
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
        let mut cluster = Cluster::lean(3, config);
        let leader = cluster.elect();
        publish(&mut cluster, leader, 20);
        let victim = (leader + 1) % 3;
        cluster.kill(victim);
        publish(&mut cluster, leader, 300);
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
