//! Replicas of which a disk has lost or changed something get it back from the others.

use super::super::cluster::{Cluster, Parcel};
use super::super::house::stream;
use super::consumers::{ask, consumer, seq_of};
use super::installs::{assert_equal, publish};
use myelin_disk::Disk;
use myelin_jsapi::config::{Compression, StreamConfig};
use myelin_jsapi::consumer::config::ConsumerConfig;
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

fn is_amnesiac(cluster: &mut Cluster, number: usize) -> bool {
    cluster.house(number).stream("S").group_status().expect("it is a member").is_amnesiac
}

/// The file of votes of a server.
fn votes(cluster: &Cluster, number: usize) -> (PathBuf, u64) {
    let mut files = cluster.disk(number).files().into_iter();
    files.find(|(path, _)| path.ends_with("hard")).expect("it has voted")
}

/// Syncing what is confirmed saves no vote from damage.
#[test]
fn who_has_lost_a_vote_to_damage_does_not_vote_whatever_it_syncs() {
    for sync_always in [false, true] {
        let mut cluster = Cluster::seeded(3, stream("S"), sync_always, 1);
        let leader = cluster.elect();
        cluster.publish(leader, "one");
        cluster.pass(10);
        let victim = (leader + 1) % 3;
        cluster.kill(victim);
        let (path, _) = votes(&cluster, victim);
        cluster.disk(victim).flip_bit(&path, 30, 1).expect("it is there");
        cluster.isolated.push(victim);
        for life in 0..3 {
            cluster.begin(victim);
            cluster.pass(2);
            assert!(is_amnesiac(&mut cluster, victim), "{sync_always}, life {life}");
            cluster.kill(victim);
        }
        cluster.isolated.clear();
        cluster.begin(victim);
        cluster.pass(60);
        assert!(!is_amnesiac(&mut cluster, victim), "{sync_always}");
        let (vote, _) = cluster.house(victim).stream("S").group_vote().expect("it is a member");
        assert!(vote.voted_for.is_some(), "nobody else may get its vote in the leader's term");
        // It is over for its next lives, too.
        cluster.kill(victim);
        cluster.isolated.push(victim);
        cluster.begin(victim);
        assert!(!is_amnesiac(&mut cluster, victim), "{sync_always}");
    }
}

/// Ends a server, and removes all files of its stream.
fn lose_stream(cluster: &mut Cluster, number: usize) {
    cluster.kill(number);
    let disk = cluster.disk(number);
    let of_stream = |path: &PathBuf| path.components().any(|part| part.as_os_str() == "streams");
    disk.files().into_keys().filter(of_stream).for_each(|path| disk.remove_file(&path).expect("it is there"));
}

/// A replica that has lost its log and has all of it again, but for the words of its leader that
/// come late: where the leader's log ends, so that it knows of the loss. The cluster, the leader,
/// the replica, and these words.
fn lost_log_without_word() -> (Cluster, usize, usize, Vec<Parcel>) {
    let mut cluster = Cluster::new(3);
    let leader = cluster.elect();
    (0..4).for_each(|n| cluster.publish(leader, &format!("m{n}")));
    cluster.pass(10);
    let victim = (leader + 1) % 3;
    lose_stream(&mut cluster, victim);
    cluster.begin(victim);
    let mut late = Vec::new();
    for beat in 0..10 {
        (0..3).for_each(|number| cluster.beat(number));
        for _ in 0..10 {
            (0..3).for_each(|number| cluster.settle_one(number));
            for parcel in cluster.collect() {
                let [parcel, words] = parcel.without_log_words();
                let (is_answer, is_lost) = (words.from == leader, words.to == leader && beat > 6);
                cluster.carry(parcel);
                if is_answer {
                    late.push(words);
                } else if !is_lost {
                    cluster.carry(words);
                }
            }
        }
    }
    assert_eq!(cluster.contents()[victim], (4, 4), "it has everything: {:?}", cluster.statuses());
    assert!(is_amnesiac(&mut cluster, victim), "{:?}", cluster.statuses());
    (cluster, leader, victim, late)
}

