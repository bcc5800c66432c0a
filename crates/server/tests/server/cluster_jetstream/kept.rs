//! Clusters of earlier versions, in `crates/server/tests/kept_clusters`: the stores of three
//! servers, and what these said to each other. This version opens the stores, finds all that the
//! cluster had, and goes on; and it can read what was said.
//!
//! `make` has a given server make them, `recorder` keeps what goes over links, `kinds` has a frame
//! of each kind.

mod kinds;
mod make;
mod recorder;

use super::*;
use crate::jetstream::kept::{archive, assert_same};
use bytes::Bytes;
use myelin_replica::Peer;
use myelin_replica::frame::{FrameBody, PeerFrame};
use myelin_wire::peer::groups::{BULK_ACCOUNT, RAFT_ACCOUNT};
use myelin_wire::peer::info::{PeerConnect, PeerInfo};
use myelin_wire::peer::parser::{Parsed, PeerLimits, PeerOp, next};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// Where they are: a folder per version, named by its commit.
const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kept_clusters");
/// The stream without replicas: a start passes over sequences of it, as another machine wrote it.
const SINGLE: &str = "SINGLE";

fn versions() -> Vec<PathBuf> {
    let entries = fs::read_dir(KEPT).expect("the folder is part of the repository");
    let mut versions: Vec<PathBuf> =
        entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_dir()).collect();
    versions.sort();
    assert!(!versions.is_empty(), "nothing is kept in {KEPT}");
    versions
}

/// All that a cluster says of a stream.
async fn digest(client: &Client, name: &str) -> Value {
    let info = api(client, &format!("STREAM.INFO.{name}"), &Value::Null).await;
    let mut config = info["config"].clone();
    config["metadata"].take();
    let mut messages = Vec::new();
    for (seq, message) in contents(client, name).await {
        let hash = Sha256::digest(message.to_string());
        let first: String = hash[..4].iter().map(|byte| format!("{byte:02x}")).collect();
        messages.push(format!("{seq} {first}"));
    }
    let list = api(client, &format!("CONSUMER.LIST.{name}"), &Value::Null).await;
    let mut consumers = BTreeMap::new();
    for consumer in list["consumers"].as_array().into_iter().flatten() {
        let mut kept = json!({
            "delivered": consumer["delivered"]["stream_seq"], "ack_floor": consumer["ack_floor"]["stream_seq"],
            "config": consumer["config"],
        });
        kept["config"]["metadata"].take();
        for field in ["num_ack_pending", "num_redelivered", "num_pending"] {
            kept[field] = consumer[field].clone();
        }
        consumers.insert(consumer["name"].to_string(), kept);
    }
    let state = if name == SINGLE {
        json!({ "messages": info["state"]["messages"] })
    } else {
        let field = |name: &str| (name.to_owned(), info["state"][name].clone());
        ["messages", "bytes", "first_seq", "last_seq", "consumer_count"].map(field).into_iter().collect()
    };
    json!({ "config": config, "state": state, "messages": messages, "consumers": consumers })
}

/// All that a cluster says of each of its streams.
async fn all_digests(client: &Client) -> BTreeMap<String, Value> {
    let names = api(client, "STREAM.NAMES", &Value::Null).await["streams"].clone();
    let mut all = BTreeMap::new();
    for name in names.as_array().into_iter().flatten().filter_map(Value::as_str) {
        leader(client, name).await;
        all.insert(name.to_owned(), digest(client, name).await);
    }
    all
}

