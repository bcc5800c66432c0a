//! Tokens behind a URL with TLS, and activations that end while clients are there.

use crate::eventually;
use crate::process::{Server, Setup};
use crate::raw::Raw;
use crate::tls::Lab;
use myelin_compat::identity::{Identities, Order};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

pub(crate) const OPEN: &str = r#""limits":{"subs":-1,"data":-1,"payload":-1,"imports":-1,"exports":-1,"wildcards":true,"conn":-1,"leaf":-1}"#;
pub(crate) const BEARER: &str = r#"{"nats":{"subs":-1,"data":-1,"payload":-1,"bearer_token":true}}"#;

pub(crate) fn issued(orders: &[String]) -> Identities {
    let orders: Vec<_> =
        orders.iter().map(|order| Order::parse(order).expect("a test is well made")).collect();
    Identities::issue(&orders).expect("a test is well made")
}

pub(crate) fn text(ids: &Identities, text: &str) -> String {
    String::from_utf8(ids.fill(text.as_bytes()).expect("a test is well made")).expect("a test is well made")
}

pub(crate) fn login(server: &Server, ids: &Identities, token: &str) -> (Raw, String) {
    let mut raw = Raw::open(server.address());
    let connect =
        format!("CONNECT {{\"jwt\":\"@{token}@\",\"verbose\":false,\"pedantic\":false}}\r\nPING\r\n");
    raw.send(&text(ids, &connect));
    let answer = raw.line();
    (raw, answer)
}

/// A web server over TLS that gives one token whatever it is asked for.
fn serve(lab: &Lab, token: String) -> u16 {
    let cert = CertificateDer::from_pem_file(lab.file("server.pem")).expect("the lab signs");
    let key = PrivateKeyDer::from_pem_file(lab.file("server.key")).expect("the lab signs");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![cert], key)
        .expect("a pair");
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            let connection = ServerConnection::new(Arc::clone(&config)).expect("a configuration");
            let mut stream = StreamOwned::new(connection, stream);
            let mut request = Vec::new();
            let mut byte = [0];
            while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n > 0) {
                request.push(byte[0]);
            }
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", token.len());
            let _ = stream.write_all(format!("{head}{token}").as_bytes());
            let _ = stream.flush();
        }
    });
    port
}

/// A web server that gives tokens of accounts by their keys, and lets whoever asks for another one
/// wait. Answers its port, and the number of those who wait.
fn serve_known(known: Vec<(String, String)>) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let port = listener.local_addr().expect("an address").port();
    let waiting = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&waiting);
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut request = Vec::new();
            let mut byte = [0];
            while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n > 0) {
                request.push(byte[0]);
            }
            let request = String::from_utf8_lossy(&request).into_owned();
            let found = known.iter().find(|(key, _)| request.contains(key.as_str()));
            // The resolver asks for nothing at its start, and takes any answer.
            match found.map(|(_, token)| token.as_str()).or(request.starts_with("GET / ").then_some("")) {
                Some(body) => {
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                    let _ = stream.write_all(format!("{head}{body}").as_bytes());
                }
                None => {
                    counted.fetch_add(1, Relaxed);
                    held.push(stream);
                }
            }
        }
    });
    (port, waiting)
}

