//! A cluster that is but a name: without a port nobody listens for routes, and everything that the
//! server says of itself names it. Compared with nats-server where there is one.

use crate::eventually;
use crate::process::{PROGRAM, Server, Setup};
use crate::raw::Raw;
use myelin_compat::implementation::reference_program;
use serde_json::{Value, json};
use std::net::TcpStream;
use std::path::PathBuf;

const ACCOUNTS: &str = "accounts { SYS { users [{user: s, password: s}] }\n\
    A { jetstream: enabled, users [{user: a, password: a}], \
    mappings { from: [{destination: here, weight: 100, cluster: CX}, {destination: elsewhere, weight: 100}] } } }\n\
    system_account: SYS\n";

fn programs() -> Vec<PathBuf> {
    std::iter::once(PathBuf::from(PROGRAM)).chain(reference_program()).collect()
}

/// A configuration with a store in `folder`.
fn config(cluster: &str, folder: &tempfile::TempDir) -> String {
    let store = folder.path().display();
    format!("server_name: N\n{cluster}\njetstream {{ store_dir: \"{store}\" }}\n{ACCOUNTS}")
}

/// A client of an account, and what INFO has told it.
struct Client {
    raw: Raw,
    info: Value,
}

impl Client {
    fn of(server: &Server, user: &str) -> Self {
        let mut raw = Raw::over(TcpStream::connect(server.address()).expect("the server listens"));
        let info = raw.line();
        let info = info.strip_prefix("INFO ").expect("INFO comes first");
        let info = serde_json::from_str(info).expect("INFO is JSON");
        let login =
            format!(r#""verbose":false,"headers":true,"no_responders":true,"user":"{user}","pass":"{user}""#);
        raw.send(&format!("CONNECT {{{login}}}\r\nSUB inbox.> 1\r\n"));
        raw.barrier();
        Self { raw, info }
    }

    /// The one answer to a request; nothing where nobody answers.
    fn ask(&mut self, subject: &str, body: &str) -> Option<Value> {
        self.raw.send(&format!("PUB {subject} inbox.x {}\r\n{body}\r\n", body.len()));
        let answer = self.raw.message();
        serde_json::from_str(answer.text()).ok()
    }
}

/// Everything in which the server names its cluster.
fn said(server: &Server) -> Value {
    let (mut client, mut system) = (Client::of(server, "a"), Client::of(server, "s"));
    let stream = r#"{"name":"S","subjects":["s"]}"#;
    client.ask("$JS.API.STREAM.CREATE.S", stream);
    let consumer = r#"{"stream_name":"S","config":{"durable_name":"c"}}"#;
    let consumer = client.ask("$JS.API.CONSUMER.DURABLE.CREATE.S.c", consumer);
    let info = client.ask("$JS.API.STREAM.INFO.S", "");
    let statsz = system.ask("$SYS.REQ.SERVER.PING", "");
    let of = |document: &Option<Value>, path: &str| document.as_ref().and_then(|d| d.pointer(path)).cloned();
    let page = server.page("/jsz?streams=1&accounts=1");
    json!({
        "info": client.info["cluster"],
        "varz": server.page("/varz")["cluster"],
        "jsz": page.pointer("/account_details/0/stream_detail/0/cluster"),
        "stream": of(&info, "/cluster"),
        "consumer": of(&consumer, "/cluster"),
        "consumer info": of(&client.ask("$JS.API.CONSUMER.INFO.S.c", ""), "/cluster"),
        "ping": of(&statsz, "/server/cluster"),
        "user": of(&client.ask("$SYS.REQ.USER.INFO", ""), "/server/cluster"),
    })
}

/// Whether the server answers to who asks for servers of a cluster; an exact question that follows
/// tells when it did not.
fn answers_to(server: &Server, filter: &Value) -> bool {
    let mut system = Client::of(server, "s");
    let filter = filter.to_string();
    let mut ask = |reply: &str, body: &str| {
        system.raw.send(&format!("PUB $SYS.REQ.SERVER.PING inbox.{reply} {}\r\n{body}\r\n", body.len()));
    };
    ask("asked", &filter);
    ask("sure", "");
    let first = system.raw.message();
    first.subject == "inbox.asked"
}

#[test]
fn a_name_without_a_port_is_said_everywhere() {
    for (cluster, flags, name) in [
        ("cluster { name: CX }", &[][..], Some("CX")),
        ("cluster { name: CX, port: 0 }", &[], Some("CX")),
        ("", &["--cluster_name", "FL"], Some("FL")),
        ("cluster { name: CX }", &["--cluster_name", "FL"], Some("FL")),
        ("cluster {}", &[], None),
        ("", &["--cluster_name", ""], None),
    ] {
        let told: Vec<_> = programs()
            .iter()
            .map(|program| {
                let folder = tempfile::tempdir().unwrap();
                let setup = Setup::default().program(program).flags(flags);
                let server = setup.config(&config(cluster, &folder)).start();
                let banner = server
                    .log()
                    .lines()
                    .find_map(|line| line.split_once("  Cluster:  ").map(|(_, name)| name.to_owned()));
                assert_eq!(banner.as_deref(), name, "{cluster} {flags:?}: {}", program.display());
                for (wanted, is_meant) in
                    [("CX", name == Some("CX")), ("L", name == Some("FL")), ("other", false)]
                {
                    let meant = answers_to(&server, &json!({ "cluster": wanted }));
                    assert_eq!(meant, is_meant, "{cluster} {flags:?} {wanted}: {}", program.display());
                }
                assert!(
                    !answers_to(&server, &json!({"cluster": "X", "exact_match": true})) || name == Some("X")
                );
                said(&server)
            })
            .collect();
        assert_eq!(told[0]["info"], json!(name), "{cluster} {flags:?}: {:#}", told[0]);
        assert!(told.iter().all(|other| *other == told[0]), "{cluster} {flags:?}: {told:#?}");
    }
}

#[test]
fn what_else_a_block_without_a_port_says_is_shown_and_does_nothing() {
    let cluster = "cluster { name: CX, host: \"127.0.0.9\", advertise: \"h:2\", \
        authorization { user: u, password: p, timeout: 3 }, pool_size: 5, write_deadline: 3s, write_timeout: close, \
        routes: [\"nats://u:p@h:4222\", \"nats://z:1\"], no_advertise: true }";
    let shown: Vec<_> = programs()
        .iter()
        .map(|program| {
            let folder = tempfile::tempdir().unwrap();
            let server = Setup::default().program(program).config(&config(cluster, &folder)).start();
            assert!(!server.log().contains("route"), "{}", server.log());
            server.page("/varz")["cluster"].clone()
        })
        .collect();
    assert_eq!(shown[0]["urls"], json!(["h:4222", "z:1"]));
    assert!(shown.iter().all(|other| *other == shown[0]), "{shown:#?}");
}

#[test]
fn a_reload_renames_the_cluster_and_never_forgets_it() {
    for program in programs() {
        let folder = tempfile::tempdir().unwrap();
        let server = Setup::default().program(&program).config(&config("", &folder)).start();
        let mut name = None;
        for (cluster, renamed) in [
            ("cluster { name: CX }", Some("CX")),
            ("cluster { name: CY, no_advertise: true }", Some("CY")),
            ("cluster { name: CY }", None),
            ("", None),
            ("cluster { name: CX }", Some("CX")),
        ] {
            let lines = server.reload(&config(cluster, &folder));
            let said_so = |text: &str| lines.iter().any(|line| line.contains(text));
            assert!(said_so("Reloaded: cluster"), "{cluster}: {lines:?}");
            assert_eq!(said_so("Cluster name updated to "), renamed.is_some(), "{cluster}: {lines:?}");
            name = renamed.or(name);
            let mut told = said(&server);
            // Compat: see `monitoring/configured.rs`.
            told["varz"] = Value::Null;
            let alone = json!({"name": name, "leader": "N"});
            let expected = json!({
                "info": name, "varz": null, "jsz": alone, "stream": alone, "consumer": told["consumer"],
                "consumer info": told["consumer info"], "ping": name, "user": name,
            });
            assert_eq!(told, expected, "{cluster}: {}", program.display());
        }
        let lines = server.reload(&config("cluster { name: CX, host: \"127.0.0.9\" }", &folder));
        let refused = "config reload not supported for cluster host: old=, new=127.0.0.9";
        assert!(lines.iter().any(|line| line.contains(refused)), "{lines:?}");
    }
}

/// Destinations of a mapping may be for servers of one cluster.
#[test]
fn mappings_go_where_they_go_in_this_cluster() {
    for program in programs() {
        let folder = tempfile::tempdir().unwrap();
        let server =
            Setup::default().program(&program).config(&config("cluster { name: CX }", &folder)).start();
        let mut client = Client::of(&server, "a");
        client.raw.send("SUB here 2\r\nSUB elsewhere 3\r\n");
        client.raw.publish("from", "x");
        assert_eq!(client.raw.message().subject, "here", "{}", program.display());
        server.reload(&config("cluster { name: other }", &folder));
        // The shards hear of a reload in their own time.
        eventually("the mapping follows the cluster's name", || {
            client.raw.publish("from", "x");
            client.raw.message().subject == "elsewhere"
        });
    }
}

/// JetStream in a cluster needs names and routes, as with the reference.
#[test]
fn a_port_beside_jetstream_ends_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let (path, store) = (folder.path().join("server.conf"), folder.path().display());
    for (rest, text) in [
        (
            "cluster { name: CX, listen: \"127.0.0.1:-1\" }",
            "jetstream cluster requires `server_name` to be set",
        ),
        (
            "server_name: N, cluster { listen: \"127.0.0.1:-1\" }",
            "jetstream cluster requires `cluster.name` to be set",
        ),
        (
            "server_name: N, cluster { name: CX, listen: \"127.0.0.1:-1\" }",
            "JetStream cluster requires configured routes or solicited leafnode for the system account",
        ),
    ] {
        let config = format!("listen: \"127.0.0.1:-1\"\njetstream {{ store_dir: \"{store}\" }}\n{rest}\n");
        std::fs::write(&path, config).unwrap();
        let output = std::process::Command::new(PROGRAM).arg("-c").arg(&path).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains(text), "{told}");
    }
}
