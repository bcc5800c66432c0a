//! Streams of counters. The answers were observed at the reference.

use std::sync::Arc;

use myelin_store::{Purge, Stream, Wait};
use myelin_wire::message_buf::MessageRef;

use super::{Bench, NOW, block, config, error};
use crate::stream::{Effects, StorageBudget, StreamCore, StreamSettings, storage_config};
use myelin_jsapi::config::{Discard, StreamConfig};

fn counters() -> StreamConfig {
    StreamConfig { allow_msg_counter: true, ..config() }
}

fn ack(seq: u64, total: &str) -> String {
    format!(r#"{{"stream":"S","seq":{seq},"val":"{total}"}}"#)
}

fn add(bench: &mut Bench, subject: &str, increment: &str) -> String {
    bench.publish(subject, &[&format!("Nats-Incr: {increment}")], "")
}

/// Publishes a message of a batch that goes on.
fn hold(bench: &mut Bench, headers: &[&str]) {
    let headers = block(headers);
    let said =
        bench.msgs(&[MessageRef { subject: b"a", headers: headers.as_bytes(), ..MessageRef::default() }]);
    assert_eq!(said, [""; 0]);
}

/// A bench whose account keeps no more than so many bytes.
fn limited(config: StreamConfig, bytes: i64) -> Bench {
    Bench::with(
        config,
        StreamSettings { account: Arc::new(StorageBudget::new(bytes)), ..StreamSettings::default() },
    )
}

/// Publishes messages on one subject as one buffer, one for each of these header lists; answers
/// what was said of each.
fn together(bench: &mut Bench, messages: &[&[&str]]) -> Vec<String> {
    let blocks: Vec<String> = messages.iter().map(|headers| block(headers)).collect();
    let refs: Vec<MessageRef<'_>> = blocks
        .iter()
        .map(|block| MessageRef {
            subject: b"a",
            reply: b"r",
            headers: block.as_bytes(),
            ..MessageRef::default()
        })
        .collect();
    bench.msgs(&refs).iter().map(|said| said.trim_start_matches("r ").to_owned()).collect()
}

/// Headers and payload of a stored message.
fn stored(bench: &Bench, seq: u64) -> (String, String) {
    let mut buffer = Vec::new();
    let message = bench.core.reader().get(seq, Wait::Allowed, &mut buffer).unwrap().expect("it is there");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(message.headers), text(message.payload))
}

