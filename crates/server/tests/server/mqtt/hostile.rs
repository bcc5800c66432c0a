//! Attacks of strangers and clients. Classes of nats-server's published advisories about MQTT that
//! do not need stored sessions: a CONNECT that is never whole (2026-25), control characters in
//! filters (2026-22), subjects of the server's own (2026-07, 2026-21), a password that is shown
//! (2026-05, in `login.rs`), the path of a protocol that is off (2026-27, in
//! `websocket/hostile.rs`), another's client id (2026-06: accounts have their own, in `lives.rs`).

use super::peer::{Peer, hello, id, lasting};
use super::stored::Asking;
use super::{address, server, servers};
use crate::process::Server;
use crate::raw::Raw;
use myelin_mqtt::packet::{AckPacket, ClientPacket, ConnectPacket, Property, ProtocolLevel, Qos, ReasonCode};
use std::num::NonZeroU16;

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

/// A filter as often as a packet holds it: what is retained is read for few of them at a time.
#[test]
fn a_subscribe_of_many_filters_costs_little() {
    let server = server("", "");
    let at = address(&server);
    Peer::connect5(at, "p").send5(("a", &"x".repeat(256 * 1024)), (1, true), &[]);
    let (mut peer, _) = Peer::resume5(at, ("many", true), &[Property::ReceiveMaximum(NonZeroU16::MIN)]);
    peer.barrier();
    let before = server.memory();
    let filters = [("a", Qos::AtLeastOnce); 400];
    assert_eq!(peer.subscribe_with(&filters), [1; 400]);
    let first = peer.came5();
    // It is heard again when what could be read for it was read.
    assert_eq!(peer.all_came(), []);
    let grown = server.memory().saturating_sub(before);
    assert!(grown < 40 * MIB, "{grown}");
    peer.puback(first.number);
    for _ in 0..20 {
        let came = peer.came5();
        assert_eq!((came.payload.len(), came.retain), (256 * 1024, true));
        peer.puback(came.number);
    }
}

/// Each release looks at those that are under way.
#[test]
fn whoever_releases_too_much_at_once_has_to_wait() {
    let server = server("", "");
    let mut peer = Peer::connect(address(&server), "releases");
    let mut bytes = Vec::new();
    for number in 1..=3000 {
        ClientPacket::PubRel(AckPacket::success(id(number))).encode(ProtocolLevel::V3, &mut bytes);
    }
    ClientPacket::PingReq.encode(ProtocolLevel::V3, &mut bytes);
    peer.send_bytes(&bytes);
    let came: Vec<_> = (0..=3000).map(|_| peer.came()).collect();
    let at = came.iter().position(|(text, _)| text == "PINGRESP");
    assert!(at.is_some_and(|at| at >= 1900), "{at:?}");
    let numbers = came.iter().filter(|(text, _)| text == "PUBCOMP").map(|(_, number)| *number);
    assert!(numbers.eq(1..=3000));
}

/// Messages that its consumer has delivered to a session do not wait in memory.
#[test]
fn large_messages_wait_in_the_stream() {
    const COUNT: usize = 96;
    let server = server("", "");
    let at = address(&server);
    let mut sub = Peer::dial(at);
    sub.resume(&lasting("sub"));
    sub.subscribe_with(&[("large/+", Qos::AtLeastOnce)]);
    sub.disconnect();
    sub.rest();
    let mut publisher = Peer::connect(at, "p");
    let payload = |number: usize| format!("{number} {}", "x".repeat(512 * 1024));
    (0..COUNT).for_each(|number| publisher.publish_1("large/x", &payload(number)));
    let before = server.memory();
    let mut sub = Peer::dial(at);
    assert!(sub.resume(&lasting("sub")));
    let mut asking = Asking::new(&server);
    let name = asking.ask("CONSUMER.NAMES.$MQTT_msgs", "")["consumers"][0].as_str().expect("one").to_owned();
    crate::eventually("all are delivered to the session", || {
        let info = asking.ask(&format!("CONSUMER.INFO.$MQTT_msgs.{name}"), "");
        info["num_ack_pending"] == COUNT && sub.barrier().len() < COUNT
    });
    let grown = server.memory().saturating_sub(before);
    assert!(grown < 40 * MIB, "{grown}");
    drop(sub);
    let mut sub = Peer::dial(at);
    assert!(sub.resume(&lasting("sub")));
    // They come in order, each once.
    for number in 0..COUNT {
        let (text, id) = sub.came();
        assert!(text.starts_with(&format!("PUBLISH large/x {number} x")), "{number}: {}", &text[..40]);
        sub.puback(id);
    }
    assert_eq!(sub.all_came(), []);
    crate::eventually("nothing is left", || asking.messages("$MQTT_msgs") == 0);
}
