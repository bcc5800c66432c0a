//! Store directories of nats-server, taken over: made by the real one where it is found, and
//! recorded ones.
//!
//! `MYELIN_RECORD=1` writes the records anew.

use super::backup::{digest, fill, fixture, restore, shapes};
use super::{Asker, Home, setup_in};
use crate::process::Server;
use myelin_compat::implementation;
use myelin_disk::real::RealDisk;
use myelin_natsfiles::directory::NatsDirectory;
use myelin_natsfiles::keys::Keys;
use myelin_store::entropy::SeededEntropy;
use myelin_store::{Store, StoreOptions};
use myelin_streams::backup::import::{Imported, Importer, NotImported};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// How stores are encrypted.
const KINDS: [(&str, &str); 3] = [
    ("plain", ""),
    ("chacha", "key: \"a secret\"\ncipher: chacha\n"),
    ("aes", "key: \"a secret\"\ncipher: aes\n"),
];

const NOW: i64 = 1_795_370_000_000_000_000;

fn digests(server: &Server) -> Value {
    let mut asker = Asker::connect(server);
    let names = asker.api("STREAM.NAMES", &Value::Null)["streams"].clone();
    let names: Vec<&str> = names.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    names
        .iter()
        .map(|name| ((*name).to_owned(), digest(&mut asker, name)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// Has nats-server make a store; what it says of it.
fn make(program: &Path, folder: &Path, lines: &str) -> Value {
    let mut server = setup_in(folder, lines).program(program).start();
    let mut asker = Asker::connect(&server);
    for (name, config) in shapes().iter().filter(|(name, _)| *name != "MEMORY") {
        fill(&mut asker, name, config);
    }
    // One with several blocks, of which the first were compressed, and gaps in all of them.
    asker.create("LARGE", &json!({ "compression": "s2", "max_bytes": 100_000, "allow_msg_ttl": true }));
    for n in 0..60_u32 {
        asker.publish(&format!("LARGE.{}", n % 5), &format!("{n:04}").repeat(500));
    }
    for seq in [20, 21, 33, 40, 60] {
        asker.api("STREAM.MSG.DELETE.LARGE", &json!({ "seq": seq }));
    }
    asker.create("EMPTY", &json!({ "first_seq": 1000 }));
    asker.create("PURGED", &json!({}));
    (0..5).for_each(|_| drop(asker.publish("PURGED.a", "x")));
    asker.api("STREAM.PURGE.PURGED", &Value::Null);
    let digests = digests(&server);
    server.signal(Signal::TERM);
    server.wait();
    digests
}

fn import(from: &Path, into: &Path, key: &str) -> Vec<(String, Result<Imported, NotImported>)> {
    let from =
        NatsDirectory::open(Arc::new(RealDisk), from, Keys::new(vec![key.into()])).expect("a directory");
    let root = into.join("jetstream/myelin");
    fs::create_dir_all(&root).expect("a folder of ours");
    let (store, report) =
        Store::open(Arc::new(RealDisk), StoreOptions::new(root), Arc::new(SeededEntropy::new(5)))
            .expect("a store");
    let (mut importer, _) = Importer::new(&from, &store, &report, NOW).expect("a store that can be written");
    let streams = from.streams().expect("folders");
    let done = streams
        .into_iter()
        .map(|(account, name)| {
            let done = importer.import(&account, &name, NOW, &mut |_| {});
            (name, done)
        })
        .collect();
    store.journal().close(&|| NOW.unsigned_abs()).expect("a disk that syncs");
    done
}

/// All files with what is in them.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push((path.display().to_string(), fs::read(&path).expect("a file")));
        }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder of ours");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a file");
        }
    }
}

