//! Streams that are restored in a cluster, while others of their names are made.

use super::house::{Heard, House, stream};
use super::meta_cluster::MetaCluster;
use myelin_jsapi::config::AccountLimits;
use myelin_stdx::sync::lock;
use myelin_streams::backup::archive_writer::ArchiveWriter;
use myelin_wire::message_buf::MessageRef;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;

/// Archive of a stream S with two messages.
fn archive() -> Vec<u8> {
    let mut house = House::new();
    house.create(stream("S"));
    house.publish("S.a");
    house.publish("S.b");
    let live = house.stream("S");
    let now = house.host.now.load(Relaxed);
    let mut writer = ArchiveWriter::new(&live.reader(), &live.state(false), Vec::new(), now);
    writer.fill(usize::MAX, usize::MAX).expect("a healthy disk");
    std::mem::take(writer.ready())
}

/// The configuration of a stream of `S.>` that lies on one server.
fn on_server(name: &str, number: usize) -> String {
    let placement = format!(r#"{{"tags":["node:{}"]}}"#, number + 1);
    format!(
        r#"{{"name":"{name}","subjects":["S.>"],"storage":"file","num_replicas":1,"placement":{placement}}}"#
    )
}

/// Servers of which one leads the meta group.
fn led_cluster() -> MetaCluster {
    let mut cluster = MetaCluster::with_meta(3);
    cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
    cluster.pass(20);
    cluster
}

/// Asks for a restore of S as such a stream.
fn ask(cluster: &mut MetaCluster, rest: &str) -> String {
    let request = format!(r#"{{"config":{{"name":"S","subjects":["S.>"],"storage":"file",{rest}}}}}"#);
    cluster.answer_within(200, "STREAM.RESTORE.S", &request)
}

/// A restore of S of which all has come but the end.
struct Underway {
    /// Server to which it comes.
    at: usize,
    subject: String,
}

impl Underway {
    /// Begins in a new cluster, with a stream that is to have so many replicas.
    fn begin(replicas: usize) -> (MetaCluster, Self) {
        let mut cluster = led_cluster();
        let underway = Self::begin_in(&mut cluster, &format!(r#""num_replicas":{replicas}"#));
        (cluster, underway)
    }

    /// Begins with a stream that is to be such a one.
    fn begin_in(cluster: &mut MetaCluster, rest: &str) -> Self {
        let underway = Self::granted(cluster, rest);
        underway.send(cluster, "pieces", &archive());
        underway
    }

    /// A restore of which nothing has come yet.
    fn granted(cluster: &mut MetaCluster, rest: &str) -> Self {
        let at = cluster.meta_leader().expect("it is there");
        let answer = ask(cluster, rest);
        let answer: serde_json::Value = serde_json::from_str(&answer).expect("it is JSON");
        let subject = answer["deliver_subject"].as_str().expect("it is granted").to_owned();
        Self { at, subject }
    }

    fn send(&self, cluster: &mut MetaCluster, reply: &str, payload: &[u8]) {
        let (subject, reply) = (self.subject.as_bytes(), reply.as_bytes());
        cluster.house(self.at).send(MessageRef { subject, reply, payload, ..MessageRef::default() });
        cluster.settle();
    }

    /// Says that all has come.
    fn end(&self, cluster: &mut MetaCluster) {
        self.send(cluster, "answers", b"");
    }
}

/// The one answer that comes.
fn answer(cluster: &mut MetaCluster) -> String {
    let mut answers = Vec::new();
    cluster.wait_until("an answer", |cluster| {
        answers = cluster.take_answers();
        !answers.is_empty()
    });
    assert_eq!(answers.len(), 1, "{answers:?}");
    answers.concat()
}

/// Answers to what a server asks the others on its own.
fn pass_on(cluster: &mut MetaCluster, asked: &Mutex<Vec<Heard>>) -> Vec<String> {
    let updates = std::mem::take(&mut *lock(asked));
    updates.iter().for_each(|update| cluster.ask("STREAM.UPDATE.S", &update.payload));
    cluster.take_answers()
}

/// Has a stream S made on a server, and a message stored in it.
fn make_another(cluster: &mut MetaCluster, at: usize) {
    let made = cluster.answer_within(100, "STREAM.CREATE.S", &on_server("S", at));
    assert!(made.contains(r#""did_create":true"#), "{made}");
    cluster.publish(at, "acknowledged");
    assert_eq!(cluster.acks(), 1);
}

#[test]
fn a_restored_stream_is_one_of_the_cluster_when_that_is_answered() {
    let (mut cluster, restore) = Underway::begin(1);
    restore.end(&mut cluster);
    let answer = answer(&mut cluster);
    assert!(answer.contains(r#""messages":2"#), "{answer}");
    let meta = cluster.house(restore.at).jetstream.meta().expect("it has one");
    assert!(meta.known("$G", "S").0.is_some());
    cluster.publish(restore.at, "three");
    assert_eq!((cluster.acks(), cluster.house(restore.at).contents("S")), (1, (3, 3)));
}

/// Its name is free until it is whole.
#[test]
fn a_stream_that_was_made_while_one_of_its_name_was_restored_stays() {
    let (mut cluster, restore) = Underway::begin(1);
    let elsewhere = (restore.at + 1) % 3;
    make_another(&mut cluster, elsewhere);
    restore.end(&mut cluster);
    let answer = answer(&mut cluster);
    assert!(answer.contains(r#""err_code":10130"#), "{answer}");
    cluster.pass(100);
    assert_eq!(cluster.holders("S"), [elsewhere]);
    cluster.publish(elsewhere, "two");
    assert_eq!((cluster.acks(), cluster.house(elsewhere).contents("S")), (2, (2, 2)));
}

#[test]
fn a_stream_is_not_restored_whose_subjects_another_one_has_taken_on_another_server() {
    let (mut cluster, restore) = Underway::begin(1);
    let elsewhere = (restore.at + 1) % 3;
    let made = cluster.answer_within(100, "STREAM.CREATE.T", &on_server("T", elsewhere));
    assert!(made.contains(r#""did_create":true"#), "{made}");
    restore.end(&mut cluster);
    let answer = answer(&mut cluster);
    assert!(answer.contains("subjects overlap with an existing stream"), "{answer}");
    cluster.pass(100);
    assert_eq!(cluster.holders("S"), [0; 0]);
}

/// Whether the restored stream or another one counts the cluster decides: before it has, nobody
/// hears that anything is stored.
#[test]
fn a_restored_stream_goes_where_another_one_of_its_name_was_quicker() {
    let (mut cluster, restore) = Underway::begin(1);
    cluster.isolated.push(restore.at);
    restore.end(&mut cluster);
    cluster.publish(restore.at, "to nobody");
    assert_eq!((cluster.acks(), cluster.take_answers().len()), (0, 0));
    let others = [1, 2].map(|by| (restore.at + by) % 3);
    let leads = |cluster: &mut MetaCluster, number: usize| {
        cluster.house(number).jetstream.meta().is_some_and(|meta| meta.leads())
    };
    cluster.wait_until("another leader", |cluster| others.iter().any(|&other| leads(cluster, other)));
    make_another(&mut cluster, others[0]);
    cluster.isolated.clear();
    let answer = answer(&mut cluster);
    assert!(answer.contains(r#""err_code":10130"#), "{answer}");
    cluster.pass(100);
    assert_eq!(cluster.holders("S"), [others[0]]);
    assert_eq!(cluster.house(others[0]).contents("S"), (1, 1));
}

#[test]
fn a_restored_stream_of_which_the_cluster_hears_late_is_served_then() {
    let (mut cluster, restore) = Underway::begin(1);
    cluster.isolated.push(restore.at);
    restore.end(&mut cluster);
    let answer = answer(&mut cluster);
    assert!(answer.contains(r#""err_code":10008"#), "nobody knows: {answer}");
    cluster.publish(restore.at, "to nobody");
    assert_eq!(cluster.acks(), 0);
    cluster.isolated.clear();
    cluster.wait_until("all know it", |cluster| {
        (0..3).all(|number| {
            let meta = cluster.house(number).jetstream.meta();
            meta.is_some_and(|meta| meta.known("$G", "S").0.is_some())
        })
    });
    cluster.publish(restore.at, "three");
    assert_eq!((cluster.acks(), cluster.house(restore.at).contents("S")), (1, (3, 3)));
}

#[test]
fn a_restored_stream_asks_for_its_replicas_until_there_are_servers_for_them() {
    let (mut cluster, restore) = Underway::begin(3);
    let away = (restore.at + 1) % 3;
    let asked = cluster.house(restore.at).record("$JS.API.STREAM.UPDATE.S");
    cluster.kill(away);
    cluster.pass(60);
    restore.end(&mut cluster);
    let answer = answer(&mut cluster);
    assert!(answer.contains(r#""messages":2"#), "{answer}");
    let mut refused = Vec::new();
    cluster.wait_until("it has been asked for", |cluster| {
        refused.append(&mut pass_on(cluster, &asked));
        refused.len() > 1
    });
    assert!(refused.iter().all(|answer| answer.contains(r#""err_code":10005"#)), "{refused:?}");
    cluster.begin(away);
    cluster.wait_until("three replicas", |cluster| {
        pass_on(cluster, &asked);
        cluster.holders("S").len() == 3 && cluster.contents() == [(2, 2); 3]
    });
    cluster.pass(400);
    assert_eq!(pass_on(&mut cluster, &asked), [""; 0], "there is nothing left to ask for");
}

/// Has S restored as such a stream, and come to be on one server, which is not the meta leader.
fn comes_to_another(cluster: &mut MetaCluster, rest: &str, to: usize) {
    let restore = Underway::begin_in(cluster, rest);
    restore.end(cluster);
    let answer = answer(cluster);
    assert!(answer.contains(r#""messages":2"#), "{answer}");
    cluster.wait_until("it is where it is to be", |cluster| cluster.holders("S") == [to]);
    cluster.wait_until("it is led there", |cluster| cluster.leader() == Some(to));
    assert_eq!(cluster.house(to).contents("S"), (2, 2));
    let asked = Vec::<String>::new();
    assert_eq!(cluster.take_answers(), asked, "nobody has asked for the move");
}

#[test]
fn a_restored_stream_goes_to_a_server_with_its_tags() {
    let mut cluster = led_cluster();
    let to = (cluster.meta_leader().expect("it is there") + 2) % 3;
    let tags = format!(r#""num_replicas":1,"placement":{{"tags":["node:{}"]}}"#, to + 1);
    comes_to_another(&mut cluster, &tags, to);
}

#[test]
fn a_restored_stream_for_which_the_meta_leader_has_no_room_goes_where_there_is() {
    let mut cluster = led_cluster();
    let leader = cluster.meta_leader().expect("it is there");
    for (name, server) in [("F", leader), ("G", (leader + 1) % 3)] {
        let config = on_server(name, server).replace("S.>", name);
        let config = config.replacen('{', r#"{"max_bytes":900000000,"#, 1);
        let made = cluster.answer_within(100, &format!("STREAM.CREATE.{name}"), &config);
        assert!(made.contains(r#""did_create":true"#), "{made}");
    }
    cluster.pass(20);
    comes_to_another(&mut cluster, r#""max_bytes":500000000"#, (leader + 2) % 3);
}

#[test]
fn a_restore_that_no_server_suits_is_refused_before_anything_is_sent() {
    let mut cluster = led_cluster();
    let answer = ask(&mut cluster, r#""num_replicas":5"#);
    assert!(answer.contains(r#""err_code":10005,"#), "{answer}");
    let answer = ask(&mut cluster, r#""num_replicas":2,"placement":{"tags":["node:1"]}"#);
    assert!(answer.contains("no suitable peers for placement, tags not matched ['node:1']"), "{answer}");
}

#[test]
fn the_answer_to_a_restore_says_how_many_replicas_there_are_to_be() {
    let (mut cluster, restore) = Underway::begin(3);
    restore.end(&mut cluster);
    let answer = answer(&mut cluster);
    assert!(answer.contains(r#""num_replicas":3"#), "{answer}");
}

/// Limits of an account are those of all replicas.
#[test]
fn a_restore_counts_all_replicas_before_anything_is_stored() {
    let mut cluster = led_cluster();
    for number in 0..3 {
        let house = cluster.house(number);
        let limits = AccountLimits { max_storage: 150, ..AccountLimits::default() };
        house.jetstream.enable(&house.account, Some(limits)).expect("the disk has room");
    }
    let restore = Underway::granted(&mut cluster, r#""num_replicas":3"#);
    restore.send(&mut cluster, "answers", &archive());
    let refused = answer(&mut cluster);
    assert!(refused.contains(r#""err_code":10047,"#), "{refused}");
    let restore = Underway::begin_in(&mut cluster, r#""num_replicas":1"#);
    restore.end(&mut cluster);
    let answer = answer(&mut cluster);
    assert!(answer.contains(r#""messages":2"#), "{answer}");
}
