//! Attacks on identity and isolation that were published for nats-server, each as a class and not
//! only as its input. Those that need no server are tried in `auth/tests/suite/advisories.rs`.

use crate::process::{Server, Setup};
use crate::raw::Raw;
use myelin_compat::identity::{Identities, Order};
use serde_json::{Value, json};
use tempfile::TempDir;

const CONNECT: &str = "\"verbose\":false,\"pedantic\":false,\"headers\":true";

fn open(server: &Server) -> Raw {
    Raw::open(server.address())
}

/// Connects with these fields of CONNECT, and sends a PING; answers the server's first line, too.
fn login(server: &Server, fields: &str) -> (Raw, String) {
    let mut raw = open(server);
    raw.send(&format!("CONNECT {{{fields}{CONNECT}}}\r\nPING\r\n"));
    let answer = raw.line();
    (raw, answer)
}

const REFUSED: &str = "-ERR 'Authorization Violation'";

/// CVE-2022-24450: a client named another account in its CONNECT, and was in it.
#[test]
fn cve_2022_24450_nobody_chooses_an_account() {
    let server = Server::with_config(
        "accounts { A { users: [{user: a, password: p}] }, B { users: [{user: b, password: p}] } }",
    );
    let (mut b, _) = login(&server, "\"user\":\"b\",\"pass\":\"p\",");
    b.subscribe(">", 1);
    b.barrier();
    for fields in [
        "\"account\":\"B\",",
        "\"account\":\"NEW\",\"new_account\":true,",
        "\"new_account\":true,",
        "\"Account\":\"B\",",
        "\"account\":\"$SYS\",",
    ] {
        let (_, answer) = login(&server, &format!("\"user\":\"a\",\"pass\":\"p\",{fields}"));
        assert_eq!(answer, REFUSED, "{fields}");
    }
    // Not by a second CONNECT either, nor by fields that only links have.
    let (mut a, answer) = login(&server, "\"user\":\"a\",\"pass\":\"p\",\"remote_account\":\"B\",");
    assert_eq!(answer, "PONG");
    a.publish("x", "y");
    a.send(&format!("CONNECT {{\"account\":\"B\",{CONNECT}}}\r\nPUB x 1\r\ny\r\n"));
    assert!(a.rest().contains(REFUSED));
    assert_eq!(b.barrier(), [], "nothing of it in the other account");
}

/// CVE-2023-47090: a configuration with nothing but the system account's users let everybody into
/// the global account although it asked for credentials.
#[test]
fn cve_2023_47090_users_of_the_system_account_open_no_other() {
    let system = "accounts { $SYS { users: [{user: s, password: p}] } }";
    for block in [
        "authorization { users: [{user: a, password: p}] }",
        "authorization { token: t }",
        "authorization { user: a, password: p }",
        "authorization { users: [{nkey: UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4}] }",
    ] {
        // Some of these the server does not even start with.
        let path = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(path.path(), format!("{system}\n{block}")).expect("it takes text");
        let check = std::process::Command::new(crate::process::PROGRAM)
            .args(["-t", "-c"])
            .arg(path.path())
            .output()
            .expect("the program starts");
        if !check.status.success() {
            continue;
        }
        let server = Server::with_config(&format!("{system}\n{block}"));
        for fields in ["", "\"user\":\"\",", "\"user\":\"x\",\"pass\":\"p\",", "\"auth_token\":\"\","] {
            assert_eq!(login(&server, fields).1, REFUSED, "{block}: {fields}");
        }
        let mut raw = open(&server);
        raw.send("PING\r\n");
        assert_eq!(raw.line(), REFUSED, "{block}");
    }
}

fn issued(orders: &[String]) -> Identities {
    let orders: Vec<_> =
        orders.iter().map(|order| Order::parse(order).expect("a test is well made")).collect();
    Identities::issue(&orders).expect("a test is well made")
}

