//! Properties of MQTT 5 as headers, and headers as properties. The first byte of the input says
//! which; then comes a PUBLISH, or a reply subject, a line feed and a header block, of a message
//! that comes now or from where it is stored.
//!
//! Promised: what a client has said comes back as it was, in headers that are lines; and whatever
//! headers there are, the properties that they become are those of a packet that clients can read.

use myelin_mqtt::headers::{self, TimeLeft};
use myelin_mqtt::packet::{
    ClientPacket, Decoded, Exchange, PacketLimits, Properties, Property, PropertyBuf, ProtocolLevel,
    PublishPacket, ServerPacket, decode, decode_from_server,
};

const LIMITS: PacketLimits =
    PacketLimits { max_connect: 300, max_packet: Some(4096), accepts_5: true, accepts_qos2: true };

/// Any bytes as a PUBLISH, or as the headers of a message.
pub fn mqtt_headers(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else { return };
    if kind & 1 == 1 {
        let (reply, block) = bytes.split_at(bytes.iter().position(|byte| *byte == b'\n').unwrap_or(0));
        return check_delivered(block, reply);
    }
    let decoded = decode(bytes, Some(ProtocolLevel::V5), &LIMITS);
    let Ok(Decoded::Packet(ClientPacket::Publish(publish), _)) = decoded else { return };
    let mut block = b"NATS/1.0\r\nNmqtt-Pub:0\r\n".to_vec();
    headers::write(publish.properties, &mut block);
    block.extend_from_slice(b"\r\n");
    assert!(block.split(|byte| *byte == b'\n').rev().skip(1).all(|line| line.ends_with(b"\r")));
    let mut back = PropertyBuf::default();
    headers::read(&block, b"", &mut back);
    let is_carried = |property: &Property<'_>| match property {
        Property::PayloadFormat(is_text) => *is_text,
        Property::ResponseTopic(_) | Property::TopicAlias(_) => false,
        _ => true,
    };
    assert!(publish.properties.iter().filter(is_carried).eq(back.properties().iter()));
    check_delivered(&block, b"");
    check_stored(publish.properties);
}

/// Checks that a stored copy says nothing to its stream, and comes back as it was.
fn check_stored(properties: Properties<'_>) {
    let mut block = b"NATS/1.0\r\nNmqtt-Pub:1\r\n".to_vec();
    headers::write_stored(properties, &mut block);
    let lines = block.split(|byte| *byte == b'\n').skip(1);
    assert!(lines.clone().all(|line| !line.to_ascii_lowercase().starts_with(b"nats-")));
    block.extend_from_slice(b"\r\n");
    let mut back = PropertyBuf::default();
    headers::read_stored(&block, TimeLeft::Unlimited, &mut back);
    let is_carried = |property: &Property<'_>| match property {
        Property::PayloadFormat(is_text) => *is_text,
        Property::MessageExpiry(_) | Property::TopicAlias(_) | Property::ResponseTopic(_) => false,
        _ => true,
    };
    let came = back.properties();
    let came = came.iter().filter(is_carried);
    assert!(properties.iter().filter(is_carried).eq(came));
}

fn check_delivered(block: &[u8], reply: &[u8]) {
    let mut buf = PropertyBuf::default();
    headers::read(block, reply, &mut buf);
    check_packet(&buf);
    let mut stored = PropertyBuf::default();
    headers::read_stored(block, headers::time_left(block, 1_000_000), &mut stored);
    check_packet(&stored);
}

fn check_packet(buf: &PropertyBuf) {
    let (exchange, properties) = (Exchange::AtMostOnce, buf.properties());
    let publish =
        PublishPacket { dup: false, retain: false, exchange, topic: "t", properties, payload: b"p" };
    let packet = ServerPacket::Publish(publish);
    let mut bytes = Vec::new();
    packet.encode(ProtocolLevel::V5, &mut bytes);
    let read = decode_from_server(&bytes, ProtocolLevel::V5, u32::MAX);
    assert_eq!(read, Ok(Decoded::Packet(packet, bytes.len())));
}
