//! Streams move, and what is under way is refused, cancelled and goes on by itself.

use super::meta_cluster::MetaCluster;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A stream, with tags that its servers have to have.
fn config(replicas: usize, tags: &str) -> String {
    let placement =
        if tags.is_empty() { String::new() } else { format!(r#","placement":{{"tags":[{tags}]}}"#) };
    format!(r#"{{"name":"S","subjects":["S.>"],"storage":"file","num_replicas":{replicas}{placement}}}"#)
}

const A: &str = r#""cloud:a""#;
const B: &str = r#""cloud:b""#;

fn cluster(size: usize, config: &str) -> MetaCluster {
    let mut cluster = MetaCluster::with_meta(size);
    let made = ask(&mut cluster, "STREAM.CREATE.S", config);
    assert!(made.contains(r#""did_create":true"#), "{made}");
    cluster
}

/// Servers that founded the group have no replica any more, and could not be asked.
#[test]
fn a_group_in_memory_that_has_moved_wholly_and_lost_everything_has_a_leader_again() {
    let config = |tags| config(2, tags).replace("file", "memory");
    let mut cluster = cluster(4, &config(A));
    publish(&mut cluster, "one");
    ask(&mut cluster, "STREAM.UPDATE.S", &config(B));
    assert_eq!(wait_for(&mut cluster, 2, 1), [2, 3]);
    [2, 3].iter().for_each(|&number| cluster.kill(number));
    [2, 3].iter().for_each(|&number| cluster.begin(number));
    cluster.wait_until("a leader", |cluster| cluster.leader().is_some());
    publish(&mut cluster, "the first of all");
    wait_for(&mut cluster, 2, 1);
}

/// A replica that has to begin anew knows the servers that had one before the change, too: these
/// may have what it lacks.
#[test]
fn a_replica_that_begins_anew_amid_a_move_knows_all_servers_of_its_stream() {
    let mut cluster = cluster(3, &config(2, "").replace("file", "memory"));
    publish(&mut cluster, "one");
    let leader = cluster.elect();
    let holders = cluster.holders("S");
    let other = *holders.iter().find(|&&number| number != leader).expect("another one");
    let third = (0..3).find(|number| !holders.contains(number)).expect("a third");
    // The one that is to come does not make its replica.
    cluster.house(third).host.is_busy.store(true, Relaxed);
    ask(&mut cluster, "STREAM.PEER.REMOVE.S", &format!(r#"{{"peer":"n{}"}}"#, other + 1));
    let failed = cluster.house(other).stream("S");
    let mut guard = failed.lock_core().expect("it is there");
    let (core, effects) = guard.parts();
    core.store().give_up("a test asked for it");
    core.released(effects);
    drop(guard);
    cluster.wait_until("another replica", |cluster| !Arc::ptr_eq(&failed, &cluster.house(other).stream("S")));
    let told = cluster.house(other).stream("S").told();
    assert_eq!(told.len(), 3, "{told:?}");
}

/// Replicas that this life of a server has had count no more: the new one votes for nobody before
/// it knows what is committed, and the leader that leaves is the one that says so.
#[test]
fn a_replica_that_comes_back_is_not_needed_before_it_votes() {
    let mut cluster = cluster(4, &config(3, ""));
    publish(&mut cluster, "one");
    let leader = cluster.elect();
    let holders = cluster.holders("S");
    let others: Vec<usize> = holders.into_iter().filter(|&number| number != leader).collect();
    let [away, back] = others[..] else { panic!("{others:?}") };
    let leaves = |number: usize| format!(r#"{{"peer":"n{}"}}"#, number + 1);
    ask(&mut cluster, "STREAM.PEER.REMOVE.S", &leaves(back));
    wait_for(&mut cluster, 3, 1);
    publish(&mut cluster, "two");
    wait_for(&mut cluster, 3, 2);
    cluster.isolated.push(away);
    assert_eq!(cluster.elect(), leader);
    ask(&mut cluster, "STREAM.PEER.REMOVE.S", &leaves(leader));
    for _ in 0..100 {
        if cluster.leader().is_some_and(|number| number != leader) {
            break;
        }
        cluster.pass(1);
    }
    assert_ne!(cluster.elect(), leader, "{:?}", cluster.statuses());
    publish(&mut cluster, "three");
    cluster.isolated.clear();
    assert!(wait_for(&mut cluster, 3, 3).contains(&back));
}

/// The one answer to a request.
fn ask(cluster: &mut MetaCluster, subject: &str, body: &str) -> String {
    for _ in 0..200 {
        if cluster.meta_leader().is_some_and(|leader| !cluster.isolated.contains(&leader)) {
            break;
        }
        cluster.pass(1);
    }
    cluster.answer_within(200, subject, body)
}

fn refused(cluster: &mut MetaCluster, (subject, body): (&str, &str), code: u32) {
    let answer = ask(cluster, subject, body);
    assert!(answer.contains(&format!(r#""err_code":{code},"#)), "{subject} {body}: {answer}");
}

fn publish(cluster: &mut MetaCluster, text: &str) {
    let before = cluster.acks();
    let leader = cluster.elect();
    cluster.publish(leader, text);
    for _ in 0..60 {
        if cluster.acks() > before {
            return;
        }
        cluster.pass(1);
    }
    panic!("{text} is not acknowledged: {:?}", cluster.statuses());
}

/// Waits until just so many servers have the stream, each with so many messages, and nothing is
/// under way.
fn wait_for(cluster: &mut MetaCluster, replicas: usize, messages: u64) -> Vec<usize> {
    for _ in 0..600 {
        let holders = cluster.holders("S");
        let is_there =
            |&number: &usize| cluster.house(number).stream("S").reader().state().totals.messages == messages;
        if holders.len() == replicas && holders.iter().all(is_there) && !is_changing(cluster) {
            return holders;
        }
        cluster.pass(1);
    }
    let holders = cluster.holders("S");
    panic!("{replicas} servers have {messages} messages: {holders:?}, {:?}", cluster.statuses());
}

fn is_changing(cluster: &mut MetaCluster) -> bool {
    let numbers: Vec<usize> = cluster.running().collect();
    let changes = |number: usize| {
        let meta = cluster.house(number).jetstream.meta();
        meta.is_none_or(|meta| meta.view().get("$G", "S").is_none_or(|one| one.change.is_some()))
    };
    numbers.into_iter().any(changes)
}

#[test]
fn a_stream_moves_where_another_placement_says() {
    for replicas in [1, 2] {
        let mut cluster = cluster(5, &config(replicas, A));
        let consumer = r#"{"stream_name":"S","config":{"durable_name":"C","ack_policy":"explicit"}}"#;
        ask(&mut cluster, "CONSUMER.DURABLE.CREATE.S.C", consumer);
        (0..3).for_each(|n| publish(&mut cluster, &format!("before {n}")));
        assert!(wait_for(&mut cluster, replicas, 3).iter().all(|&number| number < 2));
        let answer = ask(&mut cluster, "STREAM.UPDATE.S", &config(replicas, B));
        assert!(answer.contains(r#""tags":["cloud:b"]"#), "{answer}");
        publish(&mut cluster, "meanwhile");
        let holders = wait_for(&mut cluster, replicas, 4);
        assert!(holders.iter().all(|&number| number > 1), "{holders:?}");
        publish(&mut cluster, "there");
        let info = ask(&mut cluster, "CONSUMER.INFO.S.C", "");
        assert!(info.contains(r#""num_pending":5"#) && !info.contains("desired"), "{info}");
        refused(&mut cluster, ("STREAM.CANCEL_MOVE.S", ""), 10129);
        // Where it is already is where it should be: nothing changes.
        let leader = cluster.elect();
        let same = format!(r#"{B},"!cloud:a""#);
        ask(&mut cluster, "STREAM.UPDATE.S", &config(replicas, &same));
        assert_eq!(wait_for(&mut cluster, replicas, 5), holders);
        assert_eq!(cluster.elect(), leader);
    }
}

#[test]
fn a_move_that_is_under_way_is_refused_shown_and_cancelled() {
    let mut cluster = cluster(5, &config(3, ""));
    publish(&mut cluster, "before");
    let before = wait_for(&mut cluster, 3, 1);
    let others: Vec<usize> = (0..5).filter(|number| !before.contains(number)).collect();
    // They are still believed to be there.
    cluster.isolated.clone_from(&others);
    let moved = ask(&mut cluster, "ACCOUNT.STREAM.MOVE.$G.S", "{}");
    for part in [r#""desired":{"created":""#, r#""origin":{"replicas":3}"#, r#""type":"catchup""#] {
        assert!(moved.contains(part), "{part} in {moved}");
    }
    let update = "STREAM.UPDATE.S";
    refused(&mut cluster, (update, &config(3, B)), 10124);
    refused(&mut cluster, (update, &config(1, "")), 10124);
    refused(&mut cluster, (update, &config(1, B)), 10123);
    let interest = config(3, "").replace("file", r#"file","retention":"interest"#);
    refused(&mut cluster, (update, &interest), 10124);
    refused(&mut cluster, ("ACCOUNT.STREAM.MOVE.$G.S", "{}"), 10124);
    cluster.pass(60);
    let info = ask(&mut cluster, "STREAM.INFO.S", "");
    assert!(info.contains(r#""type":"quorum""#) && info.contains(r#""offline":true,"peer""#), "{info}");
    publish(&mut cluster, "meanwhile");
    let back = ask(&mut cluster, "STREAM.CANCEL_MOVE.S", "");
    assert!(back.contains(r#"v1.stream_cancel_move_response","config""#), "{back}");
    assert_eq!(wait_for_held(&mut cluster, 2), before);
    // What follows does not wait for what is through.
    let over = cluster.answer_within(3, "STREAM.CANCEL_MOVE.S", "");
    assert!(over.contains(r#""err_code":10129"#), "{over}");
    cluster.isolated.clear();
    assert_eq!(wait_for(&mut cluster, 3, 2), before);
}

/// As [`wait_for`], where servers that nobody hears are as they like.
fn wait_for_held(cluster: &mut MetaCluster, messages: u64) -> Vec<usize> {
    let isolated = cluster.isolated.clone();
    for _ in 0..600 {
        let mut holders = cluster.holders("S");
        holders.retain(|number| !isolated.contains(number));
        let all: Vec<usize> = cluster.running().filter(|number| !isolated.contains(number)).collect();
        let is_settled = all.iter().all(|&number| {
            let meta = cluster.house(number).jetstream.meta().expect("it has one");
            let found = meta.view().get("$G", "S");
            found.is_some_and(|one| one.change.is_none() && one.before.is_empty())
        });
        let is_there =
            |&number: &usize| cluster.house(number).stream("S").reader().state().totals.messages == messages;
        if is_settled && holders.iter().all(is_there) {
            return holders;
        }
        cluster.pass(1);
    }
    panic!("it does not settle: {:?}", cluster.statuses());
}

#[test]
fn replicas_are_changed_back_before_they_are_what_was_asked_for() {
    let mut cluster = cluster(5, &config(3, ""));
    publish(&mut cluster, "before");
    let before = wait_for(&mut cluster, 3, 1);
    cluster.isolated = (0..5).filter(|number| !before.contains(number)).collect();
    let five = ask(&mut cluster, "STREAM.UPDATE.S", &config(5, ""));
    assert!(five.contains(r#""origin":{"replicas":3}"#), "{five}");
    refused(&mut cluster, ("STREAM.UPDATE.S", &config(5, B)), 10226);
    let back = ask(&mut cluster, "STREAM.UPDATE.S", &config(3, ""));
    assert!(back.contains(r#""num_replicas":3"#), "{back}");
    assert_eq!(wait_for_held(&mut cluster, 1), before);
    // And again, cancelled after a second change: back to the first of all.
    cluster.isolated.clear();
    cluster.pass(60);
    wait_for(&mut cluster, 3, 1);
    cluster.isolated = (0..5).filter(|number| !before.contains(number)).collect();
    ask(&mut cluster, "STREAM.UPDATE.S", &config(5, ""));
    ask(&mut cluster, "STREAM.UPDATE.S", &config(4, ""));
    let back = ask(&mut cluster, "STREAM.CANCEL_MOVE.S", "");
    assert!(back.contains(r#""num_replicas":3"#), "{back}");
    assert_eq!(wait_for_held(&mut cluster, 1), before);
    publish(&mut cluster, "afterwards");
}

#[test]
fn a_replica_that_replaces_another_one_has_the_tags() {
    let mut cluster = cluster(5, &config(2, A));
    publish(&mut cluster, "one");
    refused(&mut cluster, ("STREAM.PEER.REMOVE.S", r#"{"peer":"n1"}"#), 10075);
    refused(&mut cluster, ("STREAM.PEER.EVACUATE.S", r#"{"peer":"n2"}"#), 10075);
    refused(&mut cluster, ("STREAM.UPDATE.S", &config(3, A)), 10005);
    ask(&mut cluster, "STREAM.UPDATE.S", &config(2, B));
    let holders = wait_for(&mut cluster, 2, 1);
    let free = (2..5).find(|number| !holders.contains(number)).expect("one of three");
    let leader = cluster.elect();
    let body = format!(r#"{{"peer":"n{}"}}"#, leader + 1);
    let answer = ask(&mut cluster, "STREAM.PEER.EVACUATE.S", &body);
    assert!(answer.contains("stream_evacuate_peer_response") && answer.contains("true"), "{answer}");
    let holders = wait_for(&mut cluster, 2, 1);
    assert!(holders.contains(&free) && !holders.contains(&leader), "{holders:?}");
    refused(&mut cluster, ("STREAM.CANCEL_MOVE.S", ""), 10129);
}

/// Has a stream begin to move to servers that nobody hears, which are still believed to be there.
/// Answers which of them it is to have, and which of those before it keeps.
fn move_to_isolated(cluster: &mut MetaCluster, before: &[usize]) -> (Vec<usize>, Vec<usize>) {
    cluster.isolated = (0..5).filter(|number| !before.contains(number)).collect();
    ask(cluster, "ACCOUNT.STREAM.MOVE.$G.S", "{}");
    let leader = cluster.meta_leader().expect("there is one");
    let meta = cluster.house(leader).jetstream.meta().expect("it has one");
    let peers = meta.view().get("$G", "S").expect("it is there").peers.clone();
    (0..5)
        .filter(|number| peers.contains(&format!("n{}", number + 1)))
        .partition(|number| !before.contains(number))
}

#[test]
fn a_target_that_dies_while_it_catches_up_is_replaced() {
    let mut cluster = cluster(5, &config(3, ""));
    publish(&mut cluster, "before");
    let before = wait_for(&mut cluster, 3, 1);
    let (targets, _) = move_to_isolated(&mut cluster, &before);
    let target = targets[0];
    cluster.isolated.clear();
    cluster.isolated.push(target);
    cluster.kill(target);
    publish(&mut cluster, "meanwhile");
    let body = format!(r#"{{"peer":"n{}"}}"#, target + 1);
    let answer = ask(&mut cluster, "STREAM.PEER.REMOVE.S", &body);
    assert!(answer.contains(r#""success":true"#), "{answer}");
    let holders = wait_for(&mut cluster, 3, 2);
    assert!(!holders.contains(&target), "{holders:?}");
    cluster.isolated.clear();
    cluster.begin(target);
    cluster.pass(60);
    assert_eq!(wait_for(&mut cluster, 3, 2), holders);
    publish(&mut cluster, "afterwards");
}

/// Whoever asks again because the leader of the meta group has ended changes nothing twice.
#[test]
fn a_change_that_is_asked_for_again_at_the_next_leader_happens_once() {
    for beats in [0, 1, 3] {
        let mut cluster = cluster(5, &config(3, ""));
        publish(&mut cluster, "before");
        wait_for(&mut cluster, 3, 1);
        cluster.ask("STREAM.UPDATE.S", &config(5, ""));
        cluster.pass(beats);
        let leader = cluster.meta_leader().expect("there is one");
        cluster.kill(leader);
        cluster.pass(60);
        cluster.take_answers();
        let answer = ask(&mut cluster, "STREAM.UPDATE.S", &config(5, ""));
        assert!(answer.contains(r#""num_replicas":5"#), "{answer}");
        cluster.begin(leader);
        wait_for(&mut cluster, 5, 1);
        publish(&mut cluster, "afterwards");
        ask(&mut cluster, "STREAM.UPDATE.S", &config(3, ""));
        wait_for(&mut cluster, 3, 2);
    }
}

#[test]
fn a_stream_leaves_an_evacuated_server_as_soon_as_there_is_another_place() {
    let mut cluster = MetaCluster::founded_by(3, 4);
    ask(&mut cluster, "STREAM.CREATE.S", &config(3, ""));
    publish(&mut cluster, "one");
    assert_eq!(wait_for(&mut cluster, 3, 1), [0, 1, 2]);
    evacuate(&mut cluster, "n1");
    cluster.pass(100);
    assert_eq!(wait_for(&mut cluster, 3, 1), [0, 1, 2], "there is no other place");
    publish(&mut cluster, "two");
    cluster.begin(3);
    for _ in 0..600 {
        if cluster.holders("S") == [1, 2, 3] {
            break;
        }
        cluster.pass(1);
    }
    assert_eq!(wait_for(&mut cluster, 3, 2), [1, 2, 3]);
    publish(&mut cluster, "three");
}

/// Has all streams leave a server.
fn evacuate(cluster: &mut MetaCluster, name: &str) {
    cluster.asks_for_system = true;
    let answer = ask(cluster, "SERVER.EVACUATE", &format!(r#"{{"peer":"{name}"}}"#));
    cluster.asks_for_system = false;
    assert!(answer.contains(r#""success":true"#), "{answer}");
}

/// A move is under way, one of its servers is evacuated, and then the move is cancelled.
#[test]
fn a_cancellation_brings_no_stream_back_to_an_evacuated_server() {
    let mut cluster = cluster(5, &config(3, ""));
    publish(&mut cluster, "before");
    let before = wait_for(&mut cluster, 3, 1);
    let (_, stays) = move_to_isolated(&mut cluster, &before);
    let evacuated = stays[0];
    evacuate(&mut cluster, &format!("n{}", evacuated + 1));
    cluster.pass(2);
    let back = ask(&mut cluster, "STREAM.CANCEL_MOVE.S", "");
    assert!(!back.contains("error"), "{back}");
    cluster.isolated.clear();
    cluster.wait_until("it has left", |cluster| !cluster.holders("S").contains(&evacuated));
    let holders = wait_for(&mut cluster, 3, 1);
    assert!(!holders.contains(&evacuated), "{holders:?}");
    publish(&mut cluster, "afterwards");
}

/// An update that changes no server gives the change of the cluster itself no origin.
#[test]
fn a_change_that_nobody_has_asked_for_cannot_be_cancelled_because_of_an_update() {
    let mut cluster = cluster(5, &config(3, ""));
    publish(&mut cluster, "before");
    let before = wait_for(&mut cluster, 3, 1);
    cluster.isolated = (0..5).filter(|number| !before.contains(number)).collect();
    evacuate(&mut cluster, &format!("n{}", before[0] + 1));
    cluster.pass(2);
    let update = config(3, "").replace("file", r#"file","description":"mine"#);
    let updated = ask(&mut cluster, "STREAM.UPDATE.S", &update);
    assert!(updated.contains("desired") && !updated.contains("origin"), "{updated}");
    refused(&mut cluster, ("STREAM.CANCEL_MOVE.S", ""), 10129);
    // Another number of replicas is a change that somebody has asked for.
    let updated = ask(&mut cluster, "STREAM.UPDATE.S", &update.replace("cas\":3", "cas\":2"));
    assert!(updated.contains(r#""origin":{"replicas":3}"#), "{updated}");
    cluster.isolated.clear();
    let holders = wait_for(&mut cluster, 2, 1);
    assert!(!holders.contains(&before[0]), "{holders:?}");
}

/// All of them would find the same server the least busy one.
#[test]
fn streams_that_leave_a_server_together_go_to_several() {
    let mut cluster = MetaCluster::with_meta(4);
    let tag = r#""node:1""#;
    for name in ["S", "T", "U"] {
        let config = config(1, tag).replace('S', name);
        ask(&mut cluster, &format!("STREAM.CREATE.{name}"), &config);
        let anywhere = config.replace(r#""node:1""#, r#""!node:9""#);
        ask(&mut cluster, &format!("STREAM.UPDATE.{name}"), &anywhere);
    }
    publish(&mut cluster, "one");
    for name in ["S", "T", "U"] {
        assert_eq!(cluster.holders(name), [0]);
    }
    evacuate(&mut cluster, "n1");
    cluster.wait_until("each is elsewhere", |cluster| {
        ["S", "T", "U"].iter().all(|name| cluster.holders(name).len() == 1 && cluster.holders(name) != [0])
    });
    let mut holders: Vec<usize> = ["S", "T", "U"].iter().flat_map(|name| cluster.holders(name)).collect();
    holders.sort_unstable();
    assert_eq!(holders, [1, 2, 3]);
    assert_eq!(wait_for(&mut cluster, 1, 1).len(), 1);
}

/// The only server that a stream without replicas was to go to is removed from the cluster.
#[test]
fn a_stream_stays_where_it_is_when_the_target_of_its_move_is_removed() {
    let mut cluster = cluster(4, &config(1, ""));
    publish(&mut cluster, "one");
    let before = wait_for(&mut cluster, 1, 1);
    ask(&mut cluster, "ACCOUNT.STREAM.MOVE.$G.S", "{}");
    let meta = cluster.house(before[0]).jetstream.meta().expect("it has one");
    let peers = meta.view().get("$G", "S").expect("it is there").peers.clone();
    assert!(is_changing(&mut cluster) && peers != [format!("n{}", before[0] + 1)]);
    let target = (0..4).find(|number| peers == [format!("n{}", number + 1)]).expect("one of them");
    cluster.kill(target);
    cluster.remove_server(&peers[0]).expect("three of four are there");
    for _ in 0..200 {
        if !is_changing(&mut cluster) {
            break;
        }
        cluster.pass(1);
    }
    assert_eq!(wait_for(&mut cluster, 1, 1), before);
    publish(&mut cluster, "two");
    let info = ask(&mut cluster, "STREAM.INFO.S", "");
    assert!(!info.contains("desired"), "{info}");
}
