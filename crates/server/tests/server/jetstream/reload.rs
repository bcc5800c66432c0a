//! What a reload changes in a running JetStream.

use super::{Asker, Home};
use crate::process::Server;
use crate::raw::Raw;
use serde_json::{Value, json};

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
