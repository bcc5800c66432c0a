//! The PROXY protocol in front of clients, on ours and on the reference.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use crate::logging::programs;
use crate::process::{Server, Setup};
use crate::tls::{Lab, dial, greeted};

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// A header of version 2.
fn v2(version_command: u8, family_protocol: u8, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).expect("what a test needs").to_be_bytes();
    [SIGNATURE, &[version_command, family_protocol], &length, data].concat()
}

/// From 10.1.2.3:4444.
fn from_v4(more: &[u8]) -> Vec<u8> {
    v2(0x21, 0x11, &[&[10, 1, 2, 3, 10, 0, 0, 1, 0x11, 0x5c, 0x10, 0x7e], more].concat())
}

fn start(program: &Path, more: &str) -> Server {
    let config = format!("proxy_protocol: true\n{more}");
    Setup::default().program(program).config(&config).flags(&["-D"]).start()
}

const HELLO: &[u8] = b"CONNECT {\"verbose\":false}\r\nPING\r\n";

/// Reads up to the answer to a PING.
fn until_pong(socket: &mut impl std::io::Read) -> String {
    let mut read = Vec::new();
    let mut byte = [0];
    while !read.ends_with(b"PONG\r\n") {
        assert_eq!(
            socket.read(&mut byte).expect("what a test needs"),
            1,
            "{}",
            String::from_utf8_lossy(&read)
        );
        read.push(byte[0]);
    }
    String::from_utf8(read).expect("what a test needs")
}

/// Where the only client is from, as monitoring shows it.
fn shown(server: &Server) -> String {
    let page = server.page("/connz");
    let connection = &page["connections"][0];
    format!("{} {}", connection["ip"].as_str().expect("what a test needs"), connection["port"])
}

fn gone(server: &Server, socket: TcpStream) {
    drop(socket);
    crate::eventually("it has left", || server.connections() == 0);
}

#[test]
fn a_header_says_who_the_client_is() {
    for program in programs() {
        let server = start(&program, "");
        server.wait_for_log("[INF] PROXY protocol enabled for client connections");
        let mut v6 = [0; 36];
        v6[..16].copy_from_slice(&"2001:db8::7".parse::<std::net::Ipv6Addr>().unwrap().octets());
        v6[33] = 9;
        for (header, expected) in [
            (b"PROXY TCP4 10.1.2.3 10.0.0.1 4444 4222\r\n".to_vec(), Some("10.1.2.3 4444")),
            (b"PROXY TCP6 2001:db8::7 ::1 9 4222\r\n".to_vec(), Some("2001:db8::7 9")),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (from_v4(&[]), Some("10.1.2.3 4444")),
            (from_v4(&[3; 2000]), Some("10.1.2.3 4444")),
            (v2(0x21, 0x21, &v6), Some("2001:db8::7 9")),
            (v2(0x20, 0, &[]), None),
            (v2(0x20, 0x11, &[1; 12]), None),
            (Vec::new(), None),
        ] {
            let (mut socket, info) = greeted(&server);
            assert!(!info.contains("client_ip"), "{info}");
            let socket_address = socket.local_addr().unwrap();
            let itself = format!("{} {}", socket_address.ip(), socket_address.port());
            socket.write_all(&header).unwrap();
            socket.write_all(HELLO).unwrap();
            until_pong(&mut socket);
            let expected = expected.unwrap_or(&itself);
            assert_eq!(shown(&server), expected, "{} {}", program.display(), header.escape_ascii());
            gone(&server, socket);
        }
        // All in one piece, byte by byte, and the INFO that comes later knows better.
        let whole =
            [&from_v4(&[7; 5])[..], b"CONNECT {\"verbose\":false,\"protocol\":1}\r\nPING\r\n"].concat();
        for size in [whole.len(), 1] {
            let (mut socket, _) = greeted(&server);
            socket.set_nodelay(true).unwrap();
            whole.chunks(size).for_each(|piece| socket.write_all(piece).unwrap());
            until_pong(&mut socket);
            let mut info = Vec::new();
            while !info.ends_with(b"\r\n") {
                let mut byte = [0];
                socket.read_exact(&mut byte).unwrap();
                info.push(byte[0]);
            }
            let info = String::from_utf8(info).unwrap();
            assert!(info.contains("\"client_ip\":\"10.1.2.3\""), "{info}");
            gone(&server, socket);
        }
    }
}

