//! Transports that block or break, receivers that fall behind.

use super::net::{Net, Peer, assert_idle};
use crate::outbox::{AppendCounts, Drained, Queued, Segment, Staged};
use myelin_wire::error::CloseReason;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes that may wait for one receiver in these tests.
const MAX_PENDING: usize = 10_000;

fn small_net(no_fast_producer_stall: bool) -> Net {
    Net::with(|setup| {
        setup.settings.max_pending = MAX_PENDING;
        setup.settings.no_fast_producer_stall = no_fast_producer_stall;
    })
}

/// A subscriber of `a` on shard 0 and a publisher on shard 1.
fn pair(net: &Net) -> (Peer, Peer) {
    let (mut subscriber, publisher) = (net.peer(0), net.peer(1));
    subscriber.send("SUB a 1\r\n");
    (subscriber, publisher)
}

fn frame(payload: &str) -> String {
    format!("MSG a 1 {}\r\n{payload}\r\n", payload.len())
}

#[test]
fn a_blocked_transport_gets_the_claim_to_the_owner_once() {
    let net = Net::new();
    let (subscriber, mut publisher) = pair(&net);
    subscriber.sink.block_after(5);
    let mut expected = String::new();
    for n in 0..10 {
        publisher.publish("a", &n.to_string());
        net.flush(1);
        expected += &frame(&n.to_string());
    }
    assert_eq!(subscriber.sink.waits(), 1);
    assert_eq!(subscriber.received(), expected[..5]);
    assert_eq!(subscriber.conn().pending(), expected.len() - 5);
    subscriber.sink.unblock();
    // Another shard's flush does not write past the owner.
    publisher.publish("a", "last");
    net.flush(1);
    assert_eq!(subscriber.received(), "");
    assert_eq!(subscriber.drain(), Drained::Empty);
    assert_eq!(subscriber.received(), expected[5..].to_owned() + &frame("last"));
    // The claim is free again.
    publisher.publish("a", "next");
    net.flush(1);
    assert_eq!((subscriber.received(), subscriber.sink.waits()), (frame("next"), 1));
    assert_idle(&net, &[&subscriber, &publisher]);
}

#[test]
fn a_transport_that_panics_costs_its_connection_and_no_other() {
    for at in 0..3 {
        let net = Net::new();
        let mut publisher = net.peer(1);
        let mut subscribers = [(); 3].map(|()| net.peer(0));
        subscribers.iter_mut().for_each(|peer| peer.send("SUB a 1\r\n"));
        subscribers[at].sink.on_write(|_| panic!("a test asked for it"));
        publisher.publish("a", "x");
        assert!(catch_unwind(AssertUnwindSafe(|| net.flush(1))).is_err());
        while net.shards[1].borrow().is_dirty() {
            net.flush(1);
        }
        for (other, subscriber) in subscribers.iter_mut().enumerate().filter(|(other, _)| *other != at) {
            assert_eq!(subscriber.received(), frame("x"), "{other} beside {at}");
            assert_eq!(subscriber.conn().close_requested(), None);
        }
        assert_eq!(subscribers[at].conn().close_requested(), Some(CloseReason::InternalError));
        // The claims of the others are free again.
        publisher.publish("a", "y");
        net.flush(1);
        let next: Vec<_> =
            (0..3).filter(|other| *other != at).map(|other| subscribers[other].received()).collect();
        assert_eq!(next, [frame("y"), frame("y")]);
    }
}

#[test]
fn a_drain_says_whether_it_came_forward() {
    let net = Net::new();
    let (subscriber, mut publisher) = pair(&net);
    subscriber.sink.block_after(0);
    publisher.publish("a", "x");
    net.flush(1);
    assert_eq!(subscriber.drain(), Drained::Blocked { progress: false });
    subscriber.sink.block_after(3);
    assert_eq!(subscriber.drain(), Drained::Blocked { progress: true });
    assert_eq!(subscriber.drain(), Drained::Blocked { progress: false });
    assert_eq!(subscriber.conn().pending(), frame("x").len() - 3);
    subscriber.sink.unblock();
    assert_eq!(subscriber.drain(), Drained::Empty);
    assert_eq!(subscriber.received(), frame("x"));
    assert_eq!(subscriber.sink.waits(), 1, "who drains holds the claim already");
}

