//! Accounts, their tokens and certificates, and the system account.

use super::{Stage, ask_for};
use crate::process::Setup;
use crate::raw::{CONNECT, Raw};
use crate::resolving::{BEARER, OPEN, issued, login, text};
use crate::{eventually, revocation};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

pub(super) const CASES: &[&str] = &[
    "system",
    "sys-pages",
    "activations",
    "bootstrap",
    "sought-accounts",
    "token-files",
    "http-client",
    "ocsp-staple",
    "ocsp-cache",
    "ocsp-wait",
];

#[test]
fn the_system_account_tells_and_answers_after_panics() {
    let config = "accounts { SYS { users: [ { user: s, password: p } ] }, A { users: [ { user: a, password: p } ] } }\n\
                  system_account: SYS\nno_auth_user: a\n";
    let stage = Stage::start(Setup::default().config(config));
    let mut operator = Raw::open(stage.server.address());
    operator.send(&format!(
        "{}\r\n",
        CONNECT.replace("{\"verbose\"", "{\"user\":\"s\",\"pass\":\"p\",\"verbose\"")
    ));
    operator.barrier();
    stage.strike("system", |_| {});
    operator.subscribe("$SYS.ACCOUNT.A.CONNECT", 1);
    operator.subscribe("answers", 2);
    operator.barrier();
    let _client = Raw::connect(&stage.server);
    assert_eq!(operator.message().subject, "$SYS.ACCOUNT.A.CONNECT");
    let request = "PUB $SYS.REQ.SERVER.PING.VARZ answers 0\r\n\r\n";
    let mut is_sent = false;
    stage.strike("sys-pages", |_| {
        if !std::mem::replace(&mut is_sent, true) {
            operator.send(request);
        }
    });
    operator.send(request);
    while operator.message().subject != "answers" {}
    assert_eq!(stage.panics(), 2);
}

#[test]
fn tokens_are_looked_after_when_that_has_panicked() {
    let ids = issued(&[
        r#"op operator by O:op for O:op {"name":"op"}"#.to_owned(),
        format!(r#"sys account by O:op for A:sys {{"nats":{{{OPEN}}}}}"#),
        format!("s user by A:sys for U:s {BEARER}"),
    ]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let streams = tempfile::tempdir().expect("a temporary folder");
    let config = format!(
        "operator: \"@op@\"\nsystem_account: @key:A:sys@\nresolver {{ type: full, dir: {:?} }}\n\
         server_name: s\njetstream {{ store_dir: {:?} }}\ncluster {{ name: C, listen: \"127.0.0.1:-1\", routes: [\"nats://127.0.0.1:1\"] }}\n",
        folder.path(),
        streams.path()
    );
    let parts = ["activations", "bootstrap", "sought-accounts", "token-files"];
    let stage = Stage::start_struck(Setup::default().config(&text(&ids, &config)), &parts);
    for part in parts {
        stage.server.wait_for_log(&format!("Panic in {part} (thread "));
    }
    // It is still asked for.
    std::fs::write(folder.path().join(text(&ids, "@key:A:sys@.jwt")), text(&ids, "@sys@"))
        .expect("it takes files");
    stage.server.wait_for_log("System account fetched and updated");
    assert_eq!(login(&stage.server, &ids, "s").1, "PONG");
}

#[test]
fn a_lookup_that_panics_costs_its_client() {
    let ids = issued(&[
        r#"op operator by O:op for O:op {"name":"op"}"#.to_owned(),
        format!(r#"app account by O:op for A:app {{"nats":{{{OPEN}}}}}"#),
        format!("bob user by A:app for U:bob {BEARER}"),
    ]);
    let port = serve(text(&ids, "@app@"));
    let config = format!("operator: \"@op@\"\nresolver: URL(\"http://127.0.0.1:{port}/\")\n");
    let stage = Stage::start(Setup::default().config(&text(&ids, &config)));
    stage.strike("http-client", |server| {
        assert_ne!(login(server, &ids, "bob").1, "PONG");
    });
    eventually("bob is let in", || login(&stage.server, &ids, "bob").1 == "PONG");
}

/// A web server that gives one token whatever it is asked for. Without TLS: lookups have two
/// seconds, also on a busy machine.
fn serve(token: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{token}", token.len());
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    port
}

#[test]
fn proofs_of_certificates_come_after_panics() {
    let lab = revocation::Lab::new(false);
    let config = lab.config("verify: true, ocsp_peer: true", "ocsp { mode: always }\n");
    // Where it keeps what it was told about certificates.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let setup = Setup::default().config(&config).folder(folder.path());
    let stage = Stage::start_struck(setup, &["ocsp-staple", "ocsp-cache"]);
    for part in ["ocsp-staple", "ocsp-cache"] {
        stage.server.wait_for_log(&format!("Panic in {part} (thread "));
    }
    stage.server.wait_for_log("Found OCSP status for Client certificate at");
    stage.strike("http-client", |server| {
        let (mut client, _) = revocation::connect(server, Some(&lab.client(5)));
        assert!(client.barrier().is_err(), "nobody knows whether it was revoked");
    });
    let (mut client, proof) = revocation::connect(&stage.server, Some(&lab.client(5)));
    client.barrier().expect("it was not revoked");
    assert!(!proof.lock().expect("nobody panics").is_empty());
    ask_for(stage.folder.path(), "ocsp-wait");
    let other = config.replace("ocsp { mode: always }", "ocsp { mode: always }\nmax_payload: 1000");
    let lines = stage.server.reload(&other);
    assert!(lines.iter().any(|line| line.contains("it ended in a panic")), "{lines:?}");
    stage.server.wait_for_log("Panic in ocsp-wait (thread ");
    eventually("another reload succeeds", || {
        stage.server.reload(&other).iter().any(|line| line.contains("Reloaded server configuration"))
    });
}
