//! The system account of the built program: what operators ask and are told. Shapes of messages are
//! in the transcripts; here is what needs signals, files, or a server that ends.

use crate::eventually;
use crate::identity::Issued;
use crate::process::{Server, Setup};
use crate::raw::{Message, Raw};
use rustix::process::Signal;
use serde_json::Value;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Two accounts, and the server's own.
const ACCOUNTS: &str = "accounts {
  SYS { users: [ {user: sys, password: p} ] }
  A { users: [ {user: a, password: p} ] }
}
system_account: SYS
";

fn login(server: &Server, user: &str) -> Raw {
    let mut raw = Raw::over(TcpStream::connect(server.address()).expect("the server listens"));
    raw.line();
    raw.send(&format!(
        "CONNECT {{\"user\":\"{user}\",\"pass\":\"p\",\"verbose\":false,\"headers\":true}}\r\n"
    ));
    raw.barrier();
    raw
}

/// A member of the system account that listens for answers.
fn operator(server: &Server) -> Raw {
    let mut raw = login(server, "sys");
    raw.subscribe("r", 1);
    raw
}

fn ask(raw: &mut Raw, subject: &str, body: &str) -> Value {
    raw.send(&format!("PUB {subject} r {}\r\n{body}\r\n", body.len()));
    json(&raw.message())
}

fn json(message: &Message) -> Value {
    serde_json::from_str(message.text()).unwrap_or_else(|error| panic!("{error}: {}", message.text()))
}

fn id(raw: &mut Raw) -> String {
    ask(raw, "$SYS.REQ.SERVER.PING.IDZ", "")["id"].as_str().expect("an id").to_owned()
}

#[test]
fn a_server_that_ends_says_so() {
    let mut server = Server::with_config(ACCOUNTS);
    let mut sys = operator(&server);
    let id = id(&mut sys);
    sys.subscribe(&format!("$SYS.SERVER.{id}.SHUTDOWN"), 2);
    sys.barrier();
    server.signal(Signal::TERM);
    assert_eq!(json(&sys.message())["id"], id);
    assert!(sys.rest().is_empty());
    server.wait();
}

#[test]
fn lame_duck_mode_is_told_and_then_the_end() {
    let server = Server::with_config(&format!(
        "{ACCOUNTS}lame_duck_duration: \"30s\"\nlame_duck_grace_period: \"1s\""
    ));
    let mut sys = operator(&server);
    sys.subscribe("$SYS.SERVER.*.LAMEDUCK", 2);
    sys.subscribe("$SYS.SERVER.*.SHUTDOWN", 3);
    sys.barrier();
    server.signal(Signal::USR2);
    assert_eq!(sys.message().sid, "2");
    server.signal(Signal::INT);
    assert_eq!(sys.message().sid, "3");
}

#[test]
fn a_reload_by_request_changes_what_holds() {
    let server = Server::with_config(&format!("{ACCOUNTS}max_payload: 1000"));
    let mut sys = operator(&server);
    let reload = format!("$SYS.REQ.SERVER.{}.RELOAD", id(&mut sys));
    let mut a = login(&server, "a");
    std::fs::write(server.config_file(), format!("{ACCOUNTS}max_payload: 10")).unwrap();
    let answer = ask(&mut sys, &reload, "");
    assert!(answer["error"].is_null() && answer["server"]["id"].is_string(), "{answer}");
    a.send("PUB x 11\r\n");
    assert_eq!(a.rest(), "-ERR 'Maximum Payload Violation'\r\n");
}

#[test]
fn a_reload_that_fails_says_why() {
    let server = Server::with_config(ACCOUNTS);
    let mut sys = operator(&server);
    let reload = format!("$SYS.REQ.SERVER.{}.RELOAD", id(&mut sys));
    std::fs::write(server.config_file(), "no_such_option: 1").unwrap();
    let answer = ask(&mut sys, &reload, "");
    assert_eq!(answer["error"]["code"], 500, "{answer}");
    assert!(answer["error"]["description"].as_str().unwrap().contains("no_such_option"), "{answer}");
    assert!(answer["data"].is_null());
}