/// CVE-2020-28466 and CVE-2022-42709: accounts that import from each other in a circle brought the
/// server down.
#[test]
fn cve_2020_28466_and_2022_42709_circles_of_imports_end() {
    let limits = r#""limits":{"subs":-1,"data":-1,"payload":-1,"imports":-1,"exports":-1,"wildcards":true,"conn":-1,"leaf":-1}"#;
    let account = |name: &str, from: &str| {
        let exports = r#""exports":[{"subject":"s.>","type":"service"},{"subject":"e.>","type":"stream"}]"#;
        let import = |kind: &str, subject: &str| {
            format!(
                r#"{{"account":"@key:A:{from}@","subject":"{subject}","local_subject":"{subject}","type":"{kind}"}}"#
            )
        };
        let imports = format!("\"imports\":[{},{}]", import("service", "s.>"), import("stream", "e.>"));
        format!(r#"{name} account by O:op for A:{name} {{"nats":{{{limits},{exports},{imports}}}}}"#)
    };
    let user = |name: &str| {
        format!(
            r#"u{name} user by A:{name} for U:{name} {{"nats":{{"subs":-1,"data":-1,"payload":-1,"bearer_token":true}}}}"#
        )
    };
    let names = ["a", "b", "c"];
    let mut orders = vec![
        r#"op operator by O:op for O:op {"name":"op","nats":{"system_account":"@key:A:sys@"}}"#.to_owned(),
        format!(r#"sys account by O:op for A:sys {{"nats":{{{limits}}}}}"#),
    ];
    orders.extend(names.iter().zip(["b", "c", "a"]).map(|(name, from)| account(name, from)));
    orders.extend(names.iter().map(|name| user(name)));
    let ids = issued(&orders);
    let text = |text: &str| String::from_utf8(ids.fill(text.as_bytes()).expect("keys")).expect("text");
    let preload: String =
        ["sys", "a", "b", "c"].iter().map(|name| format!("@key:A:{name}@: \"@{name}@\"\n")).collect();
    let server = Setup::default()
        .config(&text(&format!("operator: \"@op@\"\nresolver: MEM\nresolver_preload {{\n{preload}}}\n")))
        .start();
    let mut clients: Vec<Raw> = names
        .iter()
        .map(|name| {
            let (mut raw, answer) = login(&server, &text(&format!("\"jwt\":\"@u{name}@\",")));
            assert_eq!(answer, "PONG");
            raw.send("SUB s.> 1\r\nSUB e.> 2\r\n");
            raw.barrier();
            raw
        })
        .collect();
    for client in &mut clients {
        client.send("PUB s.x in.box 1\r\nq\r\nPUB e.x 1\r\ny\r\nPUB s.y 0\r\n\r\n");
        let own = client.barrier();
        assert!(own.len() <= 12, "{own:?}");
    }
    for client in &mut clients {
        assert!(client.barrier().len() <= 24, "everything comes to an end");
    }
}

/// Checks that a configuration with a circle of imports is not taken at all.
#[test]
fn cve_2022_42709_a_circle_in_a_file_is_refused() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let text = "accounts {
        A { exports: [{service: s}], imports: [{service: {account: B, subject: s}}] }
        B { exports: [{service: s}], imports: [{service: {account: A, subject: s}}] }
    }";
    std::fs::write(file.path(), text).expect("it takes text");
    let output = std::process::Command::new(crate::process::PROGRAM)
        .args(["-a", "127.0.0.1", "-p", "-1", "-c"])
        .arg(file.path())
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("cycle"), "{said}");
}

/// SN 2026-08 and 2026-09: a client wrote the header itself by which a service learns who asks.
#[test]
fn sn_2026_08_and_09_nobody_says_who_asks_but_the_server() {
    let server = Server::with_config(
        "accounts {
            S { users: [{user: s, password: p}], exports: [{service: svc}] }
            C { users: [{user: c, password: p}], imports: [{service: {account: S, subject: svc}, share: true}] }
         }",
    );
    let (mut service, _) = login(&server, "\"user\":\"s\",\"pass\":\"p\",");
    service.subscribe("svc", 1);
    service.barrier();
    let (mut client, _) = login(&server, "\"user\":\"c\",\"pass\":\"p\",");
    for name in ["Nats-Request-Info", "nats-request-info", "NATS-REQUEST-INFO", "Nats-Request-Info "] {
        let block = format!(
            "NATS/1.0\r\nA: b\r\n{name}: {{\"acc\":\"forged\"}}\r\n{name}: {{\"acc\":\"forged\"}}\r\n\r\n"
        );
        let size = block.len();
        client.send(&format!("HPUB svc in.box {size} {size}\r\n{block}\r\n"));
        client.barrier();
        let request = service.message();
        let text = request.text();
        assert!(!text.contains("forged") && text.contains("\"acc\":\"C\""), "{name}: {text}");
    }
}

