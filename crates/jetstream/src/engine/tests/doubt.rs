//! Requests that come while it is in doubt who is to answer them.

use super::meta_cluster::MetaCluster;

fn config(replicas: usize) -> String {
    format!(r#"{{"name":"S","subjects":["S.>"],"storage":"file","num_replicas":{replicas}}}"#)
}

fn cluster() -> MetaCluster {
    let mut cluster = MetaCluster::with_meta(3);
    cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
    cluster
}

/// The answers to a request that was asked already, with those of some moments more.
fn answers(cluster: &mut MetaCluster) -> Vec<String> {
    let mut answers = Vec::new();
    for _ in 0..60 {
        answers.append(&mut cluster.take_answers());
        cluster.pass(1);
    }
    answers
}

/// Clients would wait for an answer until they give up, though the leader was slow for a moment
/// only.
#[test]
fn a_leader_that_is_in_doubt_for_a_moment_answers_afterwards() {
    let mut cluster = cluster();
    cluster.answer_within(200, "STREAM.CREATE.S", &config(3));
    let leader = cluster.elect();
    cluster.pass(20);
    let live = cluster.house(leader).stream("S");
    cluster.isolated = (0..3).filter(|&number| number != leader).collect();
    cluster.wait_until("a doubt", |_| !live.leads_surely());
    assert!(live.role().leads(), "it does not know better");
    let consumer = r#"{"stream_name":"S","config":{"durable_name":"C","ack_policy":"explicit"}}"#;
    cluster.ask("CONSUMER.CREATE.S.C", consumer);
    assert_eq!(cluster.take_answers(), Vec::<String>::new());
    cluster.isolated.clear();
    let answers = answers(&mut cluster);
    assert!(answers.len() == 1 && answers[0].contains(r#""name":"C""#), "{answers:?}");
}

#[test]
fn a_meta_leader_that_is_in_doubt_for_a_moment_decides_afterwards() {
    let mut cluster = cluster();
    cluster.pass(20);
    let leader = cluster.meta_leader().expect("it is there");
    let meta = cluster.house(leader).jetstream.meta().expect("it leads");
    cluster.isolated = (0..3).filter(|&number| number != leader).collect();
    cluster.wait_until("a doubt", |_| !meta.live().leads_surely());
    assert!(meta.leads(), "it does not know better");
    cluster.ask("STREAM.CREATE.S", &config(1));
    assert_eq!(cluster.take_answers(), Vec::<String>::new());
    cluster.isolated.clear();
    let answers = answers(&mut cluster);
    assert!(answers.len() == 1 && answers[0].contains(r#""did_create":true"#), "{answers:?}");
}

/// The one that ended has taken nothing, and the next one hears nothing of what came before.
#[test]
fn what_comes_between_two_meta_leaders_is_decided_by_the_next_one() {
    let mut cluster = cluster();
    cluster.pass(20);
    let leader = cluster.meta_leader().expect("it is there");
    let other = (leader + 1) % 3;
    cluster.kill(leader);
    let meta = cluster.house(other).jetstream.meta().expect("it takes part");
    cluster.wait_until("silence", |_| !meta.is_there(super::meta_cluster::peer(leader)));
    assert_eq!(cluster.meta_leader(), None);
    cluster.ask("STREAM.CREATE.S", &config(1));
    let answers = answers(&mut cluster);
    assert!(answers.len() == 1 && answers[0].contains(r#""did_create":true"#), "{answers:?}");
}

/// The next leader takes the one that hands over for the leader, and does nothing.
#[test]
fn what_comes_while_a_meta_leader_hands_over_is_answered() {
    let mut cluster = cluster();
    cluster.pass(20);
    let leader = cluster.meta_leader().expect("it is there");
    let meta = cluster.house(leader).jetstream.meta().expect("it leads");
    meta.live().hand_over();
    cluster.ask("STREAM.CREATE.S", &config(1));
    let answers = answers(&mut cluster);
    assert_ne!(cluster.meta_leader(), Some(leader));
    assert!(answers.len() == 1 && answers[0].contains(r#""err_code":10008"#), "{answers:?}");
}

/// Nobody has asked for longer than a client waits.
#[test]
fn what_has_come_too_long_ago_is_not_done() {
    let mut cluster = cluster();
    cluster.pass(20);
    let leader = cluster.meta_leader().expect("it is there");
    cluster.isolated = (0..3).filter(|&number| number != leader).collect();
    let meta = cluster.house(leader).jetstream.meta().expect("it leads");
    cluster.wait_until("a doubt", |_| !meta.live().leads_surely());
    cluster.ask("STREAM.CREATE.S", &config(1));
    cluster.pass(100);
    cluster.isolated.clear();
    assert_eq!(answers(&mut cluster), Vec::<String>::new());
    assert_eq!(cluster.holders("S"), Vec::<usize>::new());
}

/// A server that is slow for some seconds is not away: who scales a stream would be told that it is
/// offline.
#[test]
fn a_stream_whose_server_was_silent_for_a_moment_is_changed() {
    let mut cluster = cluster();
    let away = (cluster.meta_leader().expect("it is there") + 1) % 3;
    let on_server =
        config(1).replacen('{', &format!(r#"{{"placement":{{"tags":["node:{}"]}},"#, away + 1), 1);
    let made = cluster.answer_within(200, "STREAM.CREATE.S", &on_server);
    assert!(made.contains(r#""did_create":true"#), "{made}");
    cluster.isolated.push(away);
    cluster.pass(60);
    cluster.ask("STREAM.UPDATE.S", &on_server.replacen('{', r#"{"max_msgs":5,"#, 1));
    cluster.isolated.clear();
    let answers = answers(&mut cluster);
    assert!(answers.len() == 1 && answers[0].contains(r#""max_msgs":5,"#), "{answers:?}");
}