/// Ten thousand requests at once: what is too much is dropped, and everything else goes on.
#[test]
fn a_flood_of_requests_holds_up_nobody() {
    let server = Setup::default().config(ACCOUNTS).start();
    let mut sys = login(&server, "sys");
    sys.send(&"PUB $SYS.REQ.SERVER.PING.VARZ nowhere 0\r\n\r\n".repeat(20_000));
    let mut a = login(&server, "a");
    a.subscribe("x", 1);
    a.publish("x", "hi");
    assert_eq!(a.message().text(), "hi");
    sys.barrier();
}

/// Requests of other accounts wait in memory: none may be larger than options are.
#[test]
fn a_large_request_of_another_account_is_dropped() {
    let server = Server::with_config(ACCOUNTS);
    let mut a = login(&server, "a");
    a.subscribe("r", 1);
    let large = format!("{{\"user\":\"{}\"}}", "x".repeat(20_000));
    a.send(&format!("PUB $SYS.REQ.ACCOUNT.PING.CONNZ r {}\r\n{large}\r\n", large.len()));
    server.wait_for_log("System account queue limit reached, dropping 1 messages");
    assert_eq!(ask(&mut a, "$SYS.REQ.ACCOUNT.PING.CONNZ", "{\"user\":\"a\"}")["data"]["num_connections"], 1);
}

#[test]
fn counts_of_accounts_come_and_go() {
    let server = Server::with_config(ACCOUNTS);
    let mut sys = login(&server, "sys");
    sys.subscribe("$SYS.ACCOUNT.A.SERVER.CONNS", 1);
    sys.barrier();
    let a = login(&server, "a");
    assert_eq!(json(&sys.message())["conns"], 1);
    drop(a);
    assert_eq!(json(&sys.message())["conns"], 0);
}

/// Tokens of accounts in a directory, brought by the system account.
#[test]
fn tokens_are_stored_listed_and_taken_away() {
    let ids = Issued::with(&[
        "admin user by A:sys for U:admin {\"nats\":{FREE}}",
        "app2 account by O:op for A:app {\"name\":\"APP\",\"nats\":{OPEN,\"revocations\":{\"@key:U:bob@\":99999999999}}}",
        "app3 account by O:op for A:app {\"iat\":\"+5\",\"name\":\"APP\",\"nats\":{OPEN}}",
        "stranger account by O:no for A:app {\"nats\":{OPEN}}",
        "gone generic by O:op for O:op {\"nats\":{\"accounts\":[\"@key:A:app@\"]}}",
        "theirs generic by O:no for O:no {\"nats\":{\"accounts\":[\"@key:A:app@\"]}}",
        "own generic by O:op for O:op {\"nats\":{\"accounts\":[\"@key:A:sys@\"]}}",
    ]);
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("jwt");
    let server = Server::with_config(&ids.text(&format!(
        "operator: \"@op@\"\nresolver {{ type: full, dir: \"{}\", allow_delete: true }}\n\
         resolver_preload {{ @key:A:sys@: \"@sys@\" }}",
        path.display()
    )));
    let (mut admin, answer) = ids.login(&server, "admin", "U:admin");
    assert_eq!(answer, "PONG");
    admin.subscribe("r", 1);
    let app = ids.text("@key:A:app@");
    let update = |admin: &mut Raw, token: &str| ask(admin, "$SYS.REQ.CLAIMS.UPDATE", &ids.text(token));

    let answer = update(&mut admin, "@app@");
    assert_eq!(answer["data"]["account"], app, "{answer}");
    assert_eq!((&answer["data"]["code"], &answer["data"]["message"]), (&200.into(), &"jwt updated".into()));
    let (bob, answer) = ids.login(&server, "bob", "U:bob");
    assert_eq!(answer, "PONG");

    // It holds at once.
    update(&mut admin, "@app2@");
    assert!(bob.rest().contains("-ERR 'User Authentication Revoked'"));
    let answer = update(&mut admin, "@stranger@");
    let text = format!("jwt update resulted in error - {}", "account validation failed");
    assert_eq!(answer["error"]["description"], text, "{answer}");
    let answer = update(&mut admin, "nonsense");
    assert_eq!((&answer["error"]["account"], &answer["error"]["code"]), (&"n/a".into(), &500.into()));
    let of_sys = ids.text("$SYS.REQ.ACCOUNT.@key:A:sys@.CLAIMS.UPDATE");
    let answer = ask(&mut admin, &of_sys, &ids.text("@app3@"));
    let text = "jwt update resulted in error - subject does not match jwt content";
    assert_eq!(answer["error"]["description"], text, "{answer}");
    let of_app = format!("$SYS.REQ.ACCOUNT.{app}.CLAIMS.UPDATE");
    assert_eq!(ask(&mut admin, &of_app, &ids.text("@app3@"))["data"]["code"], 200);

    // What is there.
    let list = ask(&mut admin, "$SYS.REQ.CLAIMS.LIST", "");
    let mut keys = vec![app.clone(), ids.text("@key:A:sys@")];
    keys.sort();
    assert_eq!(list["data"], Value::from(keys));
    admin.send(&format!("PUB $SYS.REQ.ACCOUNT.{app}.CLAIMS.LOOKUP r 0\r\n\r\n"));
    assert_eq!(admin.message().text(), ids.text("@app3@"));
    admin.send("PUB $SYS.REQ.CLAIMS.PACK r 0\r\n\r\n");
    let packed: Vec<String> = (0..3).map(|_| admin.message().text().to_owned()).collect();
    assert!(packed.contains(&ids.text("@key:A:app@|@app3@")) && packed[2].is_empty(), "{packed:?}");

    // And what is not any more.
    let delete = |admin: &mut Raw, token: &str| ask(admin, "$SYS.REQ.CLAIMS.DELETE", &ids.text(token));
    let why = |answer: &Value| answer["error"]["description"].as_str().unwrap_or_default().to_owned();
    assert!(why(&delete(&mut admin, "@theirs@")).ends_with("failed - not trusted"));
    assert!(why(&delete(&mut admin, "@own@")).ends_with("not allowed to delete system account"));
    let (bob, answer) = ids.login(&server, "bob", "U:bob");
    assert_eq!(answer, "PONG");
    let answer = delete(&mut admin, "@gone@");
    assert_eq!(answer["data"]["message"], "deleted 1 accounts", "{answer}");
    assert!(bob.rest().contains("-ERR"));
    eventually("the account is gone", || ids.login(&server, "bob", "U:bob").1.starts_with("-ERR"));
    assert!(!path.join(format!("{app}.jwt")).exists());
    admin.barrier();
}

