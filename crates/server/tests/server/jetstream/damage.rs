//! Files are damaged while no server runs: the next one says what is missing, and gives no sequence
//! out twice.

use super::{Asker, Home};
use crate::eventually;
use crate::process::Server;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

const MESSAGES: u64 = 400;

/// Where the first slot of the watermarks has the last sequence (docs/formats/watermarks.md).
const LAST_SEQ: usize = 512 + 64;

const STOP: Signal = Signal::TERM;
const KILL: Signal = Signal::KILL;

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn named(home: &Home, end: &str) -> PathBuf {
    let mut found = files(home.path());
    found.retain(|path| path.to_string_lossy().ends_with(end));
    assert_eq!(found.len(), 1, "{end}: {found:?}");
    found.remove(0)
}

impl Home {
    /// The last sequence of the only stream, as the watermarks state it.
    pub(crate) fn stated(&self) -> u64 {
        let bytes = fs::read(named(self, "/watermarks")).expect("it is there");
        let field = bytes.get(LAST_SEQ..LAST_SEQ + 8).and_then(|field| field.try_into().ok());
        field.map_or(0, u64::from_le_bytes)
    }
}

/// Four hundred messages, the end of the server, `hurt`, and the next server.
fn after(end: Signal, hurt: impl Fn(&Path)) -> (Home, Server) {
    let home = Home::new();
    let mut server = home.start("");
    let mut asker = Asker::connect(&server);
    asker.create("S", &json!({}));
    for n in 1..=MESSAGES {
        assert_eq!(asker.publish("S.x", &format!("message {n} of them all"))["seq"], n);
    }
    if end == KILL {
        eventually("the watermarks state it", || home.stated() == MESSAGES);
    }
    server.signal(end);
    server.wait();
    if end == KILL {
        // It may have what is to be missing.
        files(home.path()).iter().filter(|path| path.extension().is_some_and(|e| e == "jnl")).for_each(
            |path| {
                fs::remove_file(path).expect("it was listed");
            },
        );
    }
    hurt(&named(&home, ".seg"));
    server.restart();
    (home, server)
}

/// Checks that lost messages are reported everywhere, and that the stream goes on behind them.
fn goes_on(server: &mut Server, lost: std::ops::RangeInclusive<u64>) {
    let mut asker = Asker::connect(server);
    let state = asker.state("S");
    let missing: Vec<u64> = lost.clone().collect();
    assert_eq!(state["messages"], MESSAGES - missing.len() as u64, "{state}");
    assert_eq!(state["last_seq"], MESSAGES, "{state}");
    assert_eq!(state["lost"]["msgs"], json!(missing), "{state}");
    let there = asker.read_all("S");
    assert!(there.iter().all(|message| !lost.contains(&message.seq)));
    assert_eq!(there.len() as u64 + missing.len() as u64, MESSAGES);
    let line = server.wait_for_log(&format!(
        "[ERR] JetStream stream '$G > S' has lost messages {} to {}: ",
        lost.start(),
        lost.end()
    ));
    assert!(line.contains("/0000000000000001.seg "), "{line}");
    let page = server.page("/jsz?accounts=1&streams=1");
    let shown = &page["account_details"][0]["stream_detail"][0]["state"]["lost"];
    assert_eq!(shown, &state["lost"], "{page}");
    // Who serves what is left is healthy, and tells.
    let told = json!([{ "account": "$G", "stream": "S", "messages": missing.len() }]);
    assert_eq!(server.page("/healthz"), json!({ "status": "ok", "lost": told }));
    assert_eq!(asker.publish("S.x", "behind")["seq"], MESSAGES + 1);
    // Nothing of its files need show it any more.
    server.signal(STOP);
    server.wait();
    server.restart();
    let mut asker = Asker::connect(server);
    let again = asker.state("S");
    assert_eq!(again["lost"]["msgs"], json!(missing), "the next start tells it, too: {again}");
    assert_eq!(server.page("/healthz"), json!({ "status": "ok", "lost": told }));
    assert_eq!(asker.publish("S.x", "behind")["seq"], MESSAGES + 2);
}

/// Inverts a bit of a byte.
fn flip(path: &Path, at: impl Fn(usize) -> usize) {
    let mut bytes = fs::read(path).expect("it is there");
    let used = bytes.iter().rposition(|byte| *byte != 0).expect("it was written to");
    bytes[at(used)] ^= 8;
    fs::write(path, bytes).expect("there is room");
}

#[test]
fn a_flipped_bit_costs_one_message() {
    for end in [STOP, KILL] {
        let (_home, mut server) = after(end, |path| flip(path, |used| used / 2));
        let state = Asker::connect(&server).state("S");
        let lost = state["lost"]["msgs"][0].as_u64().expect("one is lost");
        assert!(state["lost"]["bytes"].as_u64().is_some_and(|bytes| (20..200).contains(&bytes)), "{state}");
        assert!((190..210).contains(&lost), "{state}");
        server.wait_for_log("  Stream '$G > S': segment 1: bytes ");
        goes_on(&mut server, lost..=lost);
    }
}

#[test]
fn an_emptied_or_removed_file_is_missed() {
    for end in [STOP, KILL] {
        let (_home, mut server) = after(end, |path| fs::write(path, b"").expect("it is there"));
        goes_on(&mut server, 1..=MESSAGES);
        let (_home, mut server) = after(end, |path| fs::remove_file(path).expect("it is there"));
        goes_on(&mut server, 1..=MESSAGES);
    }
}

#[test]
fn what_is_whole_loses_nothing_and_leaves_no_gap() {
    for end in [STOP, KILL] {
        let (_home, server) = after(end, |_| {});
        let mut asker = Asker::connect(&server);
        let state = asker.state("S");
        assert_eq!((&state["messages"], &state["lost"]), (&json!(MESSAGES), &Value::Null));
        assert_eq!(asker.publish("S.x", "behind")["seq"], MESSAGES + 1);
        let log = server.log();
        let is_journal = |line: &&str| line.contains("JetStream: journal: its files are missing");
        let said: Vec<_> =
            log.lines().filter(|line| line.contains("[ERR]") || line.contains("lost")).collect();
        // Where it is killed, the journal was removed with the damage.
        assert_eq!(said.len(), usize::from(end == KILL), "{said:?}");
        assert!(said.iter().all(is_journal), "{said:?}");
    }
}
