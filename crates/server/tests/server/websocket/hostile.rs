//! Attacks of strangers and clients. Each class of nats-server's published advisories about
//! WebSocket has a test: a compression bomb before authentication (2026-02), lengths that make no
//! sense (2026-03), memory for what never ends (2026-11), the path of a protocol that is off
//! (2026-27).

use super::peer::{
    BINARY, COMPRESSED, DEFLATE, FIN, PING, Peer, UPGRADE, deflate, dial, frame, header, packed,
};
use super::{address, server};
use crate::eventually;
use crate::process::Server;
use std::io::{Read as _, Write as _};
use std::time::Instant;

const LOGIN: &str = "authorization { user: a, password: p }";
const MIB: u64 = 1 << 20;

/// Runs `attack` and says by how much the process has grown at most.
fn growth(server: &Server, attack: impl FnOnce(&mut dyn FnMut())) -> u64 {
    let before = server.memory();
    let mut most = before;
    attack(&mut || most = most.max(server.memory()));
    most - before
}

fn still_serves(server: &Server) {
    let mut peer = Peer::open(address(server), "");
    peer.greet(",\"user\":\"a\",\"pass\":\"p\"");
    assert_eq!(server.page("/varz")["slow_consumers"], 0);
    assert!(!server.log().contains("panic"), "{}", server.log());
}

/// 2026-02: whoever has not logged in cannot make the server inflate much.
#[test]
fn a_bomb_before_login_is_refused() {
    let server = server("compression: true", LOGIN);
    let large = packed(&vec![b'\r'; 64 << 20]);
    let small = packed(&vec![b'\r'; 1 << 20]);
    let endless = packed(&[b"CONNECT {\"x\":\"".to_vec(), vec![b'x'; 1 << 20]].concat());
    assert!(small.len() < 8000 && endless.len() < 8000 && large.len() > 8200);
    let grown = growth(&server, |look| {
        let mut attack = |bomb: &[u8], line: Option<&str>, status: u16| {
            let mut peer = Peer::open(address(&server), DEFLATE);
            let _ = peer.try_send(bomb);
            look();
            let rest = peer.rest();
            assert_eq!(rest.lines(), Vec::from_iter(line.map(str::to_owned)));
            assert_eq!(rest.closed_with().map(|(status, _)| status), Some(status));
        };
        for _ in 0..10 {
            // Nothing of it is looked at before it is whole, and it is too long for that.
            attack(&large, None, 1009);
            // Nothing that is inflated makes it past the first byte.
            attack(&small, Some("-ERR 'Authorization Violation'"), 1008);
            // What looks like the beginning of a CONNECT is read on, as far as one goes.
            attack(&endless, Some("-ERR 'maximum control line exceeded'"), 1008);
        }
    });
    assert!(grown < 16 * MIB, "{grown}");
    still_serves(&server);
}

/// Checks a bomb once its sender has logged in: a message may hold several payloads, and no more.
#[test]
fn a_bomb_after_login_is_refused() {
    let server = server("compression: true", "max_payload: 1000000");
    let grown = growth(&server, |look| {
        let mut peer = Peer::open(address(&server), DEFLATE);
        peer.greet("");
        // Operations all the way.
        let _ = peer.try_send(&packed(b"PING\r\n".repeat(20 << 20).as_slice()));
        look();
        let rest = peer.rest();
        assert_eq!(rest.closed_with(), Some((1009, "maximum payload exceeded".to_owned())));
        assert!(rest.lines().len() <= 8_000_000 / 6 + 50_000, "{}", rest.lines().len());
    });
    assert!(grown < 64 * MIB, "{grown}");
    server.wait_for_log("read error: maximum payload exceeded");
    // Up to there all is well.
    let mut peer = Peer::open(address(&server), DEFLATE);
    peer.greet("");
    peer.say("SUB a 1\r\n");
    let publishes = [&b"PUB a 1000000\r\n"[..], &vec![b'x'; 1_000_000], b"\r\n"].concat().repeat(7);
    peer.send(&packed(&publishes));
    for _ in 0..7 {
        assert_eq!(peer.line(), "MSG a 1 1000000");
        peer.take(1_000_002);
    }
}

