//! Official clients over WebSocket, plain and encrypted, and what TLS has to do with it.

use super::peer::{Peer, dial};
use super::{address, server};
use crate::certificates::params;
use crate::client::settle;
use crate::logging::programs;
use crate::process::{Server, Setup};
use crate::soon;
use crate::tls::Lab;
use async_nats::jetstream::{self, stream};
use async_nats::{Client, ConnectOptions};
use futures_util::StreamExt as _;
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;

const BLOCK: &str = "host: \"127.0.0.1\", port: -1";

fn secure_address(server: &Server) -> SocketAddr {
    server.monitor("Listening for websocket clients on wss://")
}

/// Some clients over WebSocket and one over TCP hear each other, and use streams.
async fn all_is_well(clients: &[Client]) {
    let mut subs = Vec::new();
    for client in clients {
        subs.push(client.subscribe("all.>").await.expect("all is well"));
        settle(client).await;
    }
    let large = vec![b'x'; 900_000];
    for (number, client) in clients.iter().enumerate() {
        for count in 0..200 {
            let payload = if count == 100 { large.clone() } else { format!("{count}").into_bytes() };
            client.publish(format!("all.{number}"), payload.into()).await.expect("all is well");
        }
        client.flush().await.expect("all is well");
    }
    for sub in &mut subs {
        let mut next = vec![0; clients.len()];
        for _ in 0..clients.len() * 200 {
            let message = soon("a message", sub.next()).await.expect("alive");
            let from: usize =
                message.subject.strip_prefix("all.").expect("all is well").parse().expect("all is well");
            match next[from] {
                100 => assert_eq!(message.payload.len(), large.len()),
                count => assert_eq!(message.payload, format!("{count}")),
            }
            next[from] += 1;
        }
    }
    let mut service = clients[0].subscribe("ask").await.expect("all is well");
    settle(&clients[0]).await;
    let answering = clients[0].clone();
    tokio::spawn(async move {
        while let Some(request) = service.next().await {
            answering
                .publish(request.reply.expect("all is well"), request.payload)
                .await
                .expect("all is well");
        }
    });
    let answer = soon("an answer", clients[1].request("ask", "why".into())).await.expect("all is well");
    assert_eq!(answer.payload, "why");
    let stream = jetstream::new(clients[1].clone());
    let config =
        stream::Config { name: "S".to_owned(), subjects: vec!["s.>".to_owned()], ..Default::default() };
    soon("a stream", stream.create_stream(config)).await.expect("all is well");
    for _ in 0..50 {
        let published = async { stream.publish("s.x", "y".into()).await?.await };
        soon("an acknowledgement", published).await.expect("all is well");
    }
    assert_eq!(
        stream.get_stream("S").await.expect("all is well").info().await.expect("all is well").state.messages,
        50
    );
}

#[tokio::test]
async fn the_official_client_notices_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let around = format!("jetstream {{ store_dir: \"{}\" }}", dir.path().display());
    let server = server("compression: true", &around);
    let url = format!("ws://{}", address(&server));
    let mut clients = vec![soon("connecting", async_nats::connect(server.url())).await.unwrap()];
    for _ in 0..5 {
        clients.push(soon("connecting", async_nats::connect(&url)).await.expect("welcome"));
    }
    all_is_well(&clients).await;
}

#[tokio::test]
async fn the_official_client_notices_nothing_of_encryption() {
    let (lab, dir) = (Lab::new(), tempfile::tempdir().unwrap());
    let config = format!(
        "websocket {{ {BLOCK}, compression: true, {} }}\njetstream {{ store_dir: \"{}\" }}",
        lab.block(""),
        dir.path().display()
    );
    let server = Server::with_config(&config);
    let url = format!("wss://localhost:{}", secure_address(&server).port());
    let options = || ConnectOptions::new().add_root_certificates(lab.file("ca.pem"));
    let mut clients = vec![soon("connecting", async_nats::connect(server.url())).await.unwrap()];
    for _ in 0..5 {
        clients.push(soon("connecting", options().connect(&url)).await.expect("welcome"));
    }
    all_is_well(&clients).await;
    let page = server.page("/connz");
    let secure: Vec<_> =
        page["connections"].as_array().unwrap().iter().filter(|c| c["type"] == "websocket").collect();
    assert_eq!(secure.len(), 5);
    assert!(secure.iter().all(|conn| conn["tls_version"] == "1.3"), "{page}");
    assert!(server.page("/varz")["websocket"]["tls_cert_not_after"].is_string());
    let logged = server.log();
    assert!(!logged.contains("DO NOT USE IN PRODUCTION"), "{logged}");
}

