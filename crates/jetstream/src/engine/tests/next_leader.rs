//! A stream that is handed over while it is published to: one of its two leaders answers each
//! publish.

use super::meta_cluster::MetaCluster;
use crate::engine::meta::peer_of;
use myelin_stdx::sync::lock;

const CREATE: &str = r#"{"name":"S","subjects":["S.>"],"storage":"memory","num_replicas":3}"#;

#[test]
fn a_publish_that_both_leaders_get_is_answered_by_the_next_one() {
    let mut cluster = MetaCluster::with_meta(3);
    cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
    let made = cluster.answer_within(200, "STREAM.CREATE.S", CREATE);
    assert!(made.contains(r#""did_create":true"#), "{made}");
    let first = cluster.elect();
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
    cluster.pass(20);
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
