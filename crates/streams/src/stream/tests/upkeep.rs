//! Messages end, are removed, and limits change.

use std::sync::Arc;

use myelin_store::{Filter, Purge, Wait};

use super::{Bench, block, config, msg};
use myelin_jsapi::config::{Republish, StreamConfig};

const SECOND: i64 = 1_000_000_000;

/// Does what is due until `now`, slice by slice.
pub(super) fn pass(bench: &mut Bench, time: i64) {
    bench.now += time;
    for _ in 0..1000 {
        if bench.core.next_due().is_none_or(|at| at > bench.now) {
            return;
        }
        bench.core.due(bench.now, &mut bench.effects);
    }
    panic!("it never ends: {:?}", bench.core.next_due());
}

#[test]
fn messages_end_with_the_limit_of_age_and_their_own_time() {
    let limits = StreamConfig { max_age: 10 * SECOND, allow_msg_ttl: true, ..config() };
    let mut bench = Bench::new(limits);
    pass(&mut bench, 0);
    bench.publish("a", &[], "x");
    assert_eq!(bench.core.next_due(), Some(bench.now + 10 * SECOND));
    let mut msgs = myelin_wire::message_buf::MessageBuf::default();
    let headers = block(&["Nats-TTL: 2"]);
    msgs.push(myelin_wire::message_buf::MessageRef { headers: headers.as_bytes(), ..msg("b", "") });
    bench.core.publish(&msgs, bench.now, &mut bench.effects);
    assert!(bench.effects.due_changed, "it ends before the first one");
    bench.publish("c", &["Nats-TTL: never"], "x");
    pass(&mut bench, 3 * SECOND);
    assert_eq!(bench.core.state().totals.messages, 2);
    pass(&mut bench, 8 * SECOND);
    assert_eq!((bench.core.state().totals.messages, bench.core.state().totals.first_seq), (1, 3));
    assert!(bench.core.next_due().is_none_or(|at| at > bench.now), "what stays for ever is never due");
}

#[test]
fn many_messages_end_in_slices() {
    let mut bench = Bench::new(StreamConfig { max_age: SECOND, ..config() });
    pass(&mut bench, 0);
    for _ in 0..5 {
        bench.msgs(&[msg("a", ""); 1000]);
    }
    bench.now += 2 * SECOND;
    bench.core.due(bench.now, &mut bench.effects);
    let left = bench.core.state().totals.messages;
    assert!((1..5000).contains(&left), "{left} are left after one slice");
    pass(&mut bench, 0);
    assert_eq!(bench.core.state().totals.messages, 0);
}

#[test]
fn messages_that_come_faster_than_slices_do_end_all_the_same() {
    let mut bench = Bench::new(StreamConfig { max_age: SECOND, ..config() });
    pass(&mut bench, 0);
    for step in 0..20 {
        for _ in 0..3 {
            bench.msgs(&[msg("a", ""); 1000]);
        }
        bench.now += 2 * SECOND;
        bench.core.due(bench.now, &mut bench.effects);
        let left = bench.core.state().totals.messages;
        assert!(left <= 3000, "{left} are left after step {step}");
    }
}

/// A thousand subjects a millisecond, each once; whoever sees to what is due comes every `alarm`
/// milliseconds, if ever. Answers the most that the stream held.
fn rush(alarm: Option<i64>) -> u64 {
    let mut bench = Bench::new(StreamConfig { max_age: SECOND / 50, ..config() });
    pass(&mut bench, 0);
    let mut most = 0;
    for millisecond in 0..600 {
        let subjects: Vec<_> = (0..1000).map(|n| format!("{millisecond}.{n}")).collect();
        let msgs: Vec<_> = subjects.iter().map(|subject| msg(subject, "")).collect();
        bench.msgs(&msgs);
        bench.now += SECOND / 1000;
        if alarm.is_some_and(|every| millisecond % every == 0) {
            bench.core.due(bench.now, &mut bench.effects);
        }
        most = most.max(bench.core.state().totals.messages);
    }
    most
}

#[test]
fn a_rush_of_subjects_that_are_all_different_ends_as_fast_as_it_comes() {
    // 20,000 have not ended, and 100,000 come until somebody looks first.
    let most = rush(Some(100));
    assert!(most <= 125_000, "{most} messages");
}

#[test]
fn what_ended_goes_with_what_comes_though_nobody_else_sees_to_it() {
    let most = rush(None);
    assert!(most <= 275_000, "{most} messages");
}

