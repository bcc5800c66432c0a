//! Handshakes that are many, slow, or not what they seem.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use crate::logging::programs;
use crate::process::{Server, Setup};
use crate::raw::Raw;
use crate::resources::{allow_descriptors, connect_from_elsewhere};
use crate::routes::free_port;
use crate::tls::{Lab, dial, greeted};
use crate::websocket::peer::Peer;

fn client(lab: &Lab) -> ClientConnection {
    ClientConnection::new(lab.config(None), ServerName::try_from("localhost").expect("what a test needs"))
        .expect("what a test needs")
}

/// ClientHello, the first bytes of a client.
fn hello(lab: &Lab) -> Vec<u8> {
    let mut hello = Vec::new();
    client(lab).write_tls(&mut hello).expect("what a test needs");
    hello
}

/// Largest resident memory in bytes for a client that has begun a handshake and does not go on.
const MEMORY_EACH: u64 = 24 * 1024;

#[test]
fn handshakes_that_do_not_go_on_hold_up_nobody() {
    const CROWD: usize = 3000;
    allow_descriptors(CROWD as u64 + 1000);
    let lab = Lab::new();
    let server = lab.server("timeout: 100");
    let mut old = lab.secure(&server, None);
    old.send("CONNECT {\"verbose\":false}\r\nSUB echo 1\r\n");
    old.barrier().unwrap();
    let (hello, before) = (hello(&lab), server.memory());
    let mut crowd: Vec<TcpStream> = Vec::new();
    for number in 0..CROWD {
        let mut socket = connect_from_elsewhere(server.address());
        // Nothing, a part of what they have to say, and, now and then, all of it.
        let sent = match number % 10 {
            0 => hello.len(),
            1..5 => 3,
            5..9 => hello.len() - 1,
            _ => 0,
        };
        socket.write_all(&hello[..sent]).unwrap();
        crowd.push(socket);
        if number % 300 == 0 {
            old.send("PUB echo 2\r\nhi\r\n");
            assert_eq!(old.barrier().unwrap(), b"MSG echo 1 2\r\nhi\r\nPONG\r\n");
        }
    }
    crate::eventually("all are accepted", || server.connections() as usize == CROWD + 1);
    let each = server.memory().saturating_sub(before) / CROWD as u64;
    assert!(each <= MEMORY_EACH, "{each} bytes for each");
    // Who wants in gets in.
    for _ in 0..5 {
        assert!(lab.secure(&server, None).serves());
    }
    old.barrier().unwrap();
    drop(crowd);
    crate::eventually("they have left", || server.connections() == 1);
}

#[test]
fn what_comes_with_the_end_of_a_handshake_is_read_or_ends_it() {
    let lab = Lab::new();
    for program in programs() {
        let server = Setup::default().program(&program).config(&lab.block("")).start();
        let mut witness = lab.secure(&server, None);
        witness.send("CONNECT {\"verbose\":false}\r\nSUB injected 1\r\n");
        witness.barrier().unwrap();
        let inside = b"CONNECT {\"verbose\":false}\r\nPING\r\n";
        for plain in [&b""[..], b"CONNECT {\"verbose\":false}\r\nPUB injected 1\r\nx\r\nPING\r\n"] {
            let (mut socket, _) = greeted(&server);
            let mut connection = client(&lab);
            let mut flight = Vec::new();
            connection.write_tls(&mut flight).unwrap();
            socket.write_all(&flight).unwrap();
            while connection.is_handshaking() {
                connection.read_tls(&mut socket).unwrap();
                connection.process_new_packets().unwrap();
            }
            // The end of the handshake, the first operations, and what is in the plain: in one
            // piece.
            connection.writer().write_all(inside).unwrap();
            let mut flight = Vec::new();
            while connection.wants_write() {
                connection.write_tls(&mut flight).unwrap();
            }
            flight.extend_from_slice(plain);
            socket.write_all(&flight).unwrap();
            let mut read = Vec::new();
            while !read.ends_with(b"PONG\r\n") {
                match connection.read_tls(&mut socket) {
                    Ok(n) if n > 0 => {}
                    _ => break,
                }
                if connection.process_new_packets().is_err() {
                    break;
                }
                let mut chunk = [0; 1024];
                while let Ok(n) = connection.reader().read(&mut chunk) {
                    if n == 0 {
                        break;
                    }
                    read.extend_from_slice(&chunk[..n]);
                }
            }
            if plain.is_empty() {
                assert_eq!(read, b"PONG\r\n");
            } else {
                // The operations inside may have been answered; after that it is over.
                let _ = socket.write_all(inside);
                let mut rest = Vec::new();
                let _ = socket.read_to_end(&mut rest);
                assert!(!rest.ends_with(b"PONG\r\n"));
                crate::eventually("only the witness is left", || server.connections() == 1);
            }
            drop(socket);
            crate::eventually("only the witness is left", || server.connections() == 1);
        }
        // In front of it, too.
        let (mut socket, _) = greeted(&server);
        socket.write_all(&[&b"PUB injected 1\r\nx\r\n"[..], &hello(&lab)].concat()).unwrap();
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest);
        assert!(!rest.starts_with(b"\x16"), "no handshake");
        assert_eq!(witness.barrier().unwrap(), b"PONG\r\n", "nothing was published");
    }
}