/// A cluster with the stores of a version, and what was said of it last.
fn cluster_of(version: &Path) -> (Trio, BTreeMap<String, Value>) {
    let trio = Trio::prepare("");
    for (at, home) in trio.homes.iter().enumerate() {
        let packed = fs::read(version.join(format!("N{at}.store"))).expect("a store of each server");
        archive::unpack(&packed, home.path()).expect("a folder of ours");
    }
    let expected = fs::read(version.join("expected.json")).expect("what is expected");
    (trio, serde_json::from_slice(&expected).expect("JSON"))
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_of_earlier_versions_have_everything_and_go_on() {
    for version in versions() {
        let (mut trio, expected) = cluster_of(&version);
        (0..3).for_each(|at| trio.start_node(at));
        let client = trio.client(0).await;
        // The server that had ended before the others gets from these what it lacks.
        for name in expected.keys().filter(|name| *name != SINGLE) {
            settled(&client, name).await;
        }
        let found = json!(all_digests(&client).await);
        assert_same(&json!(expected), &found, &version.display().to_string());
        for name in expected.keys() {
            let subject = expected[name]["config"]["subjects"][0].as_str().expect("a subject");
            store(&client, &subject.replace('>', "on"), "it goes on").await;
        }
        for name in ["FILE", "MOVED"] {
            same_everywhere(&client, name).await;
        }
        for node in &trio.nodes {
            let log = node.server.as_ref().expect("it runs").log();
            let is_wrong = |line: &&str| line.contains("JetStream") && line.contains("[ERR]");
            let wrong: Vec<&str> = log.lines().filter(is_wrong).collect();
            assert!(wrong.is_empty(), "{}: {wrong:?}", node.name);
        }
    }
}

/// Counts of what went over the links of a version, by kind.
#[derive(Debug, Default)]
struct Heard {
    frames: BTreeMap<&'static str, usize>,
    entries: usize,
    /// Servers that take part in groups, as their INFO says.
    members: usize,
    connects: usize,
    /// Bytes on the links for what is large.
    bulk: usize,
    /// Messages that are not of members of groups, but of their servers.
    others: usize,
}

impl Heard {
    /// Reads one direction of a link of this account. It may end within an operation.
    fn link(&mut self, account: &str, said: &[u8]) {
        let limits = PeerLimits {
            max_line: 1 << 16,
            max_payload: 64 << 20,
            is_dedicated: true,
            names_origin: true,
            is_leaf: false,
        };
        let mut rest = said;
        loop {
            let (op, len) = match next(rest, &limits) {
                Ok(Parsed::Op(op, len)) => (op, len),
                Ok(Parsed::Need(_)) => return,
                Err(error) => panic!("{error:?}: {}", rest[..80.min(rest.len())].escape_ascii()),
            };
            match op {
                PeerOp::Info(json) => {
                    self.members += usize::from(PeerInfo::parse(json).expect("an INFO").myelin.is_some());
                }
                PeerOp::Connect(json) => {
                    PeerConnect::parse(json).expect("a CONNECT");
                    self.connects += 1;
                }
                PeerOp::Message(message) if account == BULK_ACCOUNT => self.bulk += message.body.len(),
                PeerOp::Message(message) if is_of_members(message.subject) => self.frames(message.body),
                PeerOp::Message(_) => self.others += 1,
                _ => {}
            }
            rest = &rest[len..];
        }
    }

    /// Reads all frames of a message; each is written again as the same bytes.
    fn frames(&mut self, body: &[u8]) {
        let mut rest = Bytes::copy_from_slice(body);
        while !rest.is_empty() {
            let (frame, size) = PeerFrame::read(&rest, 128 << 20).expect("a frame").expect("all of it");
            let mut written = Vec::new();
            frame.write(&mut written);
            assert_eq!(written, rest[..size], "{frame:?}");
            *self.frames.entry(kind_of(&frame.body)).or_default() += 1;
            if let FrameBody::Raft(_, message) = frame.body {
                self.entries += message.entries.len();
            }
            rest = rest.split_off(size);
        }
    }
}

/// Whether messages on this subject have frames: the stores of receiver and sender.
fn is_of_members(subject: &[u8]) -> bool {
    let names = std::str::from_utf8(subject).ok().and_then(|subject| subject.split_once('.'));
    // "_joined_" reads as a store, too, and has what servers say of the meta group.
    let is_store = |name: &&str| !name.starts_with('_') && Peer::parse(name).is_some();
    names.is_some_and(|(to, from)| [to, from].iter().all(is_store))
}

fn kind_of(body: &FrameBody) -> &'static str {
    match body {
        FrameBody::Raft(..) => "raft",
        FrameBody::Rest(..) => "rest",
        FrameBody::Log(..) => "log",
        FrameBody::State(..) => "state",
        FrameBody::Ask(_) => "ask",
        FrameBody::Answer(_) => "answer",
        FrameBody::Time(_) => "time",
    }
}

#[test]
fn what_servers_of_earlier_versions_said_to_each_other_is_read() {
    for version in versions() {
        let mut heard = Heard::default();
        let links = tempfile::tempdir().expect("a folder");
        let packed = fs::read(version.join("links")).expect("what was said");
        archive::unpack(&packed, links.path()).expect("a folder of ours");
        for account in [RAFT_ACCOUNT, BULK_ACCOUNT] {
            for link in fs::read_dir(links.path().join(account)).expect("links of this account") {
                heard.link(account, &fs::read(link.expect("an entry").path()).expect("a file"));
            }
        }
        let what = version.display();
        assert!(heard.members > 3 && heard.connects > 3 && heard.bulk > 0, "{what}: {heard:?}");
        assert!(heard.entries > 20 && heard.others > 0, "{what}: {heard:?}");
        for kind in ["raft", "rest", "ask", "answer"] {
            assert!(heard.frames.get(kind).is_some_and(|count| *count > 0), "{what}: no {kind}: {heard:?}");
        }
    }
}

/// Not every version needs one; whoever changes frames or what groups store adds one.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "writes a folder: MYELIN_KEPT_SERVER=PROGRAM MYELIN_KEPT_NAME=COMMIT"]
async fn make_one() {
    let variable = |name| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let into = Path::new(KEPT).join(variable("MYELIN_KEPT_NAME"));
    fs::create_dir_all(&into).expect("a folder of the repository");
    make::make(Path::new(&variable("MYELIN_KEPT_SERVER")), &into).await;
}