/// 2026-03: a length is only a number.
#[test]
fn lengths_that_make_no_sense_cost_nothing() {
    // What is to be whole first is waited for.
    let server = server("compression: true", "authorization { user: a, password: p, timeout: 0.3 }");
    let grown = growth(&server, |look| {
        for len in [u64::MAX, 1 << 63, (1 << 63) - 1, 1 << 62, 1 << 40, 1 << 31] {
            for first in [BINARY, BINARY | COMPRESSED, 2, FIN | 1, COMPRESSED | 1] {
                let mut peer = Peer::open(address(&server), DEFLATE);
                peer.info();
                let mut bytes = header(first, len, 0x80);
                bytes.extend([0; 4]);
                bytes.extend(b"FOO\r\n");
                let _ = peer.try_send(&bytes);
                look();
                let rest = peer.rest();
                assert!(rest.close.is_some(), "{len} {first:x}");
            }
        }
        // A length in more bytes than it needs is a length.
        let mut peer = Peer::open(address(&server), "");
        peer.info();
        let connect = b"CONNECT {\"verbose\":false,\"user\":\"a\",\"pass\":\"p\"}\r\nPING\r\n";
        let mut bytes = vec![BINARY, 0x80 | 127];
        bytes.extend((connect.len() as u64).to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(connect);
        peer.send(&bytes);
        assert_eq!(peer.line(), "PONG");
    });
    assert!(grown < 16 * MIB, "{grown}");
    still_serves(&server);
}

/// 2026-11: nothing is gathered that has no end.
#[test]
fn what_never_ends_is_not_kept() {
    let server =
        server("compression: true, handshake_timeout: \"30s\"", &format!("{LOGIN}\nmax_connections: 1000"));
    let at = address(&server);
    let grown = growth(&server, |look| {
        let piece = frame(0, &[b' '; 4000]);
        let start = Instant::now();
        let mut all: Vec<_> = (0..100)
            .map(|i| {
                // A compressed message whose fragments never end, one that is not compressed, a
                // ping that is never whole.
                let mut peer = Peer::open(at, DEFLATE);
                let begin = match i % 3 {
                    0 => frame(2 | COMPRESSED, &deflate(b"CONNECT {\"a\":\"")),
                    1 => frame(2, b"CONNECT {\"a\":\""),
                    _ => header(PING, 125, 0x80),
                };
                let _ = peer.try_send(&begin);
                peer
            })
            .collect();
        for _ in 0..20 {
            all.iter_mut().for_each(|peer| drop(peer.try_send(&piece)));
            look();
        }
        assert!(start.elapsed() < crate::PATIENCE);
        // And requests that never end.
        let mut requests: Vec<_> = (0..100).map(|_| dial(at)).collect();
        let line = format!("GET / HTTP/1.1\r\n{UPGRADE}X: {}", "x".repeat(100_000));
        for stream in &mut requests {
            let _ = stream.write_all(line.as_bytes());
        }
        look();
    });
    assert!(grown < 24 * MIB, "{grown}");
    still_serves(&server);
}

/// 2026-27: there is no MQTT, and so nothing is behind its path.
#[test]
fn the_path_of_a_protocol_that_is_off_is_not_found() {
    let server = server("", LOGIN);
    for target in ["/mqtt", "/a/mqtt", "/mqtt?x"] {
        let mut stream = dial(address(&server));
        write!(stream, "GET {target} HTTP/1.1\r\n{UPGRADE}\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 404 Not Found\r\n"), "{answer}");
    }
    still_serves(&server);
}

#[test]
fn pings_of_who_reads_nothing_cost_only_its_own_connection() {
    let server = server("", LOGIN);
    let grown = growth(&server, |look| {
        let mut peer = Peer::open(address(&server), "");
        peer.greet(",\"user\":\"a\",\"pass\":\"p\"");
        peer.socket().set_write_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
        let pings = frame(PING, &[b'x'; 125]).repeat(5000);
        for _ in 0..100 {
            if peer.try_send(&pings).is_err() {
                break;
            }
            look();
        }
    });
    assert!(grown < 16 * MIB, "{grown}");
    still_serves(&server);
}

#[test]
fn who_leaves_leaves_nothing() {
    let server = server("compression: true", "");
    let before = server.descriptors();
    for i in 0..60 {
        let mut peer = Peer::open(address(&server), DEFLATE);
        peer.info();
        let bytes = match i % 4 {
            0 => frame(2 | COMPRESSED, &deflate(b"PUB a 5\r\n")),
            1 => header(BINARY, 100_000, 0x80),
            2 => frame(BINARY, b"SUB > 1\r\nPUB a 100\r\n"),
            _ => vec![BINARY],
        };
        let _ = peer.try_send(&bytes);
    }
    eventually("all connections are over", || server.connections() == 0);
    eventually("all sockets are closed", || server.descriptors() <= before + 1);
}