#[test]
fn handshakes_may_be_limited() {
    let lab = Lab::new();
    for program in programs() {
        let server = Setup::default()
            .program(&program)
            .config(&lab.block("connection_rate_limit: 2, timeout: \"500ms\""))
            .start();
        let mut refusal = String::new();
        crate::eventually("one is refused", || {
            // Two who are allowed to, and one who is not, if the second is not over yet.
            let _allowed = [0, 1].map(|_| {
                let (mut socket, _) = greeted(&server);
                socket.write_all(&hello(&lab)).unwrap();
                socket
            });
            let (mut socket, _) = greeted(&server);
            socket.read_to_string(&mut refusal).unwrap();
            !refusal.is_empty()
        });
        assert_eq!(refusal, "-ERR 'Connection throttling is active. Please try again later.'\r\n");
        server.wait_for_close("Maximum Connections Exceeded");
        let line = server.wait_for_log("connections due to TLS rate limiting");
        assert!(line.contains("[WRN] Rejected "), "{line}");
        crate::eventually("and the next may come", || lab.secure(&server, None).serves());
    }
}

/// Between its steps nobody may be told one thing and get the other.
#[test]
fn a_reload_that_switches_tls_breaks_no_word() {
    let lab = Lab::new();
    let server = lab.server("");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut kinds = [0, 0];
                    while !is_over.load(Relaxed) {
                        let (mut socket, info) = greeted(&server);
                        if info.contains("\"tls_required\":true") {
                            kinds[1] += 1;
                            lab.shake(socket, None).barrier().expect("TLS was required");
                        } else {
                            kinds[0] += 1;
                            socket.write_all(b"PING\r\n").unwrap();
                            let mut answer = [0; 6];
                            socket.read_exact(&mut answer).expect("nothing was required");
                            assert_eq!(&answer, b"PONG\r\n");
                        }
                    }
                    kinds
                })
            })
            .collect();
        for number in 0..30 {
            let text = if number % 2 == 0 { String::new() } else { lab.block("") };
            server.reload(&text);
        }
        is_over.store(true, Relaxed);
        for client in clients {
            let kinds = client.join().expect("words are kept");
            assert!(kinds[0] > 0 && kinds[1] > 0, "{kinds:?}");
        }
    });
}

#[test]
fn keys_that_are_no_longer_pinned_go() {
    let lab = Lab::new();
    let (one, other) = (lab.sign("one"), lab.sign("other"));
    let block =
        |pins: &str| lab.block(&format!("verify: true, ca_file: \"@ca.pem\", pinned_certs: [{pins}]"));
    for program in programs() {
        let server =
            Setup::default().program(&program).config(&block(&format!("\"{one}\", \"{other}\""))).start();
        let mut clients = ["one", "other"].map(|name| lab.secure(&server, Some(name)));
        clients.iter_mut().for_each(|client| assert!(client.barrier().is_ok()));
        server.reload(&block(&format!("\"{one}\"")));
        server.wait_for_log("[INF] Reloaded: 1 pinned_certs");
        server.wait_for_log("[INF] Disconnect 1 clients due to pinned certs reload");
        server.wait_for_close("TLS Handshake Failure");
        assert!(clients[0].barrier().is_ok() && clients[1].barrier().is_err());
    }
}