#[test]
fn increments_add_up_for_each_subject() {
    let mut bench = Bench::new(counters());
    assert_eq!(add(&mut bench, "a", "1"), ack(1, "1"));
    assert_eq!(add(&mut bench, "a", "+5"), ack(2, "6"));
    assert_eq!(add(&mut bench, "a", "-10"), ack(3, "-4"));
    let many = "123456789012345678901234567890";
    assert_eq!(add(&mut bench, "b", many), ack(4, many));
    assert_eq!(add(&mut bench, "a", "4"), ack(5, "0"));
    assert_eq!(stored(&bench, 3), (block(&["Nats-Incr: -10"]), r#"{"val":"-4"}"#.into()));
}

#[test]
fn counters_in_one_parcel_follow_each_other() {
    let mut bench = Bench::new(counters());
    let headers = block(&["Nats-Incr: 2"]);
    let msg = |subject: &'static str| MessageRef {
        subject: subject.as_bytes(),
        reply: b"r",
        headers: headers.as_bytes(),
        ..MessageRef::default()
    };
    let said = bench.msgs(&[msg("a"), msg("b"), msg("a"), msg("a")]);
    let answers = [ack(1, "2"), ack(2, "2"), ack(3, "4"), ack(4, "6")].map(|answer| format!("r {answer}"));
    assert_eq!(said, answers);
}

#[test]
fn what_was_refused_is_not_counted() {
    let mut bench = Bench::new(counters());
    let ttl = error(400, 10165, "invalid per-message TTL");
    let said = together(&mut bench, &[&["Nats-Incr: 100", "Nats-TTL: x"], &["Nats-Incr: 1"]]);
    assert_eq!(said, [ttl.clone(), ack(1, "1")]);
    // Nor is it behind a message that waits.
    let messages: [&[&str]; 3] = [&["Nats-Incr: 2"], &["Nats-Incr: 100", "Nats-TTL: x"], &["Nats-Incr: 4"]];
    assert_eq!(together(&mut bench, &messages), [ack(2, "3"), ttl, ack(3, "7")]);
    // What finds no room, with nothing in front of it.
    let mut bench = limited(counters(), 60);
    let room = error(400, 10002, "resource limits exceeded for account");
    let said = together(&mut bench, &[&["Nats-Incr: 100000"], &["Nats-Incr: 1"]]);
    assert_eq!(said, [room, ack(1, "1")]);
}

#[test]
fn a_counter_goes_on_when_a_parcel_is_stored_in_parts() {
    // 54 bytes each: the third finds room when the second has taken the place of the first.
    let mut bench = limited(StreamConfig { max_msgs_per_subject: 1, ..counters() }, 120);
    let messages: [&[&str]; 6] = [&["Nats-Incr: 1"]; 6];
    let said = together(&mut bench, &messages);
    assert_eq!(said, [1_u64, 2, 3, 4, 5, 6].map(|total| ack(total, &total.to_string())));
    assert_eq!(add(&mut bench, "a", "1"), ack(7, "7"));
}

#[test]
fn what_the_log_refuses_is_not_counted() {
    // Of 54, 96 and 54 bytes; before the second is refused, the third has no room.
    let config = StreamConfig { discard: Discard::New, max_bytes: 120, ..counters() };
    let mut bench = limited(config, 200);
    let many = "Nats-Incr: 1000000000000000000000";
    let said = together(&mut bench, &[&["Nats-Incr: 1"], &[many], &["Nats-Incr: 1"]]);
    let full = error(503, 10077, "maximum bytes exceeded");
    assert_eq!(said, [ack(1, "1"), full, ack(2, "2")]);
    assert_eq!(stored(&bench, 2), (block(&["Nats-Incr: 1"]), r#"{"val":"2"}"#.into()));
}

#[test]
fn increments_stand_alone() {
    let mut bench = Bench::new(counters());
    let invalid = error(400, 10171, "message counter increment is invalid");
    for other in [
        "Nats-Rollup: sub",
        "Nats-Expected-Stream: S",
        "Nats-Expected-Last-Sequence: 0",
        "Nats-Expected-Last-Subject-Sequence: 0",
        "Nats-Expected-Last-Subject-Sequence-Subject: a",
        "Nats-Expected-Last-Msg-Id: x",
    ] {
        assert_eq!(bench.publish("a", &["Nats-Incr: 1", other], ""), invalid, "{other}");
    }
    let payload = error(400, 10170, "message counter has payload");
    assert_eq!(bench.publish("a", &["Nats-Incr: 1"], "x"), payload);
    let ttl = error(400, 10166, "per-message TTL is disabled");
    assert_eq!(bench.publish("a", &["Nats-Incr: 1", "Nats-TTL: 5"], ""), ttl);
    assert_eq!(bench.last(), 0);
}

#[test]
fn an_increment_counts_once_for_its_id() {
    let mut bench = Bench::new(counters());
    assert_eq!(bench.publish("a", &["Nats-Incr: 3", "Nats-Msg-Id: i"], ""), ack(1, "3"));
    let duplicate = r#"{"stream":"S","seq":1,"duplicate": true}"#;
    assert_eq!(bench.publish("a", &["Nats-Incr: 3", "Nats-Msg-Id: i"], ""), duplicate);
    assert_eq!(add(&mut bench, "a", "1"), ack(2, "4"));
}

#[test]
fn a_counter_that_is_gone_begins_anew() {
    let mut bench = Bench::new(StreamConfig { max_msgs: 2, ..counters() });
    assert_eq!(add(&mut bench, "a", "5"), ack(1, "5"));
    let headers = block(&["Nats-Incr: 1"]);
    let msg = |subject: &'static str| MessageRef {
        subject: subject.as_bytes(),
        reply: b"r",
        headers: headers.as_bytes(),
        ..MessageRef::default()
    };
    // The third message takes the first away, and the counter with it.
    let said = bench.msgs(&[msg("b"), msg("c"), msg("a")]);
    let answers = [ack(2, "1"), ack(3, "1"), ack(4, "1")].map(|answer| format!("r {answer}"));
    assert_eq!(said, answers);
    bench.core.purge(&mut Purge::default(), NOW, &mut Effects::default()).unwrap();
    assert_eq!(add(&mut bench, "c", "7"), ack(5, "7"));
}

#[test]
fn what_cannot_be_read_stays_as_it_is() {
    let plain = config();
    let mut bench = Bench::new(plain.clone());
    bench.publish("a", &[], "x");
    bench.publish("b", &["Nats-Counter-Sources: x"], r#"{"val":"1"}"#);
    let store =
        std::mem::replace(bench.core.store_mut(), Stream::in_memory(storage_config(&plain, false), 1, NOW));
    let core = StreamCore::new(Arc::new(counters()), store, StreamSettings::default(), NOW);
    let mut bench = Bench { core, now: NOW, effects: Effects::default() };
    let broken = error(400, 10172, "message counter is broken");
    assert_eq!(add(&mut bench, "a", "1"), broken);
    assert_eq!(add(&mut bench, "b", "1"), broken);
    assert_eq!(add(&mut bench, "c", "1"), ack(3, "1"));
}

#[test]
fn what_a_counter_says_must_fit() {
    let mut bench = Bench::new(StreamConfig { max_msg_size: 45, ..counters() });
    assert_eq!(add(&mut bench, "a", "99999"), ack(1, "99999"));
    let large = error(400, 10054, "message size exceeds maximum allowed");
    assert_eq!(add(&mut bench, "a", "99999999"), large);
    assert_eq!(add(&mut bench, "a", "-9999"), ack(2, "90000"));
}

#[test]
fn a_counter_that_goes_within_a_fast_batch_begins_anew() {
    let mut bench = Bench::new(StreamConfig { max_msgs: 2, allow_batched: true, ..counters() });
    let headers = block(&["Nats-Incr: 5"]);
    let members = [("a", 0), ("b", 1), ("c", 1), ("a", 1), ("a", 1), ("a", 2)];
    let replies: Vec<String> =
        (1..).zip(members).map(|(n, (_, op))| format!("_I.u.10.fail.{n}.{op}.$FI")).collect();
    let msg = |((subject, _), reply): (&(&'static str, u32), &'static str)| MessageRef {
        subject: subject.as_bytes(),
        reply: reply.as_bytes(),
        headers: headers.as_bytes(),
        ..MessageRef::default()
    };
    let replies: Vec<&'static str> = replies.into_iter().map(|reply| &*reply.leak()).collect();
    let refs: Vec<MessageRef<'_>> = members.iter().zip(replies).map(msg).collect();
    bench.msgs(&refs);
    let totals = [5, 6].map(|seq| stored(&bench, seq).1);
    assert_eq!(totals, [r#"{"val":"10"}"#, r#"{"val":"15"}"#]);
}

/// A total has no end otherwise: nobody could be sent it.
#[test]
fn what_a_counter_says_must_fit_what_clients_take() {
    let mut bench = Bench::with(counters(), StreamSettings { max_payload: 64, ..StreamSettings::default() });
    let (headers, payload) = (block(&["Nats-Incr: 9999999999"]).len(), r#"{"val":"9999999999"}"#.len());
    assert_eq!((headers, payload), (35, 20));
    assert_eq!(add(&mut bench, "a", "9999999999"), ack(1, "9999999999"));
    let large = error(400, 10054, "message size exceeds maximum allowed");
    assert_eq!(add(&mut bench, "a", "999999999999999999"), large);
    assert_eq!(add(&mut bench, "a", "-9"), ack(2, "9999999990"));
}

#[test]
fn what_sources_said_goes_from_message_to_message() {
    let plain = config();
    let mut bench = Bench::new(plain.clone());
    let sources = r#"Nats-Counter-Sources: {"T":{"t.a":"5"}}"#;
    bench.publish("a", &["X: 5", sources], r#"{"val":"5"}"#);
    let store =
        std::mem::replace(bench.core.store_mut(), Stream::in_memory(storage_config(&plain, false), 1, NOW));
    let core = StreamCore::new(Arc::new(counters()), store, StreamSettings::default(), NOW);
    let mut bench = Bench { core, now: NOW, effects: Effects::default() };
    assert_eq!(add(&mut bench, "a", "1"), ack(2, "6"));
    assert_eq!(stored(&bench, 2), (block(&["Nats-Incr: 1", sources]), r#"{"val":"6"}"#.into()));
}

#[test]
fn batches_count_within_themselves() {
    let mut bench = Bench::new(StreamConfig { allow_atomic: true, ..counters() });
    add(&mut bench, "a", "1");
    let first = ["Nats-Incr: 1", "Nats-Batch-Id: b", "Nats-Batch-Sequence: 1"];
    hold(&mut bench, &first);
    let last = ["Nats-Incr: 1", "Nats-Batch-Id: b", "Nats-Batch-Sequence: 2", "Nats-Batch-Commit: 1"];
    assert_eq!(bench.publish("a", &last, ""), r#"{"stream":"S","seq":3,"batch":"b","count":2}"#);
    assert_eq!(
        (stored(&bench, 2).1, stored(&bench, 3).1),
        (r#"{"val":"2"}"#.into(), r#"{"val":"3"}"#.into())
    );
    // A batch that is refused counts for nothing.
    hold(&mut bench, &["Nats-Incr: 9", "Nats-Batch-Id: c", "Nats-Batch-Sequence: 1"]);
    let bad = ["Nats-Incr: x", "Nats-Batch-Id: c", "Nats-Batch-Sequence: 2", "Nats-Batch-Commit: 1"];
    assert_eq!(bench.publish("a", &bad, ""), error(400, 10171, "message counter increment is invalid"));
    assert_eq!(add(&mut bench, "a", "1"), ack(4, "4"));
}
