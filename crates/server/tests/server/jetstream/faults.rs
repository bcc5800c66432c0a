//! A file of the store is damaged while no server runs: the next one starts, serves what is left,
//! says what is lost, and gives no sequence out twice. `crates/store/tests/store/faults` tries
//! every file; here is what an operator sees of it.

use super::{Asker, Home};
use crate::eventually;
use crate::process::Server;
use myelin_disk::Disk;
use myelin_disk::real::RealDisk;
use myelin_store::verify;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const MESSAGES: u64 = 400;
/// Time without a change of any file of a store, after which a kill takes no acknowledged message.
const MOMENT: Duration = Duration::from_millis(200);

/// Signals that end a server.
const ENDS: [Signal; 2] = [Signal::TERM, Signal::KILL];

/// Flips a bit in the middle.
fn flip(path: &Path) {
    let mut bytes = fs::read(path).expect("it is there");
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes[used / 2] ^= 16;
    fs::write(path, bytes).expect("it can be written");
}

fn halve(path: &Path) {
    let bytes = fs::read(path).expect("it is there");
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    fs::write(path, &bytes[..used / 2]).expect("it can be written");
}

fn empty(path: &Path) {
    fs::write(path, b"").expect("it can be written");
}

fn remove(path: &Path) {
    fs::remove_file(path).expect("it is there");
}

/// The files of stream HIT whose names contain `part`, or those of the store itself.
fn files(root: &Path, part: &str) -> Vec<PathBuf> {
    let streams = fs::read_dir(root.join("streams")).expect("there are streams");
    let streams = streams.map(|entry| entry.expect("an entry").path());
    // Names stand in the clear.
    let has = |bytes: Vec<u8>| bytes.windows(3).any(|part| part == b"HIT");
    let is_hit = |path: &PathBuf| fs::read(path.join("meta")).is_ok_and(has);
    let hit = streams.into_iter().find(is_hit).expect("the stream was made");
    let list = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).expect("a folder");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    };
    let all = [hit, root.to_owned(), root.join("journal")];
    let mut found: Vec<PathBuf> = all.iter().flat_map(|folder| list(folder)).collect();
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    found.retain(|path| path.is_file() && name(path).contains(part));
    found.sort();
    found
}

/// Whether nothing was written for a moment.
fn rests(folder: &Path) -> bool {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(data) = entry.metadata() else { return false };
            if data.is_dir() {
                folders.push(entry.path());
            }
            let age = data.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
            if age.is_none_or(|age| age < MOMENT) {
                return false;
            }
        }
    }
    true
}

/// A store in which two streams and a consumer have worked, and whose server has ended.
fn worked(lines: &str, signal: Signal) -> (Home, Server) {
    let home = Home::new();
    let mut server = home.start(lines);
    let mut asker = Asker::connect(&server);
    for name in ["HIT", "OTHER"] {
        asker.create(name, &json!({}));
        let config = json!({ "durable_name": "C", "ack_policy": "explicit" });
        let request = json!({ "stream_name": name, "config": config });
        asker.api(&format!("CONSUMER.DURABLE.CREATE.{name}.C"), &request);
    }
    for seq in 1..=MESSAGES {
        for name in ["HIT", "OTHER"] {
            let ack = asker.publish(&format!("{name}.{}", seq % 3), &format!("message {seq}"));
            assert_eq!(ack["seq"], seq, "{ack}");
        }
    }
    eventually("everything is written", || rests(home.path()));
    server.signal(signal);
    server.wait();
    (home, server)
}

/// Damages the files with `part` in their names, and tries what is left after both ends of a
/// server.
fn withstands(lines: &str, part: &str, damage: fn(&Path)) {
    for signal in ENDS {
        let what = format!("{part} after {signal:?}");
        let (home, mut server) = worked(lines, signal);
        let root = home.path().join("jetstream/myelin");
        let files = files(&root, part);
        assert!(!files.is_empty(), "{what}: there is no such file");
        files.iter().for_each(|file| damage(file));
        let is_found = finds(&root);
        server.restart();
        look(&server, is_found, &what);
    }
}

/// Whether a check finds that something is lost.
fn finds(root: &Path) -> bool {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    verify::check(&disk, root, None, &mut |_| {}).is_ok_and(|summary| !summary.is_sound())
}

