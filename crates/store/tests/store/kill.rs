//! Real processes on a real disk that are killed while they write with `always`.
//!
//! The test starts itself as a child, which appends and reports each sequence when it is released.
//! Once it has reported a number of them that the seed says, it is killed, and what it reported
//! must be there.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use myelin_disk::real::RealDisk;
use myelin_stdx::rng::Rng;
use myelin_store::entropy::SeededEntropy;
use myelin_store::{Admission, Durability, NewMessage, Seq, Store, StoreOptions, Stream, StreamConfig, Wait};

/// In the child's environment: where its store is.
const ROOT: &str = "MYELIN_KILL_ROOT";
const TURN: &str = "MYELIN_KILL_TURN";
const ROUNDS: u64 = 20;
const SEED: u64 = 11;
/// Messages that a child appends before it waits for the first of them to be released.
const WINDOW: Seq = 1_000;

fn config() -> StreamConfig {
    StreamConfig { durability: Durability::Synced, segment_bytes: Some(20_000), ..StreamConfig::default() }
}

/// Every process salts its files anew.
fn open(root: &Path, turn: u64) -> (Store, Option<Stream>) {
    let entropy = Arc::new(SeededEntropy::new(SEED << 32 | turn));
    let options = StoreOptions {
        journal_file_bytes: 1 << 20,
        headroom_bytes: 1 << 20,
        ..StoreOptions::new(root.join("store"))
    };
    let (store, report) = Store::open(Arc::new(RealDisk), options, entropy).expect("the store opens");
    assert!(report.unreadable.is_empty() && report.replay.problems.is_empty(), "{report:?}");
    let stream = report.streams.first().map(|found| {
        let (stream, report) = store.open_stream(found.id, config(), 1).expect("the stream opens");
        assert!(!report.is_damaged(), "{report:?}");
        stream
    });
    (store, stream)
}

fn payload(seq: Seq) -> Vec<u8> {
    (0..seq % 300).map(|at| (at * 7 + seq) as u8).collect()
}

/// Appends until it is killed; a thread runs rounds. Says `released N` whenever the position has
/// moved.
fn child(root: &Path, turn: u64) {
    let (store, stream) = open(root, turn);
    let mut stream = stream.expect("the parent made it");
    let journal = Arc::clone(store.journal());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                journal.wait(Duration::from_millis(50));
                journal.round(&|| 1).expect("a round");
            }
        });
        let mut told = stream.released();
        // The parent kills it long before: this is for a child whose parent has gone.
        while stream.state().totals.last_seq < told + 200_000 {
            append(&mut stream);
            while let Some(job) = stream.next_job(1) {
                stream.finish(job.run(), 1).expect("upkeep");
            }
            let released = stream.released();
            if released > told {
                told = released;
                if writeln!(std::io::stdout(), "released {released}").is_err() {
                    break;
                }
            }
            // A disk that others keep busy may need long for a sync.
            while stream.state().totals.last_seq - stream.released() > WINDOW && stream.failure().is_none() {
                std::thread::yield_now();
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

fn append(stream: &mut Stream) {
    let next = stream.state().totals.last_seq + 1;
    let payloads = [payload(next), payload(next + 1), payload(next + 2)];
    let messages = payloads.each_ref().map(|payload| NewMessage {
        timestamp: 1,
        subject: b"kill.me",
        payload,
        ..NewMessage::default()
    });
    stream.append(&messages, Admission::Check, 1, &mut Vec::new()).expect("an append");
}

/// Lets a child work until it has reported enough, kills it, and answers what it reported last.
fn kill_one(root: &Path, turn: u64, reports: u64) -> Seq {
    let mut child = Command::new(std::env::current_exe().expect("a test has a file"))
        .args(["kill::nothing_that_was_released_is_lost", "--exact", "--nocapture"])
        .env(ROOT, root)
        .env(TURN, turn.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts itself");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let number = |line: String| line.strip_prefix("released ").map(|seq| seq.parse().expect("a sequence"));
    let mut last = 0;
    for seq in lines.by_ref().map_while(Result::ok).filter_map(number).take(reports as usize) {
        last = seq;
    }
    child.kill().expect("it is a child");
    // What it had said before it died counts, too. The last line may be cut.
    let rest = lines.map_while(Result::ok).filter(|line| line.starts_with("released "));
    let rest: Vec<String> = rest.collect();
    if let [whole @ .., _] = rest.as_slice() {
        last = whole.last().and_then(|line| number(line.clone())).unwrap_or(last);
    }
    child.wait().expect("it was killed");
    last
}

fn check(root: &Path, turn: u64, released: Seq) -> Seq {
    let (_store, stream) = open(root, turn);
    let stream = stream.expect("it is there");
    let totals = stream.state().totals;
    assert!(totals.last_seq >= released, "{released} was released, and {} is the last", totals.last_seq);
    assert_eq!((totals.first_seq, totals.messages), (1, totals.last_seq));
    let (reader, mut buffer) = (stream.reader(), Vec::new());
    for seq in 1..=totals.last_seq {
        let message =
            reader.get(seq, Wait::Allowed, &mut buffer).expect("it can be read").expect("it is there");
        assert_eq!(message.payload, payload(seq), "message {seq}");
    }
    totals.last_seq
}

#[test]
fn nothing_that_was_released_is_lost() {
    if let Some(root) = std::env::var_os(ROOT) {
        let turn = std::env::var(TURN).expect("the parent set it").parse().expect("a number");
        return child(Path::new(&root), turn);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (store, none) = open(folder.path(), 0);
    assert!(none.is_none());
    drop(store.create_stream("A", "S", b"", config(), 1).expect("a stream"));
    drop(store);
    let mut rng = Rng::seeded(SEED);
    let mut last = 0;
    for round in 0..ROUNDS {
        let reports = 1 + rng.below(60);
        let released = kill_one(folder.path(), 2 * round + 1, reports);
        assert!(released > last, "round {round} (seed {SEED}): {released} was released, {last} was there");
        last = check(folder.path(), 2 * round + 2, released);
    }
    println!("{last} messages in {ROUNDS} processes");
}