/// Words of the leader from before it knew of the loss tell nothing of what is committed, and it
/// has nothing else to say.
#[test]
fn who_has_lost_its_log_asks_until_its_leader_says_what_is_committed() {
    let (mut cluster, _, victim, late) = lost_log_without_word();
    late.into_iter().for_each(|words| cluster.carry(words));
    cluster.settle();
    // Not as long as until the leader rests: it is asked for a word then, whatever it has said.
    cluster.pass(10);
    assert!(!is_amnesiac(&mut cluster, victim), "{:?}", cluster.statuses());
}

/// No time passes for a member that has heard of that leader: that it is gone it sees by what it
/// does not hear.
#[test]
fn who_has_lost_its_log_helps_to_replace_a_leader_that_has_ended_meanwhile() {
    let (mut cluster, leader, victim, _) = lost_log_without_word();
    cluster.kill(leader);
    cluster.pass(1_300);
    let next = cluster.elect();
    assert_ne!(next, leader, "{:?}", cluster.statuses());
    cluster.publish(next, "more");
    cluster.pass(20);
    assert_eq!((cluster.acks(), cluster.contents()[victim]), (5, (5, 5)), "{:?}", cluster.statuses());
}

/// A replica whose stream is gone is given it again: until it has all of it, also its next life
/// has forgotten something.
#[test]
fn who_has_lost_its_log_knows_so_in_its_next_life() {
    let mut cluster = Cluster::new(3);
    let leader = cluster.elect();
    for n in 0..40 {
        cluster.publish(leader, &format!("m{n} {}", "x".repeat(60_000)));
    }
    cluster.pass(10);
    let victim = (leader + 1) % 3;
    lose_stream(&mut cluster, victim);
    cluster.begin(victim);
    'some: for _ in 0..1_000 {
        (0..3).for_each(|number| cluster.beat(number));
        (0..3).for_each(|number| cluster.settle_one(number));
        for parcel in cluster.collect() {
            cluster.carry(parcel);
            cluster.settle_one(victim);
            if cluster.contents()[victim].0 > 0 {
                break 'some;
            }
        }
    }
    assert!((1..40).contains(&cluster.contents()[victim].0), "{:?}", cluster.contents());
    cluster.isolated.push(victim);
    cluster.kill(victim);
    cluster.begin(victim);
    assert!(is_amnesiac(&mut cluster, victim), "{:?}", cluster.statuses());
    cluster.isolated.clear();
    cluster.pass(100);
    assert!(!is_amnesiac(&mut cluster, victim), "{:?}", cluster.statuses());
    assert_eq!(cluster.contents(), [(40, 40); 3]);
}

/// A consumer, or a purge, has confirmed entries without a message that could be missed.
#[test]
fn entries_without_messages_are_missed_with_their_segment() {
    for kind in [Damage::Zeros, Damage::Gone] {
        let (mut cluster, leader, victim) = with_segments(stream("S"));
        let before = segments(&cluster, victim).len();
        let mut number = 0;
        while segments(&cluster, victim).len() == before && number < 40 {
            let described =
                ConsumerConfig { description: "x".repeat(4_000), ..consumer(&format!("D{number}")) };
            cluster.house(leader).consume("S", described);
            cluster.pass(2);
            number += 1;
        }
        cluster.pass(30);
        cluster.kill(victim);
        cluster.begin(victim);
        cluster.pass(30);
        cluster.kill(victim);
        let files = segments(&cluster, victim);
        assert_eq!(files.len(), before + 1, "{files:?}");
        let (path, length) = files.last().expect("there are some").clone();
        let place = if matches!(kind, Damage::Zeros) { (path, 0) } else { (path, length) };
        damage(&cluster, victim, &place, kind);
        assert_mended(&mut cluster, victim, &format!("{kind:?} of {place:?}"));
    }
}

