//! Servers of a cluster of which a disk has lost or changed something come back by themselves.

use super::house::Heard;
use super::meta_cluster::MetaCluster;
use crate::engine::ReplicaRepairs;
use myelin_disk::Disk;
use myelin_stdx::sync::lock;
use myelin_store::GroupPosition;
use std::path::PathBuf;

/// Three servers with a stream of three replicas, and one that follows everywhere.
fn with_a_stream() -> (MetaCluster, usize) {
    let mut cluster = MetaCluster::with_meta(3);
    cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
    let config = r#"{"name":"S","subjects":["S.>"],"storage":"file","num_replicas":3}"#;
    cluster.answer_within(200, "STREAM.CREATE.S", config);
    let leader = cluster.elect();
    (0..9).for_each(|n| cluster.publish(leader, &format!("m{n}")));
    cluster.pass(20);
    let meta_leader = cluster.meta_leader();
    let victim = (0..3).find(|&number| number != leader && Some(number) != meta_leader);
    let victim = victim.expect("one of three leads neither");
    // What a journal has is nothing that could bring it back afterwards.
    for _ in 0..2 {
        cluster.kill(victim);
        cluster.begin(victim);
        cluster.pass(20);
    }
    cluster.kill(victim);
    (cluster, victim)
}

#[test]
fn any_file_of_a_server_may_be_damaged() {
    let count = {
        let (cluster, victim) = with_a_stream();
        cluster.disk(victim).files().len()
    };
    assert!(count > 12, "{count} files");
    for at in 0..count {
        for kind in 0..4 {
            let (mut cluster, victim) = with_a_stream();
            let disk = cluster.disk(victim);
            let Some((path, length)) = disk.files().into_iter().nth(at) else { continue };
            let damaged = match kind {
                0 => disk.flip_bit(&path, length / 4, 3),
                1 => disk.zero(&path, length / 2..length / 2 + 512),
                2 => disk.truncate(&path, length / 2),
                _ => disk.remove_file(&path),
            };
            damaged.expect("it is there");
            cluster.begin(victim);
            let what = format!("all to be as before damage {kind} of {path:?}");
            cluster.wait_until(&what, |cluster| {
                let is_whole = |cluster: &mut MetaCluster| {
                    let stream = cluster.house(victim).streams().stream("S");
                    stream.is_some_and(|live| live.lost_sequences().is_empty() && !live.is_damaged())
                };
                cluster.contents() == [(9, 9); 3] && cluster.holders("S").len() == 3 && is_whole(cluster)
            });
            let leader = cluster.elect();
            cluster.publish(leader, "next");
            cluster.wait_until("one more", |cluster| cluster.contents() == [(10, 10); 3]);
            let meta = cluster.house(victim).jetstream.cluster_health().expect("it is in a cluster");
            assert_eq!(meta.meta, None, "{what}");
        }
    }
}

/// An entry with records of consumers that stands twice in a log counts once.
#[test]
fn a_sector_may_stand_twice_in_a_log() {
    const SECTOR: u64 = 512;
    let with_consumer = || {
        let (mut cluster, leader) = MetaCluster::with_stream(
            3,
            r#"{"name":"S","subjects":["S.>"],"storage":"file","num_replicas":3}"#,
        );
        let consumer = r#"{"stream_name":"S","config":{"durable_name":"C","ack_policy":"explicit"}}"#;
        cluster.answer_within(200, "CONSUMER.DURABLE.CREATE.S.C", consumer);
        for n in 1..=6 {
            cluster.publish(leader, &format!("m{n}"));
            cluster.house(leader).say("$JS.API.CONSUMER.MSG.NEXT.S.C", "none", "");
            cluster.settle();
            let ack = format!("$JS.ACK.S.C.1.{n}.{n}.1700000000000000000.0");
            cluster.house(leader).say(&ack, "", "");
            cluster.pass(2);
        }
        let victim = (leader + 1) % 3;
        // What a journal has is nothing that could bring it back afterwards.
        for _ in 0..2 {
            cluster.kill(victim);
            cluster.begin(victim);
            cluster.pass(20);
        }
        cluster.kill(victim);
        (cluster, victim)
    };
    let (cluster, victim) = with_consumer();
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|end| end == "seg");
    let of_stream = |cluster: &MetaCluster| {
        let segments = cluster.disk(victim).files().into_iter().filter(|(path, _)| is_segment(path));
        segments.max_by_key(|(_, length)| *length).expect("it has one")
    };
    let sectors = of_stream(&cluster).1.div_ceil(SECTOR).min(8);
    assert!(sectors > 4, "{sectors} sectors");
    for from in 1..sectors {
        for to in (from + 1)..sectors + 1 {
            let (mut cluster, victim) = with_consumer();
            let (path, _) = of_stream(&cluster);
            let disk = cluster.disk(victim);
            disk.repeat(&path, from * SECTOR..(from + 1) * SECTOR, to * SECTOR).expect("it is there");
            cluster.begin(victim);
            let what = format!("sector {from} to be mended that stands in the place of {to}, too");
            cluster.wait_until(&what, |cluster| {
                let is_whole = cluster
                    .house(victim)
                    .streams()
                    .stream("S")
                    .is_some_and(|live| live.lost_sequences().is_empty() && !live.is_damaged());
                is_whole && cluster.contents() == [(6, 6); 3] && cluster.holders("S").len() == 3
            });
        }
    }
}

