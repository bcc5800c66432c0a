//! Full disks of a group: whoever has room goes on, whoever has none says so, and is as the others
//! soon after there is some.

use super::super::cluster::{Cluster, peer};
use super::super::house::stream;
use crate::engine::host::Host as _;
use myelin_store::Purge;

const FULL: &str = "insufficient resources";

/// So large that what is kept free on a disk is used up by some of them.
fn large(n: usize) -> String {
    format!("{n} {}", "x".repeat(128 << 10))
}

fn fill(cluster: &Cluster, number: usize) {
    let disk = cluster.disk(number);
    disk.set_capacity(Some(disk.used()));
}

fn free(cluster: &Cluster, number: usize) {
    cluster.disk(number).set_capacity(None);
}

fn is_full(cluster: &mut Cluster, number: usize) -> bool {
    cluster.house(number).stream("S").is_full()
}

fn refusals(cluster: &Cluster) -> usize {
    cluster.answers().iter().filter(|(_, said)| said.contains(FULL)).count()
}

/// Publishes to whoever leads until so many more are acknowledged.
fn publish_acknowledged(cluster: &mut Cluster, count: usize) {
    let wanted = cluster.acks() + count;
    for n in 0..10 * count {
        let leader = cluster.elect();
        cluster.publish(leader, &large(n));
        cluster.pass(2);
        if cluster.acks() >= wanted {
            return;
        }
    }
    panic!("not acknowledged: {:?}", cluster.statuses());
}

fn are_same(cluster: &Cluster) -> bool {
    let contents = cluster.contents();
    contents.iter().all(|content| *content == contents[0]) && contents[0].1 >= cluster.acks() as u64
}

#[test]
fn a_follower_whose_disk_is_full_has_all_when_there_is_room() {
    for sync_always in [false, true] {
        let mut cluster = Cluster::seeded(3, stream("S"), sync_always, 1);
        let leader = cluster.elect();
        let victim = (leader + 1) % 3;
        cluster.publish(leader, "one");
        for _ in 0..2 {
            fill(&cluster, victim);
            publish_acknowledged(&mut cluster, 200);
            assert!(is_full(&mut cluster, victim), "{:?}", cluster.statuses());
            assert!(cluster.contents()[victim].1 < cluster.contents()[leader].1, "it has no room for them");
            assert_eq!(cluster.house(victim).stream("S").failure(), None, "it has what it has");
            free(&cluster, victim);
            cluster.pass(60);
            assert!(are_same(&cluster) && !is_full(&mut cluster, victim), "{:?}", cluster.statuses());
        }
        let host = &cluster.house(victim).host;
        assert!(host.warnings_with("'$G' > 'S' takes nothing from its leader until there is some") > 1);
        assert!(host.infos_with("'$G > S' has room on the disk again") > 1);
    }
}

#[test]
fn a_leader_whose_disk_is_full_has_another_one_lead() {
    for sync_always in [false, true] {
        let mut cluster = Cluster::seeded(3, stream("S"), sync_always, 1);
        let full = cluster.elect();
        cluster.publish(full, "one");
        fill(&cluster, full);
        publish_acknowledged(&mut cluster, 60);
        assert!(!cluster.leads(full), "{:?}", cluster.statuses());
        assert!(cluster.house(full).host.warnings_with("'$G' > 'S' refuses messages") > 0);
        // Nor does it when the other one hands over.
        for _ in 0..3 {
            let leader = cluster.elect();
            cluster.house(leader).stream("S").hand_over();
            cluster.pass(30);
            assert_ne!(cluster.elect(), full, "{:?}", cluster.statuses());
        }
        free(&cluster, full);
        cluster.pass(60);
        assert!(are_same(&cluster) && !is_full(&mut cluster, full), "{:?}", cluster.statuses());
        cluster.house(full).host.stand_still();
        let leader = cluster.elect();
        cluster.kill(leader);
        publish_acknowledged(&mut cluster, 5);
    }
}

