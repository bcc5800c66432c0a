//! Counts: deliveries of subscriptions, messages and bytes, connections.

use super::net::{Net, Peer, assert_idle};
use std::sync::Arc;

fn messages(peer: &Peer) -> usize {
    peer.received().matches("MSG ").count()
}

#[test]
fn a_limit_counts_from_the_start_over_both_shards_and_cohorts() {
    let net = Net::new();
    let (mut subscriber, mut member) = (net.peer(0), net.peer(1));
    let mut publishers = [net.peer(0), net.peer(1)];
    for peer in [&mut subscriber, &mut member] {
        peer.send("SUB a 1\r\n");
    }
    for publisher in &mut publishers {
        for _ in 0..4 {
            publisher.publish("a", "x");
        }
    }
    net.flush_all();
    subscriber.send("UNSUB 1 10\r\n");
    for publisher in &mut publishers {
        for _ in 0..4 {
            publisher.publish("a", "x");
        }
    }
    net.flush_all();
    assert_eq!((messages(&subscriber), messages(&member)), (10, 16));
    assert_eq!(subscriber.conn().subscription_count(), 0);
}

#[test]
fn messages_that_this_shard_has_staged_count_towards_a_limit() {
    let net = Net::new();
    let (mut subscriber, mut publisher) = (net.peer(0), net.peer(0));
    subscriber.send("SUB a 1\r\n");
    for _ in 0..5 {
        publisher.publish("a", "x");
    }
    subscriber.send("UNSUB 1 5\r\n");
    publisher.publish("a", "x");
    net.flush(0);
    assert_eq!(messages(&subscriber), 5);
    assert_eq!(subscriber.conn().subscription_count(), 0);
}

/// The other shard's staged messages are counted when it flushes. A limit that they exceed must end
/// the subscription then, or its sid would be taken for ever.
#[test]
fn a_limit_that_the_other_shard_had_passed_already_ends_the_subscription() {
    let net = Net::new();
    let (mut subscriber, mut publisher) = (net.peer(0), net.peer(1));
    subscriber.send("SUB a 1\r\n");
    for _ in 0..5 {
        publisher.publish("a", "x");
    }
    subscriber.send("UNSUB 1 3\r\n");
    net.flush(1);
    assert_eq!(messages(&subscriber), 5, "sent before the limit was known");
    publisher.publish("a", "x");
    net.flush(1);
    assert_eq!(messages(&subscriber), 0);
    assert_eq!(subscriber.conn().subscription_count(), 0);
    subscriber.send("SUB b 1\r\n");
    publisher.publish("b", "x");
    net.flush(1);
    assert_eq!(messages(&subscriber), 1, "the sid is free again");
}

#[test]
fn a_limit_may_be_replaced_and_one_that_is_reached_ends_at_once() {
    let net = Net::new();
    let (mut subscriber, mut publisher) = (net.peer(0), net.peer(1));
    subscriber.send("SUB a 1\r\nUNSUB 1 2\r\nUNSUB 1 4\r\n");
    for _ in 0..3 {
        publisher.publish("a", "x");
    }
    net.flush(1);
    assert_eq!(messages(&subscriber), 3);
    subscriber.send("UNSUB 1 3\r\n");
    assert_eq!(subscriber.conn().subscription_count(), 0);
    publisher.publish("a", "x");
    net.flush(1);
    assert_eq!(messages(&subscriber), 0);
}

#[test]
fn a_limit_of_zero_ends_at_once() {
    let net = Net::new();
    let mut peer = net.peer(0);
    peer.send("SUB a 1\r\nUNSUB 1 0\r\nSUB a 2\r\nUNSUB 2 x\r\nPUB a 0\r\n\r\n");
    net.flush(0);
    assert_eq!((messages(&peer), peer.conn().subscription_count()), (0, 0));
}

#[test]
fn a_reached_limit_frees_the_sid() {
    let net = Net::new();
    let mut peer = net.peer(0);
    peer.send("SUB a 1\r\nUNSUB 1 1\r\nPUB a 1\r\n1\r\nSUB b 1\r\nPUB a 1\r\n2\r\nPUB b 1\r\n3\r\n");
    net.flush(0);
    assert_eq!(peer.received(), "MSG a 1 1\r\n1\r\nMSG b 1 1\r\n3\r\n");
}

