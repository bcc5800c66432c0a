//! Reloads that change a running JetStream.

use super::{Asker, Home, publish};
use crate::process::Server;
use crate::raw::Raw;
use serde_json::{Value, json};
use std::net::TcpStream;

const INSUFFICIENT_MEMORY: u64 = 10_028;
const TOO_MANY_CONSUMERS: u64 = 10_026;

#[test]
fn streams_get_more_room_and_consumers_other_limits() {
    let home = Home::new();
    let text = |lines: &str| format!("jetstream {{\nstore_dir: {:?}\n{lines}\n}}\n", home.path());
    let server = home.start("max_mem: 1MB, max_file: 10MB, limits { default_max_consumers: 1 }");
    let mut asker = Asker::connect(&server);
    let large = json!({ "name": "L", "storage": "memory", "max_bytes": 2 << 20 });
    let refused = asker.try_api("STREAM.CREATE.L", &large);
    assert_eq!(refused["error"]["err_code"], INSUFFICIENT_MEMORY, "{refused}");
    asker.create("S", &json!({}));
    let consumer = |asker: &mut Asker, stream: &str, name: &str| {
        let config =
            json!({ "stream_name": stream, "config": { "durable_name": name, "ack_policy": "explicit" } });
        asker.try_api(&format!("CONSUMER.DURABLE.CREATE.{stream}.{name}"), &config)
    };
    assert!(consumer(&mut asker, "S", "one").get("error").is_none());
    let refused = consumer(&mut asker, "S", "two");
    assert_eq!(refused["error"]["err_code"], TOO_MANY_CONSUMERS, "{refused}");

    let lines = server.reload(&text("max_mem: 4MB, max_file: 10MB, limits { default_max_consumers: 2 }"));
    let told = |line: &str| lines.iter().any(|logged| logged.ends_with(line));
    assert!(told("Reloaded: JetStream max_mem_store = 4.00 MB"), "{lines:?}");
    assert!(told("Reloaded: JetStream limits"), "{lines:?}");
    assert!(asker.try_api("STREAM.CREATE.L", &large).get("error").is_none());
    assert!(consumer(&mut asker, "S", "two").get("error").is_none());
    assert_eq!(server.page("/jsz")["config"]["max_memory"], 4 << 20);

    let lines = server.reload(&text("max_mem: 3MB, max_file: 10MB"));
    let refusal = "config reload not supported for decreasing jetstream max memory and store";
    assert!(lines.iter().any(|line| line.ends_with(refusal)), "{lines:?}");
    assert_eq!(asker.api("STREAM.INFO.L", &Value::Null)["config"]["max_bytes"], 2 << 20);
}

