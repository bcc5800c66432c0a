//! Stores that earlier versions have written, in `crates/server/tests/kept`: this version opens
//! each of them, finds all that the one that wrote it had, and goes on.
//!
//! `archive` is the form in which a store is kept, `make` writes one with a given server.

pub(crate) mod archive;
mod make;

use super::backup::digest;
use super::{Asker, Home, publish, setup_in};
use crate::eventually;
use crate::process::Server;
use myelin_disk::Disk;
use myelin_disk::real::RealDisk;
use myelin_store::cipher::CipherKind;
use myelin_store::entropy::SeededEntropy;
use myelin_store::keys::{Keys, MasterKey};
use myelin_store::verify::{self, Severity};
use myelin_store::{Store, StoreOptions};
use rustix::process::Signal;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where they are: a folder per version, named by its commit.
const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kept");

/// The key of the encrypted ones. It protects nothing.
const KEY: &str = "a key for tests";

/// The stores of a version: name, lines of the `jetstream` block, cipher.
const KINDS: [(&str, &str, Option<CipherKind>); 4] = [
    ("plain", "", None),
    ("always", "sync_interval: always\n", None),
    ("chacha", "key: \"a key for tests\"\ncipher: chacha\n", Some(CipherKind::ChaCha20Poly1305)),
    ("aes", "key: \"a key for tests\"\ncipher: aes\n", Some(CipherKind::Aes256Gcm)),
];

/// Folders of versions.
fn versions() -> Vec<PathBuf> {
    let entries = fs::read_dir(KEPT).expect("the folder is part of the repository");
    let mut versions: Vec<PathBuf> =
        entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_dir()).collect();
    versions.sort();
    assert!(!versions.is_empty(), "nothing is kept in {KEPT}");
    versions
}

/// A kept store, unpacked.
struct Kept {
    home: Home,
    /// Which one, for failures.
    what: String,
    lines: &'static str,
    keys: Option<Keys>,
    /// Contents as the server that wrote the store last showed them.
    expected: Value,
}

impl Kept {
    /// All there are.
    fn each(visit: impl FnMut(&Kept)) {
        Self::each_of(&KINDS.map(|(kind, ..)| kind), visit);
    }

    /// All of these kinds.
    fn each_of(kinds: &[&str], mut visit: impl FnMut(&Kept)) {
        for version in versions() {
            for (kind, lines, cipher) in KINDS.into_iter().filter(|(kind, ..)| kinds.contains(kind)) {
                let home = Home::new();
                let packed = fs::read(version.join(format!("{kind}.store"))).expect("a store per kind");
                archive::unpack(&packed, home.path()).expect("a folder of ours");
                let expected =
                    fs::read(version.join(format!("{kind}.json"))).expect("what is expected of it");
                let expected = serde_json::from_slice(&expected).expect("JSON");
                let current = MasterKey::derive(KEY.as_bytes());
                let keys = cipher.map(|kind| Keys { kind, current, previous: None });
                let what = format!("{} of {}", kind, version.display());
                visit(&Kept { home, what, lines, keys, expected });
            }
        }
    }

    fn root(&self) -> PathBuf {
        self.home.path().join("jetstream/myelin")
    }

    /// Findings of a check that are more than notes.
    fn findings(&self) -> Vec<String> {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let mut findings = Vec::new();
        let told = &mut |finding: &verify::Finding| {
            if finding.severity > Severity::Note {
                findings.push(finding.to_string());
            }
        };
        verify::check(&disk, &self.root(), self.keys.as_ref(), told).expect("a store is there");
        findings
    }
}

/// Contents of a server: per stream its configuration, state, consumers, and a checksum of each
/// message.
fn contents(server: &Server) -> Value {
    let mut asker = Asker::connect(server);
    let names = asker.api("STREAM.NAMES", &Value::Null)["streams"].clone();
    let names: Vec<&str> = names.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let condensed = |name: &&str| {
        let mut digest = digest(&mut asker, name);
        let messages = digest["messages"].take();
        digest["messages"] = messages.as_array().into_iter().flatten().map(checksum).collect();
        ((*name).to_owned(), digest)
    };
    names.iter().map(condensed).collect::<serde_json::Map<_, _>>().into()
}

