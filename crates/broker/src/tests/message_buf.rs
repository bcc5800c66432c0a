//! Messages that are routed by another subject than the one that receivers see: deliveries of
//! consumers.

use super::net::{Net, Peer, login, permissions, user};
use crate::service::{Service, ServiceShard};
use crate::service_batch::ServiceBatch;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::sync::{Arc, Mutex};

/// Sends messages on shard 0, each as `to`, `subject`, `payload`, and flushes both shards.
fn deliver(net: &Net, refs: &[(&str, &str, &str)]) {
    let mut msgs = MessageBuf::default();
    for (to, subject, payload) in refs {
        let [to, subject, payload] = [to, subject, payload].map(|text| text.as_bytes());
        msgs.push_framed(MessageRef { to, subject, reply: b"$JS.ACK.1", payload, ..MessageRef::default() });
    }
    let account = net.broker.account("$G").unwrap();
    net.shards[0].borrow_mut().send(&account, &mut msgs, net.now());
    assert!(msgs.is_empty());
    net.flush_all();
}

fn subscriber(net: &Net, shard: usize, subs: &str) -> Peer {
    let mut peer = net.peer(shard);
    peer.send(subs);
    peer
}

#[test]
fn a_letter_goes_to_one_subject_and_shows_another() {
    let net = Net::new();
    let inbox = subscriber(&net, 0, "SUB in.a 1\r\n");
    let orders = subscriber(&net, 0, "SUB orders.* 1\r\n");
    // More than once, so that the route is in the cache.
    for _ in 0..3 {
        deliver(&net, &[("in.a", "orders.1", "x"), ("in.a", "orders.22", "yy"), ("", "in.a", "z")]);
        let expected = "MSG orders.1 1 $JS.ACK.1 1\r\nx\r\nMSG orders.22 1 $JS.ACK.1 2\r\nyy\r\n\
                        MSG in.a 1 $JS.ACK.1 1\r\nz\r\n";
        assert_eq!(inbox.received(), expected);
    }
    assert_eq!(orders.received(), "", "nobody is asked about the subject that is shown");
    assert_eq!(inbox.conn().subscriptions()[0].delivered(), 9);
}

#[test]
fn what_is_published_to_the_same_subject_shows_that_subject() {
    let net = Net::new();
    let inbox = subscriber(&net, 0, "SUB in.a 1\r\n");
    let mut publisher = net.peer(0);
    publisher.warm_up("in.a", &[&inbox]);
    for _ in 0..2 {
        deliver(&net, &[("in.a", "orders.1", "x")]);
        publisher.publish("in.a", "y");
        net.flush(0);
        assert_eq!(inbox.received(), "MSG orders.1 1 $JS.ACK.1 1\r\nx\r\nMSG in.a 1 1\r\ny\r\n");
    }
}

