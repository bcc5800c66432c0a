//! Requests about a stream that have nothing to change: whoever leads it answers, and the meta
//! group agrees to nothing.

use super::meta_cluster::MetaCluster;
use myelin_store::Seq;

fn config(replicas: usize) -> String {
    format!(r#"{{"name":"S","subjects":["S.>"],"storage":"file","num_replicas":{replicas}}}"#)
}

/// Servers with a stream that another one leads than the meta group.
fn led_elsewhere(replicas: usize) -> MetaCluster {
    let mut cluster = MetaCluster::with_meta(3);
    cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
    cluster.answer_within(200, "STREAM.CREATE.S", &config(replicas));
    cluster.pass(20);
    let stream_leader = cluster.leader().expect("the stream is led");
    if cluster.meta_leader() == Some(stream_leader) {
        let meta = cluster.house(stream_leader).jetstream.meta().expect("it leads");
        meta.live().hand_over_to(None);
    }
    let is_elsewhere = |cluster: &mut MetaCluster| {
        let (meta, stream) = (cluster.meta_leader(), cluster.leader());
        meta.is_some() && stream.is_some() && meta != stream
    };
    cluster.wait_until("two leaders", is_elsewhere);
    cluster.pass(20);
    cluster
}

/// The last assignment of the stream, as the meta leader knows it.
fn last_assignment(cluster: &mut MetaCluster) -> Seq {
    let leader = cluster.meta_leader().expect("it is there");
    cluster.house(leader).jetstream.meta().expect("it leads").known("$G", "S").1
}

fn ask_for_the_same(replicas: usize, subject: &str) {
    let mut cluster = led_elsewhere(replicas);
    let before = last_assignment(&mut cluster);
    for _ in 0..20 {
        cluster.ask(subject, &config(replicas));
    }
    let mut answers = cluster.take_answers();
    cluster.pass(20);
    answers.append(&mut cluster.take_answers());
    assert_eq!(answers.len(), 20, "{answers:?}");
    assert!(answers.iter().all(|answer| answer.contains(r#""name":"S""#)), "{answers:?}");
    assert_eq!(last_assignment(&mut cluster), before, "nothing was agreed to");
}

/// Programs make their stream when they start, many at once: some had no answer, as the meta stream
/// keeps the last assignment of a stream alone.
#[test]
fn who_makes_what_is_there_is_answered() {
    ask_for_the_same(3, "STREAM.CREATE.S");
    ask_for_the_same(1, "STREAM.CREATE.S");
}

#[test]
fn who_changes_nothing_is_answered() {
    ask_for_the_same(3, "STREAM.UPDATE.S");
    ask_for_the_same(1, "STREAM.UPDATE.S");
}

#[test]
fn what_no_leader_answers_is_agreed_to_for_the_next_one() {
    let mut cluster = led_elsewhere(3);
    let before = last_assignment(&mut cluster);
    let leader = cluster.leader().expect("the stream is led");
    cluster.kill(leader);
    cluster.ask("STREAM.CREATE.S", &config(3));
    let mut answers = Vec::new();
    cluster.wait_until("an answer", |cluster| {
        answers.append(&mut cluster.take_answers());
        !answers.is_empty()
    });
    assert!(answers.concat().contains(r#""name":"S""#), "{answers:?}");
    assert!(last_assignment(&mut cluster) > before);
}
