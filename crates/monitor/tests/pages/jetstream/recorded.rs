//! A running JetStream is shown as the real server shows it, to the byte.
//!
//! The situation: account A has a stream in a file with four of five messages left and a consumer,
//! and has asked for a stream that does not exist; B may use little and has a stream in memory; C
//! has none; D may not use JetStream. The page that shows everything is what the fixed source is
//! made from; then every page must come out of it again. `MYELIN_RECORD=1` writes the recorded
//! pages anew.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use myelin_compat::implementation::reference_program;
use serde_json::Value;

use super::running::Running;
use crate::fixture::{Fixed, text};
use crate::golden;
use crate::reference::{Reference, start};
use crate::shape::differences;

/// The recorded page and its request. The first one shows everything.
const REQUESTS: &[(&str, &str)] = &[
    ("all", "/jsz?consumers=1&direct-consumers=true&config=T&raft=1"),
    ("plain", "/jsz"),
    ("raft", "/jsz?raft=1&acc="),
    ("accounts", "/jsz?accounts=1"),
    ("window", "/jsz?accounts=1&offset=1&limit=1"),
    ("behind", "/jsz?streams=1&offset=3&limit=0"),
    ("before", "/jsz?accounts=1&offset=-5&limit=1"),
    ("limited", "/jsz?acc=B"),
    ("unused", "/jsz?acc=C&streams=1&config=1"),
    ("disabled", "/jsz?acc=D&streams=1"),
    ("unknown", "/jsz?acc=nope&streams=1&config=1"),
    ("unknown_accounts", "/jsz?acc=nope&accounts=1&offset=2"),
    ("streams", "/jsz?streams=1&stream-leader-only=1"),
    ("config", "/jsz?acc=A&streams=1&config=1"),
    ("consumers", "/jsz?acc=A&consumers=1&leader-only=1"),
    ("only_direct", "/jsz?acc=A&direct-consumers=1"),
    ("direct", "/jsz?acc=A&streams=1&direct-consumers=1"),
    ("varz", "/varz"),
];

pub(crate) fn config(store: &Path) -> String {
    let store = store.display();
    format!(
        r#"
        listen: "127.0.0.1:-1"
        http: "127.0.0.1:-1"
        server_name: name
        server_tags: ["az:1"]
        jetstream {{
            store_dir: "{store}", max_mem: 64MB, max_file: 1GB, domain: hub, unique_tag: "az:"
            sync_interval: always, strict: true
            limits {{
                max_request_batch: 250, max_ack_pending: 5000, max_ha_assets: 7, duplicate_window: "5m"
                batch {{ max_inflight_per_stream: 3, max_inflight_total: 4, max_msgs: 5, timeout: "6s" }}
            }}
        }}
        accounts {{
            A {{ jetstream: enabled, users [ {{ user: A, password: p }} ] }}
            B {{ jetstream: {{ max_mem: 1MB, max_store: 2MB }}, users [ {{ user: B, password: p }} ] }}
            C {{ jetstream: enabled }}
            D {{ users [ {{ user: D, password: p }} ] }}
        }}
        "#
    )
}

