//! Meta groups amid faults: disks that refuse, answers that are late, messages that are lost.

use super::house::stream;
use super::meta_cluster::{MetaCluster, NAMES};
use crate::engine::meta::{Meta, peer_of};
use myelin_disk::faulty::DiskFault;
use myelin_jsapi::ApiError;
use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};

fn config(replicas: usize, tag: &str) -> String {
    let placement =
        if tag.is_empty() { String::new() } else { format!(r#","placement":{{"tags":["{tag}"]}}"#) };
    format!(r#"{{"name":"S","subjects":["S.>"],"storage":"file","num_replicas":{replicas}{placement}}}"#)
}

/// The one answer to a request.
fn ask(cluster: &mut MetaCluster, subject: &str, body: &str) -> String {
    cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
    cluster.answer_within(200, subject, body)
}

/// Whoever hears that a stream could not be made can make another one of its name: it is not there,
/// and does not come later. Whoever hears nothing of an error has all replicas in the end.
#[test]
fn a_stream_whose_making_is_refused_is_not_there() {
    let mut refused = [0; 2];
    for (kind, replicas) in [1, 3].into_iter().enumerate() {
        for point in 0..20 {
            let mut cluster = MetaCluster::with_meta(3);
            cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
            let leader = cluster.meta_leader().expect("it is there");
            // Who leads first is the first of those that have nothing.
            let other = usize::from(leader == 0);
            if replicas > 1 && leader == 0 {
                ask(&mut cluster, "STREAM.CREATE.T", &config(1, "node:1").replace('S', "T"));
            }
            let disk = cluster.disk(other).clone();
            disk.fail_at(disk.points() + point, DiskFault::Error(ErrorKind::Other));
            let tag = if replicas == 1 { format!("node:{}", other + 1) } else { String::new() };
            let answer = ask(&mut cluster, "STREAM.CREATE.S", &config(replicas, &tag));
            disk.heal();
            if !answer.contains("error") {
                cluster.wait_until("all replicas", |cluster| cluster.holders("S").len() == replicas);
                continue;
            }
            refused[kind] += 1;
            assert_eq!(cluster.holders("S"), [0; 0], "point {point}: {answer}");
            cluster.pass(100);
            assert_eq!(cluster.holders("S"), [0; 0], "it is not made later");
            assert!(cluster.take_answers().is_empty(), "one answer");
            let names = ask(&mut cluster, "STREAM.NAMES", "");
            assert!(!names.contains(r#""S""#), "{names}");
            let another = config(2, "").replace("S.>", "other.>");
            let made = ask(&mut cluster, "STREAM.CREATE.S", &another);
            assert!(made.contains(r#""did_create":true"#), "{made}");
        }
    }
    assert!(refused.iter().all(|&count| count > 0), "{refused:?}");
}

/// Begins to make a stream whose first server is `other`, and whose disk refuses that at a point:
/// `before` comes between the assignment and the attempt. Answers whether it was refused.
fn refuse_at(
    cluster: &mut MetaCluster,
    (other, replicas): (usize, usize),
    point: u64,
    before: impl FnOnce(&mut MetaCluster),
) -> bool {
    // The only one that has nothing is the first one.
    for number in (0..3).filter(|&number| number != other) {
        let (name, tag) = (["T", "U", "V"][number], format!("node:{}", number + 1));
        ask(cluster, &format!("STREAM.CREATE.{name}"), &config(1, &tag).replace('S', name));
    }
    cluster.house(other).host.is_busy.store(true, Relaxed);
    cluster.ask("STREAM.CREATE.S", &config(replicas, ""));
    before(cluster);
    let disk = cluster.disk(other).clone();
    disk.fail_at(disk.points() + point, DiskFault::Error(ErrorKind::Other));
    cluster.house(other).host.is_busy.store(false, Relaxed);
    cluster.settle();
    disk.heal();
    cluster.house(other).host.warnings_with("is not as it is assigned") > 0
}

/// Making of a stream that the disk of its first server, `other`, has refused at a point.
struct RefusedMaking {
    leader: usize,
    other: usize,
    replicas: usize,
    point: u64,
}

/// Has the first server of a stream refuse to make it, with one replica and with three, at one
/// point of its disk after the other: `before` comes between the assignment and the attempt, and
/// `then` looks at what comes of it.
fn at_each_refusal(
    before: impl Fn(&mut MetaCluster, &RefusedMaking),
    then: impl Fn(&mut MetaCluster, &RefusedMaking),
) {
    let mut refused = [0; 2];
    for (kind, replicas) in [1, 3].into_iter().enumerate() {
        for point in 0..8 {
            let mut cluster = MetaCluster::with_meta(3);
            cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
            let leader = cluster.meta_leader().expect("it is there");
            let of = RefusedMaking { leader, other: usize::from(leader == 0), replicas, point };
            if refuse_at(&mut cluster, (of.other, replicas), point, |cluster| before(cluster, &of)) {
                refused[kind] += 1;
                then(&mut cluster, &of);
            }
        }
    }
    assert!(refused.iter().all(|&count| count > 0), "{refused:?}");
}

fn meta_of(cluster: &mut MetaCluster, number: usize) -> Arc<Meta> {
    cluster.house(number).jetstream.meta().expect("it has one")
}

/// A removal that takes it back is on its way for as long as the meta leader stands still. Until it
/// is decided nobody serves the stream, whoever else has a replica and however often its server
/// tries again: nothing is acknowledged that goes with it.
#[test]
fn a_stream_that_may_still_be_taken_back_is_served_by_nobody() {
    at_each_refusal(
        |cluster, of| meta_of(cluster, of.leader).live().hold_publishes(),
        |cluster, &RefusedMaking { leader, point, .. }| {
            for _ in 0..24 {
                cluster.pass(10);
                (0..3).for_each(|number| cluster.publish(number, "lost"));
                assert_eq!((cluster.acks(), cluster.leader()), (0, None), "point {point}");
                assert!(cluster.take_answers().is_empty());
            }
            meta_of(cluster, leader).live().store_held();
            cluster.pass(60);
            let answers = cluster.take_answers();
            assert!(answers.len() == 1 && answers[0].contains("error"), "{answers:?}");
            assert_eq!(cluster.holders("S"), [0; 0], "point {point}: the first decision was to take it back");
        },
    );
}

/// The removal that would take it back is lost: others lead it, or its server makes it later. When
/// one comes late after all, whoever leads the meta group then, it removes nothing.
#[test]
fn a_stream_that_is_served_is_not_taken_back() {
    at_each_refusal(
        |cluster, of| cluster.isolated.push(of.other),
        |cluster, &RefusedMaking { leader, other, replicas, point }| {
            let meta = cluster.house(other).jetstream.meta().expect("it has one");
            let (first, seq) = meta.known("$G", "S");
            let first = first.expect("it is assigned");
            cluster.isolated.clear();
            cluster.wait_until("a leader", |cluster| cluster.leader().is_some());
            let answers = cluster.take_answers();
            assert!(answers.len() == 1 && answers[0].contains(r#""did_create":true"#), "{answers:?}");
            let leads = cluster.leader().expect("it is there");
            cluster.publish(leads, "kept");
            assert_eq!(cluster.acks(), 1);
            cluster.wait_until("all replicas", |cluster| cluster.holders("S").len() == replicas);
            let late = |cluster: &mut MetaCluster| {
                let jetstream = Arc::clone(&cluster.house(other).jetstream);
                meta.take_back(&jetstream, (&first, seq), &ApiError::STREAM_NOT_FOUND);
                cluster.pass(20);
            };
            late(cluster);
            let heir = (0..3).find(|&number| number != leader && number != other).expect("a third");
            meta_of(cluster, leader).live().hand_over_to(peer_of(NAMES[heir]));
            cluster.wait_until("another meta leader", |cluster| cluster.meta_leader() == Some(heir));
            late(cluster);
            assert_eq!(cluster.holders("S").len(), replicas, "point {point}: it stays");
            let info = ask(cluster, "STREAM.INFO.S", "");
            assert!(info.contains(r#""messages":1"#), "{info}");
        },
    );
}

/// Its next life may find the assignment as it was, while the removal is on its way still.
#[test]
fn a_server_that_is_started_anew_makes_no_stream_that_it_has_taken_back() {
    at_each_refusal(
        |cluster, of| meta_of(cluster, of.leader).live().hold_publishes(),
        |cluster, &RefusedMaking { leader, other, point, .. }| {
            cluster.kill(other);
            cluster.begin(other);
            for _ in 0..10 {
                cluster.pass(10);
                (0..3).for_each(|number| cluster.publish(number, "lost"));
                assert_eq!((cluster.acks(), cluster.leader()), (0, None), "point {point}");
            }
            meta_of(cluster, leader).live().store_held();
            cluster.pass(60);
            assert_eq!(cluster.holders("S"), [0; 0], "point {point}");
        },
    );
}

/// A client hears of its stream from its leader, and asks before the meta leader has looked.
#[test]
fn a_meta_leader_that_has_not_looked_yet_denies_no_stream() {
    let mut cluster = MetaCluster::with_meta(3);
    cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
    let leader = cluster.meta_leader().expect("it is there");
    let tag = format!("node:{}", (leader + 1) % 3 + 1);
    cluster.house(leader).host.is_busy.store(true, Relaxed);
    cluster.ask("STREAM.CREATE.S", &config(1, &tag));
    cluster.pass(4);
    let made = cluster.take_answers().concat();
    assert!(made.contains(r#""did_create":true"#), "{made}");
    let meta = cluster.house(leader).jetstream.meta().expect("it leads");
    assert!(meta.is_behind() && meta.view().get("$G", "S").is_none());
    cluster.ask("STREAM.INFO.S", "");
    cluster.ask("STREAM.INFO.T", "");
    cluster.pass(4);
    let info = cluster.take_answers();
    assert!(info.len() == 1 && info[0].contains(r#""name":"S""#), "{info:?}");
    cluster.house(leader).host.is_busy.store(false, Relaxed);
    cluster.pass(4);
    let later = cluster.take_answers();
    assert!(later.len() == 1 && later[0].contains(r#""err_code":10059"#), "{later:?}");
}

/// The time of a request is that of the meta leader's clock.
#[test]
fn a_server_whose_clock_is_ahead_answers_for_its_streams() {
    let mut cluster = MetaCluster::with_meta(3);
    cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
    let ahead = (cluster.meta_leader().expect("it is there") + 1) % 3;
    cluster.kill(ahead);
    cluster.begin(ahead);
    cluster.house(ahead).host.now.fetch_add(100_000_000_000, Relaxed);
    cluster.pass(200);
    let made = ask(&mut cluster, "STREAM.CREATE.S", &config(1, &format!("node:{}", ahead + 1)));
    assert!(made.contains(r#""did_create":true"#), "{made}");
    let removed = ask(&mut cluster, "STREAM.DELETE.S", "");
    assert!(removed.contains(r#""success":true"#), "{removed}");
}

/// As after a restore whose offer nobody has heard: a stream of its name was removed before.
#[test]
fn a_stream_that_nobody_heard_of_is_offered_again() {
    let mut cluster = MetaCluster::with_meta(3);
    ask(&mut cluster, "STREAM.CREATE.S", &config(1, "node:2"));
    ask(&mut cluster, "STREAM.DELETE.S", "");
    cluster.pass(2);
    cluster.house(1).create(stream("S"));
    cluster.house(1).publish("S.a");
    let is_known = |cluster: &mut MetaCluster| {
        let meta = cluster.house(0).jetstream.meta().expect("it has one");
        meta.view().get("$G", "S").is_some()
    };
    cluster.wait_until("it is assigned", is_known);
    let info = ask(&mut cluster, "STREAM.INFO.S", "");
    assert!(info.contains(r#""messages":1"#), "{info}");
    cluster.kill(1);
    cluster.begin(1);
    cluster.pass(60);
    assert_eq!(cluster.holders("S"), [1]);
}

/// A stream that was removed while its server was away is not offered again.
#[test]
fn a_stream_that_was_removed_is_not_offered_again() {
    let mut cluster = MetaCluster::with_meta(3);
    cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
    let away = (cluster.meta_leader().expect("it is there") + 1) % 3;
    ask(&mut cluster, "STREAM.CREATE.S", &config(1, &format!("node:{}", away + 1)));
    cluster.kill(away);
    cluster.pass(60);
    ask(&mut cluster, "STREAM.DELETE.S", "");
    cluster.pass(2);
    cluster.begin(away);
    cluster.pass(100);
    assert_eq!(cluster.holders("S"), [0; 0]);
    let names = ask(&mut cluster, "STREAM.NAMES", "");
    assert!(names.contains(r#""total":0"#), "{names}");
}

#[test]
fn a_replica_that_is_missing_is_made_again() {
    let mut cluster = MetaCluster::with_meta(3);
    ask(&mut cluster, "STREAM.CREATE.S", &config(3, ""));
    let leader = cluster.elect();
    cluster.publish(leader, "one");
    cluster.pass(4);
    let other = (leader + 1) % 3;
    cluster.house(other).delete_and_wait("S");
    assert_eq!(cluster.holders("S").len(), 2);
    cluster.wait_until("three replicas", |cluster| cluster.holders("S").len() == 3);
    cluster.wait_until("what the others have", |cluster| cluster.contents() == [(1, 1); 3]);
}

/// Whoever asks what an account uses does not wait for servers that do not have it.
#[test]
fn a_server_that_does_not_know_an_account_says_so_at_once() {
    let mut cluster = MetaCluster::with_meta(3);
    cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
    let jetstream = Arc::clone(&cluster.house(0).jetstream);
    let meta = jetstream.meta().expect("it has one");
    let mut uses = pin!(meta.uses_elsewhere(&jetstream, "NOBODY"));
    let mut poll = || uses.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll().is_pending());
    cluster.settle();
    assert!(matches!(poll(), Poll::Ready(found) if found.is_empty()));
}

/// The others count on it: without it there would be no majority.
#[test]
fn a_server_whose_disk_refuses_the_meta_group_joins_it_later() {
    let mut refused = 0;
    for point in 0..6 {
        let mut cluster = MetaCluster::founded_by(0, 3);
        (0..3).for_each(|number| cluster.begin(number));
        let disk = cluster.disk(1).clone();
        disk.fail_at(disk.points() + point, DiskFault::Error(ErrorKind::Other));
        cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
        refused += cluster.house(1).host.warnings_with("cannot take part in its cluster");
        disk.heal();
        cluster.wait_until("all of them", |cluster| {
            (0..3).all(|number| cluster.house(number).jetstream.meta().is_some())
        });
        ask(&mut cluster, "STREAM.CREATE.S", &config(3, ""));
        cluster.wait_until("three replicas", |cluster| cluster.holders("S").len() == 3);
    }
    assert!(refused > 0);
}

#[test]
fn the_last_server_of_a_cluster_is_not_removed() {
    let mut cluster = MetaCluster::founded_by(2, 2);
    cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
    let gone = (cluster.meta_leader().expect("it is there") + 1) % 2;
    cluster.remove_server(&format!("n{}", gone + 1)).expect("both are there");
    cluster.pass(60);
    let last = format!("n{}", 2 - gone);
    assert_eq!(cluster.remove_server(&last), Err(ApiError::CLUSTER_NOT_AVAIL));
    ask(&mut cluster, "STREAM.CREATE.S", &config(1, ""));
}

/// Its heir may be elected at any moment, whoever supports the leader.
#[test]
fn a_leader_that_hands_over_is_not_sure_any_more() {
    let mut cluster = MetaCluster::new(3);
    let leader = cluster.elect();
    cluster.pass(4);
    let live = cluster.house(leader).stream("S");
    assert!(live.leads_surely());
    live.hand_over();
    cluster.house(leader).settle();
    assert!(!live.leads_surely());
    cluster.pass(20);
    assert!(!live.role().leads());
}

/// A doubt, because of which publishes are held, keeps nobody from having another member lead.
#[test]
fn a_leader_in_doubt_hands_over() {
    let mut cluster = MetaCluster::new(3);
    let leader = cluster.elect();
    cluster.publish(leader, "one");
    cluster.pass(4);
    cluster.isolated.push(leader);
    let live = cluster.house(leader).stream("S");
    let in_doubt = (0..29).any(|_| {
        cluster.pass(1);
        !live.leads_surely()
    });
    assert!(in_doubt && live.role().leads());
    cluster.publish(leader, "held");
    cluster.isolated.clear();
    live.hand_over();
    cluster.pass(20);
    assert!(!live.role().leads(), "{:?}", cluster.statuses());
    cluster.elect();
}
