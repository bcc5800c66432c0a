//! Streams of a cluster that copy others: what becomes of the consumers that stand for them when
//! replicas come and go. Requests from server to server are not carried here: they are heard, and
//! not answered.

use super::meta_cluster::MetaCluster;
use myelin_jsapi::config::Retention;
use myelin_stdx::sync::lock;
use serde_json::{Value, json};

fn cluster() -> MetaCluster {
    let mut cluster = MetaCluster::with_meta(3);
    cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
    cluster
}

/// Has a stream made or changed.
fn ask(cluster: &mut MetaCluster, what: &str, config: &Value) {
    let subject = format!("STREAM.{what}.{}", config["name"].as_str().expect("a name"));
    let answer = cluster.answer_within(200, &subject, &config.to_string());
    assert!(!answer.contains(r#""error""#), "{answer}");
}

/// A stream of one server.
fn on(number: usize, mut config: Value) -> Value {
    config["placement"] = json!({ "tags": [format!("node:{}", number + 1)] });
    config
}

/// A stream that copies another one and has room for one message.
fn full_copy(of: &str) -> Value {
    json!({ "name": "X", "sources": [{ "name": of }], "max_msgs": 1, "discard": "new" })
}

fn publish(cluster: &mut MetaCluster, number: usize, subject: &str, count: usize) {
    (0..count).for_each(|_| cluster.house(number).publish(subject));
    cluster.pass(10);
}

/// The consumer goes with the stream that copies, and not with one of its replicas.
#[test]
fn a_copy_that_moves_leaves_what_it_has_not_copied_at_its_origin() {
    let mut cluster = cluster();
    ask(&mut cluster, "CREATE", &on(0, json!({ "name": "I", "subjects": ["I.>"], "retention": "interest" })));
    ask(&mut cluster, "CREATE", &on(0, full_copy("I")));
    publish(&mut cluster, 0, "I.x", 5);
    assert_eq!((cluster.house(0).contents("I").0, cluster.house(0).contents("X")), (4, (1, 1)));
    ask(&mut cluster, "UPDATE", &on(1, full_copy("I")));
    cluster.wait_until("a copy that has moved", |cluster| cluster.holders("X") == [1]);
    cluster.pass(20);
    assert_eq!((cluster.house(0).contents("I").0, cluster.house(0).consumers("I").len()), (4, 1));
    // Gone for good, it is for the server that had it last to say so, which nobody hears here.
    assert_eq!(cluster.house(1).contents("X"), (1, 1));
}

/// Nothing else would see to the consumer that this server has made.
#[test]
fn a_copy_that_is_deleted_in_a_cluster_leaves_nothing_behind() {
    let mut cluster = cluster();
    ask(&mut cluster, "CREATE", &on(0, json!({ "name": "I", "subjects": ["I.>"], "retention": "interest" })));
    ask(&mut cluster, "CREATE", &on(0, full_copy("I")));
    publish(&mut cluster, 0, "I.x", 5);
    assert_eq!(cluster.house(0).consumers("I").len(), 1);
    cluster.answer_within(200, "STREAM.DELETE.X", "");
    cluster.pass(20);
    assert_eq!((cluster.house(0).contents("I").0, cluster.house(0).consumers("I").len()), (0, 0));
}

/// The leader of a group, which may be any server, is to hear what is stored elsewhere.
#[test]
fn a_copy_asks_the_group_that_its_origin_has_become() {
    let mut cluster = cluster();
    let queue = |replicas: usize| json!({ "name": "W", "subjects": ["W.>"], "retention": "workqueue", "num_replicas": replicas });
    ask(&mut cluster, "CREATE", &on(0, queue(1)));
    ask(&mut cluster, "CREATE", &on(0, json!({ "name": "X", "sources": [{ "name": "W" }] })));
    publish(&mut cluster, 0, "W.x", 2);
    assert_eq!((cluster.house(0).contents("W").0, cluster.house(0).contents("X")), (0, (2, 2)));
    let asked = cluster.house(0).record("$JS.API.CONSUMER.CREATE.>");
    ask(&mut cluster, "UPDATE", &queue(3));
    cluster.wait_until("three replicas", |cluster| cluster.holders("W").len() == 3);
    cluster.pass(20);
    let asked = lock(&asked);
    assert!(asked.iter().any(|asked| asked.subject == "$JS.API.CONSUMER.CREATE.W"), "{asked:?}");
}

/// The leader knows nothing of who reads the replica of another server.
#[test]
fn a_stream_that_begins_to_keep_by_interest_holds_for_copies_on_other_servers() {
    let mut cluster = cluster();
    let origin = |retention: &str| json!({ "name": "O", "subjects": ["O.>"], "num_replicas": 3, "retention": retention });
    ask(&mut cluster, "CREATE", &origin("limits"));
    let leads =
        |cluster: &mut MetaCluster| (0..3).find(|&number| cluster.house(number).stream("O").role().leads());
    cluster.wait_until("a leader", |cluster| leads(cluster).is_some());
    let leader = leads(&mut cluster).expect("it leads");
    let reader = (leader + 1) % 3;
    ask(&mut cluster, "CREATE", &on(reader, full_copy("O")));
    publish(&mut cluster, leader, "O.x", 5);
    cluster.pass(20);
    assert_eq!(cluster.house(reader).contents("X"), (1, 1));
    ask(&mut cluster, "UPDATE", &origin("interest"));
    let has_changed = |cluster: &mut MetaCluster| {
        (0..3).all(|number| cluster.house(number).stream("O").config().retention == Retention::Interest)
    };
    cluster.wait_until("another retention", has_changed);
    cluster.pass(20);
    assert_eq!(leads(&mut cluster), Some(leader), "it is the same");
    assert_eq!((cluster.house(leader).contents("O").0, cluster.house(leader).consumers("O").len()), (5, 1));
    let of_others = cluster.house(reader).consumers("O");
    assert!(of_others.is_empty(), "a follower makes none: {of_others:?}");
}
