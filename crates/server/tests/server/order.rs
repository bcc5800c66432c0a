//! The order that clients rely on, on connections that live on different shards.

use crate::process::Server;
use crate::raw::{CONNECT, Raw};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::thread;

const PUBLISHERS: u32 = 8;
const EACH: u32 = 12_500;

/// Commands of publisher `number`: its messages over several subjects.
fn script(number: u32) -> String {
    let mut script = String::new();
    for i in 0..EACH {
        let body = format!("{number} {i}");
        let subject = format!("order.{}", i % 7);
        write!(script, "PUB {subject} {}\r\n{body}\r\n", body.len()).expect("strings grow");
    }
    script
}

#[test]
fn a_hundred_thousand_messages_arrive_in_order_per_publisher() {
    let server = Server::start();
    let mut subscribers: Vec<Raw> = (0..3).map(|_| Raw::connect(&server)).collect();
    for sub in &mut subscribers {
        sub.subscribe("order.>", 1);
        sub.barrier();
    }
    let publishers: Vec<_> = (0..PUBLISHERS)
        .map(|number| {
            let mut raw = Raw::connect(&server);
            thread::spawn(move || {
                // Pieces that end in the middle of operations.
                for piece in script(number).as_bytes().chunks(1009 + number as usize * 4096) {
                    raw.send_bytes(piece);
                }
                raw.barrier();
            })
        })
        .collect();
    let readers: Vec<_> = subscribers
        .into_iter()
        .map(|mut sub| {
            thread::spawn(move || {
                let mut next: HashMap<u32, u32> = HashMap::new();
                for _ in 0..PUBLISHERS * EACH {
                    let message = sub.message();
                    let (number, i) = message.text().split_once(' ').unwrap();
                    let (number, i): (u32, u32) = (number.parse().unwrap(), i.parse().unwrap());
                    let expected = next.entry(number).or_default();
                    assert_eq!(i, *expected, "publisher {number}");
                    *expected += 1;
                }
                assert_eq!(sub.barrier(), [], "messages beyond what was sent");
            })
        })
        .collect();
    for thread in publishers.into_iter().chain(readers) {
        thread.join().unwrap();
    }
}

/// A's message, a barrier on A, then B's request: whoever hears both hears A first.
#[test]
fn a_publish_is_not_overtaken_by_a_later_request_of_another_connection() {
    let server = Server::start();
    let mut subscriber = Raw::connect(&server);
    let mut clients: Vec<Raw> = (0..4).map(|_| Raw::connect(&server)).collect();
    subscriber.subscribe("work.>", 1);
    subscriber.barrier();
    for b in &mut clients {
        b.subscribe("inbox", 9);
        b.barrier();
    }
    for round in 0..500 {
        let (a, b) = (round % 4, (round + 1 + round % 3) % 4);
        clients[a].publish("work.first", &round.to_string());
        clients[a].barrier();
        clients[b].send("PUB work.second inbox 1\r\nx\r\n");
        let first = subscriber.message();
        assert_eq!((first.subject.as_str(), first.text()), ("work.first", round.to_string().as_str()));
        let second = subscriber.message();
        assert_eq!((second.subject.as_str(), second.reply.as_deref()), ("work.second", Some("inbox")));
    }
}

/// After PONG everything before it is routed: a PING of the subscriber that begins after it finds
/// it all.
#[test]
fn pong_means_that_everything_before_it_is_routed() {
    let server = Server::start();
    let mut publishers: Vec<Raw> = (0..3).map(|_| Raw::connect(&server)).collect();
    let mut subscribers: Vec<Raw> = (0..4).map(|_| Raw::connect(&server)).collect();
    for sub in &mut subscribers {
        sub.subscribe("routed.>", 1);
        sub.barrier();
    }
    for round in 0..300 {
        let publisher = &mut publishers[round % 3];
        let count = 1 + round % 40;
        publisher.send(&"PUB routed.a 1\r\nx\r\n".repeat(count));
        assert_eq!(publisher.barrier(), []);
        for sub in &mut subscribers {
            assert_eq!(sub.barrier().len(), count, "round {round}");
        }
    }
}

#[test]
fn everything_in_one_segment_is_done_in_order() {
    let server = Server::start();
    let mut raw = Raw::open(server.address());
    raw.send(&format!(
        "{CONNECT}\r\nSUB a 1\r\nPUB a 1\r\n1\r\nUNSUB 1\r\nPUB a 1\r\n2\r\nSUB a 2\r\nPUB a 1\r\n3\r\nPING\r\n"
    ));
    let came: Vec<_> = raw.until_pong().into_iter().map(|m| (m.sid.clone(), m.text().to_owned())).collect();
    assert_eq!(came, [("1".to_owned(), "1".to_owned()), ("2".to_owned(), "3".to_owned())]);
}

/// A SUB is visible to other connections as soon as its PONG has come.
#[test]
fn a_subscription_hears_what_others_publish_after_its_pong() {
    let server = Server::start();
    let mut publisher = Raw::connect(&server);
    let mut subscribers: Vec<Raw> = (0..3).map(|_| Raw::connect(&server)).collect();
    for round in 1..300 {
        let sub = &mut subscribers[round % 3];
        sub.send(&format!("SUB fresh.{round} {round}\r\n"));
        sub.barrier();
        publisher.publish(&format!("fresh.{round}"), "x");
        assert_eq!(sub.message().subject, format!("fresh.{round}"));
        sub.send(&format!("UNSUB {round}\r\n"));
        sub.barrier();
        publisher.publish(&format!("fresh.{round}"), "late");
        publisher.barrier();
        assert_eq!(sub.barrier(), [], "round {round}: after UNSUB");
    }
}

/// Large and small payloads take different paths through the server; they keep their order all the
/// same.
#[test]
fn sizes_do_not_change_the_order() {
    let server = Server::start();
    let (mut publisher, mut subscriber) = (Raw::connect(&server), Raw::connect(&server));
    subscriber.subscribe("sizes", 1);
    subscriber.barrier();
    let sizes = [0, 1, 100, 5_000, 40_000, 70_000, 300_000, 1_048_576, 16, 32_768, 65_536, 3];
    let writer = thread::spawn(move || {
        for round in 0..10 {
            for size in sizes {
                let body = char::from(b'a' + round).to_string().repeat(size);
                publisher.publish("sizes", &body);
            }
        }
        publisher.barrier();
    });
    for round in 0..10 {
        for size in sizes {
            let message = subscriber.message();
            assert_eq!(message.body.len(), size, "round {round}");
            assert!(message.body.iter().all(|&byte| byte == b'a' + round));
        }
    }
    writer.join().unwrap();
}