/// The certificate of the handshake names the user here too, and whoever sends no CONNECT.
#[test]
fn a_certificate_names_its_user_here_too() {
    let lab = Lab::new();
    lab.sign_as("known", &params(&["email:e@x"], &[]));
    lab.sign_as("unknown", &params(&["email:f@x"], &[]));
    let users = "authorization { users: [ {user: \"e@x\", permissions: {publish: mapped}}, \
                 {user: guest, password: p, permissions: {publish: silent}} ] }";
    let tls = lab.block("verify_and_map: true, ca_file: \"@ca.pem\"");
    let (connect, violation) =
        ("CONNECT {\"verbose\":false,\"pedantic\":false}\r\n", "-ERR 'Authorization Violation'");
    let mapped = "-ERR 'Permissions Violation for Publish to \"silent\"'";
    for program in programs() {
        for more in ["", "no_auth_user: guest"] {
            let block = BLOCK.replace(", ", "\n");
            let config = format!("{users}\nwebsocket {{\n{block}\n{more}\n{tls} }}");
            let server = Setup::default().program(&program).config(&config).start();
            for (name, hello) in [("known", connect), ("known", ""), ("unknown", connect), ("unknown", "")] {
                let socket = dial(secure_address(&server));
                let mut peer = Peer::over(lab.shake(socket, Some(name)).into_stream(), "");
                peer.info();
                peer.say(&format!("{hello}PUB silent 0\r\n\r\nPUB mapped 0\r\n\r\nPING\r\n"));
                let is_in = name == "known" && (!hello.is_empty() || !more.is_empty());
                let said = peer.line();
                assert_eq!(
                    said,
                    if is_in { mapped } else { violation },
                    "{} {name} {hello:?} {more}",
                    program.display()
                );
                if is_in {
                    assert_eq!(peer.line(), if hello.is_empty() { "+OK" } else { "PONG" });
                }
            }
        }
    }
}

#[test]
fn encryption_has_to_be_there() {
    let lab = Lab::new();
    let config =
        format!("websocket {{ {BLOCK}, compression: true, handshake_timeout: \"1s\", {} }}", lab.block(""));
    let server = Server::with_config(&config);
    let at = secure_address(&server);
    let mut plain = dial(at);
    plain.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut answer = String::new();
    plain.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n");
    server.wait_for_log("websocket: TLS handshake error from ");
    let mut silent = dial(at);
    silent.read_to_string(&mut answer).unwrap();
    // A peer that says all of it a byte at a time.
    let mut peer = Peer::over(lab.shake(dial(at), None).into_stream(), super::peer::DEFLATE);
    let info = peer.info();
    assert_eq!((&info["tls_required"], &info["tls_available"]), (&json!(true), &json!(true)));
    peer.send(&super::peer::packed(b"CONNECT {\"verbose\":false}\r\nSUB a 1\r\n"));
    let body = vec![b'x'; 500_000];
    peer.send(&super::peer::packed(&[b"PUB a 500000\r\n", &body[..], b"\r\n"].concat()));
    assert_eq!(peer.line(), "MSG a 1 500000");
    assert!(peer.take(500_002)[..500_000] == body);
    peer.send(&super::peer::frame(super::peer::CLOSE, b"\x03\xe8"));
    assert_eq!(peer.rest().closed_with(), Some((1000, String::new())));
}

#[test]
fn certificates_of_clients_count_here_too() {
    let lab = Lab::new();
    let pin = lab.sign("client");
    lab.sign("other");
    let more = format!("verify: true, ca_file: \"@ca.pem\", pinned_certs: [\"{pin}\"]");
    let server = Server::with_config(&format!("websocket {{ {BLOCK}, {} }}", lab.block(&more)));
    let at = secure_address(&server);
    Peer::over(lab.shake(dial(at), Some("client")).into_stream(), "").info();
    for shown in [None, Some("other")] {
        let mut stream = lab.shake(dial(at), shown).into_stream();
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(answer, b"");
    }
    server.wait_for_log("certificate not pinned");
}

#[test]
fn a_reload_brings_new_certificates() {
    let lab = Lab::new();
    let config = format!("websocket {{ {BLOCK}, {} }}", lab.block(""));
    let server = Server::with_config(&config);
    let at = secure_address(&server);
    let shown = || {
        let peer = lab.shake(dial(at), None).into_stream();
        let mut stream = peer;
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        stream.conn.peer_certificates().unwrap()[0].to_vec()
    };
    let before = shown();
    assert_eq!(before, shown());
    lab.sign("server");
    let lines = server.reload(&config);
    assert!(lines.iter().any(|line| line.contains("Reloaded server configuration")), "{lines:?}");
    assert_ne!(before, shown());
}
