//! Packets that were written are read as they were meant, and written again they are the same.

use super::samples::{all_properties, of_clients, of_servers, properties};
use super::*;
use crate::topic;
use proptest::prelude::*;

/// Before its CONNECT a client has no version.
pub(super) fn level_of(bytes: &[u8], level: ProtocolLevel) -> Option<ProtocolLevel> {
    (bytes[0] >> 4 != PacketKind::Connect as u8).then_some(level)
}

#[test]
fn packets_come_back() {
    for level in [ProtocolLevel::V3, ProtocolLevel::V5] {
        for bytes in of_clients(level) {
            let Decoded::Packet(packet, len) = decode(&bytes, level_of(&bytes, level), &LIMITS).unwrap()
            else {
                panic!("{bytes:02x?} is whole");
            };
            assert_eq!(len, bytes.len());
            let mut again = Vec::new();
            packet.encode(level, &mut again);
            assert_eq!(again, bytes, "{packet:?}");
        }
        for bytes in of_servers(level) {
            let Decoded::Packet(packet, len) = decode_from_server(&bytes, level, 1 << 20).unwrap() else {
                panic!("{bytes:02x?} is whole");
            };
            assert_eq!(len, bytes.len());
            let mut again = Vec::new();
            packet.encode(level, &mut again);
            assert_eq!(again, bytes, "{packet:?}");
        }
    }
}

#[test]
fn every_kind_is_among_the_packets() {
    for (level, last) in [(ProtocolLevel::V3, 14), (ProtocolLevel::V5, 15)] {
        let mut kinds: Vec<u8> =
            of_clients(level).iter().chain(&of_servers(level)).map(|bytes| bytes[0] >> 4).collect();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds, (1..=last).collect::<Vec<u8>>());
    }
}

/// Bytes that nats-server and its clients exchange, and of the examples of the specifications.
#[test]
fn packets_are_the_bytes_of_the_specification() {
    let connect = ConnectPacket {
        level: ProtocolLevel::V3,
        clean: false,
        keep_alive: 10,
        properties: Properties::EMPTY,
        client_id: "dev-1",
        will: None,
        user_name: None,
        password: None,
    };
    let mut out = Vec::new();
    ClientPacket::Connect(connect).encode(ProtocolLevel::V3, &mut out);
    assert_eq!(out, hex("10 11 0004 4d515454 04 00 000a 0005 6465762d31"));
    let publish = PublishPacket {
        dup: false,
        retain: false,
        exchange: Exchange::AtLeastOnce(id(10)),
        topic: "a/b",
        properties: Properties::EMPTY,
        payload: b"x",
    };
    for (level, bytes) in [
        (ProtocolLevel::V3, "32 08 0003 612f62 000a 78"),
        (ProtocolLevel::V5, "32 09 0003 612f62 000a 00 78"),
    ] {
        out.clear();
        ServerPacket::Publish(publish).encode(level, &mut out);
        assert_eq!(out, hex(bytes));
    }
    let step =
        AckPacket { packet_id: id(2), reason: ReasonCode::PacketIdNotFound, properties: Properties::EMPTY };
    for (level, bytes) in [(ProtocolLevel::V3, "62 02 0002"), (ProtocolLevel::V5, "62 03 0002 92")] {
        out.clear();
        ServerPacket::PubRel(step).encode(level, &mut out);
        assert_eq!(out, hex(bytes));
    }
    let refusals = [
        (Refusal::None, ""),
        (Refusal::ReturnCode(1), "20 02 00 01"),
        (Refusal::ConnAck(ReasonCode::ClientIdNotValid), "20 03 00 85 00"),
        (Refusal::Disconnect(ReasonCode::ProtocolError), "e0 01 82"),
    ];
    for (refusal, bytes) in refusals {
        out.clear();
        refusal.encode(&mut out);
        assert_eq!(out, hex(bytes), "{refusal:?}");
    }
}

