//! Requests about a stream of which something else is decided just then: they are decided again.

use super::meta_cluster::MetaCluster;
use crate::engine::meta::{AnswerKind, Asked, Assignment};
use std::pin::pin;
use std::task::{Context, Waker};

const CREATE: &str = r#"{"name":"S","subjects":["S.>"],"storage":"file","num_replicas":1}"#;

/// The answer to a request that comes while word of the cluster about the stream is on its way, as
/// it is when a change is through.
fn ask_just_then(subject: &str, body: &str) -> (MetaCluster, String) {
    let mut cluster = MetaCluster::with_meta(3);
    cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
    let made = cluster.answer_within(200, "STREAM.CREATE.S", CREATE);
    assert!(made.contains(r#""did_create":true"#), "{made}");
    let leader = cluster.meta_leader().expect("it is there");
    let meta = cluster.house(leader).jetstream.meta().expect("it leads");
    let (known, on) = meta.known("$G", "S");
    let known = known.expect("it is there");
    let (answer, asked) = (AnswerKind::Update, Asked::default());
    let word = Assignment { nonce: 7, answer, asked, ..(*known).clone() };
    let mut quicker = pin!(meta.propose(&word, on));
    let _ = quicker.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    cluster.asks_for_system = subject.starts_with("ACCOUNT");
    let answer = cluster.answer_within(200, subject, body);
    (cluster, answer)
}

#[test]
fn a_stream_is_deleted() {
    let (mut cluster, answer) = ask_just_then("STREAM.DELETE.S", "");
    assert!(answer.contains(r#""success":true"#), "{answer}");
    cluster.pass(20);
    assert_eq!(cluster.holders("S"), Vec::<usize>::new());
}

#[test]
fn a_configuration_is_changed() {
    let body = CREATE.replacen('{', r#"{"max_msgs":5,"#, 1);
    let (_, answer) = ask_just_then("STREAM.UPDATE.S", &body);
    assert!(answer.contains(r#""max_msgs":5,"#), "{answer}");
}

#[test]
fn the_streams_of_an_account_go() {
    let (mut cluster, answer) = ask_just_then("ACCOUNT.PURGE.$G", "");
    assert!(answer.contains(r#""initiated":true"#), "{answer}");
    cluster.pass(20);
    assert_eq!(cluster.holders("S"), Vec::<usize>::new());
}

/// The meta stream keeps the last assignment of a stream, and the server that answers may look
/// when several were committed.
#[test]
fn all_are_answered_of_whose_requests_the_server_of_the_stream_sees_only_the_last() {
    for (last, said) in [("UPDATE", r#""max_msgs":7,"#), ("DELETE", r#""success":true"#)] {
        let mut cluster = MetaCluster::with_meta(3);
        cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
        let body = |name: &str| CREATE.replace('S', name);
        for name in ["A", "B", "C"] {
            let made = cluster.answer_within(200, &format!("STREAM.CREATE.{name}"), &body(name));
            assert!(made.contains(r#""did_create":true"#), "{made}");
        }
        let leader = cluster.meta_leader().expect("it is there");
        let is_elsewhere = |name: &&str| cluster.holders(name) != [leader];
        let name = ["A", "B", "C"].into_iter().find(is_elsewhere).expect("each server has one");
        let meta = cluster.house(leader).jetstream.meta().expect("it leads");
        cluster.isolated = cluster.holders(name);
        let with = |most: u32| body(name).replacen('{', &format!(r#"{{"max_msgs":{most},"#), 1);
        let last_body = if last == "DELETE" { String::new() } else { with(7) };
        let all = [("UPDATE", with(3)), ("UPDATE", with(5)), (last, last_body)];
        for (action, body) in &all {
            let (_, on) = meta.known("$G", name);
            cluster.ask(&format!("STREAM.{action}.{name}"), body);
            cluster.wait_until("it is committed", |_| meta.known("$G", name).1 > on);
        }
        assert_eq!(cluster.take_answers(), Vec::<String>::new(), "who answers is away");
        cluster.isolated.clear();
        let mut answers = Vec::new();
        cluster.wait_until("three answers", |cluster| {
            answers.extend(cluster.take_answers());
            answers.len() >= 3
        });
        cluster.pass(20);
        assert_eq!(cluster.take_answers(), Vec::<String>::new(), "each is answered once");
        let of_updates = answers.iter().filter(|answer| answer.contains("stream_update_response")).count();
        assert_eq!(of_updates, 2 + usize::from(last == "UPDATE"), "{answers:?}");
        assert!(answers.iter().any(|answer| answer.contains(said)), "{answers:?}");
    }
}