fn takes_over(from: &Path, expected: &Value, what: &str) {
    let before = files(from);
    let home = Home::new();
    for (name, done) in import(from, home.path(), "a secret") {
        let done = done.unwrap_or_else(|why| panic!("{what}: {name}: {why}"));
        assert_eq!(done.left, Vec::<String>::new(), "{what}: {name}");
    }
    assert!(files(from) == before, "{what}: something was changed");
    let server = home.start("");
    let got = digests(&server);
    for (name, digest) in expected.as_object().expect("streams") {
        assert_eq!(got[name], *digest, "{what}: {name}");
    }
    drop(server);
    // Once more changes nothing.
    for (name, done) in import(from, home.path(), "a secret") {
        assert_eq!(done, Err(NotImported::IsThere), "{what}: {name}");
    }
}

#[test]
fn stores_of_the_reference_are_taken_over() {
    let reference = match implementation::reference() {
        Ok(reference) => reference.program,
        Err(why) => return eprintln!("not compared: {why}"),
    };
    for (kind, lines) in KINDS {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let expected = make(&reference, folder.path(), lines);
        if std::env::var_os("MYELIN_RECORD").is_some() {
            let to = fixture(kind);
            let _ = fs::remove_dir_all(&to);
            copy(&folder.path().join("jetstream"), &to.join("jetstream"));
            fs::write(to.join("expected.json"), expected.to_string()).expect("a folder of ours");
        }
        takes_over(folder.path(), &expected, kind);
    }
}

#[test]
fn recorded_stores_are_taken_over() {
    for (kind, _) in KINDS {
        let folder = fixture(kind);
        let expected = fs::read(folder.join("expected.json")).expect("a record");
        takes_over(&folder, &serde_json::from_slice(&expected).expect("JSON"), kind);
    }
}

#[test]
fn without_the_key_nothing_is_taken_and_nothing_left() {
    let home = Home::new();
    for (name, done) in
        [import(&fixture("aes"), home.path(), "another"), import(&fixture("chacha"), home.path(), "")]
            .concat()
    {
        assert!(
            matches!(&done, Err(NotImported::Failed(why)) if why.contains("no key given opens it")),
            "{name}: {done:?}"
        );
    }
    assert_eq!(digests(&home.start("")), json!({}));
}

#[test]
fn a_start_beside_an_old_store_says_so_and_touches_nothing() {
    let home = Home::new();
    copy(&fixture("plain"), home.path());
    let before = files(&home.path().join("jetstream/$G"));
    let mut server = home.setup("").start();
    let count =
        before.iter().filter(|(path, _)| path.contains("/meta.inf") && !path.contains("/obs/")).count();
    server.wait_for_log(&format!("{count} streams of nats-server in"));
    server.wait_for_log("myelin store import");
    assert_eq!(digests(&server), json!({}));
    server.signal(Signal::TERM);
    server.wait();
    assert!(files(&home.path().join("jetstream/$G")) == before, "something was changed");
    drop(server);
    import(home.path(), home.path(), "");
    let server = home.setup("").start();
    let expected = fs::read(fixture("plain").join("expected.json")).expect("a record");
    assert_eq!(digests(&server), serde_json::from_slice::<Value>(&expected).expect("JSON"));
    assert!(!server.log().contains("myelin store import"), "{}", server.log());
}

#[test]
fn what_is_damaged_is_named_and_the_rest_is_taken() {
    let old = tempfile::tempdir().expect("a temporary folder");
    copy(&fixture("plain"), old.path());
    let streams = old.path().join("jetstream/$G/streams");
    let hurt = |path: &Path, at: usize| {
        let mut bytes = fs::read(path).expect("a file");
        let at = at.min(bytes.len() - 1);
        bytes[at] ^= 1;
        fs::write(path, bytes).expect("a folder of ours");
    };
    hurt(&streams.join("FILE/msgs/1.blk"), 5000);
    hurt(&streams.join("WORK/meta.inf"), 20);
    hurt(&streams.join("SHORT/obs/BUSY/o.dat"), 0);
    let home = Home::new();
    for (name, done) in import(old.path(), home.path(), "") {
        match (name.as_str(), done) {
            ("FILE", Ok(done)) => {
                assert!(done.left[0].contains("a checksum is wrong"), "{done:?}");
                assert!(done.messages > 10, "{done:?}");
            }
            ("WORK", done) => {
                assert!(
                    matches!(&done, Err(NotImported::Failed(why)) if why.contains("meta.sum")),
                    "{done:?}"
                );
            }
            ("SHORT", Ok(done)) => assert!(done.left[0].contains("BUSY"), "{done:?}"),
            (_, done) => assert_eq!(done.expect("it is whole").left, Vec::<String>::new(), "{name}"),
        }
    }
    let server = home.start("");
    let names = Asker::connect(&server).api("STREAM.NAMES", &Value::Null)["streams"].to_string();
    assert!(names.contains("FILE") && !names.contains("WORK"), "{names}");
}