/// Listeners for WebSocket have pins of their own.
#[test]
fn keys_that_are_pinned_for_clients_are_not_for_web_sockets() {
    let lab = Lab::new();
    let (one, other) = (lab.sign("one"), lab.sign("other"));
    let port = free_port();
    let web_socket = format!("websocket {{ listen: \"127.0.0.1:{port}\", no_tls: true }}");
    let config = |pin: &str| {
        let pins = format!("verify: true, ca_file: \"@ca.pem\", pinned_certs: [\"{pin}\"]");
        format!("{web_socket}\n{}", lab.block(&pins))
    };
    for program in programs() {
        let server = Setup::default().program(&program).config(&config(&one)).start();
        let mut client = lab.secure(&server, Some("one"));
        assert!(client.barrier().is_ok());
        let mut browser = Peer::connect(([127, 0, 0, 1], port).into(), "");
        server.reload(&config(&other));
        server.wait_for_log("[INF] Disconnect 1 clients due to pinned certs reload");
        assert!(client.barrier().is_err());
        browser.say("PING\r\n");
        assert_eq!(browser.line(), "PONG");
    }
}

#[test]
fn tls_may_be_first_and_optional() {
    let lab = Lab::new();
    for program in programs() {
        let start = |first: &str| {
            let config = format!("allow_non_tls: true\n{}", lab.block(&format!("handshake_first: {first}")));
            Setup::default().program(&program).config(&config).start()
        };
        let info = |client: &mut crate::tls::Secure| String::from_utf8(client.barrier().unwrap()).unwrap();
        // First is first: nobody does without.
        let server = start("true");
        server.wait_for_log("[INF] TLS required for client connections");
        let said = info(&mut lab.shake(dial(&server), None));
        assert!(
            said.contains("\"tls_required\":true,\"tls_available\":true"),
            "{} {said}",
            program.display()
        );
        let mut plain = dial(&server);
        plain.write_all(b"CONNECT {}\r\nPING\r\n").unwrap();
        let mut rest = Vec::new();
        let _ = plain.read_to_end(&mut rest);
        assert!(!rest.starts_with(b"INFO"), "{}", rest.escape_ascii());
        // With a delay there are three ways in.
        for first in ["auto", "\"150ms\""] {
            let server = start(first);
            server.wait_for_log("[INF] TLS available for client connections");
            assert!(info(&mut lab.shake(dial(&server), None)).contains("\"tls_required\":true"));
            let (socket, said) = greeted(&server);
            assert!(said.contains("\"tls_available\":true") && !said.contains("tls_required"), "{said}");
            assert!(lab.shake(socket, None).serves());
            Raw::open(server.address()).barrier();
        }
    }
}

#[test]
fn a_key_behind_a_password_is_refused_clearly() {
    let lab = Lab::new();
    let key = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAg=\n\
               -----END ENCRYPTED PRIVATE KEY-----\n";
    std::fs::write(lab.dir.path().join("server.key"), key).unwrap();
    let path = lab.dir.path().join("server.conf");
    std::fs::write(&path, format!("port: -1\n{}", lab.block(""))).unwrap();
    for program in programs() {
        let output = std::process::Command::new(&program).arg("-c").arg(&path).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let what = "error parsing X509 certificate/key pair: tls: failed to parse private key";
        assert!(said.contains(what), "{} {said}", program.display());
        let is_ours = program == std::path::Path::new(crate::process::PROGRAM);
        assert_eq!(said.contains("it is encrypted"), is_ours, "{said}");
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn a_client_that_resets_in_the_middle_costs_nothing() {
    let lab = Lab::new();
    let server = Server::with_config(&lab.block("timeout: 100"));
    for _ in 0..200 {
        let mut socket = TcpStream::connect(server.address()).unwrap();
        socket.write_all(&hello(&lab)).unwrap();
        // INFO is unread, so this is a reset.
        drop(socket);
    }
    crate::eventually("all have left", || server.connections() == 0);
    assert!(lab.secure(&server, None).serves());
}
