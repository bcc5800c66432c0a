//! Queue groups: exactly one member of each gets a message.

use super::net::{Net, Peer};
use crate::subscription::Admission;
use myelin_wire::error::CloseReason;

fn members<const N: usize>(net: &Net, line: &str) -> [Peer; N] {
    std::array::from_fn(|i| {
        let mut peer = net.peer(i % 2);
        peer.send(line);
        peer
    })
}

fn messages(peer: &Peer) -> usize {
    peer.received().matches("MSG ").count()
}

#[test]
fn each_member_gets_a_share() {
    let net = Net::new();
    let group: [Peer; 4] = members(&net, "SUB a q 1\r\n");
    let mut publishers = [net.peer(0), net.peer(1)];
    for publisher in &mut publishers {
        for _ in 0..200 {
            publisher.publish("a", "x");
        }
    }
    net.flush_all();
    let shares = group.each_ref().map(messages);
    assert_eq!(shares.iter().sum::<usize>(), 400);
    assert!(shares.iter().all(|n| (50..=150).contains(n)), "{shares:?}");
}

#[test]
fn plain_subscriptions_come_before_queue_members() {
    let net = Net::new();
    let (mut peer, mut publisher) = (net.peer(0), net.peer(0));
    peer.send("SUB a q 1\r\nSUB a 2\r\nSUB * p 3\r\nSUB > 4\r\n");
    for _ in 0..5 {
        publisher.publish("a", "x");
        net.flush(0);
        let text = peer.received();
        let mut sids: Vec<&str> = text.lines().step_by(2).map(|line| &line[6..7]).collect();
        assert_eq!(sids.len(), 4);
        sids[..2].sort_unstable();
        sids[2..].sort_unstable();
        assert_eq!(sids, ["2", "4", "1", "3"]);
    }
}

#[test]
fn every_group_gets_the_message_once() {
    let net = Net::new();
    let first: [Peer; 2] = members(&net, "SUB a first 1\r\n");
    let second: [Peer; 3] = members(&net, "SUB a second 1\r\n");
    let mut publisher = net.peer(0);
    for _ in 0..30 {
        publisher.publish("a", "x");
    }
    net.flush(0);
    assert_eq!(first.each_ref().map(messages).iter().sum::<usize>(), 30);
    assert_eq!(second.each_ref().map(messages).iter().sum::<usize>(), 30);
}

#[test]
fn one_queue_name_on_several_patterns_is_one_group() {
    let net = Net::new();
    let mut group = [net.peer(0), net.peer(1), net.peer(1)];
    for (peer, pattern) in group.iter_mut().zip(["a.b", "a.*", ">"]) {
        peer.send(format!("SUB {pattern} q 1\r\n"));
    }
    let mut publisher = net.peer(0);
    for _ in 0..60 {
        publisher.publish("a.b", "x");
    }
    net.flush(0);
    let shares = group.each_ref().map(messages);
    assert_eq!(shares.iter().sum::<usize>(), 60);
    assert!(shares.iter().all(|n| *n > 0), "{shares:?}");
}

#[test]
fn a_closing_member_is_passed_over() {
    let net = Net::new();
    let mut group: [Peer; 3] = members(&net, "SUB a q 1\r\n");
    group[1].send("SUB own 2\r\n");
    let mut publisher = net.peer(0);
    publisher.publish("a", "x");
    publisher.publish("a", "x");
    net.flush(0);
    group.iter().for_each(|peer| drop(peer.received()));
    // The shard has something staged for it already.
    publisher.publish("own", "x");
    group[1].conn().close(CloseReason::SlowConsumerPendingBytes);
    for _ in 0..50 {
        publisher.publish("a", "x");
    }
    net.flush(0);
    let shares = group.each_ref().map(|peer| peer.received().matches("MSG a ").count());
    assert_eq!((shares[1], shares.iter().sum::<usize>()), (0, 50));
}

#[test]
fn a_member_that_the_other_shard_has_just_used_up_is_passed_over() {
    let net = Net::new();
    let mut group: [Peer; 2] = members(&net, "SUB a q 1\r\n");
    group[0].send("UNSUB 1 1\r\n");
    // As the other shard does, which has not yet come to remove it.
    let admission = group[0].conn().subscription(b"1").unwrap().admit();
    assert_eq!(admission, Admission::DeliverLast);
    let mut publisher = net.peer(0);
    for _ in 0..20 {
        publisher.publish("a", "x");
    }
    net.flush(0);
    assert_eq!(group.each_ref().map(messages), [0, 20]);
}

#[test]
fn a_member_that_leaves_in_the_middle_loses_nothing_for_the_others() {
    let net = Net::new();
    let mut group: [Peer; 2] = members(&net, "SUB a q 1\r\n");
    let mut publisher = net.peer(0);
    for _ in 0..20 {
        publisher.publish("a", "x");
    }
    net.flush(0);
    group[0].leave();
    let before = group.each_ref().map(messages).iter().sum::<usize>();
    for _ in 0..20 {
        publisher.publish("a", "x");
    }
    net.flush(0);
    assert_eq!((before, messages(&group[1])), (20, 20));
}

#[test]
fn a_publisher_without_echo_is_passed_over() {
    let net = Net::new();
    let mut other: [Peer; 1] = members(&net, "SUB a q 1\r\n");
    let mut publisher = net.peer_as(1, r#""echo":false"#);
    publisher.send("SUB a q 1\r\n");
    for _ in 0..20 {
        publisher.publish("a", "x");
    }
    net.flush_all();
    assert_eq!((messages(&other[0]), messages(&publisher)), (20, 0));
    // The others' messages it does get.
    for _ in 0..40 {
        other[0].publish("a", "x");
    }
    net.flush_all();
    assert!(messages(&publisher) > 0);
}

#[test]
fn a_member_at_its_limit_gives_way_to_the_next() {
    let net = Net::new();
    let mut group: [Peer; 2] = members(&net, "SUB a q 1\r\n");
    group[0].send("UNSUB 1 3\r\n");
    let mut publisher = net.peer(0);
    for _ in 0..30 {
        publisher.publish("a", "x");
    }
    net.flush(0);
    assert_eq!(group.each_ref().map(messages), [3, 27]);
    assert_eq!(group[0].conn().subscription_count(), 0);
}

#[test]
fn when_all_members_are_at_their_limit_the_group_is_gone() {
    let net = Net::new();
    let mut group: [Peer; 2] = members(&net, "SUB a q 1\r\n");
    for peer in &mut group {
        peer.send("UNSUB 1 3\r\n");
    }
    let mut publisher = net.peer(0);
    for _ in 0..10 {
        publisher.publish("a", "x");
    }
    net.flush(0);
    assert_eq!(group.each_ref().map(messages), [3, 3]);
    assert_eq!(net.broker.account("$G").unwrap().subscriptions(), 0);
}