#[test]
fn a_subscription_knows_what_it_was_delivered() {
    let net = Net::new();
    let mut listeners = [net.peer(0), net.peer(1), net.peer(1), net.peer_as(0, r#""echo":false"#)];
    for (peer, line) in listeners.iter_mut().zip(["a 1", "a 1", "* q 1", "a 1"]) {
        peer.send(format!("SUB {line}\r\n"));
    }
    listeners[0].send("UNSUB 1 100\r\n");
    let mut publisher = net.peer(1);
    for n in 0..20 {
        publisher.publish("a", "x");
        listeners[3].publish("a", "x");
        if n % 6 == 0 {
            net.flush_all();
        }
    }
    net.flush_all();
    for peer in &listeners {
        let delivered = peer.conn().subscriptions()[0].delivered();
        assert_eq!((delivered, peer.conn().sent().0), (messages(peer) as u64, delivered));
    }
    assert_eq!(listeners[3].conn().sent().0, 20, "not its own");
}

#[test]
fn traffic_is_counted_by_message_and_payload() {
    let net = Net::new();
    let mut listeners = [net.peer(0), net.peer(1)];
    for peer in &mut listeners {
        peer.send("SUB a 1\r\nSUB a q 2\r\n");
    }
    let mut publishers = [net.peer(0), net.peer(1)];
    for publisher in &mut publishers {
        publisher.send("PUB a 3\r\nxyz\r\n".repeat(4) + "HPUB a 12 14\r\nNATS/1.0\r\n\r\nhi\r\nPING\r\n");
        publisher.send("PUB $GR.refused 2\r\nhi\r\n");
    }
    net.flush_all();
    // Two plain listeners and one member of the group for each message.
    assert_eq!(net.broker.traffic(), [12, 2 * (4 * 3 + 14 + 2), 30, 6 * (4 * 3 + 14)]);
    assert_eq!(publishers[0].conn().received(), (6, 28));
    let sent = listeners.each_ref().map(|peer| peer.conn().sent());
    assert_eq!((sent[0].0 + sent[1].0, sent[0].1 + sent[1].1), (30, 156));
    assert_eq!(publishers[0].conn().sent(), (0, 0), "PONG is no message");
}

#[test]
fn everything_is_given_back_in_the_end() {
    let net = Net::new();
    let mut peers = [net.peer(0), net.peer(1), net.peer(0)];
    for peer in &mut peers {
        peer.send("SUB a 1\r\nSUB b.* q 2\r\nPING\r\n");
        peer.publish("a", &"x".repeat(3000));
        peer.publish("b.c", &"y".repeat(20_000));
    }
    net.flush_all();
    assert_idle(&net, &peers.each_ref());
    for peer in &mut peers {
        peer.leave();
    }
    let account = net.broker.account("$G").unwrap();
    assert_eq!((account.connections(), account.subscriptions()), (0, 0));
    assert_eq!(net.broker.connection_counts(), (0, 3));
}

#[test]
fn an_ended_connection_is_remembered() {
    let net = Net::with(|setup| setup.settings.max_closed_clients = 2);
    for n in 1..=3 {
        let mut peer = net.peer_as(0, &format!(r#""name":"n{n}""#));
        peer.send("SUB a 1\r\nPUB a 2\r\nhi\r\n");
        net.flush(0);
        peer.leave();
    }
    let closed = net.broker.closed_connections();
    assert_eq!(closed.iter().map(|c| &*c.details.name).collect::<Vec<_>>(), ["n2", "n3"]);
    assert_eq!((closed[0].received, closed[0].sent, closed[0].subscriptions), ((1, 2), (1, 2), 1));
}

#[test]
fn an_ended_connection_is_let_go_of() {
    let net = Net::new();
    let (mut left, mut right, mut publisher) = (net.peer(0), net.peer(0), net.peer(0));
    for peer in [&mut left, &mut right] {
        peer.send("SUB a 1\r\nSUB b q 2\r\n");
    }
    for subject in ["a", "b"] {
        for _ in 0..3 {
            publisher.publish(subject, "x");
        }
    }
    net.flush(0);
    let conn = Arc::downgrade(left.conn());
    left.leave();
    drop(left);
    net.rest(0);
    assert_eq!(conn.strong_count(), 0, "routes and cohorts hold it no longer");
    publisher.publish("a", "still");
    net.flush(0);
    assert!(right.received().ends_with("MSG a 1 5\r\nstill\r\n"));
}

#[test]
fn a_very_large_removal_is_left_to_the_caller() {
    const MANY: usize = 5000;
    let net = Net::new();
    let (mut hoarder, mut other, mut publisher) = (net.peer(0), net.peer(0), net.peer(1));
    hoarder.send((0..MANY).map(|n| format!("SUB a.{n} {n}\r\n")).collect::<String>());
    hoarder.send("SUB work q x\r\n");
    other.send("SUB work q 1\r\n");
    let account = net.broker.account("$G").unwrap();
    assert_eq!(account.subscriptions(), MANY + 2);
    let removal = hoarder.end_slowly().expect("too many to remove at once");
    assert_eq!((account.connections(), hoarder.conn().subscription_count()), (2, 0));
    // Until it has run, nobody takes the ended connection for a receiver.
    for _ in 0..20 {
        publisher.publish("work", "x");
    }
    publisher.publish("a.7", "x");
    net.flush_all();
    assert_eq!((messages(&other), messages(&hoarder)), (20, 0));
    removal.run();
    assert_eq!(account.subscriptions(), 1);
}