#[test]
fn buffers_larger_than_a_slice_end_as_fast_as_they_come() {
    let mut bench = Bench::new(StreamConfig { max_age: SECOND, ..config() });
    pass(&mut bench, 0);
    for step in 0..10 {
        bench.msgs(&vec![msg("a", ""); 40_000]);
        bench.now += 2 * SECOND;
        let left = bench.core.state().totals.messages;
        assert!(left <= 120_000, "{left} are left after step {step}");
    }
}

#[test]
fn what_ended_while_nobody_served_the_stream_is_gone_at_once() {
    let mut bench = Bench::new(StreamConfig { max_age: SECOND, ..config() });
    pass(&mut bench, 0);
    for _ in 0..5 {
        bench.msgs(&[msg("a", ""); 1000]);
    }
    bench.core.catch_up(0, bench.now);
    assert_eq!(bench.core.state().totals.messages, 5000, "nothing has ended yet");
    bench.now += 2 * SECOND;
    bench.core.catch_up(0, bench.now);
    assert_eq!(bench.core.state().totals.messages, 0);
}

#[test]
fn the_end_of_a_subject_leaves_a_marker() {
    let rule = Republish { source: ">".into(), destination: "again.>".into(), headers_only: true };
    let mut bench = Bench::new(StreamConfig {
        max_age: SECOND,
        allow_msg_ttl: true,
        subject_delete_marker_ttl: 60 * SECOND,
        republish: Some(rule),
        ..config()
    });
    bench.msgs(&[msg("a", ""), msg("a", "")]);
    let headers = block(&["KV-Operation: PURGE"]);
    bench.msgs(&[myelin_wire::message_buf::MessageRef { headers: headers.as_bytes(), ..msg("b", "") }]);
    pass(&mut bench, 2 * SECOND);
    let said = bench.said();
    let marker = block(&["Nats-Marker-Reason: MaxAge", "Nats-TTL: 1m0s", "Nats-Rollup: sub"]);
    let state = bench.core.state().totals;
    assert_eq!((state.messages, state.last_seq), (1, 4), "one for `a`, none for what was a marker itself");
    let mut buffer = Vec::new();
    let message = bench.core.reader().get(4, Wait::Allowed, &mut buffer).unwrap().unwrap();
    assert_eq!((message.subject, message.headers), (&b"a"[..], marker.as_bytes()));
    assert_eq!(message.expires, Some(message.timestamp + 60 * SECOND));
    assert_eq!(said.len(), 1);
    assert!(said[0].starts_with("again.a NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\n"), "{}", said[0]);
    assert!(
        said[0].contains("Nats-Sequence: 4\r\n") && said[0].contains("Nats-Last-Sequence: 2\r\n"),
        "{}",
        said[0]
    );
    // Compat: the marker is under the limit of age itself.
    pass(&mut bench, 2 * SECOND);
    assert_eq!(bench.core.state().totals.messages, 0);
}

#[test]
fn tighter_limits_are_enforced_in_slices() {
    let mut bench = Bench::new(config());
    for _ in 0..5 {
        bench.msgs(&[msg("a", ""); 1000]);
    }
    let tighter = Arc::new(StreamConfig { max_msgs: 10, no_ack: true, ..config() });
    bench.core.update(tighter, bench.now, &mut bench.effects).unwrap();
    assert!(bench.effects.due_changed);
    pass(&mut bench, 0);
    assert_eq!(bench.core.state().totals.messages, 10);
    assert!(bench.msgs(&[msg("a", "r")]).is_empty());
}

#[test]
fn purges_and_deletes() {
    let mut bench = Bench::new(config());
    bench.msgs(&["a", "b", "a", "b"].map(|subject| msg(subject, "")));
    let mut purge = Purge { filter: Some(Filter::new(b"a")), keep: 1, ..Purge::default() };
    let progress = bench.core.purge(&mut purge, bench.now, &mut bench.effects).unwrap();
    assert_eq!((progress.removed.messages, progress.more), (1, false));
    assert!(bench.core.delete(2, bench.now, &mut bench.effects).unwrap());
    assert!(!bench.core.delete(2, bench.now, &mut bench.effects).unwrap());
    assert!(bench.core.erase(3, bench.now, &mut bench.effects).unwrap());
    assert_eq!(bench.core.state().totals.messages, 1);
}

#[test]
fn ids_leave_when_nothing_is_published_any_more() {
    let mut bench = Bench::new(config());
    pass(&mut bench, 0);
    bench.publish("a", &["Nats-Msg-Id: one"], "x");
    assert_eq!(bench.core.known_ids().count, 1);
    pass(&mut bench, 122 * SECOND);
    assert_eq!((bench.core.known_ids().count, bench.core.next_due()), (0, None));
}
