//! Replicas of which a disk has lost or changed something get it back from the others.

use super::super::cluster::Cluster;
use super::super::house::stream;
use super::consumers::{ask, consumer, seq_of};
use super::installs::{assert_equal, publish};
use myelin_disk::Disk;
use myelin_jsapi::config::{Compression, StreamConfig};
use myelin_stdx::sync::lock;
use myelin_store::Wait;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Segments of streams on the disk of a server that does not run, the oldest first.
fn segments(cluster: &Cluster, number: usize) -> Vec<(PathBuf, u64)> {
    let files = cluster.disk(number).files().into_iter();
    files.filter(|(path, _)| path.extension().is_some_and(|extension| extension == "seg")).collect()
}

/// Fate of a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Flip,
    Zeros,
    Cut,
    Gone,
}

fn damage(cluster: &Cluster, number: usize, (path, length): &(PathBuf, u64), damage: Damage) {
    let (disk, middle) = (cluster.disk(number), length / 2);
    match damage {
        Damage::Flip => disk.flip_bit(path, middle, 3),
        Damage::Zeros => disk.zero(path, middle..middle + 512),
        Damage::Cut => disk.truncate(path, middle),
        Damage::Gone => disk.remove_file(path),
    }
    .expect("it is there");
}

/// Three servers with some segments each, of which no journal has anything any more that could
/// bring them back: who leads, and another one.
fn with_segments(config: StreamConfig) -> (Cluster, usize, usize) {
    let mut cluster = Cluster::lean(3, config);
    let leader = cluster.elect();
    cluster.house(leader).consume("S", consumer("C"));
    publish(&mut cluster, leader, 60);
    ask(&mut cluster, leader, "C", 7);
    cluster.pass(30);
    for number in 0..3 {
        cluster.kill(number);
        cluster.begin(number);
        cluster.pass(30);
    }
    let leader = cluster.elect();
    (cluster, leader, (leader + 1) % 3)
}

/// A server begins again whose disk is damaged, and ends up with what the others have.
fn assert_mended(cluster: &mut Cluster, victim: usize, what: &str) {
    let installs = cluster.installs();
    cluster.begin(victim);
    cluster.pass(150);
    let leader = cluster.elect();
    publish(cluster, leader, 3);
    cluster.pass(50);
    assert_ne!(leader, victim, "{what}");
    assert_eq!(cluster.house(victim).stream("S").lost_sequences(), [], "{what}");
    assert_equal(cluster);
    assert!(cluster.installs() > installs, "{what}");
}

#[test]
fn what_a_disk_has_lost_comes_back_from_the_others() {
    let compressed = StreamConfig { compression: Compression::S2, ..stream("S") };
    for config in [stream("S"), compressed] {
        for kind in [Damage::Flip, Damage::Zeros, Damage::Cut, Damage::Gone] {
            let (mut cluster, leader, follower) = with_segments(config.clone());
            for victim in [follower, leader] {
                cluster.kill(victim);
                let files = segments(&cluster, victim);
                assert!(files.len() > 4, "{files:?}");
                let file = &files[files.len() / 2];
                damage(&cluster, victim, file, kind);
                cluster.elect();
                assert_mended(&mut cluster, victim, &format!("{kind:?} of {file:?}"));
            }
        }
    }
}

/// The damage may be where the stream is led and read, or elsewhere.
#[test]
fn what_is_found_damaged_while_a_server_runs_comes_back_from_the_others() {
    for leads in [false, true] {
        let (mut cluster, leader, follower) = with_segments(stream("S"));
        let victim = if leads { leader } else { follower };
        let file = &segments(&cluster, victim)[1];
        damage(&cluster, victim, file, Damage::Zeros);
        // Whoever reads all of it comes by.
        cluster.disk(victim).evict();
        let reader = cluster.house(victim).stream("S").reader();
        let is_damaged = |seq| reader.get(seq, Wait::Allowed, &mut Vec::new()).is_err();
        assert!((1..=60).any(is_damaged));
        let lost = cluster.house(victim).stream("S").lost_sequences();
        assert!(!lost.is_empty());
        cluster.pass(150);
        assert_eq!(cluster.house(victim).stream("S").lost_sequences(), [], "{leads}");
        assert_eq!(cluster.installs(), 1);
        assert_equal(&mut cluster);
        let leader = cluster.elect();
        assert_ne!(leader, victim);
    }
}

