//! Streams of a group that copy others, or that others copy.

use super::super::cluster::Cluster;
use super::super::house::{House, copy, source, stream};
use super::faults::break_disk;
use myelin_jsapi::config::{AccountLimits, Storage, StreamConfig};
use myelin_jsapi::consumer::config::{AckPolicy, ConsumerConfig};
use std::sync::atomic::Ordering::Relaxed;

/// A group that copies the stream O, which each server has by itself: by a mirror, and by a source.
fn copies() -> [StreamConfig; 2] {
    let mirror = StreamConfig { mirror: Some(source("O", "")), ..copy("S", &[]) };
    [mirror, copy("S", &[source("O", "")])]
}

fn copying(config: &StreamConfig) -> Cluster {
    let mut cluster = Cluster::with(3, config.clone());
    (0..3).for_each(|number| cluster.house(number).create(stream("O")));
    cluster
}

/// Publishes to the origins of all servers.
fn publish(cluster: &mut Cluster, count: usize) {
    for number in 0..3 {
        (0..count).for_each(|_| cluster.house(number).publish("O.x"));
    }
    cluster.settle();
}

/// As a server carries out what its stream is assigned.
fn update(house: &mut House, config: StreamConfig) {
    house.host.has_sync_thread.store(false, Relaxed);
    house.update(config).expect("it may");
    house.host.has_sync_thread.store(true, Relaxed);
}

/// Whether a server reads what its stream copies.
fn reads(cluster: &mut Cluster, number: usize) -> bool {
    let (mirror, sources) = cluster.house(number).stream("S").sourcing_info();
    mirror.is_some() || !sources.is_empty()
}

/// Another server leads, and has all that the origin has by then.
fn goes_on_without(cluster: &mut Cluster, leader: usize) {
    cluster.isolated.push(leader);
    publish(cluster, 5);
    let next = cluster.elect();
    cluster.pass(20);
    let has = cluster.house(next).stream("O").state(false).messages;
    assert_eq!(cluster.contents()[next], (has, has));
}

#[test]
fn a_follower_that_gets_another_configuration_copies_nothing() {
    for config in copies() {
        let mut cluster = copying(&config);
        let leader = cluster.elect();
        publish(&mut cluster, 3);
        cluster.pass(4);
        assert_eq!(cluster.contents(), [(3, 3); 3]);
        for number in 0..3 {
            let config = StreamConfig { description: "another".into(), ..config.clone() };
            update(cluster.house(number), config);
            assert_eq!(reads(&mut cluster, number), number == leader);
        }
        goes_on_without(&mut cluster, leader);
    }
}

#[test]
fn a_follower_whose_account_may_use_jetstream_again_copies_nothing() {
    for config in copies() {
        let mut cluster = copying(&config);
        let leader = cluster.elect();
        publish(&mut cluster, 3);
        for number in (0..3).filter(|number| *number != leader) {
            rest(cluster.house(number));
            assert!(!reads(&mut cluster, number));
        }
        goes_on_without(&mut cluster, leader);
    }
}

/// The account of a server may use JetStream no more, and then again.
fn rest(house: &mut House) {
    house.jetstream.disable("$G");
    house.settle();
    enable(house);
}

fn enable(house: &mut House) {
    let account = house.account.clone();
    house.jetstream.enable(&account, Some(AccountLimits::default())).expect("it is promised nothing");
    house.settle();
}

/// Clients would hear of consumers that were made elsewhere since that there are none.
#[test]
fn a_follower_whose_account_may_use_jetstream_again_hears_no_acknowledgements() {
    let mut cluster = Cluster::new(3);
    let first = cluster.elect();
    let durable = ConsumerConfig {
        name: "C".into(),
        durable_name: "C".into(),
        ack_policy: AckPolicy::Explicit,
        ..ConsumerConfig::default()
    };
    cluster.house(first).consume("S", durable);
    cluster.pass(4);
    let hears = |house: &House| house.account.has_interest(b"$JS.ACK.S.C.1.1.1.1.0");
    assert!(hears(cluster.house(first)));
    cluster.isolated.push(first);
    cluster.elect();
    cluster.isolated.clear();
    cluster.pass(60);
    assert!(!cluster.leads(first) && !hears(cluster.house(first)));
    rest(cluster.house(first));
    assert!(!hears(cluster.house(first)));
}

/// A mirror of this server reads the replica that is here.
#[test]
fn who_copies_a_replica_goes_on_when_that_was_opened_anew() {
    for breaks_leader in [false, true] {
        let mut cluster = Cluster::new(3);
        let leader = cluster.elect();
        let victim = if breaks_leader { leader } else { (leader + 1) % 3 };
        let mirror = Some(source("S", ""));
        let storage = Storage::Memory;
        cluster.house(victim).create(StreamConfig { mirror, storage, ..copy("M", &[]) });
        cluster.publish(leader, "one");
        cluster.pass(10);
        assert_eq!(cluster.house(victim).contents("M"), (1, 1));
        break_disk(&cluster, victim);
        cluster.publish(leader, "two");
        cluster.pass(4);
        cluster.disk(victim).heal();
        cluster.pass(2400);
        let leader = cluster.elect();
        cluster.publish(leader, "three");
        cluster.pass(10);
        let has = cluster.contents()[leader];
        assert_eq!(cluster.house(victim).contents("M"), has, "{breaks_leader}: {:?}", cluster.statuses());
    }
}

/// A group goes on without its clients, and elects leaders.
#[test]
fn a_server_that_begins_to_lead_for_an_account_without_jetstream_serves_nobody() {
    for config in copies() {
        let mut cluster = copying(&config);
        let leader = cluster.elect();
        publish(&mut cluster, 3);
        let others: Vec<usize> = (0..3).filter(|number| *number != leader).collect();
        for &number in &others {
            cluster.house(number).jetstream.disable("$G");
        }
        cluster.isolated.push(leader);
        let next = cluster.elect();
        publish(&mut cluster, 5);
        cluster.pass(4);
        assert!(!reads(&mut cluster, next));
        assert_eq!(cluster.contents()[next], (3, 3));
        others.iter().for_each(|&number| enable(cluster.house(number)));
        publish(&mut cluster, 1);
        cluster.pass(20);
        let has = cluster.house(next).stream("O").state(false).messages;
        assert!(has > 3 && cluster.contents()[next] == (has, has));
    }
}