/// Lasting part of what was in the old backup: messages with a lifetime of an hour are over, and
/// what follows from them is another matter.
fn lasting(mut digest: Value) -> Value {
    const AN_HOUR: &str = "TkFUUy8xLjANCk5hdHMtVFRMOiAxaA0KDQo=";
    if let Some(messages) = digest["messages"].as_array_mut() {
        messages.retain(|message| message["hdrs"] != AN_HOUR);
        assert_eq!(messages.len(), 250);
    }
    let consumers = digest["consumers"].as_array().into_iter().flatten();
    let names: Vec<Value> = consumers.map(|consumer| consumer["name"].clone()).collect();
    json!({ "config": digest["config"], "messages": digest["messages"], "consumers": names })
}

#[test]
fn backups_of_older_servers_are_restored() {
    let folder = fixture("old-backup");
    let expected: Value =
        serde_json::from_slice(&fs::read(folder.join("expected.json")).expect("a record")).expect("JSON");
    let bytes = fs::read(folder.join("stream.tar.s2")).expect("a record");
    let home = Home::new();
    let server = home.start("");
    let mut asker = Asker::connect(&server);
    let config = &expected["config"];
    for piece in [700, 1 << 19] {
        let answer = restore(&mut asker, config, &json!({}), &bytes, piece);
        assert!(answer.get("error").is_none(), "{answer}");
        assert_eq!(lasting(digest(&mut asker, "FILE")), lasting(expected.clone()));
        asker.api("STREAM.DELETE.FILE", &Value::Null);
    }
    for end in [10, bytes.len() / 2, bytes.len() - 20] {
        let answer = restore(&mut asker, config, &json!({}), &bytes[..end], 5000);
        assert!(answer["error"]["err_code"].as_u64().is_some(), "{end}: {answer}");
        assert_eq!(asker.api("STREAM.NAMES", &Value::Null)["total"], 0, "{end}");
    }
}

/// Killed when a purge had begun its new folder, with whatever older versions and work in hand
/// leave around.
#[test]
fn what_a_purge_has_left_is_taken_and_what_is_no_message_is_not() {
    for is_old_folder_there in [false, true] {
        let old = tempfile::tempdir().expect("a temporary folder");
        copy(&fixture("plain"), old.path());
        let streams = old.path().join("jetstream/$G/streams");
        let purged = streams.join("PURGED");
        fs::rename(purged.join("msgs"), purged.join("__new_msgs__")).expect("a folder");
        if is_old_folder_there {
            copy(&streams.join("FILE/msgs"), &purged.join("msgs"));
        }
        let file = streams.join("FILE");
        for name in [
            "msgs/1.idx",
            "msgs/1.fss",
            "msgs/2.blk.tmp",
            "msgs/1.new",
            "sources.db",
            "__msgs__/1.blk",
            "batches/x/1.blk",
            "__new_msgs__/9.key",
        ] {
            fs::create_dir_all(file.join(name).parent().expect("a folder")).expect("a folder of ours");
            fs::write(file.join(name), "x").expect("a folder of ours");
        }
        let expected = fs::read(fixture("plain").join("expected.json")).expect("a record");
        let expected = serde_json::from_slice(&expected).expect("JSON");
        takes_over(old.path(), &expected, "purged");
    }
}

