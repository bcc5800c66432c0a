//! Messages of other streams, and a mirror beside its twin.

use super::{Bench, NOW, block, config};
use crate::stream::{SourcedMsgs, SourcedResult, StorageBudget, StreamSettings};
use myelin_jsapi::config::{Discard, Retention, StreamConfig};
use myelin_store::{Filter, Seq, Timestamp, Wait};
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One message as it stands in a stream.
type Row = (Seq, Timestamp, Vec<u8>, Vec<u8>);

fn mirror() -> StreamConfig {
    StreamConfig {
        mirror: Some(myelin_jsapi::config::StreamSource { name: "O".into(), ..Default::default() }),
        subjects: Vec::new(),
        duplicate_window: 0,
        ..config()
    }
}

fn rows(bench: &Bench) -> Vec<Row> {
    let mut cursor = bench.core.reader().cursor(Filter::All, 0);
    let mut rows = Vec::new();
    while let Some(message) = cursor.next(Wait::Allowed).unwrap() {
        rows.push((message.seq, message.timestamp, message.subject.to_vec(), message.payload.to_vec()));
    }
    rows
}

/// Copies what `origin` has behind what the mirror has, at most so many.
fn copy(origin: &Bench, mirror: &mut Bench, most: usize) -> SourcedResult {
    let last = mirror.last();
    let (mut msgs, mut stamps) = (MessageBuf::default(), Vec::new());
    for (seq, time, subject, payload) in rows(origin).into_iter().filter(|row| row.0 > last).take(most) {
        msgs.push(MessageRef { subject: &subject, payload: &payload, ..MessageRef::default() });
        stamps.push((seq, time));
    }
    let copies = SourcedMsgs { msgs: &msgs, stamps: &stamps };
    mirror.core.copy(&copies, mirror.now, &mut mirror.effects)
}

/// Sources these messages: headers and payload of each.
fn source(bench: &mut Bench, messages: &[(&[&str], &str)]) -> SourcedResult {
    let mut msgs = MessageBuf::default();
    for (headers, payload) in messages {
        let headers = block(headers);
        let (headers, payload) = (headers.as_bytes(), payload.as_bytes());
        msgs.push(MessageRef { subject: b"a", headers, payload, ..MessageRef::default() });
    }
    bench.core.copy(&SourcedMsgs { msgs: &msgs, stamps: &[] }, bench.now, &mut bench.effects)
}

#[test]
fn sequences_and_times_are_those_of_the_origin_and_gaps_are_passed_over() {
    let (mut origin, mut copied) = (Bench::new(config()), Bench::new(mirror()));
    for payload in ["1", "2", "3", "4"] {
        origin.publish("a", &[], payload);
    }
    origin.core.delete(2, NOW, &mut origin.effects).unwrap();
    copied.now = NOW + 1_000_000_000;
    assert_eq!(copy(&origin, &mut copied, 9), SourcedResult { done: 3, refused: None });
    assert_eq!(rows(&copied), rows(&origin));
    assert_eq!(copied.core.state().deleted, 1);
    // Far ahead.
    origin.core.pass_to(5_000_000_000, NOW).unwrap();
    origin.publish("a", &[], "far");
    assert_eq!(copy(&origin, &mut copied, 9), SourcedResult { done: 1, refused: None });
    assert_eq!(copied.last(), 5_000_000_001);
}

/// Does all that is due.
fn run_due(bench: &mut Bench) {
    while bench.core.next_due().is_some_and(|at| at <= bench.now) {
        bench.core.due(bench.now, &mut bench.effects);
    }
}

#[test]
fn lifetimes_of_copies_count_once_they_are_switched_on() {
    let mut bench = Bench::new(config());
    for _ in 0..2_000 {
        source(&mut bench, &[(&[], "without")]);
    }
    let brought: [(&[&str], &str); 5] = [
        (&["Nats-TTL: 10"], "short"),
        (&["Nats-TTL: never"], "for ever"),
        (&["Nats-TTL: 1h"], "long"),
        (&["Nats-TTL: what"], "no time"),
        (&["Nats-TTL: 0"], "none"),
    ];
    assert_eq!(source(&mut bench, &brought).done, 5);
    bench.now += 60_000_000_000;
    run_due(&mut bench);
    assert_eq!((bench.core.state().totals.messages, bench.core.lifetimes_until()), (2_005, 0));
    let config = Arc::new(StreamConfig { allow_msg_ttl: true, ..config() });
    bench.core.update(config, bench.now, &mut bench.effects).unwrap();
    assert_eq!(bench.core.lifetimes_until(), 2_005, "nobody has looked");
    run_due(&mut bench);
    let has = |bench: &Bench, seq| rows(bench).iter().any(|row| row.0 == seq);
    assert_eq!((bench.core.state().totals.messages, has(&bench, 2_001)), (2_004, false));
    // The last one of which only the header tells: the endless one was stored as such.
    assert_eq!(bench.core.lifetimes_until(), 2_003);
    // As a start that was told so does.
    bench.core.seek_lifetimes(2_003, bench.now);
    run_due(&mut bench);
    assert_eq!(bench.core.lifetimes_until(), 2_003);
    bench.now += 3_600_000_000_000;
    run_due(&mut bench);
    assert_eq!((bench.core.state().totals.messages, has(&bench, 2_003)), (2_003, false));
    bench.core.seek_lifetimes(2_003, bench.now);
    run_due(&mut bench);
    assert_eq!(bench.core.lifetimes_until(), 0, "a start finds none");
}