#[test]
fn session_present_is_said_of_successes_only() {
    let refused = ConnAckPacket {
        session_present: true,
        reason: ReasonCode::ClientIdNotValid,
        properties: Properties::EMPTY,
    };
    let mut out = Vec::new();
    ServerPacket::ConnAck(refused).encode(ProtocolLevel::V3, &mut out);
    assert_eq!(out, hex("20 02 00 02"));
}

#[test]
fn answers_of_version_3_have_no_codes_for_unsubscribes() {
    let answer = UnsubAckPacket { packet_id: id(1), properties: Properties::EMPTY, codes: &[0] };
    let mut out = Vec::new();
    ServerPacket::UnsubAck(answer).encode(ProtocolLevel::V3, &mut out);
    assert_eq!(out, hex("b0 02 0001"));
}

#[test]
fn reasons_and_return_codes_are_the_nearest() {
    for code in [0, 1, 2, 3, 4, 5, 16] {
        assert_eq!(ReasonCode::of_return_code(code).unwrap().return_code(), code);
    }
    assert_eq!(ReasonCode::of_return_code(6), None);
    assert_eq!(ReasonCode::ALL.len(), 43);
    for reason in ReasonCode::ALL {
        assert_eq!(ReasonCode::new(*reason as u8), Some(*reason));
        assert_eq!(reason.is_error(), *reason as u8 >= 0x80);
        assert!(!reason.text().is_empty());
    }
}

#[test]
fn properties_have_their_places() {
    // Rows of the specification's table 2-4, in the order of `all_properties` without the second of
    // those that repeat: a digit for each place.
    let bits: Vec<u16> = all_properties("", b"").iter().map(Property::places).collect();
    let places = |index: usize| bits[index];
    let p = |list: &[PropertyPlace]| list.iter().fold(0, |bits, place| bits | *place as u16);
    assert_eq!(places(0), p(&[PropertyPlace::Publish, PropertyPlace::Deliver, PropertyPlace::Will]));
    assert_eq!(places(5), p(&[PropertyPlace::Deliver, PropertyPlace::Subscribe]));
    assert_eq!(places(7), p(&[PropertyPlace::Connect, PropertyPlace::ConnAck, PropertyPlace::Leave]));
    assert_eq!(places(13), p(&[PropertyPlace::Will]));
    assert_eq!(places(16), p(&[PropertyPlace::ConnAck, PropertyPlace::Dismiss]));
    assert_eq!(places(20), p(&[PropertyPlace::Publish, PropertyPlace::Deliver]));
    assert_eq!(places(23), (1 << 13) - 1);
    let ids: std::collections::BTreeSet<u8> = all_properties("", b"").iter().map(Property::id).collect();
    assert_eq!(ids.len(), 27);
    assert_eq!(properties(PropertyPlace::Connect).properties().user().count(), 2);
}

#[test]
fn values_that_no_packet_can_hold_are_not_written() {
    let long = "x".repeat(65_536);
    let mut buf = PropertyBuf::default();
    for property in [
        Property::ReasonString(&long),
        Property::ReasonString("a\0b"),
        Property::User(("a", &long)),
        Property::User(("\0", "")),
        Property::CorrelationData(long.as_bytes()),
        Property::MaximumQos(Qos::ExactlyOnce),
    ] {
        assert!(!buf.push(property));
    }
    assert!(buf.properties().is_empty());
    assert!(buf.push(Property::ReasonString(&long[1..])));
    buf.clear();
    assert!(buf.properties().is_empty());
    assert_eq!(SubscriptionId::new(0), None);
    assert_eq!(SubscriptionId::new(268_435_456), None);
}

#[test]
fn headers_of_deliveries_have_limits() {
    let none = Properties::EMPTY;
    let header = |subject: &[u8], payload| {
        PublishHeader::new(ProtocolLevel::V3, Exchange::AtMostOnce, subject, none, payload).is_some()
    };
    assert!(header(&[b'x'; 65_535], 0));
    assert!(!header(&[b'x'; 65_536], 0));
    assert!(header(b"x", 268_435_455 - 3));
    assert!(!header(b"x", 268_435_455 - 2));
}