/// Streams that are made later miss nothing that a loss of power may have taken.
#[test]
fn a_stream_that_is_made_behind_a_loss_of_power_has_a_leader_at_once() {
    let mut cluster = MetaCluster::with_meta(3);
    cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
    let config = r#"{"name":"S","subjects":["S.>"],"storage":"file","num_replicas":3}"#;
    cluster.answer_within(200, "STREAM.CREATE.S", config);
    cluster.elect();
    (0..3).for_each(|number| cluster.lose_power(number));
    (0..3).for_each(|number| cluster.begin(number));
    cluster.elect();
    cluster.pass(50);
    let leader = cluster.meta_leader().expect("all are there");
    cluster.kill((leader + 1) % 3);
    cluster.pass(20);
    let config = r#"{"name":"NEW","subjects":["NEW.>"],"storage":"file","num_replicas":3}"#;
    let answer = cluster.answer_within(200, "STREAM.CREATE.NEW", config);
    assert!(answer.contains(r#""leader":"#), "{answer}");
}

#[test]
fn repairs_are_counted_and_told() {
    let (mut cluster, victim) = with_a_stream();
    cluster.begin(victim);
    cluster.wait_until("all to follow", |cluster| cluster.contents() == [(9, 9); 3]);
    let heard = cluster.house(victim).record("$JS.EVENT.ADVISORY.STREAM.*.S");
    cluster.house(victim).stream("S").note_damage();
    cluster.wait_until("two to be told", |_| lock(&heard).len() == 2);
    assert!(!cluster.house(victim).stream("S").is_damaged());
    assert_eq!(cluster.contents(), [(9, 9); 3]);
    for (heard, what) in lock(&heard).iter().zip(["damaged", "repaired"]) {
        let Heard { subject, payload, .. } = heard;
        assert!(subject.contains(&what.to_uppercase()), "{subject}");
        let kind = format!("io.nats.jetstream.advisory.v1.stream_replica_{what}");
        let server = format!(r#""stream":"S","server":"n{}""#, victim + 1);
        assert!(payload.contains(&kind) && payload.contains(&server), "{payload}");
    }
    let expected = ReplicaRepairs { damaged: 1, repaired: 1, disagreed: 0 };
    assert_eq!(cluster.house(victim).jetstream.repairs(), expected);
}

/// Servers with a stream, of which the device of one cannot read what is at the beginning of its
/// segments any more: it was begun.
fn with_an_unreadable_replica() -> (MetaCluster, usize) {
    let (mut cluster, victim) = with_a_stream();
    let disk = cluster.disk(victim);
    let payload = b"m3";
    let is_of_stream = |path: &std::path::Path| {
        let bytes = disk.read_all(path).expect("it is there");
        path.extension().is_some_and(|extension| extension == "seg")
            && bytes.windows(payload.len()).any(|window| window == payload)
    };
    let segments: Vec<_> = disk.files().into_keys().filter(|path| is_of_stream(path)).collect();
    assert!(!segments.is_empty());
    segments.iter().for_each(|path| disk.fail_reads(path, 0..64).expect("it is there"));
    cluster.begin(victim);
    (cluster, victim)
}

/// Its files may be the last ones that can be repaired: that others have it all nobody knows.
#[test]
fn a_replica_that_cannot_be_opened_is_left_as_it_is_until_its_stream_is_removed() {
    let (mut cluster, victim) = with_an_unreadable_replica();
    let leader = cluster.elect();
    let others = |cluster: &mut MetaCluster| {
        let others = (0..3).filter(|&at| at != victim);
        others.map(|at| cluster.house(at).contents("S")).collect::<Vec<_>>()
    };
    cluster.wait_until("the others to go on", |cluster| others(cluster) == [(9, 9); 2]);
    assert_eq!(cluster.house(victim).streams().unrestored(), ["S"]);
    cluster.publish(leader, "next");
    cluster.wait_until("one more", |cluster| others(cluster) == [(10, 10); 2]);
    cluster.ask("STREAM.DELETE.S", "");
    cluster.wait_until("it to be gone", |cluster| cluster.house(victim).streams().unrestored() == [""; 0]);
}

/// Removes the logs of all streams of a server that has ended, and of its meta stream: the store
/// knows still what they are.
fn lose_logs(cluster: &MetaCluster, number: usize) {
    let disk = cluster.disk(number);
    let is_log = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "seg");
    let files = disk.files().into_keys().filter(is_log);
    files.for_each(|path| disk.remove_file(&path).expect("it is there"));
}

/// A server that hears nobody acknowledges nothing.
fn assert_silent(cluster: &mut MetaCluster, number: usize) {
    let acks = cluster.acks();
    for _ in 0..3 {
        cluster.publish(number, "alone");
        cluster.pass(40);
    }
    assert_eq!(cluster.acks(), acks);
}

#[test]
fn a_replica_that_has_lost_its_log_is_not_served_alone() {
    let (mut cluster, victim) = with_a_stream();
    lose_logs(&cluster, victim);
    cluster.isolated.push(victim);
    cluster.begin(victim);
    assert!(cluster.house(victim).stream("S").has_lost_log());
    assert_silent(&mut cluster, victim);
    cluster.isolated.clear();
    cluster.wait_until("all of it again", |cluster| cluster.contents() == [(9, 9); 3]);
    let leader = cluster.elect();
    cluster.publish(leader, "next");
    cluster.wait_until("one more", |cluster| cluster.contents() == [(10, 10); 3]);
    cluster.wait_until("all to be well", |cluster| {
        let health = cluster.house(victim).jetstream.cluster_health().expect("it is in a cluster");
        health.meta.is_none() && health.streams.is_empty()
    });
}

/// One replica is left of a stream of several: its configuration does not tell.
#[test]
fn the_last_replica_of_a_group_is_served_when_the_cluster_says_so() {
    let config = r#"{"name":"S","subjects":["S.>"],"storage":"file","num_replicas":1}"#;
    let (mut cluster, first) = MetaCluster::with_stream(3, config);
    cluster.publish(first, "one");
    cluster.answer_within(200, "STREAM.UPDATE.S", &config.replace(":1}", ":3}"));
    cluster.wait_until("three replicas", |cluster| cluster.contents() == [(1, 1); 3]);
    cluster.answer_within(200, "STREAM.UPDATE.S", config);
    cluster.wait_until("one replica", |cluster| cluster.holders("S").len() == 1);
    let holder = cluster.elect();
    cluster.publish(holder, "two");
    for _ in 0..2 {
        cluster.kill(holder);
        cluster.begin(holder);
        cluster.wait_until("it to lead", |cluster| cluster.leader() == Some(holder));
    }
    cluster.kill(holder);
    lose_logs(&cluster, holder);
    cluster.isolated.push(holder);
    cluster.begin(holder);
    assert!(cluster.house(holder).stream("S").has_lost_log());
    assert_silent(&mut cluster, holder);
    cluster.isolated.clear();
    cluster.wait_until("it to lead", |cluster| cluster.leader() == Some(holder));
    let acks = cluster.acks();
    cluster.publish(holder, "three");
    cluster.wait_until("an acknowledgement", |cluster| cluster.acks() > acks);
}

#[test]
fn a_replica_that_is_no_member_is_not_well() {
    let (mut cluster, victim) = with_a_stream();
    cluster.begin(victim);
    let reasons = |cluster: &mut MetaCluster| {
        let health = cluster.house(victim).jetstream.cluster_health().expect("it is in a cluster");
        health.streams.into_iter().map(|one| one.reason).collect::<Vec<_>>()
    };
    cluster.wait_until("all to follow", |cluster| {
        cluster.contents() == [(9, 9); 3] && reasons(cluster).is_empty()
    });
    let live = cluster.house(victim).stream("S");
    live.note_damage();
    assert!(live.leave_behind(GroupPosition::default()).is_some());
    assert_eq!(reasons(&mut cluster), ["replica is no member of its group"]);
    cluster.wait_until("it to be one again", |cluster| reasons(cluster).is_empty());
}
