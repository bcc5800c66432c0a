//! Messages of batches inside a stream's turn. The answers were observed at the reference.

use std::sync::Arc;

use myelin_store::Wait;
use myelin_wire::message_buf::MessageRef;

use super::{Bench, block, config, error, msg};
use crate::stream::{StorageBudget, StreamSettings};
use myelin_jsapi::advisory::AbandonReason;
use myelin_jsapi::config::{Discard, StreamConfig, SubjectTransform};

fn atomic() -> Bench {
    let rule = SubjectTransform { source: "in.*".into(), destination: "out.{{wildcard(1)}}".into() };
    Bench::new(StreamConfig {
        allow_atomic: true,
        allow_rollup_hdrs: true,
        allow_msg_ttl: true,
        subject_transform: Some(rule),
        ..config()
    })
}

impl Bench {
    /// Publishes a message of an atomic batch.
    fn member(&mut self, subject: &str, id: &str, seq: u64, more: &[&str]) -> String {
        let own = [format!("Nats-Batch-Id: {id}"), format!("Nats-Batch-Sequence: {seq}")];
        let lines: Vec<_> = own.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let headers = block(&lines);
        let said = self.msgs(&[MessageRef { headers: headers.as_bytes(), ..msg(subject, "r") }]);
        assert_eq!(said.len(), 1, "{said:?}");
        said[0].strip_prefix('r').expect("replies go to the reply subject").trim_start().to_owned()
    }

    /// Publishes messages of a fast batch as one buffer: place, operation and headers of each.
    /// Answers are shown behind the place and the operation of the message to whose reply subject
    /// they went.
    pub(super) fn fast(
        &mut self,
        id: &str,
        flow: u16,
        gap: &str,
        members: &[(u64, u8, &str)],
    ) -> Vec<String> {
        let replies: Vec<_> =
            members.iter().map(|(seq, op, _)| format!("_I.{id}.{flow}.{gap}.{seq}.{op}.$FI")).collect();
        let headers: Vec<_> = members
            .iter()
            .map(|(.., line)| if line.is_empty() { String::new() } else { block(&[line]) })
            .collect();
        let refs: Vec<_> = replies
            .iter()
            .zip(&headers)
            .map(|(reply, headers)| MessageRef { headers: headers.as_bytes(), ..msg("f", reply) })
            .collect();
        let said = self.msgs(&refs);
        let prefix = format!("_I.{id}.{flow}.{gap}.");
        said.iter().map(|line| line.strip_prefix(&prefix).expect(line).replacen(".$FI", "", 1)).collect()
    }

    fn headers(&self, seq: u64) -> (String, String) {
        let mut buffer = Vec::new();
        let message = self.core.reader().get(seq, Wait::Allowed, &mut buffer).unwrap().expect("it is there");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(message.subject), text(message.headers))
    }
}

const COMMIT: &str = "Nats-Batch-Commit: 1";