/// A message as its sequence and the beginning of a hash of all that it consists of.
fn checksum(message: &Value) -> Value {
    let mut hash = Sha256::new();
    for part in ["subject", "time", "hdrs", "data"] {
        hash.update(message[part].to_string());
        hash.update("\n");
    }
    let hash = hash.finalize();
    let first: String = hash[..4].iter().map(|byte| format!("{byte:02x}")).collect();
    json!(format!("{} {first}", message["seq"]))
}

/// Asserts that there are the same streams, with all that is expected of each.
pub(crate) fn assert_same(expected: &Value, got: &Value, what: &str) {
    let streams = |all: &Value| all.as_object().expect("streams").keys().cloned().collect::<Vec<_>>();
    assert_eq!(streams(expected), streams(got), "{what}");
    for (name, expected) in expected.as_object().expect("streams") {
        for (part, expected) in expected.as_object().expect("parts") {
            assert_includes(expected, &got[name][part], &format!("{what}: {name}: {part}"));
        }
    }
}

/// A later version may say more, and must say the same.
fn assert_includes(expected: &Value, got: &Value, place: &str) {
    match (expected, got) {
        (Value::Object(expected), Value::Object(_)) => {
            for (field, value) in expected {
                assert_includes(value, &got[field], &format!("{place}: {field}"));
            }
        }
        (Value::Array(expected), Value::Array(got)) => {
            assert_eq!(expected.len(), got.len(), "{place}");
            for (at, (expected, got)) in expected.iter().zip(got).enumerate() {
                assert_includes(expected, got, &format!("{place}: {at}"));
            }
        }
        _ => assert_eq!(expected, got, "{place}"),
    }
}

/// Warning of a start that has found the store of another machine, killed there: as after a loss of
/// power, sequences are passed over that may have been given out.
const NOT_USED: &str = "the machine stopped without having synced its last messages: sequences ";

/// Contents that a store has on this machine: as the server that wrote it showed them, behind what
/// the start has passed over.
fn expected_here(kept: &Kept, log: &str) -> Value {
    let mut expected = kept.expected.clone();
    for line in log.lines().filter(|line| line.contains(NOT_USED)) {
        let stream = line.split_once(" > ").and_then(|(_, rest)| rest.split_once('\''));
        let (name, rest) = stream.expect("the line names a stream");
        let (_, range) = rest.split_once(NOT_USED).expect("as filtered");
        let mut words = range.split(' ');
        let mut number = |at| words.nth(at).and_then(|word| word.parse::<u64>().ok()).expect("a sequence");
        let (first, last) = (number(0), number(1));
        let state = &mut expected[name]["state"];
        assert_eq!(state["last_seq"], first - 1, "{}: {line}", kept.what);
        state["last_seq"] = json!(last);
        if state["messages"] == 0 {
            state["first_seq"] = json!(last + 1);
        } else {
            let mut deleted = state["deleted"].as_array().cloned().unwrap_or_default();
            deleted.extend((first..=last).map(Value::from));
            state["num_deleted"] = json!(deleted.len());
            state["deleted"] = json!(deleted);
        }
    }
    expected
}

/// Ends a server and starts it again.
fn end_and_start_again(server: &mut Server, signal: Signal) {
    server.signal(signal);
    server.wait();
    server.restart();
}

/// Publishes to each stream and works with each consumer that can be asked.
fn go_on(server: &Server, contents: &Value, what: &str) {
    let mut asker = Asker::connect(server);
    let streams = contents.as_object().expect("streams");
    let copies = ["MIRROR", "SOURCED"].into_iter().filter(|copy| streams.contains_key(*copy));
    let copied: Vec<_> = copies.map(|copy| (copy, asker.number(copy, "messages"))).collect();
    for (name, stream) in streams {
        let config = &stream["config"];
        let Some(subject) = config["subjects"][0].as_str() else { continue };
        let subject = subject.replace(['>', '*'], "on");
        let headers = if config["allow_msg_counter"] == true { "Nats-Incr: 1\r\n" } else { "" };
        let last = asker.number(name, "last_seq");
        let body = if headers.is_empty() { "it goes on" } else { "" };
        let ack = asker.publish_with(headers, &subject, body);
        assert_eq!(ack["seq"], last + 1, "{what}: {name}: {ack}");
        for consumer in stream["consumers"].as_array().expect("consumers") {
            if consumer["config"].get("deliver_subject").is_none() {
                let consumer = consumer["name"].as_str().expect("a name");
                pull(&mut asker, name, consumer, what);
            }
        }
    }
    // One message of FILE, one of SHORT.
    for (copy, before) in copied {
        eventually("the copies have what was published", || asker.number(copy, "messages") == before + 1);
    }
}

