//! Damage that nobody has met is found when a stream is read because somebody asks for it.

use super::cluster::Cluster;
use super::house::{House, stream};
use super::meta_cluster::MetaCluster;
use crate::engine::host::Host;
use crate::engine::live::{AskedLeader, MemberWatcher, PublishKey};
use crate::engine::scrub::{Scrubbed, Scrubber};
use myelin_disk::faulty::FaultyDisk;
use myelin_jsapi::advisory::damage::ReplicaNews;
use myelin_replica::Peer;
use myelin_streams::ReplicaRole;
use serde_json::Value;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Three servers with a stream of so many replicas that has some hundred KB, and who leads it.
fn with_a_stream(replicas: usize) -> (MetaCluster, usize) {
    let mut cluster = MetaCluster::with_meta(3);
    cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
    let config = format!(r#"{{"name":"S","subjects":["S.>"],"storage":"file","num_replicas":{replicas}}}"#);
    cluster.answer_within(200, "STREAM.CREATE.S", &config);
    let leader = cluster.elect();
    (0..60).for_each(|n| cluster.publish(leader, &format!("message {n:02} {}", "x".repeat(6_000))));
    cluster.pass(20);
    (cluster, leader)
}

/// Flips a bit of a message on a disk, of which memory keeps nothing.
fn damage(disk: &FaultyDisk, number: usize) {
    let wanted = format!("message {number:02}");
    let place = |path: &std::path::PathBuf| {
        let content = disk.read_all(path).expect("it is there");
        content
            .windows(wanted.len())
            .position(|bytes| bytes == wanted.as_bytes())
            .filter(|_| path.extension().is_some_and(|ext| ext == "seg"))
    };
    let found = disk.files().into_keys().find_map(|path| place(&path).map(|at| (path, at)));
    let (path, at) = found.expect("a file has it");
    disk.flip_bit(&path, at as u64, 3).expect("it is there");
    disk.evict();
}

fn scrub(cluster: &mut MetaCluster, verb: &str, number: usize) -> Value {
    let answer = cluster.answer_within(200, &format!("MYELIN.SCRUB.{verb}.S.n{}", number + 1), "");
    serde_json::from_str(&answer).expect("it is JSON")
}

#[test]
fn a_stream_of_one_replica_tells_what_it_has_lost() {
    let (mut cluster, leader) = with_a_stream(1);
    let before = scrub(&mut cluster, "STATE", leader);
    assert_eq!((&before["under_way"], &before["bytes"]), (&false.into(), &0.into()), "{before}");
    damage(cluster.disk(leader), 0);
    let said = scrub(&mut cluster, "BEGIN", leader);
    assert_eq!((&said["under_way"], &said["percent"]), (&true.into(), &0.into()), "{said}");
    cluster.wait_until("all to be read", |cluster| scrub(cluster, "STATE", leader)["under_way"] == false);
    let said = scrub(&mut cluster, "STATE", leader);
    assert_eq!((&said["lost_messages"], &said["percent"]), (&1.into(), &100.into()), "{said}");
    assert!(said["bytes"].as_u64().is_some_and(|bytes| bytes > 59 * 6_000), "{said}");
    assert_eq!(said["is_repaired"], false, "nobody else has it: {said}");
}

#[test]
fn any_replica_is_read_when_somebody_asks_and_gets_what_it_has_lost() {
    let (mut cluster, leader) = with_a_stream(3);
    let said: Value = serde_json::from_str(&cluster.answer_within(200, "MYELIN.SCRUB.STATE.S", "")).unwrap();
    assert_eq!(said["server"], format!("n{}", leader + 1), "{said}");
    assert_eq!(said["servers"].as_array().map(Vec::len), Some(3), "{said}");
    cluster.pass(40);
    let victim = (leader + 1) % 3;
    damage(cluster.disk(victim), 0);
    cluster.pass(100);
    assert!(!cluster.house(victim).stream("S").is_damaged(), "nobody has read it");
    assert_eq!(scrub(&mut cluster, "BEGIN", victim)["under_way"], true);
    cluster
        .wait_until("all to be as before", |cluster| cluster.house(victim).jetstream.repairs().repaired == 1);
    assert_eq!(cluster.contents(), [(60, 60); 3]);
    cluster.wait_until("all to be read", |cluster| scrub(cluster, "STATE", victim)["under_way"] == false);
    assert_eq!(scrub(&mut cluster, "STATE", victim)["lost_messages"], 0);
}

/// Stream that counts how often it was read, and perhaps cannot be.
struct Counted {
    reads: AtomicUsize,
    panics: bool,
}

impl Scrubbed for Counted {
    fn begin_pass(&self) -> bool {
        true
    }

    fn read_on(&self, _: u64) -> (bool, u64) {
        self.reads.fetch_add(1, Relaxed);
        assert!(!self.panics, "a test asked for it");
        (false, 1)
    }
}

#[test]
fn a_stream_that_cannot_be_read_without_a_panic_has_no_other_one_wait() {
    let mut house = House::new();
    let scrubber = Scrubber::new(&(Arc::clone(&house.host) as Arc<dyn Host>));
    let both = [true, false].map(|panics| Arc::new(Counted { reads: AtomicUsize::new(0), panics }));
    both.iter().for_each(|one| assert!(scrubber.read(&(Arc::clone(one) as Arc<dyn Scrubbed>))));
    let passed = catch_unwind(AssertUnwindSafe(|| house.pass(1_000_000_000)));
    assert!(passed.is_err());
    house.pass(1_000_000_000);
    let reads = || both.each_ref().map(|one| one.reads.load(Relaxed));
    assert_eq!(reads(), [1, 1], "it is not read on, and the other one is");
    assert!(scrubber.read(&(Arc::clone(&both[1]) as Arc<dyn Scrubbed>)));
    house.pass(1_000_000_000);
    assert_eq!(reads(), [1, 2]);
}

/// Listener to damage that ends with a panic.
struct Panicking;

impl MemberWatcher for Panicking {
    fn committed(&self, _: &str, _: &str) {}
    fn has_leader(&self, _: &str, _: &str, _: Option<Peer>) {}
    fn has_role(&self, _: &str, _: &str, _: ReplicaRole) {}
    fn has_members(&self, _: &str, _: &str) {}
    fn asks_to_open(&self, _: &str, _: &str) {}
    fn is_replaced(&self, _: &str, _: &str) {}
    fn ask_taken(&self, _: (&str, &str), _: Peer, _: (Arc<AskedLeader>, Vec<PublishKey>)) {}
    fn is_damaged(&self, _: &str, _: &str, _: ReplicaNews) {
        panic!("a test asked for it");
    }
}

#[test]
fn a_pass_that_ends_with_a_panic_is_over_and_another_one_may_begin() {
    let mut cluster = Cluster::new(3);
    let leader = cluster.elect();
    (0..60).for_each(|n| cluster.publish(leader, &format!("message {n:02} {}", "x".repeat(6_000))));
    cluster.pass(20);
    let victim = (leader + 1) % 3;
    let live = cluster.house(victim).stream("S");
    let watcher: Arc<dyn MemberWatcher> = Arc::new(Panicking);
    live.watch_member(Arc::downgrade(&watcher) as Weak<dyn MemberWatcher>);
    damage(cluster.disk(victim), 0);
    cluster.house(victim).host.has_sync_thread.store(false, Relaxed);
    assert!(live.begin_pass() && !live.begin_pass());
    assert!(catch_unwind(AssertUnwindSafe(|| live.read_on(u64::MAX))).is_err());
    let pass = live.scrub_pass();
    assert!(pass.ended > 0 && pass.stopped_at == Some(1), "{pass:?}");
    assert!(live.begin_pass());
}

#[test]
fn damaged_messages_count_among_what_is_read_at_a_time() {
    let disk = FaultyDisk::new(1);
    let mut house = House::on(&disk);
    house.make(stream("S"));
    (0..60).for_each(|n| house.say("S.x", "", &format!("message {n:02} {}", "x".repeat(6_000))));
    house.settle();
    let live = house.stream("S");
    (0..60).for_each(|n| damage(&disk, n));
    assert!(live.begin_pass());
    assert_eq!(live.read_on(5 * 4096), (true, 5 * 4096));
    assert_eq!(live.scrub_pass().next, Some(6));
    assert_eq!(live.read_on(u64::MAX), (false, 55 * 4096));
}