/// Where tokens are in memory one account's can still be replaced while it is in use, and nothing
/// else can be done.
#[test]
fn tokens_in_memory_can_be_replaced() {
    let ids = Issued::with(&[
        "admin user by A:sys for U:admin {\"nats\":{FREE}}",
        "app2 account by O:op for A:app {\"name\":\"APP\",\"nats\":{OPEN,\"revocations\":{\"@key:U:bob@\":99999999999}}}",
    ]);
    let server = Server::with_config(&ids.text(
        "operator: \"@op@\"\nresolver: MEM\nresolver_preload { @key:A:sys@: \"@sys@\", @key:A:app@: \"@app@\" }",
    ));
    let (mut admin, _) = ids.login(&server, "admin", "U:admin");
    admin.subscribe("r", 1);
    let of_app = ids.text("$SYS.REQ.ACCOUNT.@key:A:app@.CLAIMS.UPDATE");
    let answer = ask(&mut admin, &of_app, &ids.text("@app2@"));
    assert_eq!(answer["data"]["message"], "jwt update skipped", "nobody has needed it yet: {answer}");
    let (bob, answer) = ids.login(&server, "bob", "U:bob");
    assert_eq!(answer, "PONG");
    let answer = ask(&mut admin, &of_app, &ids.text("@app2@"));
    assert_eq!(answer["data"]["message"], "jwt updated", "{answer}");
    assert!(bob.rest().contains("-ERR 'User Authentication Revoked'"));
    admin.send("PUB $SYS.REQ.CLAIMS.LIST r 0\r\n\r\n");
    assert!(admin.barrier().is_empty(), "nobody answers");
}

