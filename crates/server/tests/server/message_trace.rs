//! Traces of messages, ours beside the reference's: what the official command shows, and the
//! documents themselves for subscriptions and publishes that are made up.

use crate::logging::programs;
use crate::process::{Server, Setup};
use crate::raw::Raw;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const CONFIG: &str = r#"
server_name: s
accounts {
  A { users: [ {user: a, password: p} ]
      mappings { m: f.m, "mm.*": "st.$1" }
      exports: [ {stream: "st.>"}, {service: "svc.>", allow_trace: true}, {service: "nosvc.>"} ]
      msg_trace { dest: ext } }
  B { users: [ {user: b, password: p} ]
      imports: [ {stream: {account: A, subject: "st.*"}, to: "from.$1", allow_trace: true}, {stream: {account: A, subject: "st.a"}, prefix: quiet},
                 {service: {account: A, subject: "svc.>"}, to: "x.>"}, {service: {account: A, subject: "nosvc.>"}} ]
      exports: [ {service: "x.>", allow_trace: true} ] }
  C { users: [ {user: c, password: p} ]
      imports: [ {service: {account: B, subject: "x.>"}, to: "y.>"} ] }
}
"#;

/// The official command, if it is there.
fn command() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let mut places =
        std::env::split_paths(&paths).chain([home.join("go/bin"), PathBuf::from("/root/go/bin")]);
    let found = places.find_map(|place| Some(place.join("nats")).filter(|path| path.is_file()));
    if found.is_none() {
        eprintln!("not compared: there is no nats command");
    }
    found
}

fn peer(server: &Server, user: &str, more: &str) -> Raw {
    let mut raw = Raw::open(server.address());
    raw.send(&format!(
        "CONNECT {{\"verbose\":false,\"pedantic\":false,\"headers\":true,\"user\":\"{user}\",\"pass\":\"p\"{more}}}\r\n"
    ));
    raw
}

#[test]
fn the_official_command_shows_the_same_paths() {
    let Some(nats) = command() else { return };
    let shown: Vec<_> = programs().iter().map(|program| paths(&nats, program)).collect();
    let [ours, theirs] = &shown[..] else { return };
    assert!(ours.contains("subject:\"f.>\"") && ours.contains("Service Import"), "{ours}");
    assert_eq!(ours, theirs);
}

/// Output of `nats trace` for some messages, without client numbers, which are never the same.
fn paths(nats: &Path, program: &Path) -> String {
    let server = Setup::default().program(program).config(CONFIG).start();
    let mut a = peer(&server, "a", ",\"name\":\"na\"");
    a.send("SUB f.> 1\r\nSUB svc.> 2\r\nSUB nosvc.> q 3\r\n");
    a.barrier();
    let mut shown = String::new();
    for (user, arguments) in [
        ("a", vec!["f.x", "hello"]),
        ("a", vec!["m", "--deliver"]),
        ("a", vec!["nobody"]),
        ("b", vec!["x.one", "--deliver", "-H", "A:b"]),
        ("b", vec!["nosvc.a"]),
        ("c", vec!["y.one"]),
    ] {
        let url = format!("nats://{user}:p@{}", server.address());
        let mut told = Command::new(nats);
        told.args(["--server", &url, "trace"]).args(&arguments).env("NO_COLOR", "1").stdin(Stdio::null());
        let told = told.output().expect("the command runs");
        let text =
            String::from_utf8_lossy(&told.stdout).into_owned() + &String::from_utf8_lossy(&told.stderr);
        shown.push_str(&without_numbers(&text));
    }
    shown
}

/// Words of a text without client numbers.
fn without_numbers(text: &str) -> String {
    let words = text.split_inclusive([' ', '\n']);
    words.filter(|word| !word.starts_with("cid:")).collect()
}

#[test]
fn documents_are_the_references() {
    for seed in 0..6_u64 {
        let told: Vec<_> = programs().iter().map(|program| documents(program, seed)).collect();
        if let [ours, theirs] = &told[..] {
            for (number, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                assert_eq!(ours, theirs, "seed {seed}, message {number}");
            }
            assert_eq!(ours.len(), theirs.len());
        }
    }
}

/// Traces of some messages in a server with some subscriptions, all made up from `seed`.
fn documents(program: &Path, seed: u64) -> Vec<Value> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut below = |n: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % n
    };
    let server = Setup::default().program(program).config(CONFIG).start();
    let users = ["a", "a", "b", "b", "c"];
    let about = |n: usize| format!(",\"echo\":{},\"name\":\"n{n}\"", n != 1);
    let mut peers: Vec<_> = (0..users.len()).map(|n| peer(&server, users[n], &about(n))).collect();
    let mut watchers: Vec<_> = ["a", "b", "c"].map(|user| peer(&server, user, "")).into_iter().collect();
    for watcher in &mut watchers {
        watcher.send("SUB trace 1\r\nSUB ext 2\r\n");
        watcher.barrier();
    }
    let patterns = ["f.*", "f.m", "st.*", "st.a", "svc.>", "nosvc.a", "from.*", "quiet.>", "x.one"];
    for (at, peer) in peers.iter_mut().enumerate() {
        for sid in 1..=4 {
            let pattern = patterns[below(patterns.len() as u64) as usize];
            // Which member of a group is drawn is nobody's promise: each is alone in its own.
            let queue = if below(3) == 0 { format!("q{at}{sid} ") } else { String::new() };
            peer.send(&format!("SUB {pattern} {queue}{sid}\r\n"));
        }
        peer.barrier();
    }
    let subjects = ["f.m", "f.a", "m", "mm.a", "st.a", "st.b", "x.one", "svc.x", "nosvc.a", "y.one", "none"];
    let mut told = Vec::new();
    for _ in 0..25 {
        let from = below(users.len() as u64) as usize;
        let subject = subjects[below(subjects.len() as u64) as usize];
        let only = if below(2) == 0 { "Nats-Trace-Only: 1\r\n" } else { "" };
        let block = format!("NATS/1.0\r\nNats-Trace-Dest: trace\r\n{only}A: <&>\r\n\r\n");
        let (header_len, size) = (block.len(), block.len() + 2);
        peers[from].send(&format!("HPUB {subject} {header_len} {size}\r\n{block}hi\r\n"));
        let account = ["a", "b", "c"].iter().position(|user| *user == users[from]).expect("one of them");
        let message = watchers[account].message();
        told.push(comparable(serde_json::from_str(message.text()).expect("a document")));
    }
    told
}

/// A trace without times, and events in an order that both servers have.
fn comparable(mut trace: Value) -> Value {
    for name in ["id", "seq", "time"] {
        trace["server"][name].take();
    }
    let events = trace["events"].as_array_mut().expect("events");
    for event in events.iter_mut() {
        // Client numbers go on where the reference has clients of its own: names say who it is.
        drop((event["ts"].take(), event.get_mut("cid").map(Value::take)));
    }
    events.sort_by_key(Value::to_string);
    trace
}