#[test]
fn cohorts_share_what_they_are_shown() {
    let net = Net::new();
    let peers = [0, 1, 0].map(|shard| subscriber(&net, shard, "SUB in.a 7\r\n"));
    let mut old = net.peer_as(1, r#""headers":false"#);
    old.send("SUB in.a 7\r\n");
    for round in 0..4 {
        deliver(&net, &[("in.a", "orders.1", "x"), ("in.a", "o", "y"), ("", "in.a", "z")]);
        let slices = peers[0].sink.slices();
        if round > 1 {
            assert_eq!(slices.len(), 1, "one block for all three");
            assert_eq!(slices, peers[1].sink.slices(), "the same memory");
        }
        let expected = "MSG orders.1 7 $JS.ACK.1 1\r\nx\r\nMSG o 7 $JS.ACK.1 1\r\ny\r\n\
                        MSG in.a 7 $JS.ACK.1 1\r\nz\r\n";
        for peer in peers.iter().chain([&old]) {
            assert_eq!(peer.received(), expected);
        }
    }
}

#[test]
fn headers_are_taken_off_for_those_who_do_not_want_them() {
    let net = Net::new();
    let new = subscriber(&net, 0, "SUB in.a 1\r\n");
    let mut old = net.peer_as(0, r#""headers":false"#);
    old.send("SUB in.a 2\r\n");
    let alone =
        [("in.old", r#""headers":false"#), ("in.new", r#""headers":true"#)].map(|(subject, options)| {
            let mut peer = net.peer_as(1, options);
            peer.send(format!("SUB {subject} 3\r\n"));
            peer
        });
    let account = net.broker.account("$G").unwrap();
    for _ in 0..3 {
        let mut msgs = MessageBuf::default();
        let headers = b"NATS/1.0\r\n\r\n";
        for to in [b"in.a".as_slice(), b"in.old", b"in.new"] {
            let msg = MessageRef { to, subject: b"o", headers, payload: b"x", ..MessageRef::default() };
            msgs.push(msg);
            msgs.push_framed(msg);
        }
        net.shards[0].borrow_mut().send(&account, &mut msgs, net.now());
        net.flush(0);
        assert_eq!(new.received(), "HMSG o 1 12 13\r\nNATS/1.0\r\n\r\nx\r\n".repeat(2));
        assert_eq!(old.received(), "MSG o 2 1\r\nx\r\n".repeat(2));
        assert_eq!(alone[0].received(), "MSG o 3 1\r\nx\r\n".repeat(2));
        assert_eq!(alone[1].received(), "HMSG o 3 12 13\r\nNATS/1.0\r\n\r\nx\r\n".repeat(2));
    }
    assert_eq!(alone.each_ref().map(|peer| peer.conn().subscriptions()[0].delivered()), [6, 6]);
}

#[test]
fn who_asked_in_turn_gets_in_turn() {
    let net = Net::new();
    let peers = ["in.a", "in.b"].map(|to| subscriber(&net, 0, &format!("SUB {to} 1\r\n")));
    for _ in 0..3 {
        deliver(
            &net,
            &[("in.a", "o.1", "x"), ("in.b", "o.2", "x"), ("in.a", "o.3", "x"), ("in.c", "o.4", "x")],
        );
        let frame = |n| format!("MSG o.{n} 1 $JS.ACK.1 1\r\nx\r\n");
        assert_eq!(peers[0].received(), frame(1) + &frame(3));
        assert_eq!(peers[1].received(), frame(2));
    }
    assert_eq!(peers.map(|peer| peer.conn().subscriptions()[0].delivered()), [6, 3]);
}

#[test]
fn one_member_of_a_queue_group_gets_it() {
    let net = Net::new();
    let peers = [1, 2].map(|sid| subscriber(&net, 0, &format!("SUB in.a g {sid}\r\n")));
    for _ in 0..20 {
        deliver(&net, &[("in.a", "orders.1", "x")]);
    }
    let texts = peers.each_ref().map(Peer::received);
    let counts = [1, 2].map(|sid| {
        let frame = format!("MSG orders.1 {sid} $JS.ACK.1 1\r\nx\r\n");
        texts[sid - 1].matches(&frame).count()
    });
    assert_eq!(counts[0] + counts[1], 20, "{texts:?}");
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

#[test]
fn a_limit_of_deliveries_counts_them() {
    let net = Net::new();
    let inbox = subscriber(&net, 0, "SUB in.* 1\r\nUNSUB 1 2\r\n");
    for n in ["orders.1", "orders.2", "orders.3"] {
        deliver(&net, &[("in.a", n, "x")]);
    }
    let expected = "MSG orders.1 1 $JS.ACK.1 1\r\nx\r\nMSG orders.2 1 $JS.ACK.1 1\r\nx\r\n";
    assert_eq!(inbox.received(), expected);
}

#[test]
fn a_service_sees_both_subjects() {
    #[derive(Default)]
    struct Notes(Mutex<Vec<String>>);
    impl Service for Notes {
        fn serve(&self, msgs: &mut ServiceBatch, _: &mut ServiceShard) {
            for msg in msgs.iter() {
                let both = [msg.to, msg.subject].map(String::from_utf8_lossy).join("|");
                self.0.lock().unwrap().push(both);
            }
        }
    }
    let net = Net::new();
    let notes = Arc::new(Notes::default());
    let account = net.broker.account("$G").unwrap();
    account.bind(b"in.a", Arc::clone(&notes) as Arc<dyn Service>);
    deliver(&net, &[("in.a", "orders.1", "x"), ("", "in.a", "x")]);
    net.peer(0).publish("in.a", "x");
    net.flush(0);
    assert_eq!(*notes.0.lock().unwrap(), ["in.a|orders.1", "|in.a", "|in.a"]);
}

/// `ann`, who must not subscribe to `orders.no`, listens to `subs`; what of both orders she is
/// shown.
fn shown_to_ann(subs: &str) -> Vec<String> {
    let deny = permissions([&[], &[]], [&[], &["orders.no", "in.no"]], None);
    let net = Net::with(|setup| setup.users([user("root", "$G", None), user("ann", "$G", deny)]));
    let mut ann = net.peer_as(0, &login("ann"));
    let mut others = [0, 1].map(|shard| net.peer_as(shard, &login("root")));
    // Subscribed first and with the same sid: they would be a cohort.
    ann.send("SUB in.a 1\r\n");
    others.iter_mut().for_each(|other| other.send("SUB in.a 1\r\nSUB in.no 2\r\n"));
    let refs = [("in.a", "orders.yes", "x"), ("in.a", "orders.no", "x"), ("in.no", "orders.yes", "x")];
    for _ in 0..2 {
        deliver(&net, &refs);
    }
    ann.received();
    others.iter().for_each(|other| drop(other.received()));
    ann.send(subs);
    let mut shown = Vec::new();
    for _ in 0..3 {
        deliver(&net, &refs);
        let received = ann.received();
        let frames = received.lines().filter_map(|line| line.strip_prefix("MSG "));
        shown = frames.map(|line| line.split(" $").next().unwrap().to_owned()).collect();
        others.iter().for_each(|other| assert_eq!(other.received().matches("MSG").count(), 3));
    }
    let count = |sub: &Arc<crate::subscription::Subscription>| (sub.sid() == b"1").then(|| sub.delivered());
    let delivered = ann.conn().subscriptions().iter().find_map(count);
    let missed = if shown.contains(&"orders.no 1".to_owned()) { 0 } else { 3 };
    assert_eq!(delivered, Some(10 - missed), "what was withheld does not count");
    shown
}

#[test]
fn deny_rules_hide_what_is_shown_from_those_with_a_subscription_that_they_cut_into() {
    // As the reference does, whose push consumers were watched with these subscriptions.
    assert_eq!(shown_to_ann(""), ["orders.yes 1", "orders.no 1"]);
    assert_eq!(shown_to_ann("SUB other.* 2\r\n"), ["orders.yes 1", "orders.no 1"]);
    assert_eq!(shown_to_ann("SUB orders.* 2\r\n"), ["orders.yes 1"]);
    // The reference would deliver what goes to `in.no` too.
    assert_eq!(shown_to_ann("SUB in.* 2\r\n"), ["orders.yes 1", "orders.yes 2"]);
}

#[test]
fn a_member_of_a_group_that_may_not_see_it_leaves_it_to_the_others() {
    let deny = permissions([&[], &[]], [&[], &["orders.no"]], None);
    let net = Net::with(|setup| setup.users([user("root", "$G", None), user("ann", "$G", deny)]));
    let mut peers = [net.peer_as(0, &login("ann")), net.peer_as(0, &login("root"))];
    peers.iter_mut().for_each(|peer| peer.send("SUB in.a g 1\r\n"));
    peers[0].send("SUB orders.* 2\r\n");
    for _ in 0..20 {
        deliver(&net, &[("in.a", "orders.no", "x")]);
    }
    assert_eq!(peers.map(|peer| peer.received().matches("MSG").count()), [0, 20]);
}
