//! Replicas that have become different ones though their logs are the same, as only a bug of ours
//! can do it: here by an install from which a record is left out.

use super::super::cluster::{Cluster, PLACE, peer};
use super::super::house::stream;
use super::consumers::{ask, consumer};
use super::faults::break_disk;
use super::installs::{assert_equal, publish};
use crate::engine::groups::GroupReplica;
use myelin_jsapi::config::StreamConfig;

/// Beats until a difference is found and mended, at most: a minute.
const MINUTE: usize = 1200;

/// Has a follower lack one record of what the leader has, and not know.
fn leave_out(cluster: &mut Cluster, (leader, victim): (usize, usize), left_out: usize) {
    let source = cluster.house(leader).stream("S").install_source(peer(victim));
    let (place, mut source, lifetimes_until) = source.expect("it leads");
    assert_eq!(place, PLACE);
    let live = cluster.house(victim).stream("S");
    live.note_damage();
    let mut staged = live.begin_install(place, source.point(), lifetimes_until).expect("it is damaged");
    let mut number = 0;
    while let Some(record) = source.next_piece(1).expect("a healthy disk") {
        if number != left_out {
            staged.take(&record).expect("it comes in order");
        }
        number += 1;
    }
    staged.finish().expect("a healthy disk");
    staged.replace().expect("it follows");
    assert!(number > left_out, "{number} records");
}

/// Three servers with some messages and a consumer, all of them alike.
fn alike(config: StreamConfig) -> (Cluster, usize, usize) {
    let mut cluster = Cluster::with(3, config);
    let leader = cluster.elect();
    cluster.house(leader).consume("S", consumer("C"));
    publish(&mut cluster, leader, 20);
    ask(&mut cluster, leader, "C", 7);
    cluster.pass(20);
    assert_equal(&mut cluster);
    (cluster, leader, (leader + 1) % 3)
}

fn found(cluster: &mut Cluster) -> usize {
    let lines =
        (0..cluster.size()).map(|number| cluster.house(number).host.warnings_with("of its group as of"));
    lines.sum()
}

fn is_equal(cluster: &mut Cluster) -> bool {
    let states = (0..3).map(|number| cluster.consumer_states(number)).collect::<Vec<_>>();
    let contents = cluster.contents();
    contents.iter().all(|other| *other == contents[0]) && states.iter().all(|other| *other == states[0])
}

/// The definition of a consumer and its state come first, and messages behind them.
#[test]
fn a_replica_that_has_become_another_one_gets_what_the_others_have() {
    for (left_out, what) in [(1, "consumers or settings"), (5, "messages")] {
        let (mut cluster, leader, victim) = alike(stream("S"));
        leave_out(&mut cluster, (leader, victim), left_out);
        cluster.pass(20);
        publish(&mut cluster, leader, 1);
        assert!(!is_equal(&mut cluster), "{left_out}");
        cluster.pass(MINUTE);
        assert!(is_equal(&mut cluster), "{left_out}: {:?}", cluster.statuses());
        assert_equal(&mut cluster);
        assert_eq!(found(&mut cluster), 1, "{:?}", cluster.statuses());
        assert_eq!(cluster.house(victim).host.warnings_with(&format!("has other {what}")), 1);
        assert_eq!(cluster.leader(), Some(leader));
    }
}

/// The leader is right only where nobody knows better.
#[test]
fn a_leader_that_has_become_another_one_has_one_of_the_others_lead() {
    let (mut cluster, leader, victim) = alike(stream("S"));
    leave_out(&mut cluster, (leader, victim), 5);
    cluster.pass(20);
    cluster.house(leader).stream("S").hand_over_to(Some(peer(victim)));
    cluster.settle();
    cluster.pass(20);
    assert_eq!(cluster.leader(), Some(victim), "{:?}", cluster.statuses());
    publish(&mut cluster, victim, 1);
    assert!(!is_equal(&mut cluster));
    cluster.pass(2 * MINUTE);
    assert_eq!(cluster.contents(), [(21, 21); 3], "{:?}", cluster.statuses());
    let expected = cluster.payloads(leader);
    assert!((0..3).all(|number| cluster.payloads(number) == expected));
    assert_eq!(cluster.house(victim).host.warnings_with("is not as on most servers"), 1);
    assert_eq!(found(&mut cluster), 1, "{:?}", cluster.statuses());
}

/// Whatever comes and goes meanwhile: messages, a replica that gets all of them, lives of servers.
#[test]
fn replicas_that_are_well_are_never_found_different() {
    let mut cluster = Cluster::lean(3, StreamConfig { max_msgs: 40, ..stream("S") });
    let mut leader = cluster.elect();
    cluster.house(leader).consume("S", consumer("C"));
    let mut is_compared = 0;
    for round in 0..4 {
        for _ in 0..350 {
            publish(&mut cluster, leader, 2);
            ask(&mut cluster, leader, "C", 1);
            cluster.pass(2);
        }
        is_compared += cluster.comparisons();
        assert_eq!(found(&mut cluster), 0, "{:?}", cluster.statuses());
        let victim = (leader + 1 + round % 2) % 3;
        if round % 2 == 0 {
            cluster.replace_disk(victim)
        } else {
            cluster.kill(victim)
        }
        cluster.begin(victim);
        leader = cluster.elect();
    }
    assert!(is_compared >= 6, "only {is_compared}");
}

/// The order to compare comes while the stream has failed, and nobody hears it.
#[test]
fn a_leader_that_was_opened_anew_compares_again() {
    let (mut cluster, first, second) = alike(stream("S"));
    cluster.pass(MINUTE * 5 / 12);
    assert_eq!(cluster.comparisons(), 0, "it is too early");
    break_disk(&cluster, first);
    publish(&mut cluster, first, 1);
    cluster.pass(MINUTE / 6);
    assert!(!cluster.leads(first), "{:?}", cluster.statuses());
    cluster.disk(first).heal();
    cluster.pass(MINUTE);
    assert_equal(&mut cluster);
    let other = cluster.elect();
    if other != first {
        cluster.house(other).stream("S").hand_over_to(Some(peer(first)));
        cluster.settle();
        cluster.pass(20);
    }
    assert_eq!(cluster.leader(), Some(first), "{:?}", cluster.statuses());
    publish(&mut cluster, first, 1);
    let before = cluster.house(second).stream("S").compared_at();
    cluster.pass(MINUTE);
    assert!(cluster.house(second).stream("S").compared_at() > before, "{before:?}");
}
