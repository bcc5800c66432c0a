//! A server that was taken out of its cluster, with what it has.

use super::meta_cluster::MetaCluster;

fn config(name: &str, replicas: usize) -> String {
    format!(r#"{{"name":"{name}","subjects":["{name}.>"],"storage":"file","num_replicas":{replicas}}}"#)
}

/// Its operator would wait for messages that nobody takes.
#[test]
fn streams_of_groups_ail_where_there_is_no_cluster() {
    let mut cluster = MetaCluster::with_meta(3);
    cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
    cluster.answer_within(200, "STREAM.CREATE.S", &config("S", 3));
    for name in ["A", "B", "C"] {
        cluster.answer_within(200, &format!("STREAM.CREATE.{name}"), &config(name, 1));
    }
    let own = cluster.holders("A")[0];
    (0..3).for_each(|number| cluster.kill(number));
    let alone = cluster.alone(own);
    let health = alone.jetstream.cluster_health().expect("one of its streams ails");
    let ailing: Vec<_> = health.streams.iter().map(|one| one.stream.as_str()).collect();
    assert_eq!((ailing, health.meta), (vec!["S"], None));
    assert!(alone.stream("A").role().leads(), "it is as on a server alone");
}
