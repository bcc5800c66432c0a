//! PUBLISH: a message, and the header of one that is delivered.

use super::exchange::{Exchange, PacketId, Qos};
use super::fault::{PacketFault, PacketField};
use super::fields::Fields;
use super::kind::PacketKind;
use super::level::ProtocolLevel;
use super::property::{Properties, Property, PropertyPlace};
use super::write;
use crate::topic::{self, TopicFault};

/// Flags in the first byte, beside the QoS.
const RETAIN: u8 = 1;
const DUP: u8 = 1 << 3;

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
    level: ProtocolLevel,
    first: u8,
    exchange: Exchange,
    subject: &'a [u8],
    topic_len: u16,
    properties: Properties<'a>,
    remaining: u32,
    payload_len: usize,
}

impl<'a> PublishPacket<'a> {
    /// Reads a PUBLISH whose first byte is `first`.
    #[inline]
    pub(super) fn read(
        first: u8,
        mut fields: Fields<'a>,
        level: ProtocolLevel,
        place: PropertyPlace,
    ) -> Result<Self, PacketFault> {
        let qos = Qos::new((first >> 1) & 3).ok_or(PacketFault::PublishQos)?;
        let (dup, retain) = (first & DUP != 0, first & RETAIN != 0);
        if level == ProtocolLevel::V5 && dup && qos == Qos::AtMostOnce {
            return Err(PacketFault::PublishDup);
        }
        let topic = fields.bytes(PacketField::Topic)?;
        if topic.is_empty() && level == ProtocolLevel::V3 {
            return Err(PacketFault::TopicEmpty);
        }
        let topic = topic_name(topic, PacketField::Topic)?;
        let exchange = exchange(&mut fields, qos)?;
        let properties = Properties::read(&mut fields, level, place)?;
        if topic.is_empty() && !properties.iter().any(|property| matches!(property, Property::TopicAlias(_)))
        {
            return Err(PacketFault::TopicEmpty);
        }
        Ok(Self { dup, retain, exchange, topic, properties, payload: fields.rest() })
    }

    pub(super) fn encode(&self, level: ProtocolLevel, out: &mut Vec<u8>) {
        let dup = if self.dup { DUP } else { 0 };
        let retain = if self.retain { RETAIN } else { 0 };
        let first = PacketKind::Publish.first_byte() | dup | retain | (self.exchange.qos() as u8) << 1;
        let fields = fields_len(level, self.exchange, self.topic.len(), self.properties);
        write::head(first, fields + self.payload.len(), out);
        write::bytes(self.topic.as_bytes(), out);
        write_behind_topic(level, self.exchange, self.properties, out);
        out.extend_from_slice(self.payload);
    }
}

fn exchange(fields: &mut Fields<'_>, qos: Qos) -> Result<Exchange, PacketFault> {
    if qos == Qos::AtMostOnce {
        return Ok(Exchange::AtMostOnce);
    }
    let id = fields.short(PacketField::PacketId)?;
    let id = PacketId::new(id).ok_or(PacketFault::PublishIdZero(qos))?;
    Ok(match qos {
        Qos::ExactlyOnce => Exchange::ExactlyOnce(id),
        _ => Exchange::AtLeastOnce(id),
    })
}

/// Checks the topic of a message; an empty one is the caller's matter.
#[inline]
pub(super) fn topic_name(bytes: &[u8], field: PacketField) -> Result<&str, PacketFault> {
    let topic = std::str::from_utf8(bytes).map_err(|_| PacketFault::Utf8(field, bytes.into()))?;
    match topic::check_name(topic) {
        Ok(()) | Err(TopicFault::Empty) => Ok(topic),
        Err(fault) => Err(refused_topic(topic, field, fault)),
    }
}

/// Fault of a topic. One with U+0000 is malformed, whatever else is in it.
#[cold]
fn refused_topic(topic: &str, field: PacketField, fault: TopicFault) -> PacketFault {
    match fault {
        _ if topic.contains('\0') => PacketFault::Null(field, topic.as_bytes().into()),
        TopicFault::Wildcard => PacketFault::TopicWildcard(topic.into()),
        _ => PacketFault::TopicCharacter,
    }
}

/// Bytes between the fixed header and the payload.
fn fields_len(level: ProtocolLevel, exchange: Exchange, topic: usize, properties: Properties<'_>) -> usize {
    let id = if exchange == Exchange::AtMostOnce { 0 } else { 2 };
    2 + topic + id + properties.len(level)
}

fn write_behind_topic(
    level: ProtocolLevel,
    exchange: Exchange,
    properties: Properties<'_>,
    out: &mut Vec<u8>,
) {
    if let Some(id) = exchange.packet_id() {
        write::short(id.get(), out);
    }
    properties.write(level, out);
}

impl<'a> PublishHeader<'a> {
    /// A header of a message on `subject` with `payload_len` bytes; `None` if no packet can hold
    /// it: a topic has at most 65,535 bytes, and a packet 256 MiB. An empty subject is an empty
    /// topic, for which a topic alias among the properties stands.
    #[inline]
    pub fn new(
        level: ProtocolLevel,
        exchange: Exchange,
        subject: &'a [u8],
        properties: Properties<'a>,
        payload_len: usize,
    ) -> Option<Self> {
        let topic_len = u16::try_from(topic::topic_len(subject)).ok()?;
        let fields = fields_len(level, exchange, usize::from(topic_len), properties);
        let remaining = u32::try_from(fields + payload_len).ok().filter(|len| *len <= write::MAX_VARINT)?;
        let first = PacketKind::Publish.first_byte() | (exchange.qos() as u8) << 1;
        Some(Self { level, first, exchange, subject, topic_len, properties, remaining, payload_len })
    }

    /// Says whether the message was sent before, and whether it was kept.
    #[must_use]
    pub fn flagged(mut self, is_again: bool, is_retained: bool) -> Self {
        self.first |= if is_again { DUP } else { 0 } | if is_retained { RETAIN } else { 0 };
        self
    }

    /// Says that the message was kept.
    #[must_use]
    pub fn retain(mut self) -> Self {
        self.first |= RETAIN;
        self
    }

    /// Bytes that [`Self::write`] appends.
    #[inline]
    pub fn header_len(&self) -> usize {
        self.packet_len() - self.payload_len
    }

    /// Bytes of the whole packet: what a client's Maximum Packet Size is compared with.
    #[inline]
    pub fn packet_len(&self) -> usize {
        let remaining = self.remaining as usize;
        1 + write::varint_len(remaining) + remaining
    }

    /// Appends the header; the payload follows.
    #[inline]
    pub fn write(&self, out: &mut Vec<u8>) {
        write::head(self.first, self.remaining as usize, out);
        write::short(self.topic_len, out);
        match usize::from(self.topic_len) == self.subject.len() {
            true => topic::plain_to_topic(self.subject, out),
            false => topic::subject_to_topic(self.subject, out),
        }
        write_behind_topic(self.level, self.exchange, self.properties, out);
    }
}
