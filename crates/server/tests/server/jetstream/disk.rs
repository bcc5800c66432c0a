//! A disk that is full: every publish is answered, the rest goes on, and what makes room makes
//! room.

use super::{Asker, Stored, publish, setup_in};
use crate::eventually;
use crate::process::{Server, Setup};
use crate::raw::Raw;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Publishes that are under way together.
const TOGETHER: usize = 100;
const INSUFFICIENT_RESOURCES: u64 = 10_023;

/// A disk of its own in memory, until it is dropped.
pub(crate) struct SmallDisk(TempDir);

impl SmallDisk {
    /// None where this process may not mount anything.
    pub(crate) fn new(mebibytes: u32) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={mebibytes}m"), "tmpfs"]).arg(folder.path());
        if mount.output().is_ok_and(|output| output.status.success()) {
            return Some(Self(folder));
        }
        println!("skipped: nothing may be mounted here");
        None
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    fn filler(&self) -> PathBuf {
        self.path().join("filler")
    }

    /// Waits until half of it is free.
    fn wait_for_room(&self) {
        eventually("there is room again", || {
            let disk = rustix::fs::statvfs(self.path()).expect("it is mounted");
            disk.f_bavail > disk.f_blocks / 2
        });
    }

    /// Takes what is left of it, to the last byte.
    pub(crate) fn fill(&self) {
        let mut file = File::create(self.filler()).expect("a name fits");
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    /// Gives back what was taken.
    pub(crate) fn free(&self) {
        std::fs::remove_file(self.filler()).expect("it was filled");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: the server may still have files in it.
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

/// Messages that a publisher was promised: payloads by sequence.
type Promised = BTreeMap<u64, Vec<u8>>;

/// Publishes messages of this size; each must be answered. Answers how many were stored.
fn publish_some(asker: &mut Asker, size: usize, promised: &mut Promised) -> usize {
    let bodies: Vec<Vec<u8>> = (0..TOGETHER)
        .map(|i| {
            let mut body = format!("{} {i} ", promised.len()).into_bytes();
            body.resize(size, b'x');
            body
        })
        .collect();
    let first = asker.asked + 1;
    for body in &bodies {
        let reply = asker.reply();
        asker.raw.send_bytes(&publish("S.a", &reply, "", body));
    }
    let mut stored = 0;
    for _ in &bodies {
        let answer = asker.raw.message();
        let n: u64 = answer.subject.rsplit('.').next().and_then(|n| n.parse().ok()).expect("a number");
        let said = super::as_json(&answer);
        match said["error"]["err_code"].as_u64() {
            Some(code) => assert_eq!(code, INSUFFICIENT_RESOURCES, "{said}"),
            None => {
                let body = &bodies[usize::try_from(n - first).expect("one of these")];
                promised.insert(said["seq"].as_u64().expect("a sequence"), body.clone());
                stored += 1;
            }
        }
    }
    stored
}

/// A server that stores on this disk, with a stream `S`.
fn start_on(disk: &SmallDisk, options: &str, stream: &Value) -> (Server, Asker) {
    let server = setup_in(disk.path(), options).start();
    let mut asker = Asker::connect(&server);
    asker.create("S", stream);
    (server, asker)
}

/// Bytes that a server says it may store.
fn limit(server: &Server) -> u64 {
    server.page("/jsz")["config"]["max_storage"].as_u64().expect("a number")
}

fn check(asker: &mut Asker, promised: &Promised) {
    let stored: Vec<Stored> = asker.read_all("S");
    let found: Promised = stored.into_iter().map(|message| (message.seq, message.payload)).collect();
    assert_eq!(found.keys().collect::<Vec<_>>(), promised.keys().collect::<Vec<_>>());
    assert!(&found == promised, "other bytes than those that were acknowledged");
}

/// Fills the disk by publishing, until not even small messages fit.
fn fill_by_publishing(asker: &mut Asker, promised: &mut Promised) {
    for size in [20_000, 1_000, 20] {
        while publish_some(asker, size, promised) > 0 {}
    }
}

/// The rest of the server does not notice.
fn others_are_served(server: &Server, round: usize) {
    let mut other = Asker::connect(server);
    other.raw.subscribe("echo", 2);
    other.raw.publish("echo", "still served");
    assert_eq!(other.raw.message().text(), "still served");
    let memory = format!("MEMORY{round}");
    other.create(&memory, &json!({ "storage": "memory" }));
    assert_eq!(other.publish(&format!("{memory}.a"), "x")["seq"], 1);
    other.api("STREAM.INFO.S", &Value::Null);
    assert!(server.page("/jsz?accounts=1&streams=1")["account_details"].is_array());
}

/// Without `max_file` the disk says how much may be stored. What streams hold of it is not free,
/// and no reason to store less than before.
#[test]
fn a_restart_leaves_the_limit_that_the_disk_gives_where_it_was() {
    let Some(disk) = SmallDisk::new(64) else { return };
    let (mut server, mut asker) = start_on(&disk, "", &json!({}));
    let first = limit(&server);
    let mut promised = Promised::new();
    fill_by_publishing(&mut asker, &mut promised);
    for signal in [Signal::TERM, Signal::KILL] {
        server.signal(signal);
        server.wait();
        server.restart();
        let again = limit(&server);
        assert!(again > first / 10 * 9 && again < first / 10 * 11, "{first} became {again}: {signal:?}");
        asker = Asker::connect(&server);
        check(&mut asker, &promised);
        purge(&mut asker, 100, &mut promised);
        eventually("there is room", || publish_some(&mut asker, 1000, &mut promised) == TOGETHER);
        fill_by_publishing(&mut asker, &mut promised);
    }
}

/// As little may be stored as the disk has room for when the server begins, and more when it has.
#[test]
fn a_server_that_begins_on_a_full_disk_stores_again_when_there_is_room() {
    let Some(disk) = SmallDisk::new(64) else { return };
    let (mut server, mut asker) = start_on(&disk, "", &json!({}));
    let first = limit(&server);
    let mut promised = Promised::new();
    assert_eq!(publish_some(&mut asker, 20_000, &mut promised), TOGETHER);
    server.signal(Signal::TERM);
    server.wait();
    disk.fill();
    server.restart();
    let mut asker = Asker::connect(&server);
    fill_by_publishing(&mut asker, &mut promised);
    disk.free();
    eventually("there is room", || publish_some(&mut asker, 20_000, &mut promised) == TOGETHER);
    eventually("as much as before", || limit(&server) > first / 10 * 9);
    check(&mut asker, &promised);
}

/// Purges all messages but the newest `keep`.
fn purge(asker: &mut Asker, keep: usize, promised: &mut Promised) {
    let request = if keep == 0 { Value::Null } else { json!({ "keep": keep }) };
    asker.api("STREAM.PURGE.S", &request);
    *promised = std::mem::take(promised).into_iter().rev().take(keep).collect();
}

/// `keep` is 0 where the disk is smaller than what a stream that is not empty may hold of dead
/// messages: two segments.
fn fill_and_recover(mebibytes: u32, keep: usize, mode: &str, config: &Value, signal: Signal) {
    let Some(disk) = SmallDisk::new(mebibytes) else { return };
    // So large that what is published at once fits into half of the disk.
    let size = if mebibytes < 20 { 2_000 } else { 20_000 };
    let (mut server, mut asker) = start_on(&disk, &format!("max_file: 1GB\n{mode}"), config);
    let mut promised = Promised::new();
    for round in 0..2 {
        fill_by_publishing(&mut asker, &mut promised);
        others_are_served(&server, round);
        check(&mut asker, &promised);
        // One message can be deleted, and nearly all be purged.
        let first = *promised.keys().next().expect("some are stored");
        asker.api("STREAM.MSG.DELETE.S", &json!({ "seq": first, "no_erase": true }));
        promised.remove(&first);
        purge(&mut asker, keep, &mut promised);
        check(&mut asker, &promised);
        disk.wait_for_room();
        assert_eq!(publish_some(&mut asker, size, &mut promised), TOGETHER);
        check(&mut asker, &promised);
    }
    fill_by_publishing(&mut asker, &mut promised);
    disk.fill();
    server.signal(signal);
    server.wait();
    server.restart();
    let mut asker = Asker::connect(&server);
    check(&mut asker, &promised);
    purge(&mut asker, 0, &mut promised);
    disk.wait_for_room();
    assert_eq!(publish_some(&mut asker, size, &mut promised), TOGETHER);
    check(&mut asker, &promised);
}

#[test]
fn a_small_disk_that_fills_up() {
    fill_and_recover(20, 0, "", &json!({}), Signal::KILL);
}

/// As small as a fresh store can be.
#[test]
fn a_disk_of_two_megabytes_that_fills_up() {
    fill_and_recover(2, 0, "", &json!({}), Signal::KILL);
}

#[test]
fn a_disk_of_260_megabytes_that_fills_up() {
    fill_and_recover(260, 10, "", &json!({}), Signal::KILL);
}

#[test]
fn a_larger_disk_that_fills_up() {
    fill_and_recover(64, 10, "", &json!({}), Signal::KILL);
}

#[test]
fn a_disk_that_fills_up_under_always() {
    fill_and_recover(20, 0, "sync_interval: always", &json!({}), Signal::KILL);
}

#[test]
fn a_disk_that_fills_up_under_an_asynchronous_stream() {
    fill_and_recover(20, 0, "", &json!({ "persist_mode": "async" }), Signal::TERM);
}

#[test]
fn deleting_a_stream_makes_room_for_others() {
    let Some(disk) = SmallDisk::new(20) else { return };
    let (_server, mut asker) = start_on(&disk, "max_file: 1GB", &json!({}));
    asker.create("OTHER", &json!({}));
    fill_by_publishing(&mut asker, &mut Promised::new());
    disk.fill();
    let refused = asker.publish("OTHER.a", &"x".repeat(200_000));
    assert_eq!(refused["error"]["err_code"], INSUFFICIENT_RESOURCES, "{refused}");
    asker.api("STREAM.DELETE.S", &Value::Null);
    eventually("there is room again", || {
        asker.publish("OTHER.a", &"x".repeat(200_000)).get("error").is_none()
    });
}

/// Ours: the reference does so in a cluster only.
#[test]
fn operators_are_told_of_a_full_disk() {
    let Some(disk) = SmallDisk::new(20) else { return };
    let accounts = "accounts {\n$SYS { users [{ user: operator, password: o }] }\n\
                    A { jetstream: enabled, users [{ user: client, password: c }] }\n}\nno_auth_user: client\n";
    let jetstream = format!("jetstream {{ store_dir: {:?}, max_file: 1GB }}\n", disk.path());
    let server = Setup::default().config(&(jetstream + accounts)).start();
    let mut operator = Raw::open(server.address());
    operator.send("CONNECT {\"user\":\"operator\",\"pass\":\"o\",\"verbose\":false}\r\n");
    operator.subscribe("$JS.EVENT.ADVISORY.SERVER.OUT_OF_STORAGE", 1);
    operator.barrier();
    let mut asker = Asker::connect(&server);
    asker.create("S", &json!({}));
    fill_by_publishing(&mut asker, &mut Promised::new());
    let told = super::as_json(&operator.message());
    assert_eq!(told["type"], "io.nats.jetstream.advisory.v1.server_out_of_space");
    assert_eq!(told["stream"], "S");
    assert!(told["server_id"].is_string(), "{told}");
    server.wait_for_log("JetStream out of space: 'A' > 'S' refuses messages until there is some");
}