/// Two accounts that store, and in the first a user who may do no more than is written here.
fn storing(may_publish: &str) -> (TempDir, Server) {
    let home = tempfile::tempdir().expect("a temporary folder");
    let server = Server::with_config(&format!(
        "jetstream {{ store_dir: {:?} }}
         accounts {{
            A {{ jetstream: enabled, users: [
                {{user: a, password: p}}
                {{user: narrow, password: p, permissions: {{publish: [{may_publish}], subscribe: [\"in.>\"]}}}}
            ] }}
            B {{ jetstream: enabled, users: [{{user: b, password: p}}] }}
            SYS {{ users: [{{user: sys, password: p}}] }}
         }}
         system_account: SYS",
        home.path()
    ));
    (home, server)
}

/// A user of those with a place for answers of its own.
struct Asker {
    raw: Raw,
    inbox: String,
}

impl Asker {
    fn login(server: &Server, user: &str) -> Self {
        let (mut raw, answer) = login(server, &format!("\"user\":\"{user}\",\"pass\":\"p\","));
        assert_eq!(answer, "PONG");
        let inbox = format!("in.{user}");
        raw.subscribe(&inbox, 1);
        raw.barrier();
        Self { raw, inbox }
    }

    fn send(&mut self, subject: &str, body: &str) {
        self.raw.send(&format!("PUB {subject} {} {}\r\n{body}\r\n", self.inbox, body.len()));
    }

    fn ask(&mut self, subject: &str, body: &Value) -> Value {
        self.send(subject, &if body.is_null() { String::new() } else { body.to_string() });
        serde_json::from_str(self.raw.message().text()).expect("JSON")
    }

    /// Its account's streams, and the messages in each.
    fn streams(&mut self) -> Vec<(String, u64)> {
        let list = self.ask("$JS.API.STREAM.LIST", &Value::Null);
        let of = |stream: &Value| {
            let name = stream["config"]["name"].as_str().unwrap_or_default().to_owned();
            (name, stream["state"]["messages"].as_u64().unwrap_or_default())
        };
        list["streams"].as_array().expect("a list").iter().map(of).collect()
    }
}

/// CVE-2025-30215: requests to JetStream's API that name an account or a server were done for
/// whoever asked, so that anybody could destroy what others store. No request of one account does
/// anything to another one's, by whatever subject.
#[test]
fn cve_2025_30215_no_account_reaches_what_another_stores() {
    let (_home, server) = storing("\">\"");
    let (mut a, mut b) = (Asker::login(&server, "a"), Asker::login(&server, "b"));
    a.ask("$JS.API.STREAM.CREATE.S", &json!({"name": "S", "subjects": ["s.>"], "allow_direct": true}));
    a.ask(
        "$JS.API.CONSUMER.CREATE.S.C",
        &json!({"stream_name": "S", "config": {"name": "C", "durable_name": "C"}}),
    );
    a.ask("s.1", &json!("kept"));
    let before = a.streams();
    assert_eq!(before, [("S".to_owned(), 1)]);
    let named =
        |operation: &str| operation.replace("<acc>", "A").replace("<stream>", "S").replace("<consumer>", "C");
    let operations = [
        "ACCOUNT.PURGE.<acc>",
        "ACCOUNT.STREAM.MOVE.<acc>.<stream>",
        "ACCOUNT.STREAM.CANCEL_MOVE.<acc>.<stream>",
        "SERVER.REMOVE",
        "META.LEADER.STEPDOWN",
        "STREAM.DELETE.<stream>",
        "STREAM.PURGE.<stream>",
        "STREAM.UPDATE.<stream>",
        "STREAM.MSG.DELETE.<stream>",
        "STREAM.MSG.GET.<stream>",
        "STREAM.SNAPSHOT.<stream>",
        "STREAM.LEADER.STEPDOWN.<stream>",
        "STREAM.PEER.REMOVE.<stream>",
        "STREAM.INFO.<stream>",
        "CONSUMER.DELETE.<stream>.<consumer>",
        "CONSUMER.PAUSE.<stream>.<consumer>",
        "CONSUMER.RESET.<stream>.<consumer>",
        "CONSUMER.UNPIN.<stream>.<consumer>",
        "CONSUMER.LEADER.STEPDOWN.<stream>.<consumer>",
        "CONSUMER.MSG.NEXT.<stream>.<consumer>",
        "DIRECT.GET.<stream>",
    ];
    let bodies = [
        String::new(),
        r#"{"seq":1,"name":"S","deliver_subject":"in.x","server":"x","peer":"x","account":"A","acc":"A"}"#
            .to_owned(),
    ];
    for operation in operations {
        for body in &bodies {
            for prefix in ["$JS.API.", "$JS.A.API.", "$JS.ACC.A.API."] {
                b.send(&format!("{prefix}{}", named(operation)), body);
            }
        }
    }
    // The API's answers come from a thread of its own, in order: when this one is there, all of
    // them are.
    b.send("$JS.API.STREAM.NAMES", "");
    loop {
        let answer = b.raw.message();
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(!text.contains("\"success\":true") && !text.contains("kept"), "{text}");
        if text.contains("stream_names_response") {
            break;
        }
    }
    assert!(Asker::login(&server, "b").streams().is_empty());
    assert_eq!(a.streams(), before);
    let consumers = a.ask("$JS.API.CONSUMER.NAMES.S", &Value::Null);
    assert_eq!(consumers["consumers"], json!(["C"]));
}

/// SN 2026-12: who might restore one stream restored another, whose name was in the request. What
/// may be done is decided by the subject, so no name in a request is another one than in its
/// subject.
#[test]
fn sn_2026_12_the_name_in_a_request_is_that_of_its_subject() {
    let (_home, server) = storing(
        "\"$JS.API.STREAM.*.MINE\", \"$JS.API.CONSUMER.*.MINE.>\", \"$JS.API.CONSUMER.DURABLE.CREATE.MINE.>\", \"$JS.API.CONSUMER.CREATE.MINE\"",
    );
    let (mut a, mut narrow) = (Asker::login(&server, "a"), Asker::login(&server, "narrow"));
    a.ask("$JS.API.STREAM.CREATE.THEIRS", &json!({"name": "THEIRS", "subjects": ["t"]}));
    a.ask("$JS.API.STREAM.CREATE.MINE", &json!({"name": "MINE", "subjects": ["m"]}));
    a.ask("t", &json!("kept"));
    let theirs = json!({"name": "THEIRS", "subjects": ["t"], "max_msgs": 1});
    let other = json!({"name": "OTHER", "subjects": ["o"]});
    let consumer = |stream: &str, name: &str| json!({"stream_name": stream, "config": {"name": name, "durable_name": name, "deliver_policy": "all"}});
    let tries = [
        ("STREAM.CREATE.MINE", other.clone()),
        ("STREAM.UPDATE.MINE", theirs.clone()),
        ("STREAM.RESTORE.MINE", json!({"config": other, "state": {}})),
        ("STREAM.RESTORE.MINE", json!({"config": theirs, "state": {}})),
        ("CONSUMER.CREATE.MINE", consumer("THEIRS", "")),
        ("CONSUMER.CREATE.MINE.C", consumer("THEIRS", "C")),
        ("CONSUMER.CREATE.MINE.C", consumer("MINE", "D")),
        ("CONSUMER.DURABLE.CREATE.MINE.C", consumer("MINE", "D")),
        ("CONSUMER.DURABLE.CREATE.MINE.C", consumer("THEIRS", "C")),
    ];
    for (operation, body) in tries {
        let answer = narrow.ask(&format!("$JS.API.{operation}"), &body);
        assert!(answer["error"]["err_code"].is_number(), "{operation} {body}: {answer}");
    }
    assert_eq!(a.streams(), [("MINE".to_owned(), 0), ("THEIRS".to_owned(), 1)]);
    for stream in ["MINE", "THEIRS"] {
        let names = a.ask(&format!("$JS.API.CONSUMER.NAMES.{stream}"), &Value::Null);
        assert!(names["consumers"].as_array().is_none_or(Vec::is_empty), "{names}");
    }
}
