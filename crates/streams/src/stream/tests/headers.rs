//! Headers by which a publisher asks for something. The answers were observed at the reference.

use super::{Bench, block, config, error, msg};
use myelin_jsapi::config::StreamConfig;
use myelin_store::{Timestamp, Wait};
use myelin_wire::message_buf::MessageRef;

fn ack(seq: u64) -> String {
    format!(r#"{{"stream":"S","seq":{seq}}}"#)
}

fn wrong(seq: u64) -> String {
    error(400, 10071, &format!("wrong last sequence: {seq}"))
}

/// Headers and end of a stored message.
fn stored(bench: &Bench, seq: u64) -> (String, Option<Timestamp>) {
    let mut buffer = Vec::new();
    let message = bench.core.reader().get(seq, Wait::Allowed, &mut buffer).unwrap().expect("it is there");
    (String::from_utf8_lossy(message.headers).into_owned(), message.expires.map(|at| at - message.timestamp))
}

#[test]
fn the_expected_stream_must_be_this_one() {
    let mut bench = Bench::new(config());
    let refused = error(400, 10060, "expected stream does not match");
    assert_eq!(bench.publish("a", &["Nats-Expected-Stream: X"], "x"), refused);
    assert_eq!(bench.publish("a", &["Nats-Expected-Stream: S"], "x"), ack(1));
}

#[test]
fn the_last_sequence_may_be_expected() {
    let mut bench = Bench::new(config());
    assert_eq!(bench.publish("a", &["Nats-Expected-Last-Sequence: 0"], "x"), ack(1));
    assert_eq!(bench.publish("a", &["Nats-Expected-Last-Sequence: 0"], "x"), wrong(1));
    assert_eq!(bench.publish("a", &["Nats-Expected-Last-Sequence: x"], "x"), wrong(1));
    assert_eq!(bench.publish("a", &["Nats-Expected-Last-Sequence: 1"], "x"), ack(2));
}

#[test]
fn an_expectation_sees_the_messages_before_it_in_the_parcel() {
    let mut bench = Bench::new(config());
    let headers = block(&["Nats-Expected-Last-Sequence: 2"]);
    let expecting = MessageRef { headers: headers.as_bytes(), ..msg("b", "r") };
    let said = bench.msgs(&[msg("a", "r"), msg("a", "r"), expecting, expecting, msg("c", "r")]);
    let answers = [ack(1), ack(2), ack(3), wrong(3), ack(4)].map(|answer| format!("r {answer}"));
    assert_eq!(said, answers);
}

#[test]
fn the_last_sequence_of_a_subject_may_be_expected() {
    let mut bench = Bench::new(config());
    let (key, other) = ("Nats-Expected-Last-Subject-Sequence", "Nats-Expected-Last-Subject-Sequence-Subject");
    assert_eq!(bench.publish("k.a", &[&format!("{key}: 0")], "x"), ack(1));
    assert_eq!(bench.publish("k.a", &[&format!("{key}: 0")], "x"), wrong(1));
    assert_eq!(bench.publish("k.b", &[&format!("{key}: 9")], "x"), wrong(0));
    assert_eq!(bench.publish("k.b", &[&format!("{key}: 1"), &format!("{other}: k.*")], "x"), ack(2));
    assert_eq!(bench.publish("k.b", &[&format!("{key}: 1"), &format!("{other}: k.*")], "x"), wrong(2));
    assert_eq!(bench.publish("k.b", &[&format!("{key}: 1"), &format!("{other}: k.a")], "x"), ack(3));
    assert_eq!(bench.publish("k.b", &[&format!("{key}: 0"), &format!("{other}: z.>")], "x"), ack(4));
    let missing = error(400, 10193, "missing sequence for expected last sequence per subject");
    assert_eq!(bench.publish("k.b", &[&format!("{other}: k.a")], "x"), missing);
}

#[test]
fn the_last_message_id_may_be_expected() {
    let mut bench = Bench::new(StreamConfig { duplicate_window: 0, ..config() });
    let wrong = |id: &str| error(400, 10070, &format!("wrong last msg ID: {id}"));
    assert_eq!(bench.publish("a", &["Nats-Expected-Last-Msg-Id: one"], "x"), wrong(""));
    bench.publish("a", &["Nats-Msg-Id: one"], "x");
    assert_eq!(bench.publish("a", &["Nats-Expected-Last-Msg-Id: two"], "x"), wrong("one"));
    assert_eq!(bench.publish("a", &["Nats-Expected-Last-Msg-Id: one"], "x"), ack(2));
    assert_eq!(bench.publish("a", &["Nats-Expected-Last-Msg-Id: one"], "x"), wrong(""));
}

#[test]
fn a_rollup_leaves_the_message_that_asks_for_it() {
    let mut bench = Bench::new(StreamConfig { allow_rollup_hdrs: true, ..config() });
    bench.msgs(&["a", "b", "a", "b", "a"].map(|subject| msg(subject, "")));
    assert_eq!(bench.publish("a", &["Nats-Rollup: SUB"], "x"), ack(6));
    assert_eq!((bench.core.state().totals.messages, bench.core.state().totals.first_seq), (3, 2));
    assert_eq!(bench.publish("c", &["Nats-Rollup: all"], "x"), ack(7));
    assert_eq!((bench.core.state().totals.messages, bench.core.state().totals.first_seq), (1, 7));
    let invalid = error(500, 10111, r#"rollup value invalid: \"bla\\\"\u003c\""#);
    assert_eq!(bench.publish("a", &["Nats-Rollup: bla\"<"], "x"), invalid);
}

#[test]
fn a_rollup_of_a_subject_that_reads_as_a_pattern_takes_the_place_of_all_that_it_matches() {
    let mut bench = Bench::new(StreamConfig { allow_rollup_hdrs: true, ..config() });
    bench.msgs(&["k.a", "k.b", "k.c.d", "l"].map(|subject| msg(subject, "")));
    assert_eq!(bench.publish("k.*", &["Nats-Rollup: sub"], "x"), ack(5));
    assert_eq!((bench.core.state().totals.messages, bench.core.state().totals.first_seq), (3, 3));
    assert_eq!(bench.publish(">", &["Nats-Rollup: sub"], "x"), ack(6));
    assert_eq!((bench.core.state().totals.messages, bench.core.state().totals.first_seq), (1, 6));
}

#[test]
fn a_large_rollup_goes_on_after_its_turn() {
    let mut bench = Bench::new(StreamConfig { allow_rollup_hdrs: true, ..config() });
    for _ in 0..25 {
        bench.msgs(&[msg("a", ""); 1000]);
    }
    let headers = block(&["Nats-Rollup: sub"]);
    let rollup = MessageRef { headers: headers.as_bytes(), ..msg("a", "r") };
    assert!(bench.msgs(&[rollup, msg("a", "")]).is_empty(), "it is not through");
    let mut slices = 0;
    while bench.core.next_due().is_some_and(|at| at <= bench.now) {
        bench.core.due(bench.now, &mut bench.effects);
        slices += 1;
    }
    assert!((2..100).contains(&slices), "{slices} slices");
    assert_eq!(bench.said(), [format!("r {}", ack(25_001))]);
    assert_eq!((bench.core.state().totals.messages, bench.core.state().totals.first_seq), (2, 25_001));
}

#[test]
fn rollups_need_permission() {
    let refused = error(500, 10111, "rollup not permitted");
    let mut bench = Bench::new(config());
    assert_eq!(bench.publish("a", &["Nats-Rollup: sub"], "x"), refused);
    let mut bench = Bench::new(StreamConfig { allow_rollup_hdrs: true, deny_purge: true, ..config() });
    assert_eq!(bench.publish("a", &["Nats-Rollup: bla"], "x"), refused);
}

#[test]
fn times_to_live() {
    let mut bench = Bench::new(StreamConfig { allow_msg_ttl: true, ..config() });
    let invalid = error(400, 10165, "invalid per-message TTL");
    let second = 1_000_000_000;
    let cases = [("5", Some(5)), ("1.5s", Some(1)), ("1h30m", Some(5400)), ("00", None)];
    for (seq, (text, seconds)) in (1..).zip(cases) {
        assert_eq!(bench.publish("a", &[&format!("Nats-TTL: {text}")], "x"), ack(seq), "{text}");
        assert_eq!(stored(&bench, seq).1, seconds.map(|seconds: i64| seconds * second), "{text}");
    }
    for text in ["999ms", "0", "-1", "x"] {
        assert_eq!(bench.publish("a", &[&format!("Nats-TTL: {text}")], "x"), invalid, "{text}");
    }
    assert_eq!(bench.publish("a", &["Nats-TTL: NEVER"], "x"), ack(5));
    let mut buffer = Vec::new();
    let message = bench.core.reader().get(5, Wait::Allowed, &mut buffer).unwrap().unwrap();
    assert_eq!(message.expires, Some(Timestamp::MAX));
    // Not for ever, however long it is.
    assert_eq!(bench.publish("a", &["Nats-TTL: 9223372036"], "x"), ack(6));
    let message = bench.core.reader().get(6, Wait::Allowed, &mut buffer).unwrap().unwrap();
    assert_eq!(message.expires, Some(Timestamp::MAX - 1));
}

#[test]
fn a_time_to_live_must_be_allowed_and_one_that_is_none_says_so_first() {
    let mut bench = Bench::new(config());
    let disabled = error(400, 10166, "per-message TTL is disabled");
    assert_eq!(bench.publish("a", &["Nats-TTL: 5"], "x"), disabled);
    assert_eq!(bench.publish("a", &["Nats-TTL: never"], "x"), disabled);
    assert_eq!(bench.publish("a", &["Nats-TTL: x"], "x"), error(400, 10165, "invalid per-message TTL"));
    assert_eq!(bench.publish("a", &["Nats-TTL: 00"], "x"), ack(1));
}

#[test]
fn a_message_lives_as_long_as_a_delete_marker_at_least() {
    let marked = StreamConfig { allow_msg_ttl: true, subject_delete_marker_ttl: 60_000_000_000, ..config() };
    let mut bench = Bench::new(marked.clone());
    bench.publish("a", &["Nats-TTL: 5"], "x");
    bench.publish("a", &["Nats-TTL: 5s", "A: b"], "x");
    bench.publish("a", &["Nats-TTL: 61"], "x");
    let minute = Some(60_000_000_000);
    assert_eq!(stored(&bench, 1), (block(&["Nats-TTL: 60"]), minute));
    assert_eq!(stored(&bench, 2), (block(&["A: b", "Nats-TTL: 60"]), minute));
    assert_eq!(stored(&bench, 3).0, block(&["Nats-TTL: 61"]));
    let mut bench = Bench::new(StreamConfig { max_msgs_per_subject: 1, ..marked });
    bench.publish("a", &["Nats-TTL: 5"], "x");
    assert_eq!(stored(&bench, 1).0, block(&["Nats-TTL: 5"]));
}

#[test]
fn counters_and_schedules_must_be_allowed() {
    let mut bench = Bench::new(config());
    let counters = error(400, 10168, "message counters is disabled");
    let schedules = error(400, 10188, "message schedules is disabled");
    let scheduler = error(400, 10212, "message schedules invalid scheduler");
    let cases: [(&[&str], &str); 10] = [
        (&["Nats-Incr: 1"], &counters),
        (&["Nats-Incr: x"], &error(400, 10171, "message counter increment is invalid")),
        (&["Nats-Schedule: @at bad"], &schedules),
        (&["Nats-Schedule-Next: purge"], &scheduler),
        (&["Nats-Schedule-Next: 2030-01-01T00:00:00Z"], &scheduler),
        (&["Nats-Scheduler: S.y"], &scheduler),
        (&["Nats-Schedule-Next: purge", "Nats-Scheduler: a"], &scheduler),
        (&["Nats-Schedule-Next: purge", "Nats-Scheduler: b"], &schedules),
        (&["Nats-Stream-Source: a 1"], &error(400, 10227, "message stream source header is not allowed")),
        (&["Nats-Schedule: ", "Nats-Required-Api-Level: 99"], &ack(1)),
    ];
    for (headers, answer) in cases {
        assert_eq!(bench.publish("a", headers, "x"), answer, "{headers:?}");
    }
    let mut bench = Bench::new(StreamConfig { allow_msg_counter: true, ..config() });
    let missing = error(400, 10169, "message counter increment is missing");
    assert_eq!(bench.publish("a", &[], "x"), missing);
    assert_eq!(bench.publish("a", &["A: b"], "x"), missing);
}

#[test]
fn what_is_not_for_the_stream_is_not_stored() {
    let mut bench = Bench::new(config());
    let cases = [
        ("NATS/1.0 503 no\r\nA: b\r\n\r\n", "NATS/1.0\r\nA: b\r\n\r\n"),
        ("NATS/1.0 503\r\n\r\n", ""),
        (
            "NATS/1.0\r\nNats-Request-Info: {}\r\nB: c\r\nNats-Request-Info: {}\r\n\r\n",
            "NATS/1.0\r\nB: c\r\n\r\n",
        ),
        ("NATS/1.0\r\nNats-Request-Info: {}\r\n\r\n", ""),
        ("NATS/1.0\r\n\r\n", "NATS/1.0\r\n\r\n"),
        ("NATS/1.0 1\r\nNats-Request-Info", "NATS/1.0\r\nNats-Request-Info"),
    ];
    for (seq, (came, kept)) in (1..).zip(cases) {
        bench.msgs(&[MessageRef { headers: came.as_bytes(), ..msg("a", "") }]);
        assert_eq!(stored(&bench, seq).0, kept, "{came:?}");
    }
}

#[test]
fn times_to_live_of_one_parcel_are_written_apart() {
    let markers = StreamConfig {
        allow_msg_ttl: true,
        allow_atomic: true,
        subject_delete_marker_ttl: 60_000_000_000,
        ..config()
    };
    let mut bench = Bench::new(markers);
    let headers = block(&["Nats-TTL: 1"]);
    let short = MessageRef { headers: headers.as_bytes(), ..msg("a", "") };
    bench.msgs(&[short, short]);
    let batch = block(&["Nats-Batch-Id: b", "Nats-Batch-Sequence: 1", "Nats-TTL: 1"]);
    bench.msgs(&[short, MessageRef { headers: batch.as_bytes(), ..msg("a", "r") }]);
    let last = block(&["Nats-Batch-Id: b", "Nats-Batch-Sequence: 2", "Nats-TTL: 1", "Nats-Batch-Commit: 1"]);
    bench.msgs(&[short, MessageRef { headers: last.as_bytes(), ..msg("a", "r") }]);
    let plain = (block(&["Nats-TTL: 60"]), Some(60_000_000_000));
    assert_eq!([1, 2, 3, 4].map(|seq| stored(&bench, seq)), [(); 4].map(|()| plain.clone()));
    for (seq, line) in [(5, "Nats-Batch-Sequence: 1"), (6, "Nats-Batch-Sequence: 2\r\nNats-Batch-Commit: 1")]
    {
        assert_eq!(stored(&bench, seq).0, block(&["Nats-Batch-Id: b", line, "Nats-TTL: 60"]));
    }
}

#[test]
fn a_rollup_takes_older_messages_whatever_becomes_of_its_own() {
    let mut bench = Bench::new(StreamConfig { allow_rollup_hdrs: true, ..config() });
    for _ in 0..25 {
        bench.msgs(&[msg("a", ""); 1000]);
    }
    let headers = block(&["Nats-Rollup: sub"]);
    bench.msgs(&[MessageRef { headers: headers.as_bytes(), ..msg("a", "") }]);
    assert!(bench.core.delete(25_001, bench.now, &mut bench.effects).unwrap());
    while bench.core.next_due().is_some_and(|at| at <= bench.now) {
        bench.core.due(bench.now, &mut bench.effects);
    }
    assert_eq!(bench.core.state().totals.messages, 0);
}

#[test]
fn a_rollup_of_all_is_through_at_once() {
    let mut bench = Bench::new(StreamConfig { allow_rollup_hdrs: true, ..config() });
    for _ in 0..25 {
        bench.msgs(&[msg("a", ""); 1000]);
    }
    assert_eq!(bench.publish("a", &["Nats-Rollup: all"], "x"), ack(25_001));
    assert_eq!(bench.core.state().totals.messages, 1);
}

#[test]
fn a_rollup_that_is_the_first_message_takes_nothing() {
    for first_seq in [1, myelin_store::MAX_SEQ] {
        let mut bench = Bench::new(StreamConfig { allow_rollup_hdrs: true, first_seq, ..config() });
        assert_eq!(bench.publish("a", &["Nats-Rollup: sub"], "x"), ack(first_seq));
        assert_eq!(bench.core.state().totals.messages, 1);
        assert_eq!(bench.publish("a", &["Nats-Rollup: sub"], "x"), ack(first_seq + 1));
        assert_eq!(bench.publish("a", &["Nats-Rollup: all"], "x"), ack(first_seq + 2));
        assert_eq!(bench.core.state().totals.messages, 1, "as high as sequences may begin");
    }
}