/// A leader with room decides nothing that would wait for a disk: publishers hear why.
#[test]
fn messages_are_refused_as_long_as_most_disks_are_full() {
    let mut cluster = Cluster::new(3);
    let leader = cluster.elect();
    cluster.publish(leader, "one");
    (0..3).filter(|number| *number != leader).for_each(|number| fill(&cluster, number));
    for n in 0..200 {
        cluster.publish(leader, &large(n));
        cluster.pass(1);
    }
    let (acks, refused) = (cluster.acks(), refusals(&cluster));
    assert!(refused > 100 && cluster.leads(leader), "{acks} {refused} {:?}", cluster.statuses());
    assert!(!is_full(&mut cluster, leader));
    let last =
        cluster.house(leader).stream("S").lock_core().expect("it is there").parts().0.state().totals.last_seq;
    assert!(last <= acks as u64 + 2, "{last} are decided, {acks} acknowledged");
    let other = (leader + 1) % 3;
    free(&cluster, other);
    cluster.pass(60);
    publish_acknowledged(&mut cluster, 10);
    free(&cluster, (leader + 2) % 3);
    cluster.pass(60);
    assert!(are_same(&cluster), "{:?}", cluster.statuses());
}

/// As with a stream on one server: what is removed makes room for what removes it, and for more.
#[test]
fn a_purge_makes_room_where_all_disks_are_full() {
    let mut cluster = Cluster::seeded(3, stream("S"), true, 1);
    let leader = cluster.elect();
    for n in 0..100 {
        cluster.publish(leader, &large(n));
    }
    (0..3).for_each(|number| fill(&cluster, number));
    for n in 0..200 {
        let leader = cluster.elect();
        cluster.publish(leader, &large(n));
        cluster.pass(1);
    }
    assert!(refusals(&cluster) > 50, "{:?}", cluster.statuses());
    let leader = cluster.elect();
    let (live, now) = (cluster.house(leader).stream("S"), cluster.house(leader).host.now());
    let mut guard = live.lock_core().expect("it is there");
    let (core, effects) = guard.parts();
    let mut all = Purge { through: core.state().totals.last_seq, ..Purge::default() };
    core.purge(&mut all, now, effects).expect("there is room for a removal");
    drop(guard);
    cluster.pass(100);
    publish_acknowledged(&mut cluster, 20);
    cluster.pass(60);
    let contents = cluster.contents();
    assert!(contents.iter().all(|content| *content == contents[0]), "{contents:?} {:?}", cluster.statuses());
}

/// Without a leader nothing could make room.
#[test]
fn a_group_whose_disks_are_all_full_elects_a_leader() {
    let mut cluster = Cluster::new(3);
    let leader = cluster.elect();
    cluster.publish(leader, "one");
    (0..3).for_each(|number| fill(&cluster, number));
    for n in 0..60 {
        let leader = cluster.elect();
        cluster.publish(leader, &large(n));
        cluster.pass(1);
    }
    let leader = cluster.elect();
    cluster.kill(leader);
    cluster.elect();
    cluster.begin(leader);
    (0..3).for_each(|number| free(&cluster, number));
    cluster.pass(100);
    publish_acknowledged(&mut cluster, 5);
    cluster.pass(60);
    assert!(are_same(&cluster), "{:?}", cluster.statuses());
}

/// Nothing is left of what is kept free either: not even the first entry of a leader finds room.
#[test]
fn a_group_whose_disks_are_full_to_the_last_byte_goes_on_when_there_is_room() {
    let mut cluster = Cluster::new(3);
    let leader = cluster.elect();
    cluster.publish(leader, "one");
    for number in 0..3 {
        cluster.house(number).jetstream.store.headroom().release().expect("a healthy disk");
        fill(&cluster, number);
    }
    for n in 0..40 {
        cluster.publish(leader, &large(n));
        cluster.pass(1);
    }
    cluster.house(leader).stream("S").hand_over_to(Some(peer((leader + 1) % 3)));
    cluster.pass(100);
    (0..3).for_each(|number| free(&cluster, number));
    cluster.pass(100);
    publish_acknowledged(&mut cluster, 5);
    cluster.pass(60);
    assert!(are_same(&cluster), "{:?}", cluster.statuses());
}
