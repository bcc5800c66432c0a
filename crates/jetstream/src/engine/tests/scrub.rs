//! Damage that nobody has met is found when a stream is read because somebody asks for it.

use super::meta_cluster::MetaCluster;
use serde_json::Value;

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

/// Flips a bit of the first message on a server's disk, of which memory keeps nothing.
fn damage(cluster: &MetaCluster, number: usize) {
    let disk = cluster.disk(number);
    let place = |path: &std::path::PathBuf| {
        let content = disk.read_all(path).expect("it is there");
        content
            .windows(10)
            .position(|bytes| bytes == b"message 00")
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
    damage(&cluster, leader);
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
    damage(&cluster, victim);
    cluster.pass(100);
    assert!(!cluster.house(victim).stream("S").is_damaged(), "nobody has read it");
    assert_eq!(scrub(&mut cluster, "BEGIN", victim)["under_way"], true);
    cluster
        .wait_until("all to be as before", |cluster| cluster.house(victim).jetstream.repairs().repaired == 1);
    assert_eq!(cluster.contents(), [(60, 60); 3]);
    cluster.wait_until("all to be read", |cluster| scrub(cluster, "STATE", victim)["under_way"] == false);
    assert_eq!(scrub(&mut cluster, "STATE", victim)["lost_messages"], 0);
}
