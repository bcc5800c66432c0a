//! Members that are set aside, as clients cannot reach their servers: they lead nothing, whatever
//! becomes of their replicas, and nobody waits for them.

use super::meta_cluster::MetaCluster;
use crate::engine::meta::peer_of;
use std::sync::Arc;

const CREATE: &str = r#"{"name":"S","subjects":["S.>"],"storage":"memory","num_replicas":3}"#;

/// Three servers with a stream in memory, and which of them leads it.
fn cluster() -> (MetaCluster, usize) {
    let (mut cluster, leader) = MetaCluster::with_stream(3, CREATE);
    cluster.publish(leader, "one");
    cluster.pass(10);
    assert_eq!(cluster.contents(), [(1, 1); 3]);
    (cluster, leader)
}

fn set_aside(cluster: &mut MetaCluster, number: usize) {
    let jetstream = Arc::clone(&cluster.house(number).jetstream);
    jetstream.set_aside_in("$G");
    cluster.settle();
}

/// Has the leader hand over to a certain server, and waits for longer than that may take. Answers
/// whether it leads then.
fn takes_lead(cluster: &mut MetaCluster, to: usize) -> bool {
    let leader = cluster.elect();
    cluster.house(leader).stream("S").hand_over_to(peer_of(&format!("n{}", to + 1)));
    cluster.pass(40);
    cluster.elect() == to
}

#[test]
fn a_member_that_is_set_aside_leads_nothing_though_its_replica_begins_anew() {
    let (mut cluster, leader) = cluster();
    let (aside, third) = ((leader + 1) % 3, (leader + 2) % 3);
    set_aside(&mut cluster, aside);
    assert!(!takes_lead(&mut cluster, aside));
    let failed = cluster.house(aside).stream("S");
    let mut guard = failed.lock_core().expect("it is there");
    let (core, effects) = guard.parts();
    core.store().give_up("a test asked for it");
    core.released(effects);
    drop(guard);
    cluster.wait_until("another replica", |cluster| {
        !Arc::ptr_eq(&failed, &cluster.house(aside).stream("S")) && cluster.contents() == [(1, 1); 3]
    });
    cluster.pass(40);
    assert!(!takes_lead(&mut cluster, aside), "it is aside still");
    cluster.house(aside).jetstream.lead_again_in("$G");
    cluster.settle();
    assert!(takes_lead(&mut cluster, third) && takes_lead(&mut cluster, aside));
}

#[test]
fn a_stream_whose_servers_are_all_set_aside_stays_and_holds_no_publish() {
    let (mut cluster, leader) = cluster();
    [(leader + 1) % 3, (leader + 2) % 3, leader].iter().for_each(|&number| set_aside(&mut cluster, number));
    for pause in 0..3 {
        set_aside(&mut cluster, leader);
        cluster.publish(leader, "more");
        assert_eq!((cluster.acks(), cluster.leader()), (pause + 2, Some(leader)), "at once");
        cluster.pass(20);
    }
    // One that has not heard of it is told when it hands over.
    let live = cluster.house(leader).stream("S");
    live.hand_over_to(peer_of(&format!("n{}", (leader + 1) % 3 + 1)));
    cluster.settle();
    cluster.pass(1);
    cluster.publish(leader, "last");
    assert_eq!((cluster.acks(), cluster.leader()), (5, Some(leader)));
    // And whoever may lead again says so.
    cluster.house((leader + 1) % 3).jetstream.lead_again_in("$G");
    cluster.settle();
    set_aside(&mut cluster, leader);
    cluster.wait_until("another leader", |cluster| cluster.leader() == Some((leader + 1) % 3));
}