/// Checks whatever must hold after any damage. `is_found`: a check of the store has found it before
/// the start.
fn look(server: &Server, is_found: bool, what: &str) {
    let mut asker = Asker::connect(server);
    let other: Vec<u64> = asker.read_all("OTHER").iter().map(|message| message.seq).collect();
    assert_eq!(other, (1..=MESSAGES).collect::<Vec<_>>(), "{what}: another stream");
    let state = asker.state("HIT");
    let there: BTreeSet<u64> = asker.read_all("HIT").iter().map(|message| message.seq).collect();
    let lost: BTreeSet<u64> = (1..=MESSAGES).filter(|seq| !there.contains(seq)).collect();
    let told: BTreeSet<u64> =
        state["lost"]["msgs"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
    assert_eq!(told, lost, "{what}: {state}");
    assert_eq!(state["last_seq"], MESSAGES, "{what}: {state}");
    let log = server.log();
    if !lost.is_empty() {
        let is_loss = |line: &&str| line.contains("HIT") && line.contains("lost");
        assert!(log.lines().any(|line| is_loss(&line)), "{what}: {log}");
        assert!(is_found, "{what}: a check finds nothing");
    }
    // Whether the log of consumers is there, or somebody says that it is not.
    let info = asker.try_api("CONSUMER.INFO.HIT.C", &Value::Null);
    let is_told = log.lines().any(|line| line.contains("HIT") && line.contains("consumers"));
    assert!(info.get("error").is_none() || is_told, "{what}: {log}");
    let (head, body) = server.exchange("/healthz");
    assert!(head.starts_with("HTTP/1.0 200") || head.starts_with("HTTP/1.1 200"), "{what}: {head} {body}");
    for name in ["HIT", "OTHER"] {
        let ack = asker.publish(&format!("{name}.next"), "it goes on");
        assert_eq!(ack["seq"], MESSAGES + 1, "{what}: {name}: {ack}");
    }
}

#[test]
fn a_bit_is_flipped_in_the_active_segment() {
    withstands("", ".seg", flip);
}

#[test]
fn the_active_segment_is_cut_by_half() {
    withstands("", ".seg", halve);
}

#[test]
fn the_active_segment_is_emptied() {
    withstands("", ".seg", empty);
}

#[test]
fn the_active_segment_is_removed() {
    withstands("", ".seg", remove);
}

#[test]
fn the_active_segment_is_removed_where_each_message_was_synced() {
    withstands("sync_interval: always", ".seg", remove);
}

#[test]
fn a_bit_is_flipped_in_meta() {
    withstands("", "meta", |path| {
        if path.ends_with("meta") {
            flip(path);
        }
    });
}

/// As nats-server's: a purge leaves the list alone, and the next start counts what is behind the
/// first sequence only.
#[test]
fn what_is_lost_is_listed_until_the_next_start_whatever_is_purged() {
    let (home, mut server) = worked("", Signal::TERM);
    files(&home.path().join("jetstream/myelin"), ".seg").iter().for_each(|file| flip(file));
    server.restart();
    let mut asker = Asker::connect(&server);
    let lost = asker.state("HIT")["lost"].clone();
    assert!(lost["msgs"].as_array().is_some_and(|msgs| !msgs.is_empty()), "{lost}");
    asker.api("STREAM.PURGE.HIT", &Value::Null);
    let state = asker.state("HIT");
    assert_eq!((&state["first_seq"], &state["lost"]), (&json!(MESSAGES + 1), &lost), "{state}");
    server.signal(Signal::TERM);
    server.wait();
    server.restart();
    let state = Asker::connect(&server).state("HIT");
    assert_eq!((&state["last_seq"], &state["lost"]), (&json!(MESSAGES), &Value::Null), "{state}");
}

#[test]
fn the_journal_is_emptied() {
    withstands("", ".jnl", empty);
}

#[test]
fn the_journal_is_removed_where_each_message_was_synced() {
    withstands("sync_interval: always", ".jnl", remove);
}

#[test]
fn the_journal_has_a_flipped_bit() {
    withstands("sync_interval: always", ".jnl", flip);
}

#[test]
fn the_consumers_log_is_removed() {
    withstands("", "consumers.", remove);
}

#[test]
fn the_marker_is_removed() {
    withstands("", "store", |path| {
        if path.ends_with("store") {
            remove(path);
        }
    });
}