#[test]
fn both_shards_and_the_owner_append_in_order_while_it_is_blocked() {
    let net = Net::new();
    let (mut subscriber, mut far) = pair(&net);
    let mut near = net.peer(0);
    subscriber.sink.block_after(1);
    let mut expected = String::new();
    for n in 0..40 {
        let payload = n.to_string().repeat(1 + n * 5);
        let (publisher, shard) = if n % 3 == 0 { (&mut near, 0) } else { (&mut far, 1) };
        publisher.publish("a", &payload);
        net.flush(shard);
        expected += &frame(&payload);
        if n % 10 == 0 {
            subscriber.send("PING\r\n");
            net.flush(0);
            expected += "PONG\r\n";
        }
        if n == 25 {
            subscriber.sink.block_after(100);
            assert_eq!(subscriber.drain(), Drained::Blocked { progress: true });
        }
    }
    subscriber.sink.unblock();
    assert_eq!(subscriber.drain(), Drained::Empty);
    assert_eq!(subscriber.received(), expected);
    assert_idle(&net, &[&subscriber]);
}

#[test]
fn a_transport_that_sips_gets_everything_in_order() {
    let net = Net::new();
    let (mut subscriber, mut publisher) = pair(&net);
    subscriber.send("SUB b 2\r\n");
    let mut twin = net.peer(0);
    twin.send("SUB b 2\r\n");
    publisher.warm_up("b", &[&subscriber, &twin]);
    subscriber.sink.sip(7);
    let mut expected = String::new();
    for n in 0..50 {
        let payload = n.to_string();
        let (subject, sid) = if n % 2 == 0 { ("a", 1) } else { ("b", 2) };
        publisher.publish(subject, &payload);
        expected += &format!("MSG {subject} {sid} {}\r\n{payload}\r\n", payload.len());
    }
    net.flush(1);
    assert_eq!(subscriber.received(), expected);
    assert_idle(&net, &[&subscriber]);
}

#[test]
fn more_pieces_than_fit_one_call_stay_in_order() {
    let net = Net::new();
    let (subscriber, mut publisher) = pair(&net);
    subscriber.sink.block_after(0);
    let payload = |n: usize| format!("{n:05}").repeat(1000);
    for n in 0..300 {
        publisher.publish("a", &payload(n));
        net.flush(1);
    }
    assert!(subscriber.conn().pending_chunks() > 256);
    subscriber.sink.unblock();
    assert_eq!(subscriber.drain(), Drained::Empty);
    assert!(subscriber.received() == (0..300).map(|n| frame(&payload(n))).collect::<String>());
    assert_idle(&net, &[&subscriber]);
}

#[test]
fn small_pieces_that_wait_are_put_together() {
    let net = Net::new();
    let (subscriber, mut publisher) = pair(&net);
    subscriber.sink.block_after(0);
    let mut expected = String::new();
    for n in 0..1000 {
        publisher.publish("a", &n.to_string());
        net.flush(1);
        expected += &frame(&n.to_string());
    }
    assert!(subscriber.conn().pending_chunks() <= 3, "{} chunks", subscriber.conn().pending_chunks());
    assert_eq!(net.broker.memory().total(), expected.len() as u64);
    subscriber.sink.unblock();
    assert_eq!(subscriber.drain(), Drained::Empty);
    assert!(subscriber.received() == expected);
    assert_idle(&net, &[&subscriber]);
}

#[test]
fn a_broken_transport_ends_the_connection() {
    let net = Net::new();
    let (mut subscriber, mut publisher) = pair(&net);
    subscriber.sink.break_off();
    for _ in 0..3 {
        publisher.publish("a", "x");
        net.flush(1);
    }
    assert_eq!(subscriber.conn().close_requested(), Some(CloseReason::WriteError));
    assert_eq!(subscriber.sink.kicks(), 1);
    subscriber.leave();
    publisher.publish("a", "x");
    net.flush(1);
    assert_idle(&net, &[&subscriber]);
}

#[test]
fn a_transport_that_breaks_under_a_blocked_outbox_ends_the_connection() {
    let net = Net::new();
    let (mut subscriber, mut publisher) = pair(&net);
    subscriber.sink.block_after(4);
    publisher.publish("a", "x");
    net.flush(1);
    subscriber.sink.break_off();
    assert!(matches!(subscriber.drain(), Drained::Failed(_)));
    assert_eq!(subscriber.conn().close_requested(), Some(CloseReason::WriteError));
    subscriber.leave();
    assert_idle(&net, &[&subscriber]);
}

#[test]
fn a_blocked_connection_that_ends_gives_its_memory_back() {
    let net = Net::new();
    let (mut subscriber, mut publisher) = pair(&net);
    let mut other = net.peer(1);
    other.send("SUB a 1\r\n");
    subscriber.sink.block_after(10);
    for n in 0..50 {
        publisher.publish("a", &"x".repeat(n * 20));
        net.flush(1);
    }
    assert!(net.broker.memory().total() > 0);
    subscriber.leave();
    assert_idle(&net, &[&subscriber, &other]);
    // The owner, which was handed the claim, finds nothing.
    subscriber.sink.unblock();
    assert_eq!(subscriber.drain(), Drained::Empty);
    assert_idle(&net, &[&subscriber, &other]);
}

