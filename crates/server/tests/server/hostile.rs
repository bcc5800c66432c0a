//! Peers that break off, babble or lie: they harm themselves only.

use crate::process::Server;
use crate::raw::{CONNECT, Raw};
use std::thread;

const MIB: u64 = 1024 * 1024;

/// The server still serves, and no part of it has panicked.
fn assert_sound(server: &Server) {
    let (mut publisher, mut subscriber) = (Raw::connect(server), Raw::connect(server));
    subscriber.subscribe("sound", 1);
    subscriber.barrier();
    publisher.publish("sound", "x");
    assert_eq!(subscriber.message().text(), "x");
    let log = server.log();
    assert!(!log.contains("panic"), "{log}");
}

#[test]
fn a_client_that_dies_in_the_middle_of_a_payload_delivers_nothing() {
    let server = Server::start();
    let mut subscriber = Raw::connect(&server);
    subscriber.subscribe("big", 1);
    subscriber.barrier();
    let before = server.memory();
    let half = "x".repeat(512 * 1024);
    for _ in 0..50 {
        let mut victim = Raw::connect(&server);
        victim.send(&format!("PUB big 1048576\r\n{half}"));
    }
    crate::eventually("the dead are gone", || server.connections() == 1);
    assert_eq!(subscriber.barrier(), []);
    // The allocator may keep some of it for the next clients.
    let grown = server.memory().saturating_sub(before);
    assert!(grown < 20 * MIB, "{} KiB stay behind", grown / 1024);
    assert_sound(&server);
}

#[test]
fn a_client_that_announces_much_and_sends_nothing_costs_nothing() {
    let server = Server::start();
    let mut watcher = Raw::connect(&server);
    let before = server.memory();
    let waiting: Vec<Raw> = (0..100)
        .map(|_| {
            let mut raw = Raw::connect(&server);
            raw.send("PUB big 1048576\r\nx");
            raw
        })
        .collect();
    assert_eq!(watcher.barrier(), []);
    let grown = server.memory().saturating_sub(before);
    assert!(grown < 16 * MIB, "{} KiB for 100 bytes", grown / 1024);
    drop(waiting);
    assert_sound(&server);
}

#[test]
fn an_endless_control_line_is_cut_off() {
    let server = Server::start();
    for start in ["PUB ", "SUB ", "UNSUB ", "CONNECT {", "HPUB ", "INFO {", "PING "] {
        let mut raw = Raw::connect(&server);
        let piece = "a".repeat(64 * 1024);
        let mut sent = raw.try_send(start.as_bytes());
        let mut pieces = 0;
        while sent.is_ok() && pieces < 1000 {
            sent = raw.try_send(piece.as_bytes());
            pieces += 1;
        }
        assert!(sent.is_err(), "{start}: 64 MB were taken");
    }
    server.wait_for_close("Maximum Control Line Exceeded");
    // A client that waits for the answer gets it.
    let mut raw = Raw::connect(&server);
    raw.send(&format!("PUB {}", "a".repeat(5000)));
    assert_eq!(raw.rest(), "-ERR 'maximum control line exceeded'\r\n");
    assert_sound(&server);
}

#[test]
fn random_bytes_do_no_harm() {
    let server = Server::start();
    let address = server.address();
    let writers: Vec<_> = (1..=4)
        .map(|seed| {
            thread::spawn(move || {
                let mut random = Random(seed);
                for _ in 0..100 {
                    let mut raw = Raw::open(address);
                    if random.below(2) == 0 {
                        raw.send(&format!("{CONNECT}\r\n"));
                    }
                    let bytes = random.babble();
                    for piece in bytes.chunks(1 + random.below(600)) {
                        // It closes as soon as it understands that it does not understand.
                        if raw.try_send(piece).is_err() {
                            break;
                        }
                    }
                }
            })
        })
        .collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    crate::eventually("they are all gone", || server.connections() == 0);
    assert_sound(&server);
}

#[test]
fn bytes_that_come_one_by_one_are_understood() {
    let server = Server::start();
    let mut raw = Raw::open(server.address());
    let text = format!(
        "{CONNECT}\r\nSUB one.* q 12\r\nPUB one.a reply 5\r\nhello\r\nHPUB one.b 12 14\r\nNATS/1.0\r\n\r\nhi\r\nPING\r\n"
    );
    for byte in text.as_bytes() {
        raw.send_bytes(std::slice::from_ref(byte));
    }
    let came = raw.until_pong();
    assert_eq!(came.len(), 2);
    assert_eq!((came[0].text(), came[0].reply.as_deref()), ("hello", Some("reply")));
    assert_eq!(came[1].text(), "NATS/1.0\r\n\r\nhi");
}

#[test]
fn a_payload_beyond_the_limit_ends_its_sender() {
    let server = Server::start();
    let mut raw = Raw::connect(&server);
    raw.send("PUB big 1048577\r\n");
    assert_eq!(raw.rest(), "-ERR 'Maximum Payload Violation'\r\n");
    server.wait_for_close("Maximum Message Payload Exceeded");
    assert_sound(&server);
}

/// xorshift64: the same bytes in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 16) as usize % limit
    }

    /// Pieces of the protocol and noise in any order.
    fn babble(&mut self) -> Vec<u8> {
        const WORDS: [&str; 18] = [
            "PUB ",
            "HPUB ",
            "SUB ",
            "UNSUB ",
            "CONNECT ",
            "PING",
            "PONG",
            "+OK",
            "-ERR ",
            "INFO ",
            "\r\n",
            "\n",
            "{}",
            " 5",
            "hello",
            "a.b",
            ">",
            " 999999999",
        ];
        let mut bytes = Vec::new();
        for _ in 0..self.below(400) {
            match self.below(4) {
                0 => bytes.extend((0..self.below(20)).map(|_| self.next() as u8).collect::<Vec<_>>()),
                1 => bytes.extend(b"PING\r\nPUB a 2\r\nhi\r\nSUB a 1\r\n"),
                _ => bytes.extend(WORDS[self.below(WORDS.len())].as_bytes()),
            }
        }
        bytes
    }
}
