//! Attacks of strangers and clients. Classes of nats-server's published advisories about MQTT that
//! do not need stored sessions: a CONNECT that is never whole (2026-25), control characters in
//! filters (2026-22), subjects of the server's own (2026-07, 2026-21), a password that is shown
//! (2026-05, in `login.rs`), the path of a protocol that is off (2026-27, in
//! `websocket/hostile.rs`), another's client id (2026-06: accounts have their own, in `lives.rs`).

use super::peer::{Peer, hello};
use super::{address, server, servers};
use crate::process::Server;
use crate::raw::Raw;
use myelin_mqtt::packet::{ConnectPacket, ReasonCode};

const LOGIN: &str = "authorization { user: a, password: p, timeout: 30 }";
const MIB: u64 = 1 << 20;

fn still_serves(server: &Server) {
    let connect = ConnectPacket { user_name: Some("a"), password: Some(b"p"), ..hello("serves") };
    Peer::enter(address(server), &connect).barrier();
    assert!(!server.log().contains("panic"), "{}", server.log());
}

/// 2026-25: little is kept of a CONNECT that is not whole, and none may be long.
#[test]
fn a_connect_that_is_never_whole_costs_little() {
    let server = server("", LOGIN);
    still_serves(&server);
    let before = server.memory();
    let mut peers: Vec<_> = (0..200)
        .map(|_| {
            let mut peer = Peer::dial(address(&server));
            // 64,000 bytes that lack their end.
            peer.send_bytes(&[0x10, 0x80, 0xf4, 0x03]);
            peer.send_bytes(&[0; 30_000]);
            peer
        })
        .collect();
    crate::eventually("they are all there", || server.connections() >= 200);
    let grown = server.memory().saturating_sub(before);
    assert!(grown < 32 * MIB, "{grown}");
    for length in
        [&[0x10, 0xff, 0xff, 0x7f][..], &[0x10, 0xff, 0xff, 0xff, 0x7f], &[0x10, 0xff, 0xff, 0xff, 0xff, 1]]
    {
        let mut peer = Peer::dial(address(&server));
        peer.send_bytes(length);
        assert_eq!(peer.rest(), b"", "{length:x?}");
    }
    // What comes behind a CONNECT that is refused is not looked at.
    let mut peer = Peer::dial(address(&server));
    assert_eq!(peer.greet(&hello("nobody")), Some(ReasonCode::NotAuthorized));
    peers.clear();
    still_serves(&server);
}

/// 2026-22: no filter and no topic becomes a line of the NATS protocol.
#[test]
fn control_characters_have_no_subject() {
    let server = server("", "");
    let mut raw = Raw::connect(&server);
    raw.subscribe(">", 1);
    raw.barrier();
    let mut peer = Peer::connect(address(&server), "control");
    for bad in ["a\r\nPUB x 1\r\nx\r\n", "a\n", "a\r", "a\t", "a b", "\u{7f}", "a\u{1}"] {
        assert_eq!(peer.subscribe(&[bad]), [0x80], "{bad:?}");
        peer.unsubscribe(&[bad]);
        let mut publisher = Peer::connect(address(&server), "publisher");
        publisher.publish(bad, "x");
        assert_eq!(publisher.rest(), b"", "{bad:?}");
    }
    raw.publish("end", "x");
    // What the server asks of JetStream aside.
    let subject = loop {
        let subject = raw.message().subject;
        if !subject.starts_with('$') {
            break subject;
        }
    };
    assert_eq!(subject, "end");
}

/// 2026-07, 2026-21: nobody listens to what the server keeps for itself.
#[test]
fn subjects_of_the_server_are_not_for_mqtt() {
    for server in &servers("", "") {
        let mut peer = Peer::connect(address(server), "curious");
        let filters = ["$MQTT/#", "$MQTT/msgs/+", "$MQTT/sess/#", "$MQTT/+/x", "$MQTT.x/y"];
        let codes = peer.subscribe(&filters);
        assert_eq!(codes[..4], [0x80; 4], "{codes:?}");
    }
}

#[test]
fn a_flood_of_packets_starves_nobody() {
    let server = server("", "");
    let mut flood = Peer::connect(address(&server), "flood");
    let mut other = Peer::connect(address(&server), "other");
    flood.subscribe(&["f/#"]);
    let burst = b"\x30\x05\0\x03f/x".repeat(50_000);
    flood.send_bytes(&burst);
    other.barrier();
    for _ in 0..50_000 {
        assert_eq!(flood.message().topic, "f/x");
    }
}

/// A receiver that takes nothing loses its own connection.
#[test]
fn who_takes_nothing_is_cut_off() {
    let server = server("", "max_pending: 4MB, max_payload: 1MB\nwrite_deadline: 2s");
    let mut slow = Peer::connect(address(&server), "slow");
    slow.subscribe(&["big"]);
    let mut publisher = Peer::connect(address(&server), "publisher");
    let payload = "x".repeat(500_000);
    crate::eventually("it is cut off", || {
        publisher.publish("big", &payload);
        publisher.barrier();
        server.page("/varz")["slow_consumers"].as_u64().is_some_and(|count| count > 0)
    });
    publisher.barrier();
}

/// Whoever waits in jail is not listened to.
#[test]
fn what_is_said_in_jail_is_thrown_away() {
    let server = server("", "");
    let (mut first, mut second) =
        (Peer::connect(address(&server), "jail"), Peer::connect(address(&server), "jail"));
    assert_eq!(first.rest(), b"");
    second.subscribe(&["x"]);
    let mut third = Peer::dial(address(&server));
    let mut bytes = Vec::new();
    myelin_mqtt::packet::ClientPacket::Connect(hello("jail"))
        .encode(myelin_mqtt::packet::ProtocolLevel::V3, &mut bytes);
    bytes.extend(b"\x30\x04\0\x01xy".repeat(10));
    third.send_bytes(&bytes);
    assert_eq!(third.rest(), b"");
    assert_eq!(second.barrier(), []);
}