/// To open a pipe waits for its other end, for ever.
#[test]
fn what_is_no_file_is_said_and_not_opened() {
    let names = ["msgs/1.blk", "msgs/index.db", "meta.inf", "meta.sum", "meta.key", "msgs/1.key"];
    for name in names {
        for is_socket in [false, true] {
            let old = tempfile::tempdir().expect("a temporary folder");
            copy(&fixture("plain").join("jetstream"), &old.path().join("jetstream"));
            let stream = old.path().join("jetstream/$G/streams/FILE");
            let path = stream.join(name);
            let _ = fs::remove_file(&path);
            if is_socket {
                drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
            } else {
                let made = std::process::Command::new("mkfifo").arg(&path).status().expect("a command");
                assert!(made.success());
            }
            let home = Home::new();
            let (sender, receiver) = std::sync::mpsc::channel();
            let (from, into) = (old.path().to_owned(), home.path().to_owned());
            std::thread::spawn(move || drop(sender.send(import(&from, &into, ""))));
            let done = receiver.recv_timeout(crate::PATIENCE).expect("it does not wait");
            let (_, done) = done.into_iter().find(|(stream, _)| stream == "FILE").expect("it is tried");
            let said = match done {
                Ok(taken) => taken.left.join(", "),
                Err(why) => why.to_string(),
            };
            assert!(said.contains(name) && said.contains("it is no regular file"), "{name}: {said}");
        }
    }
}

/// Killed in the middle of its work, with an index from before it: what the reference itself makes
/// of that is right.
#[test]
fn the_store_of_a_killed_server_is_taken_over() {
    let reference = match implementation::reference() {
        Ok(reference) => reference.program,
        Err(why) => return eprintln!("not compared: {why}"),
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut server = setup_in(folder.path(), "").program(&reference).start();
    let mut asker = Asker::connect(&server);
    for (name, config) in shapes().iter().filter(|(name, _)| *name != "MEMORY") {
        fill(&mut asker, name, config);
    }
    asker.create("LOAD", &json!({ "max_bytes": 3_000_000, "compression": "s2" }));
    server.signal(Signal::TERM);
    server.wait();
    server.restart();
    let mut asker = Asker::connect(&server);
    for n in 0..50 {
        asker.publish(&format!("FILE.{}.x", n % 7), &format!("after the index {n}"));
    }
    for seq in [260, 305, 310] {
        asker.api("STREAM.MSG.DELETE.FILE", &json!({ "seq": seq, "no_erase": true }));
    }
    // Nothing of this is awaited when the end comes.
    let body = "x".repeat(3000);
    for n in 0..3000 {
        asker.raw.publish(&format!("LOAD.{}", n % 100), &format!("{n} {body}"));
    }
    server.signal(Signal::KILL);
    server.wait();
    let old = tempfile::tempdir().expect("a temporary folder");
    copy(&folder.path().join("jetstream"), &old.path().join("jetstream"));
    server.restart();
    let expected = digests(&server);
    assert!(expected["LOAD"]["messages"].as_array().is_some_and(|all| all.len() > 10));
    let home = Home::new();
    for (name, done) in import(old.path(), home.path(), "") {
        // The end of a block that was being written is no loss.
        done.unwrap_or_else(|why| panic!("{name}: {why}"));
    }
    let got = digests(&home.start(""));
    for (name, digest) in expected.as_object().expect("streams") {
        let (got, digest) = (&got[name], digest);
        assert_eq!(
            got["messages"].as_array().map(Vec::len),
            digest["messages"].as_array().map(Vec::len),
            "{name}"
        );
        assert_eq!(got["messages"], digest["messages"], "{name}");
        assert_eq!(got["state"]["last_seq"], digest["state"]["last_seq"], "{name}");
        assert_eq!(got["config"], digest["config"], "{name}");
    }
}