/// Pulls one message, if there is one, and acknowledges it.
fn pull(asker: &mut Asker, stream: &str, consumer: &str, what: &str) {
    let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}");
    let request = json!({ "batch": 1, "no_wait": true }).to_string();
    let reply = asker.reply();
    asker.raw.send_bytes(&publish(&subject, &reply, "", request.as_bytes()));
    let message = asker.raw.message();
    let Some(answer) = message.reply else {
        assert!(message.text().starts_with("NATS/1.0 404"), "{what}: {stream}: {consumer}: {message:?}");
        return;
    };
    let acknowledged = asker.ask(&answer, "+ACK");
    assert!(acknowledged.body.is_empty(), "{what}: {stream}: {consumer}: {acknowledged:?}");
}

#[test]
fn a_check_finds_nothing_and_an_opening_neither() {
    Kept::each(|kept| {
        assert_eq!(kept.findings(), Vec::<String>::new(), "{}", kept.what);
        let has_watermarks = kept.root().join("watermarks").exists();
        let options = StoreOptions { keys: kept.keys.clone(), ..StoreOptions::new(kept.root()) };
        let entropy = Arc::new(SeededEntropy::new(1));
        let (_store, report) = Store::open(Arc::new(RealDisk), options, entropy)
            .unwrap_or_else(|e| panic!("{}: {e}", kept.what));
        assert_eq!(
            report.streams.len(),
            kept.expected.as_object().map_or(0, |all| all.len()),
            "{}",
            kept.what
        );
        assert!(report.unreadable.is_empty(), "{}: {:?}", kept.what, report.unreadable);
        assert!(report.replay.problems.is_empty(), "{}: {:?}", kept.what, report.replay);
        assert!(report.replay.rounds > 0, "{}: its journal is empty", kept.what);
        // A version without watermarks has stated nothing, and that is all that is said.
        let said: Vec<String> = report.notices.iter().map(ToString::to_string).collect();
        let is_known = |said: &String| !has_watermarks && said.contains("was stated nowhere");
        assert!(said.iter().all(is_known), "{}: {said:?}", kept.what);
        assert_eq!(said.len(), usize::from(!has_watermarks), "{}: {said:?}", kept.what);
    });
}

/// Opens the stores of one kind and goes on with them. Each kind is a test, so that they run side
/// by side.
fn everything_is_there_and_it_goes_on(kind: &str) {
    Kept::each_of(&[kind], |kept| {
        let what = &kept.what;
        let mut server = setup_in(kept.home.path(), kept.lines).start();
        let expected = expected_here(kept, &server.log());
        assert_same(&expected, &contents(&server), what);
        for signal in [Signal::TERM, Signal::KILL] {
            go_on(&server, &expected, what);
            let before = contents(&server);
            end_and_start_again(&mut server, signal);
            assert_same(&before, &contents(&server), &format!("{what} after {signal:?}"));
        }
        let log = server.log();
        let mut lines = log.lines().filter(|line| !line.contains(NOT_USED));
        assert!(!lines.any(|line| line.contains("[ERR]") || line.contains("[WRN]")), "{what}: {log}");
        server.signal(Signal::TERM);
        server.wait();
        assert_eq!(kept.findings(), Vec::<String>::new(), "{what}");
    });
}

#[test]
fn plain_stores_have_everything_and_go_on() {
    everything_is_there_and_it_goes_on("plain");
}

#[test]
fn stores_that_were_always_synced_have_everything_and_go_on() {
    everything_is_there_and_it_goes_on("always");
}

#[test]
fn stores_encrypted_with_chacha_have_everything_and_go_on() {
    everything_is_there_and_it_goes_on("chacha");
}

#[test]
fn stores_encrypted_with_aes_have_everything_and_go_on() {
    everything_is_there_and_it_goes_on("aes");
}

/// Not every version needs one; whoever changes a format adds one.
#[test]
#[ignore = "writes a folder: MYELIN_KEPT_SERVER=PROGRAM MYELIN_KEPT_NAME=COMMIT"]
fn make_one() {
    let variable = |name| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let program = PathBuf::from(variable("MYELIN_KEPT_SERVER"));
    let into = Path::new(KEPT).join(variable("MYELIN_KEPT_NAME"));
    fs::create_dir_all(&into).expect("a folder of the repository");
    for (kind, lines, _) in KINDS {
        make::make(&program, lines, &into.join(kind));
    }
}
