//! Bytes that a stranger may send before it is authenticated, over all that comes before.

use crate::process::Setup;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

/// The header of a proxy with so many bytes behind its addresses.
fn proxied(more: usize) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11".to_vec();
    header.extend_from_slice(&u16::try_from(12 + more).expect("a length").to_be_bytes());
    header.extend_from_slice(&[10, 1, 2, 3, 10, 0, 0, 1, 0x11, 0x5c, 0x10, 0x7e]);
    header.resize(header.len() + more, 4);
    header
}

/// CONNECT of so many bytes.
fn connect(length: usize) -> String {
    let empty = r#"CONNECT {"verbose":false,"auth_token":"t","name":""}"#.len();
    format!(r#"CONNECT {{"verbose":false,"auth_token":"t","name":"{}"}}"#, "n".repeat(length - empty))
        + "\r\n"
}

#[test]
fn each_stage_may_be_long_and_all_of_them_may_not() {
    let server = Setup::default().config("proxy_protocol: true\nauthorization { token: t }").start();
    for (more, length, is_let_in) in [(65_000, 2000, true), (100, 4090, true), (65_520, 4090, false)] {
        let mut socket = TcpStream::connect(server.address()).expect("the server is there");
        socket.set_read_timeout(Some(crate::PATIENCE)).expect("a timeout");
        socket.write_all(&proxied(more)).expect("sent");
        let _ = socket.write_all(connect(length).as_bytes());
        let _ = socket.write_all(b"PING\r\n");
        let (mut told, mut chunk) = (Vec::new(), [0; 4096]);
        while !told.ends_with(b"PONG\r\n") {
            match socket.read(&mut chunk) {
                Ok(n) if n > 0 => told.extend_from_slice(&chunk[..n]),
                _ => break,
            }
        }
        assert_eq!(told.ends_with(b"PONG\r\n"), is_let_in, "{more} and {length}");
    }
    crate::eventually("the log says why", || server.log().contains("too much before authentication"));
}