/// Messages that are published in each account, in order: subjects and payloads, most of them
/// requests of the API.
const HISTORY: &[(&str, &[(&str, &str)])] = &[
    (
        "A",
        &[
            (
                "$JS.API.STREAM.CREATE.ONE",
                r#"{"name":"ONE","subjects":["one.>","<x>&"],"storage":"file","metadata":{"k":"\"<v>"}}"#,
            ),
            ("one.a", ""),
            ("one.b", "bb"),
            ("one.a", "[{]}"),
            ("one.a", ","),
            ("<x>&", ":"),
            ("$JS.API.STREAM.MSG.DELETE.ONE", r#"{"seq":3}"#),
            (
                "$JS.API.CONSUMER.CREATE.ONE.con",
                r#"{"stream_name":"ONE","config":{"durable_name":"con","name":"con","ack_policy":"explicit"}}"#,
            ),
            ("$JS.API.STREAM.INFO.NOPE", ""),
        ],
    ),
    (
        "B",
        &[(
            "$JS.API.STREAM.CREATE.BEE",
            r#"{"name":"BEE","subjects":["bee"],"storage":"memory","max_bytes":1000}"#,
        )],
    ),
];

/// Starts the reference in its situation.
pub(crate) fn reference(program: PathBuf, folder: &Path) -> Reference {
    let reference = start(program, folder, &config(&folder.join("store")));
    for (account, requests) in HISTORY {
        let mut client = Client::connect(&reference, account);
        for (subject, payload) in *requests {
            client.request(subject, payload);
        }
    }
    // A request is counted as being worked on until a little after its answer.
    let end = Instant::now() + Duration::from_secs(10);
    while reference.get("/jsz")["api"].get("inflight").is_some() {
        assert!(Instant::now() < end, "a request to the API never ended");
    }
    reference
}

struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(reference: &Reference, user: &str) -> Self {
        let mut socket = TcpStream::connect(&reference.clients).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let connect = format!(r#"{{"user":"{user}","pass":"p","verbose":false}}"#);
        write!(socket, "CONNECT {connect}\r\nSUB answers 1\r\n").unwrap();
        let mut client = Self(BufReader::new(socket));
        assert!(client.line().starts_with("INFO "));
        client
    }

    fn request(&mut self, subject: &str, payload: &str) -> String {
        write!(self.0.get_mut(), "PUB {subject} answers {}\r\n{payload}\r\n", payload.len()).unwrap();
        let line = self.line();
        let length = line.strip_prefix("MSG answers 1 ").unwrap_or_else(|| panic!("{subject}: {line}"));
        let mut answer = vec![0; length.parse::<usize>().unwrap() + 2];
        self.0.read_exact(&mut answer).unwrap();
        String::from_utf8(answer).unwrap()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

/// Comparable part of a page: of `/varz` the object of JetStream, and of any page without the
/// values that every request changes.
fn settled(page: &str) -> String {
    let part =
        page.split_once("\n  \"jetstream\": ").and_then(|(_, rest)| rest.split_once(",\n  \"tls_timeout"));
    let part = part.map_or(page, |(part, _)| part);
    let hidden = ["\"now\": ", "\"ts\": ", "\"server_id\": "];
    let settle = |line: &str| match hidden.iter().find(|key| line.trim_start().starts_with(**key)) {
        Some(key) => format!("{}{key}\"\"{}", &line[..line.len() - line.trim_start().len()], comma(line)),
        None => line.to_owned(),
    };
    part.split('\n').map(settle).collect::<Vec<_>>().join("\n")
}

fn comma(line: &str) -> &str {
    if line.ends_with(',') { "," } else { "" }
}

/// Our source for the situation, from the page that shows everything.
pub(crate) fn situation(all: &str) -> Fixed {
    Running::of(&serde_json::from_str(all).unwrap()).source()
}

/// Our source for the situation that was recorded.
pub(crate) fn recorded_situation() -> Fixed {
    situation(&recorded(REQUESTS[0].0))
}

fn file(name: &str) -> PathBuf {
    golden::file(&format!("jetstream/{name}.json"))
}

fn recorded(name: &str) -> String {
    std::fs::read_to_string(file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn our_pages_are_the_recorded_ones() {
    let ours = recorded_situation();
    for (name, request) in REQUESTS {
        assert_eq!(settled(&text(&ours.ask(request))), recorded(name), "{request}");
    }
}

#[test]
fn our_pages_are_the_ones_of_the_reference() {
    let Some(program) = reference_program() else { return };
    let folder = tempfile::tempdir().unwrap();
    let reference = reference(program, folder.path());
    let ours = situation(&reference.exchange(REQUESTS[0].1).1);
    for (name, request) in REQUESTS {
        let theirs = settled(&reference.exchange(request).1);
        assert_eq!(settled(&text(&ours.ask(request))), theirs, "{request}");
        if std::env::var_os("MYELIN_RECORD").is_some() {
            std::fs::write(file(name), theirs).unwrap();
            continue;
        }
        let [theirs, known]: [Value; 2] =
            [&theirs, &recorded(name)].map(|page| serde_json::from_str(page).unwrap());
        assert_eq!(differences(&theirs, &known), Vec::<String>::new(), "{request}");
    }
}
