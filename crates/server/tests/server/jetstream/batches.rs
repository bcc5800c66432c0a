//! Batches that nobody ends: publishers that vanish, and far too many at once.

use super::{Asker, Home, mebibytes, publish};
use crate::eventually;
use crate::raw::Raw;
use serde_json::json;

/// The shortest time after which the tests have a batch given up.
const QUICKLY: &str = "limits: { batch: { max_inflight_per_stream: 1, timeout: \"300ms\" } }";

const TOO_MANY_FAST: u64 = 10_211;
const TOO_MANY_ATOMIC: u64 = 10_210;

#[test]
fn a_fast_publisher_that_vanishes_leaves_its_messages_and_no_batch() {
    let home = Home::new();
    let server = home.start(QUICKLY);
    let mut asker = Asker::connect(&server);
    asker.create("S", &json!({ "allow_batched": true }));
    for round in 1..=3 {
        let mut lost = Raw::connect(&server);
        for at in 1..=50 {
            let act = u64::from(at > 1);
            let reply = format!("nobody.lost{round}.10.ok.{at}.{act}.$FI");
            lost.send_bytes(&publish("S.a", &reply, "", b"x"));
        }
        lost.barrier();
        // It vanishes in the middle of a message.
        lost.send("PUB S.a nobody.lost.10.ok.51.1.$FI 100\r\nhalf of");
        drop(lost);
        let stored = round * 51 - 1;
        eventually("what it had sent is stored", || asker.number("S", "messages") == stored);
        // Its place is taken for as long as it might come back.
        let inbox = asker.inbox.clone();
        let reply = |n: u64| format!("{inbox}.next{round}-{n}.10.ok.1.0.$FI");
        let mut tries = 0;
        eventually("its batch is given up", || {
            tries += 1;
            asker.raw.send_bytes(&publish("S.a", &reply(tries), "", b"y"));
            let answer = super::as_json(&asker.raw.message());
            assert!(answer["type"] == "ack" || answer["error"]["err_code"] == TOO_MANY_FAST, "{answer}");
            answer["type"] == "ack"
        });
        // The new batch ends at once: its end is not stored.
        let end = format!("{inbox}.next{round}-{tries}.10.ok.2.3.$FI");
        asker.raw.send_bytes(&publish("S.a", &end, "", b""));
        let ended = super::as_json(&asker.raw.message());
        assert_eq!(ended["count"], 1, "{ended}");
    }
    assert_eq!(asker.publish("S.b", "plain")["seq"], 154);
    assert!(!server.log().contains("[ERR]"), "{}", server.log());
}

#[test]
fn a_thousand_open_batches_are_held_given_up_and_their_memory_comes_back() {
    const STREAMS: usize = 20;
    const EACH: usize = 50;
    let home = Home::new();
    let server = home.start("limits: { batch: { timeout: \"5s\" } }");
    let mut asker = Asker::connect(&server);
    let mut watcher = Raw::connect(&server);
    watcher.subscribe("$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.>", 1);
    watcher.barrier();
    for stream in 0..=STREAMS {
        asker.create(&format!("S{stream}"), &json!({ "allow_atomic": true }));
    }
    let before = mebibytes(&server);
    let body = [b'x'; 8_000];
    let member = |reply: &str, stream: usize, batch: usize, at: usize| {
        let headers = format!("Nats-Batch-Id: b{batch}\r\nNats-Batch-Sequence: {at}\r\n");
        publish(&format!("S{stream}.a"), reply, &headers, &body)
    };
    for stream in 0..STREAMS {
        let mut chunk = Vec::new();
        for batch in 0..EACH {
            chunk.extend(member(&asker.reply(), stream, batch, 1));
            (2..=4).for_each(|at| chunk.extend(member("", stream, batch, at)));
        }
        asker.raw.send_bytes(&chunk);
        // A batch that was begun is answered by nothing.
        (0..EACH).for_each(|batch| assert_eq!(asker.raw.message().text(), "", "S{stream} b{batch}"));
    }
    let most = mebibytes(&server);
    for stream in [0, STREAMS] {
        let bytes = member(&asker.reply(), stream, EACH, 1);
        asker.raw.send_bytes(&bytes);
        let refused = super::as_json(&asker.raw.message());
        assert_eq!(refused["error"]["err_code"], TOO_MANY_ATOMIC, "{refused}");
    }
    for n in 0..STREAMS * EACH {
        let advisory = super::as_json(&watcher.message());
        assert_eq!(advisory["reason"], "timeout", "{n}: {advisory}");
    }
    // Everything is as it was: the same batches fit again, and can be ended.
    for stream in 0..=STREAMS {
        let headers = "Nats-Batch-Id: b0\r\nNats-Batch-Sequence: 1\r\nNats-Batch-Commit: 1\r\n";
        let ack = asker.publish_with(headers, &format!("S{stream}.a"), "alone");
        assert_eq!((&ack["seq"], &ack["count"]), (&json!(1), &json!(1)), "{ack}");
    }
    assert!(most < before + 120, "{before} MiB before, {most} with the batches");
    eventually("the memory of a thousand batches has come back", || {
        // The allocator gives pages back while a thread goes on allocating.
        (0..=STREAMS).for_each(|stream| drop(asker.publish(&format!("S{stream}.a"), "more")));
        mebibytes(&server) < before + 20
    });
    assert!(!server.log().contains("[ERR]"), "{}", server.log());
}
