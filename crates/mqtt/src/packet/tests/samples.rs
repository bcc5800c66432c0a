//! Packets for the tests, as bytes: by both sides, of both versions.

use super::*;

/// Every property once, user properties and subscription identifiers twice, whichever of them
/// `place` may have.
pub(super) fn properties(place: PropertyPlace) -> PropertyBuf {
    let mut buf = PropertyBuf::default();
    for property in all_properties("t/ü", b"\0\xff") {
        let is_one = match place {
            PropertyPlace::Deliver => true,
            _ => !matches!(property, Property::SubscriptionId(id) if id.get() > 1),
        };
        if property.places() & place as u16 != 0 && is_one {
            assert!(buf.push(property));
        }
    }
    buf
}

/// Every property, with these values in it.
pub(super) fn all_properties<'a>(text: &'a str, data: &'a [u8]) -> Vec<Property<'a>> {
    let short = NonZeroU16::new(0x1234).unwrap();
    vec![
        Property::PayloadFormat(true),
        Property::MessageExpiry(0),
        Property::ContentType(text),
        Property::ResponseTopic(text),
        Property::CorrelationData(data),
        Property::SubscriptionId(SubscriptionId::new(1).unwrap()),
        Property::SubscriptionId(SubscriptionId::new(268_435_455).unwrap()),
        Property::SessionExpiry(u32::MAX),
        Property::AssignedClientId(text),
        Property::ServerKeepAlive(7),
        Property::AuthMethod(text),
        Property::AuthData(data),
        Property::RequestProblemInformation(false),
        Property::WillDelay(5),
        Property::RequestResponseInformation(true),
        Property::ResponseInformation(text),
        Property::ServerReference(text),
        Property::ReasonString(text),
        Property::ReceiveMaximum(short),
        Property::TopicAliasMaximum(0),
        Property::TopicAlias(short),
        Property::MaximumQos(Qos::AtLeastOnce),
        Property::RetainAvailable(true),
        Property::User((text, "")),
        Property::User(("", text)),
        Property::MaximumPacketSize(std::num::NonZeroU32::new(1).unwrap()),
        Property::WildcardAvailable(false),
        Property::SubscriptionIdAvailable(true),
        Property::SharedAvailable(false),
    ]
}

/// Packets of clients, each with the bytes that it has to be.
pub(super) fn of_clients(level: ProtocolLevel) -> Vec<Vec<u8>> {
    let at = |place| match level {
        ProtocolLevel::V3 => PropertyBuf::default(),
        ProtocolLevel::V5 => properties(place),
    };
    let (connect, will, publish) =
        (at(PropertyPlace::Connect), at(PropertyPlace::Will), at(PropertyPlace::Publish));
    let (ack, subscribe, unsubscribe) =
        (at(PropertyPlace::Ack), at(PropertyPlace::Subscribe), at(PropertyPlace::Unsubscribe));
    let (leave, auth) = (at(PropertyPlace::Leave), at(PropertyPlace::Auth));
    let none = Properties::EMPTY;
    let will = Will {
        qos: Qos::ExactlyOnce,
        retain: true,
        properties: will.properties(),
        topic: "w/t",
        payload: b"",
    };
    let bare = ConnectPacket {
        level,
        clean: true,
        keep_alive: 0,
        properties: none,
        client_id: "",
        will: None,
        user_name: None,
        password: None,
    };
    let full = ConnectPacket {
        clean: false,
        keep_alive: 65_535,
        properties: connect.properties(),
        client_id: "düse-1",
        will: Some(will),
        user_name: Some("u"),
        password: Some(b"\xff\0"),
        ..bare
    };
    let (mut filters, mut topics) = (Vec::new(), Vec::new());
    let options = match level {
        ProtocolLevel::V3 => SubscribeOptions { max_qos: Qos::ExactlyOnce, ..SubscribeOptions::default() },
        ProtocolLevel::V5 => SubscribeOptions {
            max_qos: Qos::AtLeastOnce,
            no_local: true,
            retain_as_published: true,
            retain_handling: RetainHandling::DontSend,
        },
    };
    SubscribeFilters::push("a/+/#", options, &mut filters);
    SubscribeFilters::push("$share/g/x", SubscribeOptions::default(), &mut filters);
    UnsubscribeFilters::push("a/+/#", &mut topics);
    UnsubscribeFilters::push("x y", &mut topics);
    let step =
        |number, properties| AckPacket { packet_id: id(number), reason: ReasonCode::Success, properties };
    let mut packets = vec![
        ClientPacket::Connect(bare),
        ClientPacket::Connect(full),
        ClientPacket::PubAck(step(1, none)),
        ClientPacket::PubRec(step(2, none)),
        ClientPacket::PubRel(step(0xffff, ack.properties())),
        ClientPacket::PubComp(step(4, none)),
        ClientPacket::Subscribe(SubscribePacket {
            packet_id: id(10),
            properties: subscribe.properties(),
            filters: SubscribeFilters::of(&filters),
        }),
        ClientPacket::Unsubscribe(UnsubscribePacket {
            packet_id: id(11),
            properties: unsubscribe.properties(),
            filters: UnsubscribeFilters::of(&topics),
        }),
        ClientPacket::PingReq,
        ClientPacket::Disconnect(DisconnectPacket { reason: ReasonCode::Success, properties: none }),
    ];
    packets.extend(messages(publish.properties()).map(ClientPacket::Publish));
    if level == ProtocolLevel::V5 {
        let reason = ReasonCode::PacketIdNotFound;
        packets.extend([
            ClientPacket::PubComp(AckPacket { packet_id: id(5), reason, properties: none }),
            ClientPacket::Disconnect(DisconnectPacket {
                reason: ReasonCode::DisconnectWithWill,
                properties: leave.properties(),
            }),
            ClientPacket::Auth(AuthPacket { reason: ReasonCode::Success, properties: none }),
            ClientPacket::Auth(AuthPacket {
                reason: ReasonCode::ReAuthenticate,
                properties: auth.properties(),
            }),
        ]);
    }
    packets.iter().map(|packet| encoded(|out| packet.encode(level, out))).collect()
}