/// Entries that came together say of none of them that it is committed: one of these may be
/// damaged, too.
#[test]
fn an_entry_of_which_nobody_knows_that_it_is_committed_comes_back_from_the_others() {
    for damaged in [0, 9, 18, 19] {
        let (mut cluster, leader, victim) = with_segments(stream("S"));
        for n in 0..20 {
            cluster.say_with(leader, "acks.x", "", &format!("burst {n}."));
            cluster.settle_one(leader);
        }
        cluster.settle();
        cluster.pass(30);
        cluster.kill(victim);
        cluster.begin(victim);
        cluster.pass(30);
        cluster.kill(victim);
        let payload = format!("burst {damaged}.").into_bytes();
        let place = segments(&cluster, victim).into_iter().find_map(|(path, _)| {
            let bytes = cluster.disk(victim).read_all(&path).expect("it is there");
            let at = bytes.windows(payload.len()).position(|window| window == payload)?;
            Some((path, at as u64))
        });
        let (path, at) = place.expect("it is written");
        // In front of the message stands what says which entry it is of.
        cluster.disk(victim).flip_bit(&path, at - 60, 3).expect("it is there");
        assert_mended(&mut cluster, victim, &format!("message {damaged}"));
        assert_eq!(cluster.contents(), [(83, 83); 3], "message {damaged}");
    }
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

/// Three servers whose log has some terms with a few messages each, of which no journal has
/// anything any more: one that follows.
fn with_terms() -> (Cluster, usize) {
    let mut cluster = Cluster::new(3);
    let mut messages = 0..;
    for _ in 0..3 {
        let leader = cluster.elect();
        for n in messages.by_ref().take(3) {
            cluster.publish(leader, &format!("message {n}."));
        }
        cluster.pass(10);
        cluster.kill(leader);
        cluster.elect();
        cluster.begin(leader);
        cluster.pass(30);
    }
    for number in 0..3 {
        cluster.kill(number);
        cluster.begin(number);
        cluster.pass(30);
    }
    let leader = cluster.elect();
    (cluster, (leader + 1) % 3)
}

/// A log whose first entries are gone, or that of a term, is none: its member gets everything anew
/// all the same.
#[test]
fn a_log_that_contradicts_itself_comes_back_from_the_others() {
    for damaged in [&[0][..], &[0, 1], &[0, 1, 2], &[2], &[3], &[0, 2, 3], &[1, 2, 3, 4, 5], &[6], &[8]] {
        let (mut cluster, victim) = with_terms();
        cluster.kill(victim);
        for number in damaged {
            let payload = format!("message {number}.").into_bytes();
            let place = segments(&cluster, victim).into_iter().find_map(|(path, _)| {
                let bytes = cluster.disk(victim).read_all(&path).expect("it is there");
                let at = bytes.windows(payload.len()).position(|window| window == payload)?;
                Some((path, at as u64))
            });
            let (path, at) = place.expect("it is written");
            cluster.disk(victim).flip_bit(&path, at - 60, 3).expect("it is there");
        }
        assert_mended(&mut cluster, victim, &format!("messages {damaged:?}"));
        assert!(!is_amnesiac(&mut cluster, victim), "{damaged:?}");
    }
}

/// Wherever the bits are that have flipped: whoever has lost its log's head is a member.
#[test]
fn some_bits_of_a_small_log_may_flip() {
    for seed in 0..40_u64 {
        let (mut cluster, victim) = with_terms();
        cluster.kill(victim);
        let (path, _) = segments(&cluster, victim)[0].clone();
        let bytes = cluster.disk(victim).read_all(&path).expect("it is there");
        let used = bytes.iter().rposition(|byte| *byte != 0).expect("something is written") as u64;
        let mut at = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        for _ in 0..8 {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            cluster
                .disk(victim)
                .flip_bit(&path, (at >> 33) % used, (at >> 20) as u8 % 8)
                .expect("it is there");
        }
        cluster.begin(victim);
        cluster.pass(150);
        let leader = cluster.elect();
        publish(&mut cluster, leader, 3);
        cluster.pass(50);
        assert_equal(&mut cluster);
        assert!(!is_amnesiac(&mut cluster, victim), "{seed}");
    }
}
