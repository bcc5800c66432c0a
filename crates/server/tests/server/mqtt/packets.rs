//! Packets byte by byte: what the server says to them, and whether it goes on.

use super::peer::Peer;
use super::{address, servers};

/// Bytes of a string with its length.
fn text(text: impl AsRef<[u8]>) -> Vec<u8> {
    let text = text.as_ref();
    [&(text.len() as u16).to_be_bytes()[..], text].concat()
}

/// A packet with this first byte.
fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![first];
    let mut len = body.len();
    while len >= 0x80 {
        packet.push(len as u8 | 0x80);
        len >>= 7;
    }
    packet.push(len as u8);
    packet.extend_from_slice(body);
    packet
}

/// CONNECT by its parts.
fn connect_of(name: &str, level: u8, flags: u8, client_id: impl AsRef<[u8]>, more: &[&str]) -> Vec<u8> {
    let mut body = text(name);
    body.extend([level, flags, 0, 0]);
    body.extend(text(client_id));
    more.iter().for_each(|field| body.extend(text(field)));
    packet(0x10, &body)
}

fn connect(client_id: impl AsRef<[u8]>) -> Vec<u8> {
    connect_of("MQTT", 4, 2, client_id, &[])
}

fn flagged(flags: u8, more: &[&str]) -> Vec<u8> {
    connect_of("MQTT", 4, flags, "f", more)
}

/// PUBLISH with these flags; `id` stands behind the topic.
fn publish(flags: u8, topic: impl AsRef<[u8]>, id: &[u8], payload: &[u8]) -> Vec<u8> {
    packet(0x30 | flags, &[&text(topic), id, payload].concat())
}

fn subscribe(filters: &[(&str, u8)]) -> Vec<u8> {
    let mut body = vec![0, 1];
    filters.iter().for_each(|(filter, qos)| {
        body.extend(text(filter));
        body.push(*qos);
    });
    packet(0x82, &body)
}

const PING: &[u8] = &[0xc0, 0];
const WELCOME: &[u8] = &[0x20, 2, 0, 0];
const PONG: &[u8] = &[0xd0, 0];

