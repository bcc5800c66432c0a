//! Streams get more replicas, fewer, and others, by the API and with publishers at work.

use super::house::Heard;
use super::meta_cluster::MetaCluster;
use crate::engine::groups::{GroupReplica, MemberEvent};
use crate::engine::peer_id;
use myelin_disk::faulty::DiskFault;
use myelin_replica::{RaftMessage, RaftMessageKind, Status};
use myelin_stdx::sync::lock;
use std::io::ErrorKind;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

fn config(replicas: usize) -> String {
    format!(r#"{{"name":"S","subjects":["S.>"],"storage":"file","num_replicas":{replicas}}}"#)
}

/// Servers with a meta group, and a stream of so many replicas.
fn cluster(size: usize, replicas: usize) -> MetaCluster {
    let mut cluster = MetaCluster::with_meta(size);
    let made = ask(&mut cluster, "STREAM.CREATE.S", &config(replicas));
    assert!(made.contains(r#""did_create":true"#), "{made}");
    cluster
}

/// The one answer to a request.
fn ask(cluster: &mut MetaCluster, subject: &str, body: &str) -> String {
    // Nobody repeats a request that has come while nobody led.
    for _ in 0..200 {
        if cluster.meta_leader().is_some() {
            break;
        }
        cluster.pass(1);
    }
    cluster.answer_within(200, subject, body)
}

/// Publishes at whoever leads, which has to acknowledge.
fn publish(cluster: &mut MetaCluster, text: &str) {
    let before = cluster.acks();
    let leader = cluster.elect();
    cluster.publish(leader, text);
    for _ in 0..20 {
        if cluster.acks() > before {
            return;
        }
        cluster.pass(1);
    }
    panic!("{text} is not acknowledged");
}

/// Waits until so many servers have the stream, each with so many messages.
fn wait_for(cluster: &mut MetaCluster, replicas: usize, messages: u64) {
    for _ in 0..400 {
        let holders = cluster.holders("S");
        let is_there =
            |&number: &usize| cluster.house(number).stream("S").reader().state().totals.messages == messages;
        if holders.len() == replicas && holders.iter().all(is_there) {
            return;
        }
        cluster.pass(1);
    }
    let holders = cluster.holders("S");
    panic!("{replicas} servers have {messages} messages: {holders:?}, {:?}", cluster.statuses());
}

fn names(of: &[usize]) -> Vec<String> {
    of.iter().map(|number| format!("n{}", number + 1)).collect()
}

#[test]
fn three_become_five_and_three_again() {
    let mut cluster = cluster(5, 3);
    publish(&mut cluster, "of three");
    let answer = ask(&mut cluster, "STREAM.UPDATE.S", &config(5));
    assert!(answer.contains(r#""num_replicas":5"#), "{answer}");
    publish(&mut cluster, "meanwhile");
    wait_for(&mut cluster, 5, 2);
    let info = ask(&mut cluster, "STREAM.INFO.S", "");
    assert_eq!(info.matches(r#""current":true"#).count(), 4, "{info}");
    assert!(!info.contains("pending"), "{info}");
    let leader = cluster.elect();
    cluster.kill(leader);
    publish(&mut cluster, "of four");
    cluster.begin(leader);
    wait_for(&mut cluster, 5, 3);
    let leader = cluster.elect();
    let answer = ask(&mut cluster, "STREAM.UPDATE.S", &config(3));
    assert!(answer.contains(r#""num_replicas":3"#), "{answer}");
    wait_for(&mut cluster, 3, 3);
    assert_eq!(cluster.leader(), Some(leader), "it stays");
    publish(&mut cluster, "of three again");
    wait_for(&mut cluster, 3, 4);
}

/// The group goes on with one voter, also when all begin anew.
#[test]
fn three_become_one() {
    let mut cluster = cluster(3, 3);
    publish(&mut cluster, "of three");
    let leader = cluster.elect();
    ask(&mut cluster, "STREAM.UPDATE.S", &config(1));
    wait_for(&mut cluster, 1, 1);
    assert_eq!(cluster.holders("S"), [leader]);
    let info = ask(&mut cluster, "STREAM.INFO.S", "");
    assert!(info.contains(&format!(r#""cluster":{{"leader":"n{}"}}"#, leader + 1)), "{info}");
    publish(&mut cluster, "of one");
    (0..3).for_each(|number| cluster.kill(number));
    (0..3).for_each(|number| cluster.begin(number));
    publish(&mut cluster, "of one again");
    wait_for(&mut cluster, 1, 3);
    ask(&mut cluster, "STREAM.UPDATE.S", &config(3));
    wait_for(&mut cluster, 3, 3);
}

/// An answer of a replica that was removed is heard when another one is to come in its place, in
/// the same life of its server: it counts for that one, which has nothing.
#[test]
fn a_replica_that_comes_back_lacks_what_the_one_before_had_confirmed() {
    let mut cluster = cluster(3, 3);
    // More than one message between servers has.
    (0..5).for_each(|_| publish(&mut cluster, &"x".repeat(100_000)));
    let leader = cluster.elect();
    let victim = (leader + 1) % 3;
    ask(&mut cluster, "STREAM.UPDATE.S", &config(1));
    wait_for(&mut cluster, 1, 5);
    cluster.house(victim).host.is_busy.store(true, Relaxed);
    ask(&mut cluster, "STREAM.UPDATE.S", &config(3));
    let name = peer_id(&format!("n{}", victim + 1)).expect("a name");
    let live = cluster.house(leader).stream("S");
    let status = || live.group_status().expect("it is a member");
    cluster.wait_until("a member", |_| status().members.iter().any(|member| member.peer == name));
    let Status { term, last, .. } = status();
    let (place, ..) = live.install_source(name).expect("it leads");
    let late = RaftMessage {
        kind: RaftMessageKind::AppendAnswer,
        from: name,
        to: peer_id(&format!("n{}", leader + 1)).expect("a name"),
        term,
        index: last,
        log_term: 0,
        commit: last,
        commit_term: 0,
        is_refused: false,
        reject_hint: 0,
        is_transfer: false,
        entries: Vec::new(),
    };
    live.tell(MemberEvent::Message(place.epoch, 0, late));
    live.serve_off_shard();
    assert!(status().members.iter().any(|member| member.peer == name && member.matched == last));
    cluster.house(victim).host.is_busy.store(false, Relaxed);
    wait_for(&mut cluster, 3, 5);
    publish(&mut cluster, "of three again");
    wait_for(&mut cluster, 3, 6);
    cluster.wait_until("all to remember", |cluster| {
        !cluster.house(victim).stream("S").group_status().is_none_or(|status| status.is_amnesiac)
    });
}

/// Messages and consumers of a stream alone are there when it is in a group.
#[test]
fn one_becomes_a_group_with_what_it_has() {
    for storage in ["file", "memory"] {
        let config = |replicas| config(replicas).replace("file", storage);
        let mut cluster = MetaCluster::with_meta(3);
        let made = ask(&mut cluster, "STREAM.CREATE.S", &config(1));
        assert!(!made.contains("raft_group"), "{made}");
        let consumer = r#"{"stream_name":"S","config":{"durable_name":"C","ack_policy":"explicit"}}"#;
        ask(&mut cluster, "CONSUMER.DURABLE.CREATE.S.C", consumer);
        (0..5).for_each(|n| publish(&mut cluster, &format!("of one {n}")));
        let leader = cluster.elect();
        let answer = ask(&mut cluster, "STREAM.UPDATE.S", &config(3));
        assert!(answer.contains(r#""raft_group":"S-R3"#), "{answer}");
        assert_eq!(cluster.elect(), leader, "it goes on answering");
        publish(&mut cluster, "of a group");
        let info = ask(&mut cluster, "CONSUMER.INFO.S.C", "");
        assert!(info.contains(r#""num_pending":6"#), "{info}");
        cluster.pass(2);
        if storage == "file" {
            cluster.kill(leader);
            cluster.begin(leader);
            publish(&mut cluster, "in another life");
        } else {
            publish(&mut cluster, "in the same life");
        }
        let info = ask(&mut cluster, "CONSUMER.INFO.S.C", "");
        assert!(info.contains(r#""num_pending":7"#), "{info}");
        wait_for(&mut cluster, 3, 7);
        cluster.pass(100);
        cluster.kill(leader);
        publish(&mut cluster, "of two");
        let info = ask(&mut cluster, "CONSUMER.INFO.S.C", "");
        assert!(info.contains(r#""num_pending":8"#), "{info}");
        cluster.begin(leader);
        wait_for(&mut cluster, 3, 8);
    }
}

/// A stream of one replica that has become a group and does not lead it yet: its server, and the
/// answers to two messages, one that has come just before and one that has come since.
fn founded() -> (MetaCluster, usize, Arc<Mutex<Vec<Heard>>>) {
    let mut cluster = cluster(3, 1);
    publish(&mut cluster, "of one");
    let leader = cluster.elect();
    let house = cluster.house(leader);
    let heard = house.record("heard");
    house.say("S.a", "heard", "before");
    house.flush();
    let groups = house.jetstream.cluster.groups.get().expect("it takes part in groups");
    let founded = house.stream("S").found_group(groups, (&house.jetstream.store, false));
    founded.expect("a healthy disk");
    assert_eq!(cluster.leader(), None, "it follows");
    cluster.house(leader).say("S.a", "heard", "meanwhile");
    cluster.pass(2);
    assert_eq!(lock(&heard).len(), 1, "what was stored before is acknowledged, the other is held");
    (cluster, leader, heard)
}

#[test]
fn a_publish_to_a_stream_that_becomes_a_group_is_stored_by_the_group() {
    let (mut cluster, leader, heard) = founded();
    ask(&mut cluster, "STREAM.UPDATE.S", &config(3));
    assert_eq!(cluster.elect(), leader);
    cluster.pass(1);
    let answers: Vec<String> = lock(&heard).iter().map(|heard| heard.payload.clone()).collect();
    let is_ack = |(at, answer): (usize, &String)| answer.contains(&format!(r#""seq":{}"#, at + 2));
    assert!(answers.len() == 2 && answers.iter().enumerate().all(is_ack), "{answers:?}");
    wait_for(&mut cluster, 3, 3);
    publish(&mut cluster, "of a group");
}

#[test]
fn a_publish_to_a_group_that_nobody_comes_to_lead_is_refused() {
    let (mut cluster, _, heard) = founded();
    cluster.pass(70);
    assert_eq!(cluster.leader(), None);
    let headers: Vec<String> = lock(&heard).iter().map(|heard| heard.headers.clone()).collect();
    assert!(headers.len() == 2 && headers[1].starts_with("NATS/1.0 503"), "{headers:?}");
    ask(&mut cluster, "STREAM.UPDATE.S", &config(3));
    publish(&mut cluster, "of a group");
    wait_for(&mut cluster, 3, 3);
}

/// The founder was the only member when the group was made, and had its log in memory: without it,
/// it does not know that others are members, and may have everything.
#[test]
fn a_founder_that_has_lost_its_log_does_not_lead_without_it() {
    let mut cluster = MetaCluster::with_meta(3);
    let in_memory = |replicas| config(replicas).replace("file", "memory");
    ask(&mut cluster, "STREAM.CREATE.S", &in_memory(1));
    let founder = cluster.elect();
    ask(&mut cluster, "STREAM.UPDATE.S", &in_memory(3));
    (0..5).for_each(|n| publish(&mut cluster, &format!("of three {n}")));
    wait_for(&mut cluster, 3, 5);
    cluster.pass(100);
    let other = (founder + 1) % 3;
    cluster.kill(founder);
    cluster.kill(other);
    cluster.begin(founder);
    // Longer than a member waits for the word of a leader.
    cluster.pass(100);
    assert_eq!(cluster.leader(), None, "one of three has everything, and one is not there");
    cluster.begin(other);
    wait_for(&mut cluster, 3, 5);
    publish(&mut cluster, "of all");
    wait_for(&mut cluster, 3, 6);
}

#[test]
fn a_replica_moves_to_another_server() {
    let mut cluster = cluster(4, 3);
    publish(&mut cluster, "one");
    let leader = cluster.elect();
    let body = format!(r#"{{"peer":"n{}"}}"#, leader + 1);
    let answer = ask(&mut cluster, "STREAM.PEER.REMOVE.S", &body);
    assert!(answer.contains(r#""success":true"#), "{answer}");
    let again = ask(&mut cluster, "STREAM.PEER.REMOVE.S", &body);
    assert!(again.contains(r#""err_code":10040"#), "{again}");
    publish(&mut cluster, "two");
    wait_for(&mut cluster, 3, 2);
    assert!(!cluster.holders("S").contains(&leader));
    publish(&mut cluster, "three");
    // And back, from a server that is gone.
    let gone = cluster.holders("S")[0];
    cluster.kill(gone);
    cluster.pass(60);
    let body = format!(r#"{{"peer":"n{}"}}"#, gone + 1);
    let answer = ask(&mut cluster, "STREAM.PEER.REMOVE.S", &body);
    assert!(answer.contains(r#""success":true"#), "{answer}");
    wait_for(&mut cluster, 3, 3);
    cluster.begin(gone);
    cluster.pass(40);
    wait_for(&mut cluster, 3, 3);
    assert!(!cluster.holders("S").contains(&gone), "it hears that it has none any more");
}

/// While its group has not changed, nothing is removed: whoever was a member may be needed.
#[test]
fn a_replica_is_kept_until_the_others_agree() {
    let mut cluster = cluster(3, 3);
    publish(&mut cluster, "one");
    let leader = cluster.elect();
    let others: Vec<usize> = (0..3).filter(|&number| number != leader).collect();
    let answer = ask(&mut cluster, "STREAM.UPDATE.S", &config(1));
    assert!(answer.contains(r#""num_replicas":1"#), "{answer}");
    others.iter().for_each(|&other| cluster.kill(other));
    cluster.pass(100);
    others.iter().for_each(|&other| cluster.begin(other));
    wait_for(&mut cluster, 1, 1);
    publish(&mut cluster, "two");
}

#[test]
fn what_cannot_be_is_refused_and_said_once() {
    let mut cluster = cluster(3, 3);
    let answer = ask(&mut cluster, "STREAM.UPDATE.S", &config(5));
    assert!(answer.contains(r#""err_code":10005"#), "{answer}");
    let answer = ask(&mut cluster, "STREAM.UPDATE.S", &config(6));
    assert!(answer.contains(r#""err_code":10052"#), "{answer}");
    for (subject, body, code) in [
        ("STREAM.PEER.REMOVE.S", "", 10003),
        ("STREAM.PEER.REMOVE.S", "{}", 10003),
        ("STREAM.PEER.REMOVE.T", r#"{"peer":"n1"}"#, 10059),
        ("STREAM.PEER.REMOVE.S", r#"{"peer":"n9"}"#, 10040),
        ("STREAM.PEER.REMOVE.S", r#"{"peer":"n1"}"#, 10075),
        ("CONSUMER.PEER.REMOVE.S.C", r#"{"peer":"n1"}"#, 10014),
    ] {
        let answer = ask(&mut cluster, subject, body);
        assert!(answer.contains(&format!(r#""err_code":{code}"#)), "{subject} {body}: {answer}");
    }
    let peers = names(&[0, 1, 2]);
    let info = ask(&mut cluster, "STREAM.INFO.S", "");
    assert!(peers.iter().all(|name| info.contains(name.as_str())), "{info}");
}

/// Refusals of the disk while a stream becomes a group: it is tried again, and said once.
#[test]
fn a_change_that_a_disk_refuses_is_tried_again() {
    let mut refused = 0;
    for point in 0..48 {
        let mut cluster = cluster(3, 1);
        publish(&mut cluster, "of one");
        let leader = cluster.elect();
        let disk = cluster.disk(leader).clone();
        disk.fail_at(disk.points() + point, DiskFault::Error(ErrorKind::Other));
        cluster.ask("STREAM.UPDATE.S", &config(3));
        cluster.pass(20);
        cluster.take_answers();
        let live = cluster.house(leader).streams().stream("S");
        if live.is_some_and(|live| live.failure().is_some()) {
            // The journal itself has failed: nothing is opened anew before the next start.
            continue;
        }
        let said = cluster.house(leader).host.warnings_with("is not as it is assigned");
        assert!(said <= 1, "{said}");
        refused += said;
        let meta = cluster.house(leader).jetstream.meta().expect("it has one");
        if meta.view().get("$G", "S").is_none_or(|one| one.config.num_replicas == 1) {
            // The request itself was lost with the leader of the meta group.
            continue;
        }
        wait_for(&mut cluster, 3, 1);
        publish(&mut cluster, "of three");
        let again = cluster.house(leader).host.infos_with("is as it is assigned now");
        assert_eq!(again, said, "point {point}");
    }
    assert!(refused > 1, "{refused}");
}

/// Some are stored, the others are told that nobody has taken them: they are sent again.
#[test]
fn who_publishes_to_a_leader_that_leaves_its_group_is_answered() {
    let mut cluster = cluster(4, 3);
    publish(&mut cluster, "one");
    let leader = cluster.elect();
    let heard = cluster.house(leader).record("heard");
    cluster.ask("STREAM.PEER.REMOVE.S", &format!(r#"{{"peer":"n{}"}}"#, leader + 1));
    let mut sent = 0;
    while cluster.elect() == leader && sent < 400 {
        // Before the turn in which it may hand over, and while it does.
        for _ in 0..3 {
            cluster.house(leader).say("S.a", "heard", "two");
            sent += 1;
        }
        cluster.pass(1);
    }
    cluster.pass(40);
    assert!(cluster.elect() != leader, "it has left");
    assert_eq!(lock(&heard).len(), sent);
}

#[test]
fn a_consumer_in_memory_becomes_one_of_the_group_that_its_stream_becomes() {
    let mut cluster = cluster(3, 1);
    let wanted = r#"{"stream_name":"S","config":{"name":"M","durable_name":"M","ack_policy":"explicit","mem_storage":true}}"#;
    let made = ask(&mut cluster, "CONSUMER.CREATE.S.M", wanted);
    assert!(made.contains(r#""mem_storage":true"#), "{made}");
    publish(&mut cluster, "zero");
    let first = cluster.elect();
    let next = |cluster: &mut MetaCluster, leader: usize| {
        let heard = cluster.house(leader).record("to.me");
        cluster.house(leader).say("$JS.API.CONSUMER.MSG.NEXT.S.M", "to.me", r#"{"batch":1}"#);
        cluster.pass(4);
        let heard = lock(&heard);
        heard.iter().map(|one| one.reply.rsplit('.').skip(2).take(2).collect()).collect::<Vec<String>>()
    };
    assert_eq!(next(&mut cluster, first), ["11"]);
    let answer = ask(&mut cluster, "STREAM.UPDATE.S", &config(3));
    assert!(answer.contains(r#""num_replicas":3"#), "{answer}");
    publish(&mut cluster, "one");
    wait_for(&mut cluster, 3, 2);
    let leader = cluster.elect();
    assert_eq!(cluster.house(leader).consumers("S"), ["M"]);
    let mut second = leader;
    for _ in 0..100 {
        cluster.house(leader).stream("S").hand_over();
        cluster.pass(2);
        second = cluster.elect();
        if second != leader {
            break;
        }
    }
    assert_ne!(second, leader, "it has handed over");
    assert_eq!(cluster.house(second).consumers("S"), ["M"]);
    assert_eq!(next(&mut cluster, second), ["22"], "it goes on where it was");
}