/// Messages of each QoS, with and without a payload.
fn messages(properties: Properties<'_>) -> impl Iterator<Item = PublishPacket<'_>> {
    let exchanges = [Exchange::AtMostOnce, Exchange::AtLeastOnce(id(300)), Exchange::ExactlyOnce(id(1))];
    let payloads: [&[u8]; 2] = [b"", &[7; 200]];
    exchanges.into_iter().flat_map(move |exchange| {
        payloads.into_iter().map(move |payload| PublishPacket {
            dup: exchange != Exchange::AtMostOnce,
            retain: payload.is_empty(),
            exchange,
            topic: "/a//b.c",
            properties,
            payload,
        })
    })
}

/// Packets of servers.
pub(super) fn of_servers(level: ProtocolLevel) -> Vec<Vec<u8>> {
    let at = |place| match level {
        ProtocolLevel::V3 => PropertyBuf::default(),
        ProtocolLevel::V5 => properties(place),
    };
    let (connack, deliver, suback) =
        (at(PropertyPlace::ConnAck), at(PropertyPlace::Deliver), at(PropertyPlace::SubAck));
    let (unsuback, dismiss, auth) =
        (at(PropertyPlace::UnsubAck), at(PropertyPlace::Dismiss), at(PropertyPlace::Auth));
    let none = Properties::EMPTY;
    let step = AckPacket::success(id(9));
    let mut packets = vec![
        ServerPacket::ConnAck(ConnAckPacket {
            session_present: true,
            reason: ReasonCode::Success,
            properties: none,
        }),
        ServerPacket::ConnAck(ConnAckPacket {
            session_present: false,
            reason: ReasonCode::NotAuthorized,
            properties: connack.properties(),
        }),
        ServerPacket::PubAck(step),
        ServerPacket::PubRec(step),
        ServerPacket::PubRel(step),
        ServerPacket::PubComp(step),
        ServerPacket::SubAck(SubAckPacket {
            packet_id: id(1),
            properties: suback.properties(),
            codes: &[0, 1, 2, 0x80],
        }),
        ServerPacket::UnsubAck(UnsubAckPacket {
            packet_id: id(2),
            properties: unsuback.properties(),
            codes: if level == ProtocolLevel::V5 { &[0, 0x11, 0x8f] } else { &[] },
        }),
        ServerPacket::PingResp,
    ];
    packets.extend(messages(deliver.properties()).map(ServerPacket::Publish));
    if level == ProtocolLevel::V5 {
        packets.extend([
            ServerPacket::Disconnect(DisconnectPacket {
                reason: ReasonCode::ServerMoved,
                properties: dismiss.properties(),
            }),
            ServerPacket::Auth(AuthPacket {
                reason: ReasonCode::ContinueAuthentication,
                properties: auth.properties(),
            }),
        ]);
    }
    packets.iter().map(|packet| encoded(|out| packet.encode(level, out))).collect()
}

fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out);
    out
}