/// A reload takes an account away, the next one brings it back: what it has stored is there.
#[test]
fn an_account_that_comes_back_has_its_streams() {
    let place = tempfile::tempdir().unwrap();
    let config = |accounts: &str| {
        let folder = place.path().display();
        format!("accounts {{ {accounts} }}\njetstream {{ store_dir: \"{folder}\" }}\n")
    };
    let (a, b) = (
        "A { jetstream: enabled, users: [ {user: a, password: p} ] }",
        "B { jetstream: enabled, users: [ {user: b, password: p} ] }",
    );
    let server = Server::with_config(&config(&format!("{a}\n{b}")));
    let login = || {
        let mut raw = Raw::open(server.address());
        raw.send("CONNECT {\"user\":\"a\",\"pass\":\"p\",\"verbose\":false}\r\nSUB r 1\r\n");
        raw.barrier();
        raw
    };
    let ask = |raw: &mut Raw, subject: &str, body: &str| {
        raw.send(&format!("PUB {subject} r {}\r\n{body}\r\n", body.len()));
        serde_json::from_str::<Value>(raw.message().text()).unwrap()
    };
    let mut raw = login();
    let made = ask(&mut raw, "$JS.API.STREAM.CREATE.S", r#"{"name":"S","subjects":["s"]}"#);
    assert_eq!(made["config"]["name"], "S", "{made}");
    assert_eq!(ask(&mut raw, "s", "hi")["seq"], 1);
    server.reload(&config(b));
    raw.rest();
    server.reload(&config(&format!("{a}\n{b}")));
    assert_eq!(ask(&mut login(), "s", "ho")["seq"], 2);
}

fn greeting(server: &Server) -> String {
    Raw::over(TcpStream::connect(server.address()).expect("the server listens")).line()
}

/// JetStream may go and come by a reload: what there was is there again, at work where it was.
#[test]
fn jetstream_goes_and_comes_back() {
    let home = Home::new();
    let on = format!("jetstream {{ store_dir: {:?} }}\n", home.path());
    let server = home.start("");
    let mut asker = Asker::connect(&server);
    asker.create("S", &json!({}));
    asker.create("M", &json!({ "storage": "memory" }));
    let config = json!({ "stream_name": "S", "config": { "durable_name": "c", "ack_policy": "explicit" } });
    asker.api("CONSUMER.CREATE.S.c", &config);
    for stream in ["S", "M"] {
        assert_eq!(asker.publish(&format!("{stream}.1"), "one")["seq"], 1);
    }

    let lines = server.reload("max_payload: 1MB\n");
    for line in ["Reloaded: JetStream", "Initiating JetStream Shutdown...", "JetStream Shutdown"] {
        assert!(lines.iter().any(|logged| logged.ends_with(line)), "{line}: {lines:?}");
    }
    for subject in ["S.2", "$JS.API.INFO", "$JS.API.CONSUMER.MSG.NEXT.S.c"] {
        let reply = asker.reply();
        asker.raw.send_bytes(&publish(subject, &reply, "", b""));
    }
    let told = asker.raw.barrier();
    assert!(told.len() == 3 && told.iter().all(|told| told.text().contains(" 503")), "{told:?}");
    assert_eq!(server.page("/varz")["jetstream"], json!({}));
    assert_eq!(server.page("/healthz")["status"], "ok");
    assert!(!greeting(&server).contains("\"jetstream\":true"));

    let lines = server.reload(&on);
    for line in ["Reloaded: JetStream", "Restarting JetStream"] {
        assert!(lines.iter().any(|logged| logged.ends_with(line)), "{line}: {lines:?}");
    }
    assert!(greeting(&server).contains("\"jetstream\":true"));
    for stream in ["S", "M"] {
        assert_eq!(asker.publish(&format!("{stream}.2"), "two")["seq"], 2);
    }
    for payload in ["one", "two"] {
        let reply = asker.reply();
        asker.raw.send_bytes(&publish("$JS.API.CONSUMER.MSG.NEXT.S.c", &reply, "", b""));
        // It comes under its own subject.
        assert_eq!(asker.raw.message().text(), payload);
    }
    assert_eq!(server.page("/jsz")["streams"], 2);
}

/// A server that never had JetStream gets it by a reload, and only the first store: another one
/// takes a restart.
#[test]
fn jetstream_comes_by_a_reload() {
    let place = tempfile::tempdir().unwrap();
    let on = |folder: &str| format!("jetstream {{ store_dir: \"{}/{folder}\" }}\n", place.path().display());
    let off = "max_payload: 1MB\n";
    let server = Server::with_config(off);
    server.reload(&on("a"));
    let mut asker = Asker::connect(&server);
    asker.create("S", &json!({}));
    assert_eq!(asker.publish("S.1", "one")["seq"], 1);
    server.reload(off);
    let lines = server.reload(&on("b"));
    let refusal = "config reload not supported for jetstream storage directory";
    assert!(lines.iter().any(|line| line.ends_with(refusal)), "{lines:?}");
    server.reload(&on("a"));
    assert_eq!(asker.publish("S.1", "two")["seq"], 2);
    assert_eq!(server.page("/jsz")["streams"], 1);
}