#[test]
fn a_connection_that_is_discarded_in_mid_write_gives_its_memory_back() {
    let net = Net::new();
    let (subscriber, mut publisher) = pair(&net);
    let conn = Arc::clone(subscriber.conn());
    // As the owner does in the end, while another shard writes.
    subscriber.sink.on_write(move |_| conn.discard());
    subscriber.sink.block_after(0);
    publisher.publish("a", "x");
    net.flush(1);
    assert_idle(&net, &[&subscriber]);
}

#[test]
fn a_connection_that_is_asked_to_end_keeps_what_waits() {
    let net = Net::new();
    let (subscriber, mut publisher) = pair(&net);
    subscriber.sink.block_after(0);
    publisher.publish("a", "last words");
    net.flush(1);
    subscriber.conn().close(CloseReason::ServerShutdown);
    publisher.publish("a", "too late");
    net.flush(1);
    subscriber.sink.unblock();
    assert_eq!(subscriber.drain(), Drained::Empty);
    assert!(subscriber.received().starts_with(&frame("last words")));
    assert_eq!(net.broker.counters().slow_consumers.load(Relaxed), 0);
}

/// Makes the subscriber fall behind by `bytes` of payload, in messages of 1,000.
fn fall_behind(net: &Net, subscriber: &Peer, publisher: &mut Peer, bytes: usize) {
    subscriber.sink.block_after(0);
    for _ in 0..bytes / 1000 {
        publisher.publish("a", &"x".repeat(1000));
        net.flush(1);
    }
}

#[test]
fn who_is_too_far_behind_is_cut_off_once() {
    let net = small_net(false);
    let (subscriber, mut publisher) = pair(&net);
    let mut other = net.peer(0);
    other.send("SUB a 1\r\n");
    fall_behind(&net, &subscriber, &mut publisher, 9_000);
    assert_eq!(subscriber.conn().close_requested(), None);
    fall_behind(&net, &subscriber, &mut publisher, 3_000);
    other.publish("a", "from the other shard");
    net.flush(0);
    assert_eq!(subscriber.conn().close_requested(), Some(CloseReason::SlowConsumerPendingBytes));
    assert_eq!((subscriber.sink.kicks(), net.broker.counters().slow_consumers.load(Relaxed)), (1, 1));
    assert_eq!(other.received().matches("MSG").count(), 13, "the others get everything");
    assert_idle(&net, &[&subscriber, &other]);
    assert_eq!(subscriber.received(), "");
}

#[test]
fn one_flush_of_more_than_may_wait_cuts_off_without_a_byte() {
    let net = small_net(false);
    let (subscriber, mut publisher) = pair(&net);
    publisher.publish("a", &"x".repeat(MAX_PENDING));
    net.flush(1);
    assert_eq!(subscriber.conn().close_requested(), Some(CloseReason::SlowConsumerPendingBytes));
    assert_eq!(subscriber.received(), "");
    assert_idle(&net, &[&subscriber]);
}

#[test]
fn a_publisher_is_paused_for_a_receiver_that_is_far_behind() {
    let net = small_net(false);
    let (subscriber, mut publisher) = pair(&net);
    fall_behind(&net, &subscriber, &mut publisher, 7_000);
    assert_eq!(publisher.stalls, 0);
    fall_behind(&net, &subscriber, &mut publisher, 1_000);
    publisher.publish("a", "late");
    net.flush(1);
    assert_eq!((publisher.stalls, subscriber.conn().stalls()), (1, 1));
    assert_eq!(net.broker.counters().stalls.load(Relaxed), 1);
    // Others are not paused, and nothing is lost.
    publisher.publish("elsewhere", "x");
    assert_eq!(publisher.stalls, 1);
    subscriber.sink.unblock();
    assert_eq!(subscriber.drain(), Drained::Empty);
    assert_eq!(subscriber.received(), frame(&"x".repeat(1000)).repeat(8) + &frame("late"));
    publisher.publish("a", "x");
    assert_eq!(publisher.stalls, 1);
}

#[test]
fn a_member_of_a_cohort_that_is_far_behind_pauses_the_publisher() {
    let net = small_net(false);
    let (subscriber, mut publisher) = pair(&net);
    let mut other = net.peer(0);
    other.send("SUB a 1\r\n");
    fall_behind(&net, &subscriber, &mut publisher, 8_000);
    publisher.publish("a", "late");
    assert_eq!((publisher.stalls, subscriber.conn().stalls(), other.conn().stalls()), (1, 1, 0));
}

