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