/// A case: its name, bytes that are sent, bytes that come back, whether the connection ends.
type Case = (&'static str, Vec<u8>, Vec<u8>, bool);

fn refused(code: u8) -> Vec<u8> {
    vec![0x20, 2, 0, code]
}

/// CONNECTs that are no good.
fn strangers() -> Vec<Case> {
    let silent = |name, bytes| (name, bytes, Vec::new(), true);
    let told = |name, bytes, code| (name, bytes, refused(code), true);
    vec![
        silent("version 3.1", connect_of("MQIsdp", 3, 2, "c", &[])),
        silent("another protocol", connect_of("MQTX", 4, 2, "c", &[])),
        told("level 3", connect_of("MQTT", 3, 2, "c", &[]), 1),
        silent("reserved flag", flagged(3, &[])),
        told("no id, not clean", connect_of("MQTT", 4, 0, "", &[]), 2),
        told("dot in the id", connect("a.b"), 2),
        told("blank in the id", connect("a b"), 2),
        told("star in the id", connect("a*"), 2),
        told("NUL in the id", connect("a\0b"), 2),
        told("no UTF-8 in the id", connect(b"a\xff"), 2),
        silent("retain without will", flagged(0x22, &[])),
        silent("QoS without will", flagged(0x0a, &[])),
        silent("will of QoS 3", flagged(0x1e, &["t", "m"])),
        silent("will without topic", flagged(6, &["", "m"])),
        silent("will with wildcard", flagged(6, &["a/#", "m"])),
        silent("will with blank", flagged(6, &["a b", "m"])),
        silent("password without user", flagged(0x42, &["p"])),
        told("empty user", flagged(0x82, &[""]), 4),
        silent("ping first", PING.to_vec()),
        silent("publish first", publish(0, "a", &[], b"x")),
        silent("HTTP", b"GET / HTTP/1.1\r\n\r\n".to_vec()),
    ]
}

/// Packets behind a CONNECT.
fn packets() -> Vec<Case> {
    let closes = |name, bytes| (name, bytes, Vec::new(), true);
    let answered = |name, bytes, answer: &[u8]| (name, bytes, answer.to_vec(), false);
    let filters = [
        ("a", 0),
        ("a b", 0),
        ("$MQTT/x", 0),
        ("a/#/b", 0),
        ("a#", 0),
        ("a/b+", 0),
        ("+", 0),
        ("#", 0),
        ("/", 0),
    ];
    // Compat: a wildcard within a level is a character like others.
    let codes = [0x90, 11, 0, 1, 0, 0x80, 0x80, 0x80, 0, 0, 0, 0, 0];
    let release = [0x62, 2, 0, 7];
    vec![
        closes("second CONNECT", connect("again")),
        closes("wildcard in a topic", publish(0, "a/+", &[], b"x")),
        closes("blank in a topic", publish(0, "a b", &[], b"x")),
        closes("tab in a topic", publish(0, "a\tb", &[], b"x")),
        closes("NUL in a topic", publish(0, "a\0", &[], b"x")),
        closes("no UTF-8 in a topic", publish(0, b"a\xff", &[], b"x")),
        closes("no topic", publish(0, "", &[], b"x")),
        closes("QoS 3", publish(6, "a", &[0, 1], b"x")),
        closes("number 0", publish(2, "a", &[0, 0], b"x")),
        answered("QoS 1", publish(2, "a", &[0, 7], b"x"), &[0x40, 2, 0, 7]),
        answered("QoS 2", publish(4, "a", &[0, 7], b"x"), &[0x50, 2, 0, 7]),
        answered("release", release.to_vec(), &[0x70, 2, 0, 7]),
        answered("unknown PUBACK", vec![0x40, 2, 0, 5], &[]),
        answered("unknown PUBREC", vec![0x50, 2, 0, 5], &[0x62, 2, 0, 5]),
        answered("unknown PUBCOMP", vec![0x70, 2, 0, 5], &[]),
        closes("PUBACK of 0", vec![0x40, 2, 0, 0]),
        answered("filters", subscribe(&filters), &codes),
        closes("filter of QoS 3", subscribe(&[("a", 3)])),
        closes("empty filter", subscribe(&[("", 0)])),
        closes("no filter", packet(0x82, &[0, 1])),
        closes("SUBSCRIBE of number 0", packet(0x82, &[0, 0, 0, 1, b'a', 0])),
        closes("flags of SUBSCRIBE", packet(0x80, &[0, 1, 0, 1, b'a', 0])),
        answered("unknown filter", packet(0xa2, &[0, 2, 0, 1, b'z']), &[0xb0, 2, 0, 2]),
        closes("UNSUBSCRIBE of nothing", packet(0xa2, &[0, 2])),
        closes("kind 0", vec![0, 0]),
        closes("kind 15", vec![0xf0, 0]),
        closes("a server's packet", WELCOME.to_vec()),
        closes("flags of PINGREQ", vec![0xc1, 0]),
        closes("long PINGREQ", vec![0xc0, 1, 0]),
        closes("length of five bytes", vec![0x30, 0xff, 0xff, 0xff, 0xff, 1]),
        closes("longest packet", vec![0x30, 0xff, 0xff, 0xff, 0x7f]),
        closes("topic that is cut", packet(0x30, &[0, 5, b'a', b'b'])),
        closes("DISCONNECT", vec![0xe0, 0]),
    ]
}

fn check(peer: &mut Peer, (name, bytes, answer, closes): &Case) {
    peer.send_bytes(bytes);
    if *closes {
        assert_eq!(peer.rest(), *answer, "{name}");
    } else {
        assert_eq!(peer.take(answer.len()), *answer, "{name}");
        peer.send_bytes(PING);
        assert_eq!(peer.take(2), PONG, "{name}");
    }
}

#[test]
fn a_connect_that_is_no_good_is_refused() {
    for server in &servers("", "") {
        for case in &strangers() {
            check(&mut Peer::dial(address(server)), case);
        }
    }
}

#[test]
fn packets_are_answered_or_end_the_connection() {
    for server in &servers("", "") {
        for (at, case) in packets().iter().enumerate() {
            let mut peer = Peer::dial(address(server));
            peer.send_bytes(&connect(format!("c{at}")));
            assert_eq!(peer.take(4), WELCOME, "{}", case.0);
            check(&mut peer, case);
        }
    }
}

#[test]
fn packets_may_come_in_any_pieces() {
    let stream = [
        connect("pieces"),
        subscribe(&[("a/b", 0)]),
        publish(0, "a/b", &[], b"hi"),
        publish(0, "a/b", &[], &[b'x'; 300]),
        PING.to_vec(),
    ]
    .concat();
    let delivered = [publish(0, "a/b", &[], b"hi"), publish(0, "a/b", &[], &[b'x'; 300])].concat();
    let expected = [WELCOME, &[0x90, 3, 0, 1, 0], &delivered, PONG].concat();
    for server in &servers("", "") {
        for size in [1, 7, stream.len()] {
            let mut peer = Peer::dial(address(server));
            stream.chunks(size).for_each(|piece| peer.send_bytes(piece));
            assert_eq!(peer.take(expected.len()), expected, "{size}");
            peer.send_bytes(&[0xe0, 0]);
            assert_eq!(peer.rest(), b"", "{size}");
        }
    }
}

/// Compat: what counts is the message with the header that it has in NATS.
#[test]
fn a_payload_may_be_so_large() {
    for server in &servers("", "max_payload: 1000") {
        let mut peer = Peer::connect(address(server), "large");
        peer.send_bytes(&publish(0, "a", &[], &[b'x'; 1000 - 25]));
        peer.barrier();
        peer.send_bytes(&publish(0, "a", &[], &[b'x'; 1001 - 25]));
        assert_eq!(peer.rest(), b"");
        server.wait_for_log("maximum payload exceeded: 1001 vs 1000");
        server.wait_for_close("Maximum Message Payload Exceeded");
    }
}

#[test]
fn qos_2_may_be_refused() {
    for server in &servers("reject_qos2_publish: true", "") {
        let mut peer = Peer::dial(address(server));
        peer.send_bytes(&flagged(0x16, &["t", "m"]));
        assert_eq!(peer.rest(), refused(0x10));
        let mut peer = Peer::connect(address(server), "one");
        peer.send_bytes(&publish(2, "a", &[0, 7], b"x"));
        assert_eq!(peer.take(4), [0x40, 2, 0, 7]);
        peer.send_bytes(&publish(4, "a", &[0, 7], b"x"));
        assert_eq!(peer.rest(), b"");
    }
}
