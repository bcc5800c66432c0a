//! Packets of servers.

use super::ack::AckPacket;
use super::connect::ConnAckPacket;
use super::disconnect::{AuthPacket, DisconnectPacket};
use super::kind::PacketKind;
use super::level::ProtocolLevel;
use super::publish::PublishPacket;
use super::subscribe::{SubAckPacket, UnsubAckPacket};

/// Packet that servers send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ServerPacket<'a> {
    ConnAck(ConnAckPacket<'a>),
    Publish(PublishPacket<'a>),
    PubAck(AckPacket<'a>),
    PubRec(AckPacket<'a>),
    PubRel(AckPacket<'a>),
    PubComp(AckPacket<'a>),
    SubAck(SubAckPacket<'a>),
    UnsubAck(UnsubAckPacket<'a>),
    PingResp,
    Disconnect(DisconnectPacket<'a>),
    Auth(AuthPacket<'a>),
}

impl ServerPacket<'_> {
    /// Appends the packet; of version 3.1.1 without what only MQTT 5 has.
    pub fn encode(&self, level: ProtocolLevel, out: &mut Vec<u8>) {
        match self {
            Self::ConnAck(packet) => packet.encode(level, out),
            Self::Publish(packet) => packet.encode(level, out),
            Self::PubAck(packet) => packet.encode(PacketKind::PubAck, level, out),
            Self::PubRec(packet) => packet.encode(PacketKind::PubRec, level, out),
            Self::PubRel(packet) => packet.encode(PacketKind::PubRel, level, out),
            Self::PubComp(packet) => packet.encode(PacketKind::PubComp, level, out),
            Self::SubAck(packet) => packet.encode(level, out),
            Self::UnsubAck(packet) => packet.encode(level, out),
            Self::PingResp => out.extend_from_slice(&[PacketKind::PingResp.first_byte(), 0]),
            Self::Disconnect(packet) => packet.encode(level, out),
            Self::Auth(packet) => packet.encode(out),
        }
    }
}