#[test]
fn what_is_no_good_ends_the_connection() {
    for program in programs() {
        let server = start(&program, "");
        for (header, why) in [
            (b"PROXY TCP4 10.1.2.3\r\n".to_vec(), "invalid PROXY protocol header: invalid v1 format"),
            (b"PROXY TCP4 ::1 ::1 1 1\r\n".to_vec(), "invalid PROXY protocol header: TCP4 with IPv6 address"),
            (b"PROXY TCP4 1.1.1.1 1.1.1.1 1 70000\r\n".to_vec(), "value out of range"),
            ([&b"PROXY "[..], &[b'a'; 200]].concat(), "v1 line too long"),
            (b"\r\n\r\n\0\rabcdefgh".to_vec(), "invalid PROXY protocol header: invalid signature"),
            (v2(0x11, 0x11, &[0; 12]), "invalid PROXY protocol header: invalid version 0x10"),
            (
                v2(0x21, 0x31, &[0; 216]),
                "unsupported PROXY protocol feature: unsupported address family 0x30",
            ),
            (v2(0x21, 0x12, &[0; 12]), "unsupported PROXY protocol feature: only STREAM protocol supported"),
            (v2(0x2f, 0x11, &[0; 12]), "unknown PROXY protocol command: 0x0f"),
            (v2(0x21, 0x11, &[0; 11]), "IPv4 address data too short: 11 bytes"),
        ] {
            let (mut socket, _) = greeted(&server);
            let from = socket.local_addr().unwrap();
            socket.write_all(&header).unwrap();
            let _ = socket.write_all(HELLO);
            let mut rest = Vec::new();
            let _ = socket.read_to_end(&mut rest);
            assert_eq!(rest, b"", "{}", String::from_utf8_lossy(&rest));
            let line =
                server.wait_for_log(&format!("[WRN] Error reading PROXY protocol header from {from}: "));
            assert!(line.ends_with(why), "{} {line}", program.display());
        }
        server.wait_for_close("Protocol Violation");
        // An end in the middle.
        let four = from_v4(&[]);
        for (sent, why) in [
            (&b""[..], "failed to read protocol version: EOF"),
            (b"PRO", "failed to read protocol version: unexpected EOF"),
            (b"PROXY TCP4", "failed to read v1 line: EOF"),
            (&four[..6], "failed to read v2 signature: EOF"),
            (&four[..9], "failed to read v2 signature: unexpected EOF"),
            (&four[..12], "failed to read v2 header: EOF"),
            (&four[..20], "failed to read IPv4 address data: unexpected EOF"),
        ] {
            let (mut socket, _) = greeted(&server);
            let from = socket.local_addr().unwrap();
            socket.write_all(sent).unwrap();
            socket.shutdown(std::net::Shutdown::Write).unwrap();
            let line =
                server.wait_for_log(&format!("[WRN] Error reading PROXY protocol header from {from}: "));
            assert!(line.ends_with(why), "{} {line} {}", program.display(), sent.escape_ascii());
        }
    }
}

#[test]
fn tls_comes_behind_the_header() {
    let lab = Lab::new();
    for program in programs() {
        for (more, is_first) in [("", false), ("handshake_first: true", true)] {
            let server = start(&program, &lab.block(more));
            for header in [from_v4(&[]), b"PROXY TCP4 10.1.2.3 10.0.0.1 4444 4222\r\n".to_vec()] {
                let mut socket = if is_first { dial(&server) } else { greeted(&server).0 };
                socket.write_all(&header).unwrap();
                let mut client = lab.shake(socket, None);
                client.send("CONNECT {\"verbose\":false}\r\n");
                let said = String::from_utf8(client.barrier().unwrap()).unwrap();
                assert_eq!(said.contains("\"client_ip\":\"10.1.2.3\""), is_first, "{said}");
                assert_eq!(shown(&server), "10.1.2.3 4444");
                drop(client);
                crate::eventually("it has left", || server.connections() == 0);
            }
            // Without a header, too.
            let socket = if is_first { dial(&server) } else { greeted(&server).0 };
            assert!(lab.shake(socket, None).serves());
        }
        let server = start(&program, &format!("allow_non_tls: true\n{}", lab.block("")));
        let (mut socket, _) = greeted(&server);
        socket.write_all(&from_v4(&[])).unwrap();
        assert!(lab.shake(socket, None).serves());
        let (mut socket, _) = greeted(&server);
        socket.write_all(&from_v4(&[])).unwrap();
        socket.write_all(HELLO).unwrap();
        until_pong(&mut socket);
    }
}

/// The reference takes the header for the begin of a handshake and waits for the rest of it.
#[test]
fn behind_a_proxy_a_client_may_wait_for_info_where_the_handshake_may_come_first() {
    let lab = Lab::new();
    let server = start(Path::new(crate::process::PROGRAM), &lab.block("handshake_first: auto"));
    let mut socket = dial(&server);
    socket.write_all(&from_v4(&[])).unwrap();
    let mut info = Vec::new();
    while !info.ends_with(b"\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        info.push(byte[0]);
    }
    assert!(info.starts_with(b"INFO {"));
    assert!(lab.shake(socket, None).serves());
    let mut socket = dial(&server);
    socket.write_all(&from_v4(&[])).unwrap();
    let mut first = lab.shake(socket, None);
    assert!(String::from_utf8(first.barrier().unwrap()).unwrap().starts_with("INFO {"));
}

#[test]
fn without_the_option_a_header_is_no_operation() {
    let server = Server::start();
    let (mut socket, info) = greeted(&server);
    assert!(info.contains("client_ip"));
    socket.write_all(&from_v4(&[])).unwrap();
    let mut rest = String::new();
    socket.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "-ERR 'Unknown Protocol Operation'\r\n");
}
