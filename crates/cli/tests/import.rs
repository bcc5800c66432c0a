//! Drives the built `myelin store import` against store directories that nats-server has made.

#![allow(clippy::unwrap_used, reason = "clippy sees tests only in functions marked as such")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use myelin_natsfiles::hash::Hasher;

/// Recorded of nats-server by the server's own tests.
fn fixture(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/tests/server/jetstream/fixtures").join(kind)
}

fn command(from: &Path, into: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_myelin"));
    command.args(["store", "import"]).arg(from).arg("--into").arg(into).args(more);
    command
}

fn import(from: &Path, into: &Path, more: &[&str]) -> Output {
    command(from, into, more).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn info(into: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_myelin"));
    text(&command.args(["store", "info"]).arg(into.join("jetstream/myelin")).output().unwrap().stdout)
}

#[test]
fn all_is_taken_and_a_second_time_nothing() {
    let into = tempfile::tempdir().unwrap();
    let done = import(&fixture("plain"), into.path(), &[]);
    assert_eq!(done.status.code(), Some(0), "{}{}", text(&done.stdout), text(&done.stderr));
    let said = text(&done.stdout);
    for stream in ["FILE", "PACKED", "SHORT", "WORK", "LARGE", "EMPTY", "PURGED"] {
        assert!(said.contains(&format!("$G > {stream}: ")), "{said}");
        assert!(info(into.path()).contains(stream));
    }
    assert!(said.contains("2 consumers"), "{said}");
    let again = import(&fixture("plain"), into.path(), &[]);
    assert_eq!(again.status.code(), Some(0));
    assert_eq!(text(&again.stdout).matches("is there already, and was left as it is").count(), 7);
}

#[test]
fn one_stream_of_an_encrypted_store() {
    let into = tempfile::tempdir().unwrap();
    let key = into.path().join("key");
    std::fs::write(&key, "a secret\n").unwrap();
    let refused = import(&fixture("aes"), into.path(), &["--stream", "FILE"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stdout).contains("no key given opens it"), "{}", text(&refused.stdout));
    let key = key.to_str().unwrap();
    let done = import(&fixture("aes"), into.path(), &["--stream", "FILE", "--key-file", key]);
    assert_eq!(done.status.code(), Some(0), "{}{}", text(&done.stdout), text(&done.stderr));
    assert_eq!(text(&done.stdout).lines().count(), 1);
}

#[test]
fn what_is_no_store_is_refused_and_a_dry_run_makes_nothing() {
    let into = tempfile::tempdir().unwrap();
    let empty = import(into.path(), into.path(), &[]);
    assert_eq!(empty.status.code(), Some(2));
    assert!(text(&empty.stderr).contains("there is no stream of nats-server to import"));
    assert_eq!(import(&into.path().join("absent"), into.path(), &[]).status.code(), Some(2));
    let dry = import(&fixture("plain"), into.path(), &["--dry-run"]);
    assert_eq!((dry.status.code(), text(&dry.stdout).lines().count()), (Some(0), 7));
    assert_eq!(std::fs::read_dir(into.path()).unwrap().count(), 0);
}

/// Wherever it is killed, the next one brings everything.
#[test]
fn a_killed_import_is_repeated() {
    for lines in 0..6 {
        let into = tempfile::tempdir().unwrap();
        let mut first = command(&fixture("plain"), into.path(), &[])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let said = BufReader::new(first.stdout.take().unwrap()).lines();
        assert_eq!(said.take(lines).count(), lines);
        first.kill().unwrap();
        first.wait().unwrap();
        let second = import(&fixture("plain"), into.path(), &[]);
        assert_eq!(second.status.code(), Some(0), "{}{}", text(&second.stdout), text(&second.stderr));
        let info = info(into.path());
        for stream in ["FILE", "PACKED", "SHORT", "WORK", "LARGE", "EMPTY", "PURGED"] {
            assert_eq!(info.matches(&format!("$G {stream}:")).count(), 1, "{info}");
        }
    }
}

/// A store directory of nats-server with one stream of so many blocks; answers its messages.
fn write_store(folder: &Path, blocks: u32) -> u64 {
    let stream = folder.join("jetstream/$G/streams/BIG");
    std::fs::create_dir_all(stream.join("msgs")).unwrap();
    let meta = br#"{"name":"BIG","subjects":["b.>"],"storage":"file","num_replicas":1}"#;
    let sum: String = Hasher::new("BIG").sum(&[meta]).iter().map(|byte| format!("{byte:02x}")).collect();
    std::fs::write(stream.join("meta.inf"), meta).unwrap();
    std::fs::write(stream.join("meta.sum"), sum).unwrap();
    let mut seq = 0_u64;
    for block in 1..=blocks {
        let hasher = Hasher::new(&format!("BIG-{block}"));
        let mut bytes = Vec::new();
        while bytes.len() < 2 << 20 {
            seq += 1;
            let (subject, payload) = (format!("b.{}", seq % 50), format!("{seq:08}").repeat(100));
            let start = bytes.len();
            bytes.extend_from_slice(&((22 + subject.len() + payload.len() + 8) as u32).to_le_bytes());
            bytes.extend_from_slice(&seq.to_le_bytes());
            bytes.extend_from_slice(&1_700_000_000_000_000_000_i64.to_le_bytes());
            bytes.extend_from_slice(&(subject.len() as u16).to_le_bytes());
            bytes.extend_from_slice(subject.as_bytes());
            bytes.extend_from_slice(payload.as_bytes());
            let head = bytes[start + 4..start + 20].to_vec();
            bytes.extend_from_slice(&hasher.sum(&[&head, subject.as_bytes(), payload.as_bytes()]));
        }
        std::fs::write(stream.join(format!("msgs/{block}.blk")), bytes).unwrap();
    }
    seq
}

fn size(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .map(|entry| {
            if entry.path().is_dir() { size(&entry.path()) } else { entry.metadata().map_or(0, |m| m.len()) }
        })
        .sum()
}

/// Kills an import in the middle of a stream: half of a stream never stays.
#[test]
fn an_import_that_is_killed_within_a_stream_is_repeated() {
    let from = tempfile::tempdir().unwrap();
    let messages = write_store(from.path(), 8);
    for enough in [0, 1 << 20, 6 << 20, 12 << 20] {
        let into = tempfile::tempdir().unwrap();
        let mut first = command(from.path(), into.path(), &[])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while size(into.path()) < enough && first.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        first.kill().unwrap();
        first.wait().unwrap();
        let second = import(from.path(), into.path(), &[]);
        let said = text(&second.stdout);
        assert_eq!(second.status.code(), Some(0), "{said}{}", text(&second.stderr));
        let is_whole = said.contains(&format!("{messages} messages"));
        assert!(is_whole || said.contains("is there already"), "{said}");
        assert_eq!(info(into.path()).matches("$G BIG:").count(), 1);
    }
}
