//! Packets of clients.

use super::ack::AckPacket;
use super::connect::ConnectPacket;
use super::disconnect::{AuthPacket, DisconnectPacket};
use super::kind::PacketKind;
use super::level::ProtocolLevel;
use super::publish::PublishPacket;
use super::subscribe::{SubscribePacket, UnsubscribePacket};

/// Packet that clients send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ClientPacket<'a> {
    Connect(ConnectPacket<'a>),
    Publish(PublishPacket<'a>),
    PubAck(AckPacket<'a>),
    PubRec(AckPacket<'a>),
    PubRel(AckPacket<'a>),
    PubComp(AckPacket<'a>),
    Subscribe(SubscribePacket<'a>),
    Unsubscribe(UnsubscribePacket<'a>),
    PingReq,
    Disconnect(DisconnectPacket<'a>),
    Auth(AuthPacket<'a>),
}

impl ClientPacket<'_> {
    /// Appends the packet; of version 3.1.1 without what only MQTT 5 has.
    pub fn encode(&self, level: ProtocolLevel, out: &mut Vec<u8>) {
        match self {
            Self::Connect(packet) => packet.encode(out),
            Self::Publish(packet) => packet.encode(level, out),
            Self::PubAck(packet) => packet.encode(PacketKind::PubAck, level, out),
            Self::PubRec(packet) => packet.encode(PacketKind::PubRec, level, out),
            Self::PubRel(packet) => packet.encode(PacketKind::PubRel, level, out),
            Self::PubComp(packet) => packet.encode(PacketKind::PubComp, level, out),
            Self::Subscribe(packet) => packet.encode(level, out),
            Self::Unsubscribe(packet) => packet.encode(level, out),
            Self::PingReq => out.extend_from_slice(&[PacketKind::PingReq.first_byte(), 0]),
            Self::Disconnect(packet) => packet.encode(level, out),
            Self::Auth(packet) => packet.encode(out),
        }
    }
}
