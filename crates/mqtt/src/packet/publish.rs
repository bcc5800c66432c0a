//! PUBLISH: a message, and the header of one that is delivered.

use super::{PacketId, Properties, Qos};

/// QoS of a PUBLISH, with the number of the exchange that follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchange {
    /// QoS 0: none follows.
    AtMostOnce,
    /// QoS 1: PUBACK follows.
    AtLeastOnce(PacketId),
    /// QoS 2: PUBREC, PUBREL and PUBCOMP follow.
    ExactlyOnce(PacketId),
}

impl Exchange {
    /// QoS that asks for the exchange.
    pub fn qos(self) -> Qos {
        match self {
            Self::AtMostOnce => Qos::AtMostOnce,
            Self::AtLeastOnce(_) => Qos::AtLeastOnce,
            Self::ExactlyOnce(_) => Qos::ExactlyOnce,
        }
    }

    /// Number of the exchange.
    pub fn packet_id(self) -> Option<PacketId> {
        match self {
            Self::AtMostOnce => None,
            Self::AtLeastOnce(id) | Self::ExactlyOnce(id) => Some(id),
        }
    }
}

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishPacket<'a> {
    /// Whether the sender has sent it before.
    pub dup: bool,
    /// From a client: keep it for those who subscribe later. From a server: it was kept.
    pub retain: bool,
    /// QoS and number.
    pub exchange: Exchange,
    /// A topic that has a subject (`topic::check_name`), or empty where a topic alias stands for
    /// it (MQTT 5).
    pub topic: &'a str,
    /// Empty in version 3.1.1.
    pub properties: Properties<'a>,
    /// The rest of the packet.
    pub payload: &'a [u8],
}

/// Everything of a PUBLISH but its payload, for a message from a NATS subject.
///
/// Perf: written straight into the receiver's chunk: lengths are known before, the topic is made of
/// the subject on the way, and the payload is copied once, behind it.
#[derive(Debug, Clone, Copy)]
pub struct PublishHeader<'a> {
    pub(super) level: super::Level,
    pub(super) first: u8,
    pub(super) packet_id: Option<PacketId>,
    pub(super) subject: &'a [u8],
    pub(super) topic_len: u16,
    pub(super) properties: Properties<'a>,
    pub(super) remaining: u32,
}

impl<'a> PublishHeader<'a> {
    /// A header of a message on `subject` with `payload_len` bytes; `None` if no packet can hold it:
    /// the topic has at most 65,535 bytes, and a packet 256 MiB.
    pub fn new(
        level: super::Level,
        exchange: Exchange,
        subject: &'a [u8],
        properties: Properties<'a>,
        payload_len: usize,
    ) -> Option<Self> {
        todo!()
    }

    /// Says that the message was sent before.
    #[must_use]
    pub fn dup(self) -> Self {
        todo!()
    }

    /// Says that the message was kept.
    #[must_use]
    pub fn retain(self) -> Self {
        todo!()
    }

    /// Bytes that [`Self::write`] appends.
    pub fn len(&self) -> usize {
        todo!()
    }

    /// Bytes of the whole packet: what a client's Maximum Packet Size is compared with.
    pub fn packet_len(&self) -> usize {
        todo!()
    }

    /// Appends the header; the payload follows.
    pub fn write(&self, out: &mut Vec<u8>) {
        todo!()
    }
}
