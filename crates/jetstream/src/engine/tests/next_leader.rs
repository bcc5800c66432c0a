//! A stream that is handed over while it is published to: one of its two leaders answers each
//! publish.

use super::meta_cluster::MetaCluster;
use crate::engine::groups::{GroupReplica, MemberEvent};
use crate::engine::meta::peer_of;
use myelin_stdx::sync::lock;

const CREATE: &str = r#"{"name":"S","subjects":["S.>"],"storage":"memory","num_replicas":3}"#;

/// Clients that wait at a leader which is killed hear of the next one: they ask again.
#[test]
fn who_waits_at_a_leader_that_is_killed_is_told_by_the_next_one() {
    let (mut cluster, first) = MetaCluster::with_stream(3, CREATE);
    let consumer = r#"{"stream_name":"S","config":{"durable_name":"C","ack_policy":"explicit"}}"#;
    let made = cluster.answer_within(200, "CONSUMER.DURABLE.CREATE.S.C", consumer);
    assert!(made.contains(r#""name":"C""#), "{made}");
    let others: Vec<usize> = (0..3).filter(|&number| number != first).collect();
    // Whom nobody hears does not wait.
    let _listens = cluster.house(first).record("told.>");
    let told: Vec<_> = others.iter().map(|&number| cluster.house(number).record("told.>")).collect();
    let asks = |cluster: &mut MetaCluster, reply: &str, seconds: u64| {
        let body = format!(r#"{{"batch":1,"expires":{seconds}000000000}}"#);
        cluster.house(first).say("$JS.API.CONSUMER.MSG.NEXT.S.C", reply, &body);
        cluster.settle();
    };
    asks(&mut cluster, "told.long", 60);
    asks(&mut cluster, "told.short", 1);
    cluster.pass(4);
    cluster.kill(first);
    cluster.pass(20);
    cluster.wait_until("the next leader", |cluster| cluster.leader().is_some_and(|leader| leader != first));
    cluster.pass(4);
    let said: Vec<_> = told.iter().flat_map(|told| lock(told).drain(..).collect::<Vec<_>>()).collect();
    let said: Vec<_> = said.iter().map(|one| (&*one.subject, &*one.headers)).collect();
    assert_eq!(said, [("told.long", "NATS/1.0 409 Leadership Change\r\n\r\n")]);
}

/// A publish may be decided while its leader is asked to hand over by another thread.
#[test]
fn what_is_decided_as_a_leader_hands_over_is_stored_and_answered() {
    let (mut cluster, first) = MetaCluster::with_stream(3, CREATE);
    let second = (first + 1) % 3;
    let answers = cluster.house(first).record("told.>");
    cluster.house(first).stream("S").tell(MemberEvent::HandOver(peer_of(&format!("n{}", second + 1))));
    cluster.house(first).say("S.a", "told.me", "");
    cluster.settle();
    cluster.wait_until("the next leader", |cluster| cluster.house(second).stream("S").role().leads());
    cluster.pass(4);
    let told: Vec<_> = lock(&answers).drain(..).map(|one| one.payload).collect();
    assert_eq!(told, [r#"{"stream":"S","seq":1}"#]);
    assert_eq!(cluster.contents(), [(1, 1); 3]);
}

#[test]
fn a_publish_that_both_leaders_get_is_answered_by_the_next_one() {
    let (mut cluster, first) = MetaCluster::with_stream(3, CREATE);
    let second = (first + 1) % 3;
    let answers = [first, second].map(|number| cluster.house(number).record("told.>"));
    let told = |at: usize| -> Vec<String> {
        let heard = lock(&answers[at]);
        heard.iter().map(|one| format!("{} {}{}", one.subject, one.headers, one.payload)).collect()
    };
    let says = |cluster: &mut MetaCluster, number: usize, reply: &str, payload: &str| {
        cluster.house(number).say("S.a", reply, payload);
        cluster.settle();
    };
    cluster.house(first).stream("S").hand_over_to(peer_of(&format!("n{}", second + 1)));
    cluster.wait_until("the next leader", |cluster| cluster.house(second).stream("S").role().leads());
    assert!(!cluster.house(first).stream("S").role().leads());
    says(&mut cluster, second, "told.both", "both");
    says(&mut cluster, first, "told.both", "both");
    says(&mut cluster, first, "told.one", "one");
    assert_eq!(told(0), [""; 0], "they are held");
    cluster.wait_until("a refusal", |_| !lock(&answers[0]).is_empty());
    assert_eq!(told(0), ["told.one NATS/1.0 503\r\n\r\n"]);
    let stored = |seq: u64, reply: &str| format!(r#"{reply} {{"stream":"S","seq":{seq}}}"#);
    assert_eq!(told(1), [stored(1, "told.both")]);
    // On its way to the next leader, too, when it was refused.
    says(&mut cluster, second, "told.one", "one");
    cluster.pass(4);
    assert_eq!(told(1), [stored(1, "told.both")]);
    // Sent again.
    says(&mut cluster, second, "told.one", "one");
    cluster.pass(4);
    assert_eq!(told(1), [stored(1, "told.both"), stored(2, "told.one")]);
    assert_eq!(cluster.contents(), [(2, 2); 3]);
}