fn some_level() -> impl Strategy<Value = ProtocolLevel> {
    prop_oneof![Just(ProtocolLevel::V3), Just(ProtocolLevel::V5)]
}

fn some_exchange() -> impl Strategy<Value = Exchange> {
    (0..3u8, 1u16..).prop_map(|(qos, number)| match qos {
        0 => Exchange::AtMostOnce,
        1 => Exchange::AtLeastOnce(id(number)),
        _ => Exchange::ExactlyOnce(id(number)),
    })
}

/// Properties that `mask` names and `place` may have.
fn some_properties(place: PropertyPlace) -> impl Strategy<Value = PropertyBuf> {
    (any::<u32>(), "[a-zü/]{0,20}", prop::collection::vec(any::<u8>(), 0..20)).prop_map(
        move |(mask, text, data)| {
            let mut buf = PropertyBuf::default();
            for (index, property) in all_properties(&text, &data).into_iter().enumerate() {
                if mask >> index & 1 == 1 && property.places() & place as u16 != 0 {
                    assert!(buf.push(property));
                }
            }
            buf
        },
    )
}

proptest! {
    /// A delivery's header is the header of the PUBLISH that a client reads, payload behind it.
    #[test]
    fn deliveries_are_read_as_messages(
        level in some_level(),
        exchange in some_exchange(),
        tokens in prop::collection::vec("[a-z]{1,9}|/|//|[a-zé]{1,3}//[a-z]{1,3}", 1..5),
        properties in some_properties(PropertyPlace::Deliver),
        payload in prop::collection::vec(any::<u8>(), 0..300),
        dup in any::<bool>(),
        retain in any::<bool>(),
    ) {
        let subject = tokens.join(".");
        let properties = if level == ProtocolLevel::V5 { properties.properties() } else { Properties::EMPTY };
        let dup = dup && exchange != Exchange::AtMostOnce;
        let mut header =
            PublishHeader::new(level, exchange, subject.as_bytes(), properties, payload.len()).unwrap();
        header = header.flagged(dup, retain);
        let mut bytes = b"before".to_vec();
        header.write(&mut bytes);
        prop_assert_eq!(bytes.len(), 6 + header.header_len());
        bytes.extend_from_slice(&payload);
        prop_assert_eq!(bytes.len(), 6 + header.packet_len());
        let mut topic = Vec::new();
        topic::subject_to_topic(subject.as_bytes(), &mut topic);
        let topic = std::str::from_utf8(&topic).unwrap();
        prop_assume!(topic::is_topic(subject.as_bytes()));
        let wanted = PublishPacket { dup, retain, exchange, topic, properties, payload: &payload };
        let read = decode_from_server(&bytes[6..], level, u32::MAX);
        prop_assert_eq!(read, Ok(Decoded::Packet(ServerPacket::Publish(wanted), bytes.len() - 6)));
        let mut plain = Vec::new();
        ServerPacket::Publish(wanted).encode(level, &mut plain);
        prop_assert_eq!(&plain, &bytes[6..]);
    }

    #[test]
    fn properties_come_back(buf in some_properties(PropertyPlace::ConnAck)) {
        let reason = ReasonCode::Success;
        let packet =
            ServerPacket::ConnAck(ConnAckPacket { session_present: false, reason, properties: buf.properties() });
        let mut bytes = Vec::new();
        packet.encode(ProtocolLevel::V5, &mut bytes);
        let read = decode_from_server(&bytes, ProtocolLevel::V5, u32::MAX);
        let has = |id| buf.properties().iter().any(|property| property.id() == id);
        if has(0x16) && !has(0x15) {
            prop_assert_eq!(read, Err(PacketFault::DataWithoutMethod));
        } else {
            prop_assert_eq!(read, Ok(Decoded::Packet(packet, bytes.len())));
            let mut again = PropertyBuf::default();
            for property in buf.properties().iter() {
                prop_assert!(again.push(property));
            }
            prop_assert_eq!(again.properties(), buf.properties());
        }
    }
}
