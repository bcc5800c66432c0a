//! Bytes that no library would send: nobody but their sender is worse off.

use super::{Asker, Home, publish};
use crate::process::Server;
use crate::raw::Raw;
use serde_json::{Value, json};

/// Everything that is answered where there is a stream `S`, and what may stand for a stream in it.
const OPERATIONS: [&str; 14] = [
    "INFO",
    "STREAM.NAMES",
    "STREAM.LIST",
    "STREAM.CREATE.S",
    "STREAM.UPDATE.S",
    "STREAM.INFO.S",
    "STREAM.PURGE.S",
    "STREAM.MSG.GET.S",
    "STREAM.MSG.DELETE.S",
    "STREAM.LEADER.STEPDOWN.S",
    "STREAM.PEER.REMOVE.S",
    "STREAM.CREATE.none",
    "STREAM.DELETE.none",
    "STREAM.INFO.none",
];

/// A source of bytes that is the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.roll()).expect("31 bits") % end
    }

    fn bytes(&mut self, longest: usize) -> Vec<u8> {
        let length = self.below(longest);
        (0..length).map(|_| self.roll().to_le_bytes()[0]).collect()
    }
}

fn still_works(server: &Server) {
    let mut asker = Asker::connect(server);
    let before = asker.number("S", "last_seq");
    assert_eq!(asker.publish("S.a", "x")["seq"], before + 1);
    let log = server.log();
    assert!(!log.contains("panic"), "{log}");
}

fn with_stream() -> (Home, Server, Asker) {
    let home = Home::new();
    let server = home.start("");
    let mut asker = Asker::connect(&server);
    asker.create("S", &json!({ "allow_atomic": true, "allow_batched": true, "allow_msg_ttl": true }));
    (home, server, asker)
}

#[test]
fn every_request_that_means_something_is_answered_whatever_is_in_it() {
    let (_home, server, mut asker) = with_stream();
    let mut dice = Dice(5);
    let pieces: [&[u8]; 14] = [
        b"{",
        b"}",
        b"[",
        b"]",
        b"\"name\":",
        b"\"S\"",
        b"1e999",
        b"-1",
        b"18446744073709551616",
        b",",
        b"\"seq\":",
        b"null",
        b"\"\\ud800\"",
        b"\xff\xfe",
    ];
    for round in 0..60 {
        for operation in OPERATIONS {
            let body = match round % 3 {
                0 => dice.bytes(200),
                1 => (0..dice.below(30)).flat_map(|_| pieces[dice.below(pieces.len())].to_vec()).collect(),
                _ => b"[".repeat(dice.below(100_000)),
            };
            let reply = asker.reply();
            asker.raw.send_bytes(&publish(&format!("$JS.API.{operation}"), &reply, "", &body));
            let answer = asker.raw.message();
            assert_eq!(answer.subject, reply);
            assert!(super::as_json(&answer)["type"].is_string(), "{operation}: {answer:?}");
        }
    }
    still_works(&server);
}

/// Compat: subjects of the API that mean nothing are answered with silence.
#[test]
fn requests_that_mean_nothing_are_silent() {
    let (_home, server, mut asker) = with_stream();
    let mut dice = Dice(7);
    let words = ["STREAM", "CREATE", "S", "INFO", "MSG", "GET", "API", "x", "$JS", "META", "SERVER"];
    for _ in 0..2_000 {
        let tokens: Vec<&str> = (0..1 + dice.below(7)).map(|_| words[dice.below(words.len())]).collect();
        let subject = format!("$JS.API.{}", tokens.join("."));
        let body = dice.bytes(50);
        asker.raw.send_bytes(&publish(&subject, "elsewhere", "", &body));
    }
    // No answer is what is expected of most; what there is goes where nobody listens.
    asker.raw.barrier();
    still_works(&server);
}

#[test]
fn batches_and_fast_replies_of_nonsense_are_answered() {
    let (_home, server, mut asker) = with_stream();
    let mut dice = Dice(11);
    let values = ["0", "1", "2", "-1", "18446744073709551615", "99999999999999999999", "x", "", "eob", "ok"];
    for _ in 0..500 {
        let mut value = || values[dice.below(values.len())];
        let headers = format!(
            "Nats-Batch-Id: {}\r\nNats-Batch-Sequence: {}\r\nNats-Batch-Commit: {}\r\nNats-TTL: {}\r\n",
            value(),
            value(),
            value(),
            value()
        );
        asker.ask_with(&headers, "S.a", "x");
    }
    for _ in 0..500 {
        let mut value = || values[dice.below(values.len())].replace('-', "m");
        let words =
            [value(), value(), value(), value(), value()].map(|w| if w.is_empty() { "e".into() } else { w });
        let reply = format!("{}.{}.$FI", asker.inbox, words.join("."));
        asker.raw.send_bytes(&publish("S.a", &reply, "", b"x"));
    }
    asker.raw.barrier();
    still_works(&server);
}

#[test]
fn headers_as_long_as_can_be() {
    let (_home, server, mut asker) = with_stream();
    let long = |bytes: usize| format!("Long: {}\r\n", "h".repeat(bytes));
    assert!(asker.publish_with(&long(60_000), "S.a", "x").get("error").is_none());
    let refused = asker.publish_with(&long(70_000), "S.a", "x");
    assert_eq!(refused["error"]["err_code"], 10_097, "{refused}");
    let many = "A: b\r\n".repeat(10_000);
    assert!(asker.publish_with(&many, "S.a", "x").get("error").is_none());
    let ids = format!("Nats-Msg-Id: {}\r\n", "i".repeat(60_000));
    assert_eq!(asker.publish_with(&ids, "S.a", "x")["seq"], 3);
    assert_eq!(asker.publish_with(&ids, "S.a", "x")["duplicate"], true);
    // As an API request, too.
    let reply = asker.reply();
    asker.raw.send_bytes(&publish("$JS.API.STREAM.INFO.S", &reply, &long(500_000), b""));
    assert_eq!(asker.raw.message().subject, reply);
    still_works(&server);
}

#[test]
fn a_publisher_that_closes_in_the_middle_of_a_payload_stores_nothing_of_it() {
    let (_home, server, mut asker) = with_stream();
    for cut in [1, 10, 100, 50_000, 99_999] {
        let mut raw = Raw::connect(&server);
        let whole = publish("S.a", "nobody", "A: b\r\n", &vec![b'x'; 100_000]);
        raw.send_bytes(&whole[..cut]);
        drop(raw);
    }
    crate::eventually("they are gone", || server.connections() == 1);
    assert_eq!(asker.number("S", "messages"), 0);
    let ack = asker.publish("S.a", "whole");
    assert_eq!(ack, json!({ "stream": "S", "seq": 1 }));
    assert_eq!(asker.api("INFO", &Value::Null)["streams"], 1);
    still_works(&server);
}