/// Strangers with tokens of accounts that nobody knows wait for themselves.
#[test]
fn users_of_a_known_account_do_not_wait_behind_strangers() {
    let mut orders = vec![
        r#"op operator by O:op for O:op {"name":"op"}"#.to_owned(),
        format!(r#"app account by O:op for A:app {{"nats":{{{OPEN}}}}}"#),
        format!("bob user by A:app for U:bob {BEARER}"),
    ];
    orders.extend((0..100).map(|n| format!("s{n} user by A:s{n} for U:s{n} {BEARER}")));
    let ids = issued(&orders);
    let (port, waiting) = serve_known(vec![(text(&ids, "@key:A:app@"), text(&ids, "@app@"))]);
    let config = text(&ids, &format!("operator: \"@op@\"\nresolver: URL(\"http://127.0.0.1:{port}/\")"));
    let server = Server::with_config(&config);
    let (_bob, answer) = login(&server, &ids, "bob");
    assert_eq!(answer, "PONG");
    let strangers: Vec<Raw> = (0..100)
        .map(|n| {
            let mut raw = Raw::open(server.address());
            raw.send(&text(&ids, &format!("CONNECT {{\"jwt\":\"@s{n}@\",\"verbose\":false}}\r\n")));
            raw
        })
        .collect();
    eventually("all places of strangers are taken", || waiting.load(Relaxed) >= 16);
    let (_bob, answer) = login(&server, &ids, "bob");
    assert_eq!(answer, "PONG");
    assert!(waiting.load(Relaxed) < 100, "the strangers wait still");
    drop(strangers);
}

#[test]
fn a_resolver_behind_tls_is_one_that_its_authority_vouches_for() {
    let ids = issued(&[
        r#"op operator by O:op for O:op {"name":"op"}"#.to_owned(),
        format!(r#"app account by O:op for A:app {{"nats":{{{OPEN}}}}}"#),
        format!("bob user by A:app for U:bob {BEARER}"),
    ]);
    let (lab, stranger) = (Lab::new(), Lab::new());
    let port = serve(&lab, text(&ids, "@app@"));
    let config = |tls: &str| {
        text(&ids, &format!("operator: \"@op@\"\nresolver: URL(\"https://127.0.0.1:{port}/\")\n{tls}"))
    };
    for tls in [
        format!("resolver_tls {{ ca_file: \"{}\" }}", lab.file("ca.pem").display()),
        "resolver_tls { insecure: true }".to_owned(),
    ] {
        let server = Server::with_config(&config(&tls));
        let (_bob, answer) = login(&server, &ids, "bob");
        assert_eq!(answer, "PONG", "{tls}");
    }
    // Others are not believed: the server does not even start, for it asks at its start.
    let tls = format!("resolver_tls {{ ca_file: \"{}\" }}", stranger.file("ca.pem").display());
    for tls in [tls.as_str(), ""] {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), config(tls)).expect("it takes text");
        let output = std::process::Command::new(crate::process::PROGRAM)
            .args(["-a", "127.0.0.1", "-p", "-1", "-c"])
            .arg(file.path())
            .output()
            .expect("the program starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("tls: "), "{tls}: {said}");
    }
}

/// An import holds as long as its activation, and not until somebody looks at it.
#[test]
fn an_activation_ends_in_its_second() {
    let ids = issued(&[
        r#"op operator by O:op for O:op {"name":"op"}"#.to_owned(),
        format!(
            r#"ex account by O:op for A:ex {{"nats":{{{OPEN},"exports":[{{"subject":"priv.>","type":"stream","token_req":true}}]}}}}"#
        ),
        r#"act activation by A:ex for A:im {"exp":"+3","nats":{"subject":"priv.>","kind":"stream"}}"#
            .to_owned(),
        format!(
            r#"im account by O:op for A:im {{"nats":{{{OPEN},"imports":[{{"account":"@key:A:ex@","subject":"priv.>","type":"stream","token":"@act@"}}]}}}}"#
        ),
        format!("e user by A:ex for U:e {BEARER}"),
        format!("i user by A:im for U:i {BEARER}"),
    ]);
    let config = "operator: \"@op@\"\nresolver: MEM\nresolver_preload {\n@key:A:ex@: \"@ex@\"\n@key:A:im@: \"@im@\"\n}\n";
    let server = Setup::default().config(&text(&ids, config)).start();
    let (mut exporter, _) = login(&server, &ids, "e");
    let (mut importer, answer) = login(&server, &ids, "i");
    assert_eq!(answer, "PONG");
    importer.subscribe("priv.x", 1);
    importer.barrier();
    let mut hears = || {
        exporter.publish("priv.x", "m");
        exporter.barrier();
        !importer.barrier().is_empty()
    };
    assert!(hears(), "it is activated");
    eventually("the import ends", || !hears());
    assert!(!hears(), "and does not come back");
}
