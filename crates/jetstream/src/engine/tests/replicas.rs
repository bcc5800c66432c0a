//! Streams on several servers that are one group: what is acknowledged is on a majority, and goes
//! on when a server is gone.

mod agreement;
mod clocks;
mod consumers;
mod damaged;
mod dead_letters;
mod faults;
mod full_disks;
mod installs;
mod lives;
mod memory_consumers;
mod messages;
mod sourcing;

use super::cluster::Cluster;
use super::house::stream;
use myelin_replica::RaftRole;
use std::collections::BTreeSet;
use std::time::Duration;

#[test]
fn a_publish_is_acknowledged_when_a_majority_has_it() {
    let mut cluster = Cluster::new(3);
    let leader = cluster.elect();
    cluster.publish(leader, "one");
    assert_eq!(cluster.acks(), 1);
    cluster.pass(4);
    assert_eq!(cluster.contents(), [(1, 1); 3], "all hear what is committed");
    cluster.isolated.push(leader);
    cluster.publish(leader, "two");
    assert_eq!(cluster.acks(), 1, "nobody else has it");
}

#[test]
fn a_follower_takes_nothing_and_answers_nothing() {
    let mut cluster = Cluster::new(3);
    let leader = cluster.elect();
    cluster.publish((leader + 1) % 3, "one");
    cluster.pass(4);
    assert_eq!((cluster.acks(), cluster.contents()), (0, vec![(0, 0); 3]));
}

#[test]
fn another_server_leads_when_one_has_ended() {
    let mut cluster = Cluster::new(3);
    let first = cluster.elect();
    for _ in 0..10 {
        cluster.publish(first, "x");
    }
    cluster.kill(first);
    let second = cluster.elect();
    cluster.publish(second, "y");
    assert_eq!(cluster.acks(), 11);
    cluster.begin(first);
    cluster.pass(60);
    assert_eq!(cluster.contents(), [(11, 11); 3]);
    assert_eq!(cluster.role(first), RaftRole::Follower, "it leads no more");
}

#[test]
fn what_an_isolated_leader_has_decided_is_taken_back() {
    let mut cluster = Cluster::new(3);
    let first = cluster.elect();
    cluster.publish(first, "one");
    cluster.isolated.push(first);
    cluster.publish(first, "lost");
    let second = cluster.elect();
    cluster.publish(second, "two");
    cluster.isolated.clear();
    cluster.pass(60);
    assert_eq!((cluster.acks(), cluster.contents()), (2, vec![(2, 2); 3]));
}

#[test]
fn all_servers_end_and_come_back() {
    let mut cluster = Cluster::new(3);
    let leader = cluster.elect();
    for _ in 0..10 {
        cluster.publish(leader, "x");
    }
    (0..3).for_each(|number| cluster.kill(number));
    (0..3).for_each(|number| cluster.begin(number));
    let leader = cluster.elect();
    cluster.publish(leader, "y");
    cluster.pass(4);
    assert_eq!((cluster.acks(), cluster.contents()), (11, vec![(11, 11); 3]));
}

#[test]
fn leadership_that_is_handed_over_goes_round() {
    let mut cluster = Cluster::new(3);
    let mut leader = cluster.elect();
    cluster.publish(leader, "x");
    let mut led = BTreeSet::from([leader]);
    for _ in 0..2 {
        // So that both others have as much.
        cluster.pass(4);
        cluster.house(leader).stream("S").hand_over();
        cluster.settle();
        let before = leader;
        for _ in 0..200 {
            cluster.pass(1);
            leader = cluster.elect();
            if leader != before {
                break;
            }
        }
        led.insert(leader);
    }
    assert_eq!(led.len(), 3, "{led:?}");
}

/// As if its process had stood still for longer than others support it.
#[test]
fn a_leader_that_may_be_none_any_more_answers_nothing_and_holds_publishes() {
    let mut cluster = Cluster::new(3);
    let first = cluster.elect();
    cluster.pass(40);
    let live = cluster.house(first).stream("S");
    assert!(live.leads_surely());
    cluster.isolated.push(first);
    cluster.house(first).host.sleep(Duration::from_millis(1_400));
    assert!(live.role().leads() && !live.leads_surely(), "others may have elected somebody else");
    cluster.publish(first, "one");
    assert_eq!((cluster.acks(), live.reader().state().totals.last_seq), (0, 0), "it is held");
    cluster.isolated.clear();
    cluster.pass(60);
    assert_eq!((cluster.acks(), cluster.contents()), (1, vec![(1, 1); 3]));
    assert!(live.leads_surely());
}

/// Members of a group that goes on wait for a shorter time than their servers support the leader's.
#[test]
fn nobody_else_leads_while_a_leader_that_is_cut_off_may_be_sure() {
    for seed in 1..=40 {
        let mut cluster = Cluster::seeded(3, stream("S"), false, seed);
        let first = cluster.elect();
        // More or less of the time between two words to a server has passed.
        for _ in 0..40 + seed % 7 {
            cluster.publish(first, "x");
            cluster.pass(1);
        }
        cluster.isolated.push(first);
        let mut beats = 0;
        while cluster.leader().is_none() {
            cluster.pass(1);
            beats += 1;
            assert!(beats < 100, "{seed}: nobody leads");
        }
        assert!(!cluster.house(first).stream("S").leads_surely(), "{seed}: after {beats} beats");
    }
}
