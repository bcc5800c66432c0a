//! `myelin backup` and `restore`, against both servers: from each into each, what is cut off goes
//! on, what is damaged is told, and nothing is overwritten.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::tempdir;

use crate::server::{configured, programs};
use crate::servers::Server;
use crate::steps::ready;
use crate::{fail, fail_with, myelin, succeed};

/// A request to JetStream's API.
#[track_caller]
fn ask(url: &str, what: &str, body: &str) -> Value {
    let subject = format!("$JS.API.{what}");
    let answer = succeed(&mut myelin(&["request", &subject, body, "--raw", "-s", url]));
    serde_json::from_str(&answer).unwrap_or_default()
}

/// An account with a stream, its mirror, a work queue and a stream in memory, and consumers that
/// have had a part.
fn fill(url: &str) {
    ask(url, "STREAM.CREATE.ORDERS", r#"{"name":"ORDERS","subjects":["o.>"]}"#);
    ask(url, "STREAM.CREATE.A_COPY", r#"{"name":"A_COPY","mirror":{"name":"ORDERS"}}"#);
    ask(url, "STREAM.CREATE.WORK", r#"{"name":"WORK","subjects":["w.>"],"retention":"workqueue"}"#);
    ask(url, "STREAM.CREATE.FAST", r#"{"name":"FAST","subjects":["f.>"],"storage":"memory"}"#);
    for stream in ["ORDERS", "WORK"] {
        let config = format!(
            r#"{{"stream_name":"{stream}","config":{{"durable_name":"C","ack_policy":"explicit","ack_wait":600000000000}}}}"#
        );
        ask(url, &format!("CONSUMER.DURABLE.CREATE.{stream}.C"), &config);
    }
    for subject in ["o.new", "w.now", "f.a"] {
        let many = ["request", subject, "a message", "--count", "25", "-H", "K:v", "--raw", "-s", url];
        succeed(&mut myelin(&many));
    }
    for stream in ["ORDERS", "WORK"] {
        let next = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.C");
        let mut sub = ready(&["sub", "sink", "--count", "3", "--raw", "-s", url], "Subscribing on sink");
        succeed(&mut myelin(&["pub", &next, "3", "--reply", "sink", "-s", url]));
        assert!(sub.wait().unwrap().success());
    }
    ask(url, "STREAM.MSG.DELETE.ORDERS", r#"{"seq":7}"#);
}

fn read(json: &str) -> Value {
    serde_json::from_str(json).unwrap()
}

#[test]
fn an_account_is_backed_up_and_restored_from_each_server_into_each() {
    for from in programs() {
        let server = Server::with_streams(&from, &[]);
        let url = server.url();
        fill(&url);
        let folder = tempdir().unwrap();
        let path = folder.path().join("b");
        let place = path.to_str().unwrap();
        let made = read(&succeed(&mut myelin(&["backup", place, "--json", "-s", &url])));
        let names: Vec<&str> = made["backup"]["streams"]
            .as_array()
            .unwrap()
            .iter()
            .map(|s| s["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["A_COPY", "FAST", "ORDERS", "WORK"]);
        assert_eq!(made["backup"]["account"], "$G");
        let orders = &made["backup"]["streams"][2];
        assert_eq!((&orders["messages"], &orders["last_seq"]), (&24.into(), &25.into()));
        assert_eq!(orders["consumers"], serde_json::json!(["C"]));
        succeed(&mut myelin(&["backup", "--check", place]));
        // What the nats command's restore wants, and nothing else.
        for stream in names {
            assert_eq!(fs::read_dir(path.join("streams").join(stream)).unwrap().count(), 2);
            assert!(path.join("streams").join(stream).join("backup.json").exists());
        }
        for into in programs() {
            let other = Server::with_streams(&into, &[]);
            let restored =
                succeed(&mut myelin(&["restore", place, "--verify", "--json", "-s", &other.url()]));
            let restored = read(&restored);
            for stream in restored["streams"].as_array().unwrap() {
                assert_eq!(stream["equal"], true, "{stream}");
                // A copy goes on to copy, before and after.
                let is_as_before = stream["notes"] == serde_json::json!([]);
                assert!(is_as_before || stream["name"] == "A_COPY", "{stream}");
            }
            let info = ask(&other.url(), "CONSUMER.INFO.ORDERS.C", "");
            assert_eq!((&info["num_ack_pending"], &info["num_pending"]), (&3.into(), &21.into()), "{info}");
            // Nothing is overwritten, and what is equal may stay.
            let refused = fail_with(2, &mut myelin(&["restore", place, "-s", &other.url()]));
            assert!(refused.contains("A_COPY, FAST, ORDERS, WORK"), "{refused}");
            ask(&other.url(), "STREAM.DELETE.FAST", "");
            let resumed = succeed(&mut myelin(&["restore", place, "--resume", "-s", &other.url()]));
            assert!(resumed.contains("FAST: 25 messages restored"), "{resumed}");
            assert!(resumed.contains("ORDERS: was there, equal to the backup"), "{resumed}");
            // A stream that has lost a message is told from one that has not.
            ask(&other.url(), "STREAM.MSG.DELETE.ORDERS", r#"{"seq":9}"#);
            let resume = ["restore", place, "--resume", "--stream", "ORDERS", "-s", &other.url()];
            let output = myelin(&resume).output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(said.contains("NOT equal to the backup"), "{said}");
            assert!(said.contains("1 messages are missing (the first: 9)"), "{said}");
        }
    }
}

/// A user who may not have everything, beside one who may.
const USERS: &str = r#"
authorization { users = [
  { user: a, password: a }
  { user: b, password: b, permissions: { publish: { deny: ["$JS.API.STREAM.SNAPSHOT.WORK"] } } }
  { user: c, password: c, permissions: { publish: { deny: ["$JS.API.STREAM.NAMES"] } } }
] }
"#;

#[test]
fn what_was_cut_off_goes_on() {
    for program in programs() {
        let server = configured(&program, tempdir().unwrap(), USERS, false);
        let (all, some) = (server.url_of("a:a@"), server.url_of("b:b@"));
        fill(&all);
        let folder = tempdir().unwrap();
        let path = folder.path().join("b");
        let place = path.to_str().unwrap();
        let refused = fail_with(2, &mut myelin(&["backup", place, "-s", &server.url_of("c:c@")]));
        assert!(refused.contains("Permissions Violation") && !path.exists(), "{refused}");
        let refused = fail(&mut myelin(&["backup", place, "-s", &some]));
        assert!(refused.contains("stream WORK: ") && refused.contains("--exclude"), "{refused}");
        let half = fail_with(2, &mut myelin(&["backup", "--check", place]));
        assert!(half.contains("is half a backup"), "{half}");
        assert!(fail_with(2, &mut myelin(&["restore", place, "-s", &all])).contains("is half a backup"));
        // One stream has changed since, one has not, and one is new.
        ask(&all, "STREAM.MSG.DELETE.ORDERS", r#"{"seq":8}"#);
        let said = succeed(&mut myelin(&["backup", place, "-s", &all]));
        for line in ["FAST: is here already", "ORDERS: 23 messages", "WORK: 25 messages"] {
            assert!(said.contains(line), "{line}: {said}");
        }
        succeed(&mut myelin(&["backup", "--check", place]));
        let again = fail_with(2, &mut myelin(&["backup", place, "-s", &all]));
        assert!(again.contains("has a whole backup"), "{again}");
    }
}

#[test]
fn damage_is_told_before_anything_is_restored() {
    for program in programs() {
        let server = Server::with_streams(&program, &[]);
        let url = server.url();
        fill(&url);
        let folder = tempdir().unwrap();
        let path = folder.path().join("b");
        let place = path.to_str().unwrap();
        succeed(&mut myelin(&["backup", place, "-s", &url]));
        let hurt = |file: &str, hurt: &dyn Fn(&mut Vec<u8>)| {
            let file = path.join("streams/ORDERS").join(file);
            let was = fs::read(&file).unwrap();
            let mut bytes = was.clone();
            hurt(&mut bytes);
            fs::write(&file, bytes).unwrap();
            let told = fail(&mut myelin(&["backup", "--check", place]));
            assert!(told.contains("stream ORDERS: "), "{told}");
            let other = Server::with_streams(&program, &[]);
            let refused = fail_with(2, &mut myelin(&["restore", place, "-s", &other.url()]));
            assert!(refused.contains("nothing was restored"), "{refused}");
            assert_eq!(succeed(&mut myelin(&["stream", "ls", "-s", &other.url()])), "No streams\n");
            fs::write(&file, was).unwrap();
        };
        hurt("stream.arc.s2", &|bytes| bytes.truncate(bytes.len() / 2));
        hurt("stream.arc.s2", &|bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        });
        hurt("backup.json", &|bytes| bytes.extend_from_slice(b" "));
        fs::remove_file(path.join("streams/ORDERS/stream.arc.s2")).unwrap();
        let told = fail(&mut myelin(&["backup", "--check", place]));
        assert!(told.contains("stream ORDERS: ") && told.contains("No such file"), "{told}");
    }
}

#[test]
fn what_is_no_backup_and_servers_without_streams_are_told() {
    for program in programs() {
        let server = Server::start(&program, &[]);
        let url = server.url();
        let folder = tempdir().unwrap();
        let place = folder.path().to_str().unwrap();
        let told = fail_with(2, &mut myelin(&["backup", place, "-s", &url]));
        assert!(told.contains("JetStream is not enabled"), "{told}");
        assert!(fail_with(2, &mut myelin(&["restore", place, "-s", &url])).contains("is no backup"));
        fs::write(folder.path().join("manifest.json"), "{}").unwrap();
        assert!(fail_with(2, &mut myelin(&["backup", "--check", place])).contains("not that of a backup"));
        fs::remove_file(folder.path().join("manifest.json")).unwrap();
        let server = Server::with_streams(&program, &[]);
        let url = server.url();
        assert!(fail_with(2, &mut myelin(&["backup", place, "-s", &url])).contains("has no streams"));
        fill(&url);
        fs::write(folder.path().join("letter"), "dear").unwrap();
        let told = fail_with(2, &mut myelin(&["backup", place, "-s", &url]));
        assert!(told.contains("holds something else, \"letter\""), "{told}");
        let unknown = fail_with(2, &mut myelin(&["backup", place, "--stream", "NONE", "-s", &url]));
        assert!(unknown.contains("the account has no stream NONE"), "{unknown}");
        assert_eq!(fs::read(Path::new(place).join("letter")).unwrap(), b"dear");
    }
}
