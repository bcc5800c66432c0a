//! Packets of MQTT 3.1.1 and 5: a buffer in, one packet at a time out, and the way back.
//!
//! Pure and without state: [`decode`] looks at a buffer that begins at a packet and either gives
//! one whole packet that borrows it, says how many bytes it needs, or refuses. Nothing is allocated
//! for a packet; lists (filters, properties) are checked when the packet is decoded and read from
//! the buffer when somebody walks through them. [`decode_from_server`] reads what a server sends,
//! for tests and load generators. Packets write themselves: [`ClientPacket::encode`],
//! [`ServerPacket::encode`]; a delivered PUBLISH has a way of its own, [`PublishHeader`].
//!
//! Bounds hold before a body is buffered: the fixed header alone says the length, and a packet that
//! is too long is refused with the first bytes.
//!
//! Compat: version 3.1.1 is read with nats-server's checks in nats-server's order, and
//! [`PacketFault`] has its words. Stricter: a packet has to fill its length exactly (nats-server
//! takes bytes behind the fields of a CONNECT for the next packet).

mod ack;
mod connect;
mod decode;
mod disconnect;
mod fault;
mod fields;
mod header;
mod property;
mod publish;
mod reason;
mod subscribe;
mod write;

pub use ack::AckPacket;
pub use connect::{ConnAckPacket, ConnectPacket, Will};
pub use decode::{decode, decode_from_server};
pub use disconnect::{AuthPacket, DisconnectPacket};
pub use fault::{Malformed, PacketFault, PacketField, Refusal};
pub use header::{FixedHeader, PacketKind, fixed_header};
pub use property::{Properties, Property, PropertyBuf, SubscriptionId};
pub use publish::{Exchange, PublishHeader, PublishPacket};
pub use reason::ReasonCode;
pub use subscribe::{
    RetainHandling, SubAckPacket, SubscribeFilters, SubscribeOptions, SubscribePacket, UnsubAckPacket,
    UnsubscribeFilters, UnsubscribePacket,
};

use std::num::NonZeroU16;

/// Number of an exchange of packets; never 0.
pub type PacketId = NonZeroU16;

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// MQTT 3.1.1.
    V3 = 4,
    /// MQTT 5.
    V5 = 5,
}

/// How sure a delivery is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum Qos {
    /// QoS 0.
    #[default]
    AtMostOnce = 0,
    /// QoS 1.
    AtLeastOnce = 1,
    /// QoS 2.
    ExactlyOnce = 2,
}

impl Qos {
    /// The QoS with this number.
    pub fn new(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::AtMostOnce),
            1 => Some(Self::AtLeastOnce),
            2 => Some(Self::ExactlyOnce),
            _ => None,
        }
    }
}

/// The outcome of [`decode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded<P> {
    /// A whole packet and the bytes that it took.
    Packet(P, usize),
    /// The packet needs at least this many bytes from the start of the buffer.
    Need(usize),
}

/// Limits of a connection that the codec needs to know.
#[derive(Debug, Clone, Copy)]
pub struct PacketLimits {
    /// Longest CONNECT, in bytes, its fixed header included.
    pub max_connect: u32,
    /// Longest packet of another kind; `None` is unlimited.
    pub max_packet: Option<u32>,
    /// Whether a CONNECT of MQTT 5 is read, or refused as nats-server refuses it.
    pub accepts_5: bool,
    /// Whether wills and messages of QoS 2 are taken (not with `reject_qos2_publish`).
    pub accepts_qos2: bool,
}

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

impl ClientPacket<'_> {
    /// Appends the packet; of version 3.1.1 without what only MQTT 5 has.
    pub fn encode(&self, level: Level, out: &mut Vec<u8>) {
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

impl ServerPacket<'_> {
    /// Appends the packet; of version 3.1.1 without what only MQTT 5 has.
    pub fn encode(&self, level: Level, out: &mut Vec<u8>) {
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