#[test]
fn with_the_option_only_the_one_that_is_behind_loses_messages() {
    let net = small_net(true);
    let (subscriber, mut publisher) = pair(&net);
    let mut other = net.peer(0);
    other.send("SUB a 1\r\n");
    fall_behind(&net, &subscriber, &mut publisher, 8_000);
    for payload in ["lost 1", "lost 2"] {
        publisher.publish("a", payload);
        net.flush(1);
    }
    assert_eq!(publisher.stalls, 0, "it is never paused");
    subscriber.sink.unblock();
    assert_eq!(subscriber.drain(), Drained::Empty);
    publisher.publish("a", "found");
    net.flush(1);
    let before = frame(&"x".repeat(1000)).repeat(8);
    assert_eq!(subscriber.received(), before.clone() + &frame("found"));
    assert_eq!(other.received(), before + &frame("lost 1") + &frame("lost 2") + &frame("found"));
}

#[test]
fn with_the_option_drops_are_counted_and_not_as_pauses() {
    let net = small_net(true);
    let (subscriber, mut publisher) = pair(&net);
    fall_behind(&net, &subscriber, &mut publisher, 8_000);
    for _ in 0..3 {
        publisher.publish("a", "lost");
        net.flush(1);
    }
    let counters = net.broker.counters();
    assert_eq!((counters.stall_drops.load(Relaxed), counters.stalls.load(Relaxed)), (3, 0));
}

#[test]
fn with_the_option_a_queue_member_that_is_behind_gives_way() {
    let net = small_net(true);
    let (mut subscriber, mut publisher) = pair(&net);
    fall_behind(&net, &subscriber, &mut publisher, 8_000);
    let mut other = net.peer(0);
    for peer in [&mut subscriber, &mut other] {
        peer.send("SUB work q 2\r\n");
    }
    for _ in 0..20 {
        publisher.publish("work", "x");
        net.flush(1);
    }
    assert_eq!(other.received().matches("MSG work").count(), 20);
}

#[test]
fn a_write_that_is_blocked_in_mid_block_does_not_disturb_the_cohort() {
    let net = Net::new();
    let (subscriber, mut publisher) = pair(&net);
    let mut other = net.peer(1);
    other.send("SUB a 1\r\n");
    publisher.warm_up("a", &[&subscriber, &other]);
    subscriber.sink.block_after(20);
    let mut expected = String::new();
    for n in 0..30 {
        publisher.publish("a", &n.to_string());
        expected += &frame(&n.to_string());
        if n % 7 == 0 {
            net.flush(1);
        }
    }
    net.flush(1);
    assert_eq!(other.received(), expected);
    assert_eq!(subscriber.received(), expected[..20]);
    assert!(net.broker.memory().total() > 0, "shared blocks count while somebody waits");
    subscriber.sink.unblock();
    assert_eq!(subscriber.drain(), Drained::Empty);
    assert_eq!(subscriber.received(), expected[20..]);
    assert_idle(&net, &[&subscriber, &other]);
}

/// Appends `late` during the first write to `subscriber`, as another shard does that flushes
/// meanwhile.
fn append_during_a_write(subscriber: &Peer) {
    let conn = Arc::clone(subscriber.conn());
    let mut is_first = true;
    subscriber.sink.on_write(move |_| {
        if std::mem::take(&mut is_first) {
            let mut staged = Staged::from_iter([Segment::Own(b"late".to_vec())]);
            let load = AppendCounts { wire: 4, own: 4, ..AppendCounts::default() };
            assert_eq!(conn.queue(&mut staged, load), Queued::Left);
        }
    });
}

#[test]
fn what_arrives_during_a_write_goes_out_under_the_same_claim() {
    let net = Net::new();
    let (mut subscriber, _) = pair(&net);
    subscriber.send("PING\r\n");
    append_during_a_write(&subscriber);
    net.flush(0);
    assert_eq!(subscriber.received(), "PONG\r\nlate");
    assert_idle(&net, &[&subscriber]);
}

#[test]
fn what_arrives_during_a_write_that_blocks_comes_behind_the_rest() {
    let net = Net::new();
    let (mut subscriber, _) = pair(&net);
    subscriber.send("PING\r\n");
    append_during_a_write(&subscriber);
    subscriber.sink.block_after(2);
    net.flush(0);
    subscriber.sink.unblock();
    assert_eq!(subscriber.drain(), Drained::Empty);
    assert_eq!(subscriber.received(), "PONG\r\nlate");
    assert_idle(&net, &[&subscriber]);
}