#[test]
fn an_atomic_batch_is_stored_when_it_is_complete() {
    let mut bench = atomic();
    assert_eq!(bench.member("in.1", "one", 1, &[]), "");
    assert_eq!(bench.member("b", "one", 2, &["Nats-Request-Info: {}"]), "");
    assert_eq!(bench.last(), 0);
    let ack = r#"{"stream":"S","seq":3,"batch":"one","count":3}"#;
    assert_eq!(bench.member("c", "one", 3, &[COMMIT, "Nats-Msg-Id: q"]), ack);
    let headers = |seq: u64| format!("NATS/1.0\r\nNats-Batch-Id: one\r\nNats-Batch-Sequence: {seq}\r\n");
    assert_eq!(bench.headers(1), ("out.1".into(), headers(1) + "\r\n"));
    assert_eq!(bench.headers(2), ("b".into(), headers(2) + "\r\n"));
    assert_eq!(bench.headers(3).1, headers(3) + COMMIT + "\r\nNats-Msg-Id: q\r\n\r\n");
    assert_eq!(bench.publish("a", &["Nats-Msg-Id: q"], "x"), r#"{"stream":"S","seq":3,"duplicate": true}"#);
    assert_eq!(bench.publish("a", &["Nats-Expected-Last-Msg-Id: q"], "x"), r#"{"stream":"S","seq":4}"#);
}

#[test]
fn the_end_of_a_batch_may_come_behind_it() {
    let mut bench = atomic();
    bench.member("a", "4", 1, &["Nats-Expected-Last-Sequence: 0"]);
    bench.member("b", "4", 2, &["Nats-Rollup: sub"]);
    bench.member("b", "4", 3, &[]);
    let ack = r#"{"stream":"S","seq":3,"batch":"4","count":3}"#;
    assert_eq!(bench.member("b", "4", 4, &["Nats-Batch-Commit: eob"]), ack);
    assert_eq!(bench.core.state().totals.messages, 3, "the rollup spares what comes behind it");
    assert!(bench.headers(3).1.ends_with("Nats-Batch-Sequence: 3\r\nNats-Batch-Commit: 1\r\n\r\n"));
}

#[test]
fn one_wrong_message_refuses_the_batch() {
    let mut bench = atomic();
    bench.publish("a", &["Nats-Msg-Id: q"], "x");
    let cases: [(&[&str], &[&str], String); 6] = [
        (&["Nats-Msg-Id: q"], &[], error(400, 10201, "atomic publish batch contains duplicate message id")),
        (
            &["Nats-Msg-Id: p"],
            &["Nats-Msg-Id: p"],
            error(400, 10201, "atomic publish batch contains duplicate message id"),
        ),
        (&[], &["Nats-Rollup: sub"], error(500, 10111, "batch rollup sub invalid")),
        (&[], &["Nats-Expected-Last-Subject-Sequence: 1"], error(400, 10164, "wrong last sequence")),
        (
            &["Nats-Expected-Last-Msg-Id: q"],
            &[],
            error(400, 10177, "atomic publish unsupported header used: Nats-Expected-Last-Msg-Id"),
        ),
        (&["Nats-TTL: x"], &[], error(400, 10165, "invalid per-message TTL")),
    ];
    for (first, second, answer) in cases {
        assert_eq!(bench.member("a", "b", 1, first), "");
        let second: Vec<_> = second.iter().copied().chain([COMMIT]).collect();
        assert_eq!(bench.member("a", "b", 2, &second), answer);
    }
    assert_eq!((bench.last(), bench.core.known_ids().count), (1, 1), "ids of refused batches are free");
    assert_eq!(bench.publish("a", &["Nats-Msg-Id: p"], "x"), r#"{"stream":"S","seq":2}"#);
}

#[test]
fn a_batch_that_does_not_fit_is_refused_whole() {
    let mut bench =
        Bench::new(StreamConfig { allow_atomic: true, discard: Discard::New, max_msgs: 2, ..config() });
    bench.member("a", "1", 1, &[]);
    bench.member("a", "1", 2, &[]);
    assert_eq!(bench.member("a", "1", 3, &[COMMIT]), error(503, 10077, "maximum messages exceeded"));
    assert_eq!(bench.last(), 0);
    bench.member("a", "1", 1, &[]);
    let ack = r#"{"stream":"S","seq":2,"batch":"1","count":2}"#;
    assert_eq!(bench.member("a", "1", 2, &[COMMIT]), ack);
}

#[test]
fn a_commit_follows_what_came_before_it_in_the_parcel() {
    let mut bench = atomic();
    let lines = |seq: &'static str, more: &'static str| block(&["Nats-Batch-Id: b", seq, more]);
    let first = lines("Nats-Batch-Sequence: 1", "A: b");
    let second = lines("Nats-Batch-Sequence: 2", COMMIT);
    let member = |headers| MessageRef { headers, ..msg("a", "r") };
    let (first, second) = (member(first.as_bytes()), member(second.as_bytes()));
    let said = bench.msgs(&[msg("x", "r"), first, msg("y", "r"), second, msg("z", "r")]);
    let expected = [
        r#"r {"stream":"S","seq":1}"#,
        "r",
        r#"r {"stream":"S","seq":2}"#,
        r#"r {"stream":"S","seq":4,"batch":"b","count":2}"#,
        r#"r {"stream":"S","seq":5}"#,
    ];
    assert_eq!(said, expected);
}

#[test]
fn batches_that_are_given_up_are_told_of() {
    let mut bench = atomic();
    bench.member("a", "slow", 1, &[]);
    let due = bench.core.next_due().expect("it does not wait for ever");
    bench.now = due.max(bench.now + 10_000_000_000);
    bench.core.due(bench.now, &mut bench.effects);
    let abandoned = std::mem::take(&mut bench.effects.abandoned);
    assert_eq!(
        (abandoned.len(), &*abandoned[0].id, abandoned[0].reason),
        (1, &b"slow"[..], AbandonReason::Timeout)
    );
    bench.member("a", "gap", 1, &[]);
    let headers = block(&["Nats-Batch-Id: gap", "Nats-Batch-Sequence: 3"]);
    let mut msgs = myelin_wire::message_buf::MessageBuf::default();
    msgs.push(MessageRef { headers: headers.as_bytes(), ..msg("a", "") });
    bench.core.publish(&msgs, bench.now, &mut bench.effects);
    assert_eq!((bench.effects.abandoned[0].reason, bench.effects.dropped), (AbandonReason::Incomplete, 1));
    assert_eq!(bench.core.drops(), [(10176, 1)]);
}

#[test]
fn batches_must_be_allowed() {
    let mut bench = Bench::new(config());
    assert_eq!(bench.member("a", "b", 1, &[]), error(400, 10174, "atomic publish is disabled"));
    let disabled = format!("1.0 {}", error(400, 10205, "batch publish is disabled"));
    assert_eq!(bench.fast("u", 100, "ok", &[(1, 0, "")]), [disabled]);
    let mut bench = Bench::new(StreamConfig { sealed: true, allow_atomic: true, ..config() });
    let sealed = error(400, 10109, "invalid operation on sealed stream");
    assert_eq!(bench.member("a", "b", 1, &[]), sealed);
    assert_eq!(bench.fast("u", 100, "ok", &[(1, 0, "")]), [format!("1.0 {sealed}")]);
}

pub(super) fn fast() -> Bench {
    Bench::new(StreamConfig { allow_batched: true, name: "F".into(), ..config() })
}

#[test]
fn a_fast_batch_hears_of_its_messages_now_and_then() {
    let mut bench = fast();
    let said = bench.fast("u1", 100, "ok", &[(1, 0, ""), (2, 1, ""), (3, 2, "")]);
    let start = r#"1.0 {"type":"ack","seq":0,"msgs":100}"#;
    assert_eq!(said, [start, r#"3.2 {"stream":"F","seq":3,"batch":"u1","count":3}"#]);
    let said = bench.fast("u2", 2, "ok", &[(1, 0, ""), (2, 1, ""), (3, 1, ""), (4, 1, ""), (5, 3, "")]);
    let expected = [
        r#"1.0 {"type":"ack","seq":0,"msgs":2}"#,
        r#"2.1 {"type":"ack","seq":2,"msgs":2}"#,
        r#"4.1 {"type":"ack","seq":4,"msgs":2}"#,
        r#"5.3 {"stream":"F","seq":7,"batch":"u2","count":4}"#,
    ];
    assert_eq!(said, expected);
}

#[test]
fn a_fast_batch_goes_on_behind_what_is_refused() {
    let mut bench = fast();
    bench.msgs(&[msg("x", ""); 7]);
    let wrong = "Nats-Expected-Last-Sequence: 1";
    let members = [(1, 0, "Nats-Msg-Id: z"), (2, 1, "Nats-Msg-Id: z"), (3, 1, wrong), (4, 2, "")];
    let said = bench.fast("u3", 100, "ok", &members);
    let expected = [
        r#"1.0 {"type":"ack","seq":0,"msgs":100}"#,
        r#"3.1 {"type":"err","seq":3,"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 8"}}"#,
        r#"4.2 {"stream":"F","seq":9,"batch":"u3","count":4}"#,
    ];
    assert_eq!(said, expected);
    let said = bench.fast("u7", 100, "fail", &[(1, 2, "Nats-Msg-Id: z")]);
    assert_eq!(said, [r#"1.2 {"stream":"F","seq":8,"duplicate": true,"batch":"u7","count":1}"#]);
    let said = bench.fast("u8", 100, "fail", &[(1, 0, wrong)]);
    let refused = error(400, 10071, "wrong last sequence: 9").replace("\"S\"", "\"F\"");
    assert_eq!(said, [r#"1.0 {"type":"ack","seq":0,"msgs":100}"#, &format!("1.0 {refused}")]);
}

#[test]
fn gaps_end_a_fast_batch_or_not() {
    let mut bench = fast();
    let said = bench.fast("u4", 100, "fail", &[(1, 0, ""), (2, 1, ""), (4, 1, "")]);
    let expected = [
        r#"1.0 {"type":"ack","seq":0,"msgs":100}"#,
        r#"4.1 {"type":"gap","last_seq":3,"seq":4}"#,
        r#"4.1 {"stream":"F","seq":2,"batch":"u4","count":2}"#,
    ];
    assert_eq!(said, expected);
    let said = bench.fast("u5", 100, "ok", &[(1, 0, ""), (3, 1, ""), (5, 4, ""), (6, 3, "")]);
    let expected = [
        r#"1.0 {"type":"ack","seq":0,"msgs":100}"#,
        r#"3.1 {"type":"gap","last_seq":2,"seq":3}"#,
        r#"5.4 {"type":"gap","last_seq":4,"seq":6}"#,
        r#"5.4 {"type":"ack","seq":0,"msgs":100}"#,
        r#"6.3 {"stream":"F","seq":4,"batch":"u5","count":5}"#,
    ];
    assert_eq!(said, expected);
}

#[test]
fn what_the_log_refuses_ends_a_fast_batch_that_minds_gaps() {
    let discards = StreamConfig { discard: Discard::New, max_msgs: 2, ..config() };
    let mut bench = Bench::new(StreamConfig { allow_batched: true, name: "F".into(), ..discards });
    let said = bench.fast("u1", 100, "fail", &[(1, 0, ""), (2, 1, ""), (3, 1, ""), (4, 1, "")]);
    let expected = [
        r#"1.0 {"type":"ack","seq":0,"msgs":100}"#,
        r#"3.1 {"type":"err","seq":3,"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"}}"#,
        r#"3.1 {"stream":"F","seq":2,"batch":"u1","count":2}"#,
        r#"4.1 {"error":{"code":400,"err_code":10208,"description":"batch publish ID unknown"},"stream":"F","seq":0}"#,
    ];
    assert_eq!(said, expected);
}

#[test]
fn the_level_of_the_api_is_asked_for_and_not_stored() {
    let mut bench = fast();
    bench.fast("u9", 100, "ok", &[(1, 2, "Nats-Required-Api-Level: 2")]);
    assert_eq!(bench.headers(1).1, "");
    let said = bench.fast("u9", 100, "ok", &[(1, 2, "Nats-Required-Api-Level: 99")]);
    assert!(said[0].contains("10185"), "{said:?}");
}

#[test]
fn a_fast_batch_may_come_from_another_account() {
    let mut bench = fast();
    let mut said = |reply: &str| {
        let headers = block(&[&format!("Nats-Request-Info: {{\"acc\":\"A\",\"reply\":\"{reply}\"}}")]);
        bench.msgs(&[MessageRef { headers: headers.as_bytes(), ..msg("f", "_R_.x.y") }])
    };
    assert_eq!(said("_I.u.100.ok.1.0.$FI"), [r#"_R_.x.y {"type":"ack","seq":0,"msgs":100}"#]);
    assert_eq!(said("_I.u.100.ok.2.2.$FI"), [r#"_R_.x.y {"stream":"F","seq":2,"batch":"u","count":2}"#]);
    assert_eq!(said("_I"), [r#"_R_.x.y {"stream":"F","seq":3}"#]);
}

#[test]
fn what_an_account_or_server_may_keep_holds_for_a_whole_batch() {
    let (account, server) = (Arc::new(StorageBudget::new(-1)), Arc::new(StorageBudget::new(-1)));
    let (shared, other) = (Arc::clone(&account), Arc::clone(&server));
    let settings = StreamSettings { account: shared, server: other, ..StreamSettings::default() };
    let mut bench = Bench::with(StreamConfig { allow_atomic: true, ..config() }, settings);
    let commit = |bench: &mut Bench| {
        assert_eq!(bench.member("a", "b", 1, &[]), "");
        bench.member("a", "b", 2, &[COMMIT])
    };
    let ack = |seq: u64| format!(r#"{{"stream":"S","seq":{seq},"batch":"b","count":2}}"#);
    assert_eq!(commit(&mut bench), ack(2));
    let used = account.used();
    account.set_limit(2 * used - 1);
    assert_eq!(commit(&mut bench), error(400, 10002, "resource limits exceeded for account"));
    assert_eq!((bench.last(), account.used()), (2, used), "nothing of it is stored");
    account.set_limit(2 * used);
    assert_eq!(commit(&mut bench), ack(4));
    account.set_limit(-1);
    server.set_limit(2 * used + 1);
    assert_eq!(commit(&mut bench), error(503, 10023, "insufficient resources"));
    assert_eq!((bench.last(), server.used()), (4, 2 * used));
}

#[test]
fn a_subject_that_reads_as_a_pattern_has_its_own_messages_only() {
    let limits = StreamConfig { max_msgs_per_subject: 1, discard_new_per_subject: true, ..config() };
    let mut bench = Bench::new(StreamConfig { allow_atomic: true, discard: Discard::New, ..limits });
    bench.publish("k.a", &[], "x");
    let ack = |seq: u64| format!(r#"{{"stream":"S","seq":{seq},"batch":"b","count":1}}"#);
    assert_eq!(bench.member("k.*", "b", 1, &[COMMIT]), ack(2));
    let full = error(503, 10077, "maximum messages per subject exceeded");
    assert_eq!(bench.member("k.*", "b", 1, &[COMMIT]), full);
}
