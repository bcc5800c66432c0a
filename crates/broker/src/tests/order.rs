//! The order that clients rely on (contracts.md C5).

use super::net::{Net, Peer};
use std::sync::{Arc, Mutex};

#[test]
fn a_flush_fills_all_outboxes_before_it_writes_any() {
    let net = Net::new();
    let (mut near, mut far, mut publisher) = (net.peer(0), net.peer(1), net.peer(0));
    near.send("SUB a 1\r\n");
    far.send("SUB b 1\r\n");
    publisher.send("PUB a 1\r\n1\r\nPUB b 1\r\n2\r\nPING\r\n");
    let conns = [&near, &far, &publisher].map(|peer| Arc::clone(peer.conn()));
    assert_eq!(conns.each_ref().map(|c| c.pending()), [0; 3]);
    // What waits in all outboxes together can only shrink once the first write has begun.
    let waiting = Arc::new(Mutex::new(Vec::new()));
    for peer in [&near, &far, &publisher] {
        let (conns, waiting) = (conns.clone(), Arc::clone(&waiting));
        peer.sink.on_write(move |_| {
            waiting.lock().unwrap().push(conns.iter().map(|c| c.pending()).sum::<usize>());
        });
    }
    net.flush(0);
    let message = "MSG a 1 1\r\n1\r\n".len();
    let pong = "PONG\r\n".len();
    let waiting = waiting.lock().unwrap();
    assert_eq!(waiting.len(), 3);
    assert_eq!(waiting[0], 2 * message + pong, "everything is queued when the first byte is written");
}

#[test]
fn when_pong_is_written_the_other_shards_outboxes_have_the_messages() {
    let net = Net::new();
    let (mut far, mut publisher) = (net.peer(1), net.peer(0));
    far.send("SUB a 1\r\n");
    publisher.send("PUB a 1\r\n1\r\nPING\r\n");
    let there = Arc::new(Mutex::new(0));
    let (conn, sink, seen) = (Arc::clone(far.conn()), far.sink.clone(), Arc::clone(&there));
    publisher.sink.on_write(move |bytes| {
        assert_eq!(bytes, b"PONG\r\n");
        let written: usize = sink.slices().iter().map(|(_, len)| len).sum();
        *seen.lock().unwrap() = conn.pending() + written;
    });
    net.flush(0);
    assert_eq!(*there.lock().unwrap(), "MSG a 1 1\r\n1\r\n".len());
}

#[test]
fn a_subscription_takes_the_publish_behind_it_in_the_same_buffer() {
    let net = Net::new();
    let mut peer = net.peer(0);
    peer.send("PUB a 1\r\n0\r\nSUB a 1\r\nPUB a 1\r\n1\r\nUNSUB 1\r\nPUB a 1\r\n2\r\nPING\r\n");
    net.flush(0);
    assert_eq!(peer.received(), "MSG a 1 1\r\n1\r\nPONG\r\n");
}

#[test]
fn a_subscription_is_seen_by_the_other_shard_at_once() {
    let net = Net::new();
    let (mut subscriber, mut publisher) = (net.peer(0), net.peer(1));
    // The other shard has the subject's emptiness in its cache.
    for _ in 0..3 {
        publisher.publish("a", "0");
    }
    subscriber.send("SUB a 1\r\n");
    publisher.publish("a", "1");
    subscriber.send("UNSUB 1\r\n");
    publisher.publish("a", "2");
    net.flush_all();
    assert_eq!(subscriber.received(), "MSG a 1 1\r\n1\r\n");
}

#[test]
fn nothing_is_written_before_the_flush() {
    let net = Net::new();
    let (mut subscriber, mut publisher) = (net.peer(0), net.peer(1));
    subscriber.send("SUB a 1\r\nPING\r\n");
    publisher.publish("a", "1");
    assert_eq!(subscriber.received(), "");
    net.flush(1);
    assert_eq!(subscriber.received(), "MSG a 1 1\r\n1\r\n");
    net.flush(0);
    assert_eq!(subscriber.received(), "PONG\r\n");
}

#[test]
fn publishers_on_two_shards_keep_their_own_order() {
    let net = Net::new();
    let mut receivers = [net.peer(0), net.peer(1), net.peer(1)];
    for receiver in &mut receivers {
        receiver.send("SUB > 1\r\n");
    }
    let mut publishers = [net.peer(0), net.peer(1)];
    for n in 0..300_usize {
        for (i, publisher) in publishers.iter_mut().enumerate() {
            publisher.publish(["left", "right"][i], &format!("{n}"));
            if (n * 7 + i * 3) % 5 == 0 {
                net.flush((n + i) % 2);
            }
        }
    }
    net.flush_all();
    for receiver in receivers {
        let text = receiver.received();
        for subject in ["left", "right"] {
            let numbers: Vec<usize> = payloads(&text, subject);
            assert_eq!(numbers, (0..300).collect::<Vec<_>>(), "{subject}");
        }
    }
}

/// The payloads on `subject` in the order of arrival.
fn payloads(text: &str, subject: &str) -> Vec<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let head = format!("MSG {subject} ");
    lines.chunks(2).filter(|m| m[0].starts_with(&head)).map(|m| m[1].parse().unwrap()).collect()
}

#[test]
fn a_full_shard_pauses_the_session_until_a_flush() {
    let net = Net::new();
    let (mut subscriber, mut publisher) = (net.peer(0), net.peer(0));
    subscriber.send("SUB a 1\r\n");
    let payload = "x".repeat(300 * 1024);
    let message = format!("PUB a {}\r\n{payload}\r\n", payload.len());
    publisher.send(message.repeat(5) + "PING\r\n");
    assert_eq!(publisher.pauses, 1);
    net.flush(0);
    let delivered = format!("MSG a 1 {}\r\n{payload}\r\n", payload.len());
    assert!(subscriber.received() == delivered.repeat(5));
    assert_eq!(publisher.received(), "PONG\r\n");
}

#[test]
fn input_may_be_split_anywhere() {
    let script = "SUB a 1\r\nPUB a 5\r\nhello\r\nPING\r\nHPUB a r 12 14\r\nNATS/1.0\r\n\r\nhi\r\nUNSUB 1 9\r\nPUB a 0\r\n\r\n";
    let play = |feed: &dyn Fn(&mut Peer)| {
        let net = Net::new();
        let mut peer = net.peer(0);
        feed(&mut peer);
        net.flush(0);
        peer.received()
    };
    let whole = play(&|peer| peer.send(script));
    assert_eq!(
        whole,
        "MSG a 1 5\r\nhello\r\nPONG\r\nHMSG a 1 r 12 14\r\nNATS/1.0\r\n\r\nhi\r\nMSG a 1 0\r\n\r\n"
    );
    for at in 0..script.len() {
        let split = play(&|peer| {
            peer.send(&script[..at]);
            peer.send(&script[at..]);
        });
        assert_eq!(split, whole, "split at {at}");
    }
    let bytewise = play(&|peer| script.bytes().for_each(|b| peer.send([b])));
    assert_eq!(bytewise, whole);
}
