//! Drives the built `myelin store` against stores in a temporary directory.

#![allow(clippy::unwrap_used, reason = "clippy sees tests only in functions marked as such")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use myelin_disk::real::RealDisk;
use myelin_store::cipher::CipherKind;
use myelin_store::entropy::SeededEntropy;
use myelin_store::keys::{Keys, MasterKey};
use myelin_store::{Admission, NewMessage, Store, StoreOptions, StreamConfig};

/// A store with one stream of ten messages.
fn store(root: &Path, keys: Option<Keys>) {
    let options = StoreOptions {
        keys,
        headroom_bytes: 1 << 16,
        journal_file_bytes: 1 << 16,
        ..StoreOptions::new(root)
    };
    let open = |turn| {
        let entropy = Arc::new(SeededEntropy::new(turn));
        Store::open(Arc::new(RealDisk), options.clone(), entropy).unwrap().0
    };
    let store = open(1);
    let mut stream = store.create_stream("A", "ORDERS", b"", StreamConfig::default(), 1).unwrap();
    for at in 1..=10 {
        let message = NewMessage {
            subject: b"orders.new",
            payload: b"payload",
            timestamp: at,
            ..NewMessage::default()
        };
        stream.append(&[message], Admission::Check, at, &mut Vec::new()).unwrap();
    }
    // Alone it is synced by itself: of several files the journal would have a copy that is as good.
    store.journal().round_now(&|| 10).unwrap();
    stream.close_segment(0, 11).unwrap();
    while let Some(job) = stream.next_job(12) {
        stream.finish(job.run(), 12).unwrap();
    }
    store.journal().round_now(&|| 13).unwrap();
    drop((stream, store));
    // Another start: its name stands in its own files only.
    open(2).close(&|| 14).unwrap();
}

fn myelin(arguments: &[&str], directory: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_myelin"));
    command.arg("store").args(arguments).arg(directory).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn segment(root: &Path) -> PathBuf {
    let stream = std::fs::read_dir(root.join("streams")).unwrap().next().unwrap().unwrap().path();
    stream.join("0000000000000001.seg")
}

/// Operators know the directory that the server was started with.
#[test]
fn a_store_is_found_inside_of_the_directory_of_its_server() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("jetstream/myelin");
    std::fs::create_dir_all(&root).unwrap();
    store(&root, None);
    for place in [directory.path(), &directory.path().join("jetstream"), &root] {
        let output = myelin(&["check"], place);
        assert!(text(&output).starts_with("sound: 1 streams"), "{place:?}: {output:?}");
        assert!(text(&myelin(&["info"], place)).contains("A ORDERS: 10 messages"), "{place:?}");
    }
    let output = myelin(&["check"], &directory.path().join("jetstream/myelin/journal"));
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn a_sound_store_and_a_damaged_one() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    store(root, None);
    let output = myelin(&["check"], root);
    assert_eq!(
        (output.status.code(), &*text(&output)),
        (Some(0), "sound: 1 streams, 2 segments, 10 messages; 0 damaged places, 0 suspicious, 0 notes\n")
    );
    let shown = text(&myelin(&["info"], root));
    assert!(shown.contains("A ORDERS: 10 messages, 470 bytes, 1 to 10, 1 subjects; 2 segments"), "{shown}");

    let path = segment(root);
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(7).position(|window| window == b"payload").unwrap();
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let output = myelin(&["check"], root);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).starts_with("damage: streams/"), "{}", text(&output));
    let output = myelin(&["check", "--json"], root);
    let lines: Vec<serde_json::Value> =
        text(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [finding, summary] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((&finding["name"], &finding["sequences"]), (&"ORDERS".into(), &serde_json::json!([1, 1])));
    assert_eq!((&summary["sound"], &summary["damage"]), (&false.into(), &1.into()));
}

#[test]
fn an_encrypted_store_and_its_key() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("data");
    let keys = Keys { kind: CipherKind::Aes256Gcm, current: MasterKey::derive(b"secret"), previous: None };
    store(&root, Some(keys));
    let file = directory.path().join("key");
    std::fs::write(&file, "secret\n").unwrap();
    let key = file.to_str().unwrap();
    let output = myelin(&["check", "--key-file", key, "--cipher", "aes"], &root);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        text(&output).contains("10 messages; 0 damaged places, 0 suspicious, 0 notes"),
        "{}",
        text(&output)
    );
    let output = myelin(&["check"], &root);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output).contains("no key was given"), "{}", text(&output));
    let shown = text(&myelin(&["info", "--json", "--key-file", key], &root));
    assert!(shown.contains("\"messages\":10"), "{shown}");
}

#[test]
fn what_cannot_be_looked_at_is_told_from_damage() {
    let directory = tempfile::tempdir().unwrap();
    for arguments in [&["check"][..], &["info"], &["check", "--key-file", "/nothing/there"]] {
        let output = myelin(arguments, directory.path());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(String::from_utf8(output.stderr).unwrap().starts_with("myelin: error: "));
    }
    assert_eq!(myelin(&["check", "--what"], directory.path()).status.code(), Some(2));
}

/// Runs `myelin store repair`, which takes the directory last.
fn repair(arguments: &[&str], root: &Path) -> (Option<i32>, String) {
    let output = myelin(&[&["repair"], arguments].concat(), root);
    (output.status.code(), text(&output) + &String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_stream_without_a_name_gets_it_back_from_its_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let root = &directory.path().join("store");
    std::fs::create_dir(root).unwrap();
    store(root, None);
    assert_eq!(repair(&[], root), (Some(0), "nothing to repair\n".to_owned()));
    let stream = segment(root).parent().unwrap().to_owned();
    let id = stream.file_name().unwrap().to_string_lossy().into_owned();
    for name in ["meta", "meta.copy"] {
        std::fs::write(stream.join(name), b"no meta").unwrap();
    }
    let (code, words) = repair(&["--apply"], root);
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains(&format!("--config {id}=FILE.json")), "{words}");
    let file = directory.path().join("orders.json");
    std::fs::write(
        &file,
        br#"{"config":{"name":"ORDERS","subjects":["orders.>"]},"created":"2026-01-02T03:04:05Z"}"#,
    )
    .unwrap();
    let given = format!("{id}={}", file.display());
    let (code, words) = repair(&["--config", &given, "--account", "A"], root);
    assert_eq!(code, Some(1), "{words}");
    assert!(
        words.contains("with --apply: 1 repaired, 0 lost, 0 left to you; nothing was changed"),
        "{words}"
    );
    assert_eq!(std::fs::read(stream.join("meta")).unwrap(), b"no meta");
    let (code, words) = repair(&["--apply", "--json", "--config", &given, "--account", "A"], root);
    assert_eq!(code, Some(0), "{words}");
    assert!(words.contains(r#""outcome":"repair""#) && words.contains(r#""sound":true"#), "{words}");
    assert!(text(&myelin(&["info"], root)).contains("A ORDERS: 10 messages"));
    let kept = std::fs::read_dir(root.join("quarantine")).unwrap().count();
    assert_eq!(kept, 2, "both are kept");
}

#[test]
fn a_store_in_use_is_not_repaired() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    store(root, None);
    let options = StoreOptions { headroom_bytes: 1 << 16, ..StoreOptions::new(root) };
    let _store = Store::open(Arc::new(RealDisk), options, Arc::new(SeededEntropy::new(2))).unwrap();
    for arguments in [&[][..], &["--apply"]] {
        let (code, words) = repair(arguments, root);
        assert_eq!(code, Some(2), "{words}");
        assert!(words.contains("a server uses this store: stop it first"), "{words}");
    }
}