#[test]
fn an_empty_mirror_begins_where_its_origin_does() {
    let mut copied = Bench::new(mirror());
    copied.core.pass_to(10, NOW).unwrap();
    assert_eq!((copied.core.state().totals.first_seq, copied.last()), (11, 10));
    copied.core.pass_to(3, NOW).unwrap();
    assert_eq!(copied.last(), 10);
}

#[test]
fn what_an_origin_has_admitted_is_not_judged_again() {
    let mut bench = Bench::new(StreamConfig { sources: vec![Default::default()], ..config() });
    let odd = ["Nats-TTL: 5", "Nats-Rollup: all", "Nats-Stream-Source: O 1 > > a", "Nats-Schedule: @at x"];
    assert_eq!(source(&mut bench, &[(&odd, "x"), (&[], "y")]), SourcedResult { done: 2, refused: None });
    // Neither lets messages end nor roll others up where the stream does not.
    assert_eq!(rows(&bench).len(), 2);
}

#[test]
fn one_that_never_ends_outlives_the_limit_of_age() {
    let second = 1_000_000_000;
    let config = StreamConfig { sources: vec![Default::default()], max_age: second, ..config() };
    let mut bench = Bench::new(config);
    let messages: [(&[&str], &str); 3] = [(&["Nats-TTL: never"], "x"), (&["Nats-TTL: 5m"], "y"), (&[], "z")];
    assert_eq!(source(&mut bench, &messages), SourcedResult { done: 3, refused: None });
    bench.now += 3 * second;
    bench.core.due(bench.now, &mut bench.effects);
    assert_eq!(rows(&bench).into_iter().map(|row| row.3).collect::<Vec<_>>(), [b"x"]);
}

#[test]
fn an_id_counts_once_from_wherever_it_comes() {
    let mut bench = Bench::new(config());
    bench.publish("a", &["Nats-Msg-Id: 1"], "");
    let twice: [(&[&str], &str); 4] =
        [(&["Nats-Msg-Id: 1"], ""), (&["Nats-Msg-Id: 2"], ""), (&["Nats-Msg-Id: 2"], ""), (&[], "")];
    assert_eq!(source(&mut bench, &twice), SourcedResult { done: 4, refused: None });
    assert_eq!(bench.last(), 3);
    assert!(bench.publish("a", &["Nats-Msg-Id: 2"], "").contains("duplicate"));
}