/// Streams of an account are there again when the account comes back.
#[test]
fn an_account_that_comes_back_has_its_streams() {
    let ids = Issued::with(&[
        "admin user by A:sys for U:admin {\"nats\":{FREE}}",
        r#"js account by O:op for A:js {"nats":{"limits":{"subs":-1,"data":-1,"payload":-1,"imports":-1,"exports":-1,"wildcards":true,"conn":-1,"leaf":-1,"mem_storage":10000,"disk_storage":10000,"streams":2,"consumer":-1}}}"#,
        "jim user by A:js for U:jim {\"nats\":{FREE}}",
        "gone generic by O:op for O:op {\"nats\":{\"accounts\":[\"@key:A:js@\"]}}",
    ]);
    let place = tempfile::tempdir().unwrap();
    let server = Server::with_config(&ids.text(&format!(
        "operator: \"@op@\"\nresolver {{ type: full, dir: \"{0}/jwt\", allow_delete: true }}\n\
         resolver_preload {{ @key:A:sys@: \"@sys@\", @key:A:js@: \"@js@\" }}\njetstream {{ store_dir: \"{0}/js\" }}",
        place.path().display()
    )));
    let (mut admin, _) = ids.login(&server, "admin", "U:admin");
    admin.subscribe("r", 1);
    let (mut jim, answer) = ids.login(&server, "jim", "U:jim");
    assert_eq!(answer, "PONG");
    jim.subscribe("r", 1);
    let made = ask(&mut jim, "$JS.API.STREAM.CREATE.S", r#"{"name":"S","subjects":["s"],"max_bytes":1000}"#);
    assert_eq!(made["config"]["name"], "S", "{made}");
    assert_eq!(ask(&mut jim, "s", "hi")["seq"], 1);
    let answer = ask(&mut admin, "$SYS.REQ.CLAIMS.DELETE", &ids.text("@gone@"));
    assert_eq!(answer["data"]["code"], 200, "{answer}");
    assert!(jim.rest().contains("-ERR"));
    assert!(ids.login(&server, "jim", "U:jim").1.starts_with("-ERR"));
    let answer = ask(&mut admin, "$SYS.REQ.CLAIMS.UPDATE", &ids.text("@js@"));
    assert_eq!(answer["data"]["code"], 200, "{answer}");
    let (mut jim, answer) = ids.login(&server, "jim", "U:jim");
    assert_eq!(answer, "PONG");
    jim.subscribe("r", 1);
    assert_eq!(ask(&mut jim, "s", "ho")["seq"], 2);
}

/// Nobody could acknowledge what is delivered while the account has no JetStream: nothing is, and
/// it goes on where it was.
#[test]
fn consumers_of_an_account_that_lost_jetstream_rest() {
    const FREE: &str =
        r#""subs":-1,"data":-1,"payload":-1,"imports":-1,"exports":-1,"wildcards":true,"conn":-1,"leaf":-1"#;
    let stores = format!(r#"{FREE},"mem_storage":10000,"disk_storage":10000,"streams":2,"consumer":-1"#);
    let ids = Issued::with(&[
        "admin user by A:sys for U:admin {\"nats\":{FREE}}",
        &format!(r#"js account by O:op for A:js {{"nats":{{"limits":{{{stores}}}}}}}"#),
        &format!(r#"bare account by O:op for A:js {{"nats":{{"limits":{{{FREE}}}}}}}"#),
        "jim user by A:js for U:jim {\"nats\":{FREE}}",
    ]);
    let place = tempfile::tempdir().unwrap();
    let server = Server::with_config(&ids.text(&format!(
        "operator: \"@op@\"\nresolver {{ type: full, dir: \"{0}/jwt\" }}\n\
         resolver_preload {{ @key:A:sys@: \"@sys@\", @key:A:js@: \"@js@\" }}\njetstream {{ store_dir: \"{0}/js\" }}",
        place.path().display()
    )));
    let (mut admin, _) = ids.login(&server, "admin", "U:admin");
    admin.subscribe("r", 1);
    let mut update = |token: &str| {
        let answer = ask(&mut admin, "$SYS.REQ.CLAIMS.UPDATE", &ids.text(token));
        assert_eq!(answer["data"]["code"], 200, "{answer}");
    };
    let (mut listener, _) = ids.login(&server, "jim", "U:jim");
    listener.subscribe("d", 1);
    listener.barrier();
    let (mut jim, _) = ids.login(&server, "jim", "U:jim");
    jim.subscribe("r", 1);
    ask(&mut jim, "$JS.API.STREAM.CREATE.S", r#"{"name":"S","subjects":["s"],"max_bytes":1000}"#);
    let made = ask(
        &mut jim,
        "$JS.API.CONSUMER.CREATE.S.C",
        r#"{"stream_name":"S","config":{"name":"C","durable_name":"C","deliver_subject":"d","ack_policy":"explicit","ack_wait":200000000}}"#,
    );
    assert_eq!(made["name"], "C", "{made}");
    assert_eq!(ask(&mut jim, "s", "hi")["seq"], 1);
    let times = |message: &Message| -> usize {
        let reply = message.reply.as_deref().expect("a delivery can be acknowledged");
        reply.split('.').nth(4).and_then(|count| count.parse().ok()).expect("$JS.ACK.S.C.<times>.…")
    };
    let mut seen = times(&listener.message());
    update("@bare@");
    let until = |end: Duration, listener: &mut Raw| {
        let begun = Instant::now();
        let mut all = Vec::new();
        while begun.elapsed() < end {
            all.extend(listener.barrier());
        }
        all
    };
    // What was under way when the token came.
    seen = until(Duration::from_millis(100), &mut listener).last().map_or(seen, times);
    assert_eq!(until(Duration::from_millis(600), &mut listener), []);
    update("@js@");
    assert_eq!(times(&listener.message()), seen + 1);
}

/// An account that is taken away imports nothing and stores nothing, until it comes back.
#[test]
fn an_account_that_is_gone_neither_imports_nor_stores() {
    let ids = Issued::with(&[
        "admin user by A:sys for U:admin {\"nats\":{FREE}}",
        r#"ex account by O:op for A:ex {"nats":{"limits":{"subs":-1,"data":-1,"payload":-1,"imports":-1,"exports":-1,"wildcards":true,"conn":-1,"leaf":-1},"exports":[{"subject":"ev","type":"stream"}]}}"#,
        r#"js account by O:op for A:js {"nats":{"limits":{"subs":-1,"data":-1,"payload":-1,"imports":-1,"exports":-1,"wildcards":true,"conn":-1,"leaf":-1,"mem_storage":10000,"disk_storage":10000,"streams":2,"consumer":-1},"imports":[{"account":"@key:A:ex@","subject":"ev","type":"stream"}]}}"#,
        "eve user by A:ex for U:eve {\"nats\":{FREE}}",
        "jim user by A:js for U:jim {\"nats\":{FREE}}",
        "gone generic by O:op for O:op {\"nats\":{\"accounts\":[\"@key:A:js@\"]}}",
    ]);
    let place = tempfile::tempdir().unwrap();
    let server = Server::with_config(&ids.text(&format!(
        "operator: \"@op@\"\nresolver {{ type: full, dir: \"{0}/jwt\", allow_delete: true }}\n\
         resolver_preload {{ @key:A:sys@: \"@sys@\", @key:A:js@: \"@js@\", @key:A:ex@: \"@ex@\" }}\n\
         jetstream {{ store_dir: \"{0}/js\" }}",
        place.path().display()
    )));
    let (mut admin, _) = ids.login(&server, "admin", "U:admin");
    admin.subscribe("r", 1);
    let jim = || {
        let (mut jim, answer) = ids.login(&server, "jim", "U:jim");
        assert_eq!(answer, "PONG");
        jim.subscribe("r", 1);
        jim.subscribe("ev", 2);
        jim.barrier();
        jim
    };
    let mut first = jim();
    let made =
        ask(&mut first, "$JS.API.STREAM.CREATE.S", r#"{"name":"S","subjects":["own"],"max_bytes":1000}"#);
    assert_eq!(made["config"]["name"], "S", "{made}");
    let (mut eve, _) = ids.login(&server, "eve", "U:eve");
    eve.publish("ev", "1");
    assert_eq!(first.message().text(), "1");
    let answer = ask(&mut admin, "$SYS.REQ.CLAIMS.DELETE", &ids.text("@gone@"));
    assert_eq!(answer["data"]["code"], 200, "{answer}");
    assert!(first.rest().contains("-ERR"));
    let jsz = server.page("/jsz?accounts=1");
    let key = ids.text("@key:A:js@");
    let names = |jsz: &Value| jsz["account_details"].to_string().contains(&key);
    assert!(!names(&jsz), "{jsz}");
    eve.publish("ev", "2");
    eve.barrier();
    let answer = ask(&mut admin, "$SYS.REQ.CLAIMS.UPDATE", &ids.text("@js@"));
    assert_eq!(answer["data"]["code"], 200, "{answer}");
    let mut again = jim();
    eve.publish("ev", "3");
    assert_eq!(again.message().text(), "3");
    assert_eq!(ask(&mut again, "own", "hi")["seq"], 1);
    assert!(names(&server.page("/jsz?accounts=1")));
}
