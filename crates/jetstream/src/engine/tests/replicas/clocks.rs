//! Clocks of servers that are wrong: set by somebody, standing still, or too fast. Nothing ends
//! before its time, or never, as long as most are right.

use super::super::cluster::{BEAT, Cluster};
use super::super::house::stream;
use super::consumers::{ask, consumer, seq_of};
use myelin_jsapi::config::StreamConfig;
use myelin_stdx::sync::lock;
use std::sync::atomic::Ordering::Relaxed;

const SECOND: i64 = 1_000_000_000;
/// Beats in a second.
const BEATS: usize = (SECOND / BEAT) as usize;

/// Three servers that keep the time, with five messages that end after a minute, and who leads.
fn cluster() -> (Cluster, usize) {
    let mut cluster = Cluster::with(3, StreamConfig { max_age: 60 * SECOND, ..stream("S") });
    (0..3).for_each(|number| cluster.house(number).host.keeps_time.store(true, Relaxed));
    let leader = cluster.elect();
    cluster.house(leader).consume("S", consumer("C"));
    (0..5).for_each(|_| cluster.publish(leader, "x"));
    cluster.pass(BEATS);
    assert_eq!(cluster.contents(), [(5, 5); 3]);
    (cluster, leader)
}

/// Messages are there for a minute, whatever the clock of whoever leads says meanwhile: all of them
/// half a minute later, and none a minute after that.
fn assert_in_time(cluster: &mut Cluster, what: &str) {
    cluster.pass(30 * BEATS);
    let counts = |cluster: &Cluster| cluster.contents().iter().map(|(count, _)| *count).collect::<Vec<_>>();
    assert_eq!(counts(cluster), [5; 3], "{what}: {:?}", cluster.statuses());
    cluster.pass(60 * BEATS);
    assert_eq!(counts(cluster), [0; 3], "{what}: {:?}", cluster.statuses());
}

#[test]
fn a_leader_whose_clock_jumps_ends_messages_neither_too_early_nor_too_late() {
    for jump in [3600 * SECOND, -3600 * SECOND, 20 * SECOND] {
        let (mut cluster, leader) = cluster();
        cluster.house(leader).host.now.fetch_add(jump, Relaxed);
        assert_in_time(&mut cluster, &format!("{jump}"));
        let live = cluster.house(leader).jetstream.clock_ahead();
        assert!((live - jump).abs() < SECOND, "{live} after {jump}");
    }
}

#[test]
fn a_leader_whose_clock_stands_still_or_is_too_fast_goes_on() {
    for gain in [-1, 2] {
        let (mut cluster, leader) = cluster();
        cluster.house(leader).host.gain.store(gain, Relaxed);
        assert_in_time(&mut cluster, &format!("{gain} times faster"));
    }
}

#[test]
fn a_consumer_whose_leader_has_a_clock_that_stands_still_delivers_again() {
    let (mut cluster, leader) = cluster();
    let heard = cluster.house(leader).record("to.me");
    cluster.house(leader).host.gain.store(-1, Relaxed);
    ask(&mut cluster, leader, "C", 100);
    cluster.pass(5 * BEATS);
    let count = lock(&heard).iter().filter_map(seq_of).filter(|seq| *seq == 1).count();
    assert!(count >= 2, "it was delivered {count} times in five seconds, and never acknowledged");
}

/// Of two clocks nobody knows which is right.
#[test]
fn two_servers_go_by_their_own_clocks() {
    let mut cluster = Cluster::with(2, stream("S"));
    (0..2).for_each(|number| cluster.house(number).host.keeps_time.store(true, Relaxed));
    cluster.pass(BEATS);
    cluster.house(1).host.now.fetch_add(3600 * SECOND, Relaxed);
    cluster.pass(BEATS);
    assert_eq!(cluster.house(1).jetstream.clock_ahead(), 0);
}