/// Three servers, of which the one that leads cannot read one of its segments any more.
fn with_an_unreadable_leader(is_changed: bool) -> (Cluster, usize) {
    let (cluster, leader, _) = with_segments(StreamConfig { allow_direct: true, ..stream("S") });
    let file = segments(&cluster, leader)[2].clone();
    if is_changed {
        damage(&cluster, leader, &file, Damage::Zeros);
    } else {
        cluster.disk(leader).fail_reads(&file.0, 0..u64::MAX).expect("it is there");
    }
    cluster.disk(leader).evict();
    (cluster, leader)
}

#[test]
fn a_consumer_does_not_pass_over_what_others_have() {
    for is_changed in [true, false] {
        let (mut cluster, leader) = with_an_unreadable_leader(is_changed);
        let heard: Vec<_> = (0..3).map(|number| cluster.house(number).record("to.me")).collect();
        ask(&mut cluster, leader, "C", 100);
        cluster.pass(200);
        let next = cluster.elect();
        assert_ne!(next, leader);
        ask(&mut cluster, next, "C", 100);
        cluster.pass(20);
        let seqs = heard.iter().flat_map(|heard| lock(heard).iter().filter_map(seq_of).collect::<Vec<_>>());
        let seqs: BTreeSet<u64> = seqs.collect();
        assert_eq!(seqs, (1..=60).collect(), "{is_changed}");
    }
}

#[test]
fn a_get_is_not_told_that_nothing_is_there_where_others_have_it() {
    for is_changed in [true, false] {
        let (mut cluster, leader) = with_an_unreadable_leader(is_changed);
        let answers = cluster.house(leader).record("got");
        for seq in 1..=60 {
            let body = format!(r#"{{"seq":{seq}}}"#);
            cluster.house(leader).say("$JS.API.DIRECT.GET.S", "got", &body);
            cluster.house(leader).settle();
        }
        let answers = lock(&answers);
        let with = |word: &str| answers.iter().filter(|answer| answer.headers.contains(word)).count();
        assert_eq!(with(" 404 "), 0, "{is_changed}");
        assert!(with(" 503 Temporarily Unavailable") > 0, "{is_changed}");
    }
}

/// A replica that lacks something leads when nobody else is there to, and not for long.
#[test]
fn a_damaged_replica_leads_where_nobody_else_does() {
    let (mut cluster, leader, victim) = with_segments(stream("S"));
    let third = (0..3).find(|&number| number != leader && number != victim).unwrap();
    [victim, leader, third].iter().for_each(|&number| cluster.kill(number));
    for number in [victim, third] {
        let file = segments(&cluster, number)[number].clone();
        damage(&cluster, number, &file, Damage::Gone);
        cluster.begin(number);
    }
    cluster.pass(1000);
    assert_eq!(cluster.leader(), None);
    let next = cluster.elect();
    publish(&mut cluster, next, 5);
    cluster.begin(leader);
    cluster.pass(300);
    assert_eq!(cluster.leader(), Some(leader));
    assert_equal(&mut cluster);
    assert_eq!(cluster.contents()[0], (65, 65));
}

/// Whatever of its files is damaged: segments, votes, what the store knows of itself.
#[test]
fn any_file_of_a_disk_may_be_damaged() {
    let (cluster, _, victim) = with_segments(stream("S"));
    let count = cluster.disk(victim).files().len();
    assert!(count > 20, "{count} files");
    for at in 0..count {
        for kind in [Damage::Flip, Damage::Zeros, Damage::Cut, Damage::Gone] {
            let (mut cluster, _, victim) = with_segments(stream("S"));
            cluster.kill(victim);
            let files: Vec<_> = cluster.disk(victim).files().into_iter().collect();
            let what = format!("{kind:?} of {:?}", files[at]);
            damage(&cluster, victim, &files[at], kind);
            cluster.begin(victim);
            cluster.pass(150);
            let leader = cluster.elect();
            publish(&mut cluster, leader, 3);
            cluster.pass(50);
            assert_eq!(cluster.house(victim).stream("S").lost_sequences(), [], "{what}");
            assert_eq!(cluster.contents()[victim], (63, 63), "{what}");
            assert_equal(&mut cluster);
        }
    }
}