#[test]
fn a_copy_that_came_before_is_not_counted() {
    let mut bench = Bench::new(StreamConfig { allow_msg_counter: true, ..config() });
    let first = ["Nats-Incr: 5", "Nats-Msg-Id: 1", "Nats-Stream-Source: O 1 > > a"];
    assert_eq!(source(&mut bench, &[(&first, r#"{"val":"5"}"#)]).done, 1);
    let again = ["Nats-Incr: 9", "Nats-Msg-Id: 1", "Nats-Stream-Source: P 1 > > a"];
    let next = ["Nats-Incr: 1", "Nats-Stream-Source: O 2 > > a"];
    let copied = source(&mut bench, &[(&again, r#"{"val":"9"}"#), (&next, r#"{"val":"6"}"#)]);
    assert_eq!(copied, SourcedResult { done: 2, refused: None });
    let payloads: Vec<Vec<u8>> = rows(&bench).into_iter().map(|row| row.3).collect();
    assert_eq!(payloads, [br#"{"val":"5"}"#, br#"{"val":"6"}"#]);
}

#[test]
fn a_counter_of_copies_goes_on_when_they_are_stored_in_parts() {
    // About 130 bytes each: two wait, and the next finds room when one of them has taken the
    // other's place.
    let settings = StreamSettings { account: Arc::new(StorageBudget::new(300)), ..StreamSettings::default() };
    let config = StreamConfig { allow_msg_counter: true, max_msgs_per_subject: 1, ..config() };
    let mut bench = Bench::with(config, settings);
    let (of_o, of_p) = (
        ["Nats-Incr: 1", "Nats-Stream-Source: O 1 > > a"],
        ["Nats-Incr: 1", "Nats-Stream-Source: P 1 > > a"],
    );
    let (one, two) = (r#"{"val":"1"}"#, r#"{"val":"2"}"#);
    let messages: [(&[&str], &str); 4] = [(&of_o, one), (&of_p, one), (&of_o, two), (&of_p, two)];
    assert_eq!(source(&mut bench, &messages), SourcedResult { done: 4, refused: None });
    let last = rows(&bench).pop().expect("the last one is there");
    assert_eq!((last.0, last.3.as_slice()), (4, br#"{"val":"4"}"#.as_slice()));
}

#[test]
fn the_first_that_finds_no_room_ends_it() {
    let full = StreamConfig { max_msgs: 2, discard: Discard::New, ..config() };
    for (config, error) in [
        (full, "maximum messages exceeded"),
        (StreamConfig { max_msg_size: 3, ..config() }, "message size exceeds maximum allowed"),
    ] {
        let mut bench = Bench::new(config);
        let copied = source(&mut bench, &[(&[], "1"), (&[], "2"), (&[], "long"), (&[], "4")]);
        assert_eq!((copied.done, copied.refused.unwrap().description.as_ref()), (2, error));
        assert_eq!(bench.last(), 2);
        assert!(bench.said().is_empty(), "nobody waits for an answer");
    }
}

#[test]
fn rollups_of_an_origin_roll_up_where_that_is_allowed() {
    let mut bench = Bench::new(StreamConfig { allow_rollup_hdrs: true, ..config() });
    let messages: [(&[&str], &str); 3] = [(&[], "1"), (&["Nats-Rollup: sub"], "2"), (&[], "3")];
    assert_eq!(source(&mut bench, &messages).done, 3);
    assert_eq!(rows(&bench).iter().map(|row| row.0).collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn a_mirror_with_interest_keeps_its_sequences() {
    let (mut origin, mut copied) =
        (Bench::new(config()), Bench::new(StreamConfig { retention: Retention::Interest, ..mirror() }));
    for payload in ["1", "2", "3", "4", "5"] {
        origin.publish("a", &[], payload);
    }
    origin.core.delete(3, NOW, &mut origin.effects).unwrap();
    assert_eq!(copy(&origin, &mut copied, 9), SourcedResult { done: 4, refused: None });
    assert_eq!((copied.last(), rows(&copied).len()), (5, 0));
}

/// Step of the model.
#[derive(Clone, Debug)]
enum Step {
    Publish(u8, u8),
    Delete(u8),
    DeleteCopy(u8),
    Purge(u8, u8),
    PurgeCopy,
    Copy(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4_u8, 1..6_u8).prop_map(|(subject, count)| Step::Publish(subject, count)),
        2 => any::<u8>().prop_map(Step::Delete),
        1 => any::<u8>().prop_map(Step::DeleteCopy),
        1 => (0..4_u8, 0..3_u8).prop_map(|(subject, keep)| Step::Purge(subject, keep)),
        1 => Just(Step::PurgeCopy),
        3 => (1..8_u8).prop_map(Step::Copy),
    ]
}

proptest! {
    /// The twin: a map that takes what the origin has when it is copied, and loses what is removed
    /// here.
    #[test]
    fn a_mirror_is_what_its_twin_is(
        limit in prop_oneof![Just(-1_i64), 1..12_i64],
        per_subject in prop_oneof![Just(-1_i64), 1..3_i64],
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let limited = StreamConfig { max_msgs: limit, max_msgs_per_subject: per_subject, ..config() };
        let (mut origin, mut copied) = (Bench::new(limited), Bench::new(mirror()));
        let mut twin: BTreeMap<Seq, Row> = BTreeMap::new();
        for step in steps {
            origin.now += 1000;
            let purge = |filter: Option<u8>, keep: u8| myelin_store::Purge {
                filter: filter.map(|subject| Filter::new(format!("s.{subject}").as_bytes())),
                keep: u64::from(keep),
                ..Default::default()
            };
            match step {
                Step::Publish(subject, count) => {
                    for at in 0..count {
                        origin.publish(&format!("s.{subject}"), &[], &at.to_string());
                    }
                }
                Step::Delete(at) => {
                    let seq = origin.last().saturating_sub(u64::from(at % 16));
                    let _ = origin.core.delete(seq, origin.now, &mut origin.effects);
                }
                Step::DeleteCopy(at) => {
                    let seq = copied.last().saturating_sub(u64::from(at % 16));
                    let _ = copied.core.delete(seq, copied.now, &mut copied.effects);
                    twin.remove(&seq);
                }
                Step::Purge(subject, keep) => {
                    origin.core.purge(&mut purge(Some(subject), keep), origin.now, &mut origin.effects).unwrap();
                }
                Step::PurgeCopy => {
                    copied.core.purge(&mut purge(None, 0), copied.now, &mut copied.effects).unwrap();
                    twin.clear();
                }
                Step::Copy(most) => {
                    let last = copied.last();
                    let taken = rows(&origin).into_iter().filter(|row| row.0 > last).take(most.into());
                    twin.extend(taken.map(|row| (row.0, row)));
                    prop_assert_eq!(copy(&origin, &mut copied, most.into()).refused, None);
                }
            }
            prop_assert_eq!(rows(&copied), twin.values().cloned().collect::<Vec<_>>());
            prop_assert!(copied.last() <= origin.last());
        }
        let last = copied.last();
        copy(&origin, &mut copied, usize::MAX);
        let rest: Vec<Row> = rows(&origin).into_iter().filter(|row| row.0 > last).collect();
        prop_assert!(rows(&copied).ends_with(&rest));
    }
}
