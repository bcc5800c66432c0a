//! SUBSCRIBE, UNSUBSCRIBE and their answers.

use super::exchange::{PacketId, Qos};
use super::fault::{PacketFault, PacketField};
use super::fields::Fields;
use super::kind::PacketKind;
use super::level::ProtocolLevel;
use super::property::{Properties, PropertyPlace};
use super::reason::ReasonCode;
use super::write;
use crate::topic;

/// When retained messages are sent to a new subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum RetainHandling {
    /// Each time that a client subscribes.
    #[default]
    Send = 0,
    /// If the subscription is new.
    SendIfNew = 1,
    /// Never.
    DontSend = 2,
}

/// Wishes of a subscriber; version 3.1.1 has the QoS only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SubscribeOptions {
    /// The surest QoS that messages come with.
    pub max_qos: Qos,
    /// The client's own messages stay away.
    pub no_local: bool,
    /// Messages keep the retain flag that they were published with.
    pub retain_as_published: bool,
    /// When retained messages come.
    pub retain_handling: RetainHandling,
}

/// A client's wish for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubscribePacket<'a> {
    /// Number that the answer has.
    pub packet_id: PacketId,
    /// Empty in version 3.1.1.
    pub properties: Properties<'a>,
    /// At least one.
    pub filters: SubscribeFilters<'a>,
}

/// A client's wish for messages no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnsubscribePacket<'a> {
    /// Number that the answer has.
    pub packet_id: PacketId,
    /// Empty in version 3.1.1.
    pub properties: Properties<'a>,
    /// At least one.
    pub filters: UnsubscribeFilters<'a>,
}

/// Filters of a SUBSCRIBE, as they stand in the packet.
///
/// Each is UTF-8 without U+0000 and not empty, and nothing more: whether it has a subject is said
/// by [`topic`], for each of them (a SUBACK refuses them one by one).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubscribeFilters<'a> {
    raw: &'a [u8],
}

/// Filters of an UNSUBSCRIBE, as they stand in the packet; they are what [`SubscribeFilters`] are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnsubscribeFilters<'a> {
    raw: &'a [u8],
}

impl SubscribeOptions {
    const NO_LOCAL: u8 = 1 << 2;
    const AS_PUBLISHED: u8 = 1 << 3;

    fn read(byte: u8, level: ProtocolLevel) -> Result<Self, PacketFault> {
        let unknown = match level {
            ProtocolLevel::V3 => 0xfc,
            ProtocolLevel::V5 => 0xc0,
        };
        let max_qos = Qos::new(byte & 3).filter(|_| byte & unknown == 0);
        let max_qos = max_qos.ok_or(PacketFault::SubscribeQos(byte))?;
        let retain_handling = match (byte >> 4) & 3 {
            0 => RetainHandling::Send,
            1 => RetainHandling::SendIfNew,
            2 => RetainHandling::DontSend,
            _ => return Err(PacketFault::RetainHandling),
        };
        let no_local = byte & Self::NO_LOCAL != 0;
        Ok(Self { max_qos, no_local, retain_as_published: byte & Self::AS_PUBLISHED != 0, retain_handling })
    }

    fn byte(self) -> u8 {
        let no_local = if self.no_local { Self::NO_LOCAL } else { 0 };
        let as_published = if self.retain_as_published { Self::AS_PUBLISHED } else { 0 };
        self.max_qos as u8 | no_local | as_published | (self.retain_handling as u8) << 4
    }
}

impl<'a> SubscribeFilters<'a> {
    fn read(mut fields: Fields<'a>, level: ProtocolLevel) -> Result<Self, PacketFault> {
        let raw = fields.rest();
        if raw.is_empty() {
            return Err(PacketFault::SubscribeNothing);
        }
        while !fields.is_empty() {
            let filter = filter(&mut fields)?;
            let options = SubscribeOptions::read(fields.byte(PacketField::Options)?, level)?;
            if options.no_local && filter.starts_with(topic::SHARED) {
                return Err(PacketFault::SharedNoLocal);
            }
        }
        Ok(Self { raw })
    }

    /// The filters and what is wished of each, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, SubscribeOptions)> + use<'a> {
        let mut fields = Fields::new(self.raw);
        std::iter::from_fn(move || {
            let filter = fields.text(PacketField::TopicFilter).ok()?;
            let options = fields.byte(PacketField::Options).ok()?;
            Some((filter, SubscribeOptions::read(options, ProtocolLevel::V5).ok()?))
        })
    }

    /// Appends a filter of at most 65,535 bytes to `raw`, of which [`Self::of`] makes the filters
    /// of a packet.
    pub fn push(filter: &str, options: SubscribeOptions, raw: &mut Vec<u8>) {
        write::bytes(filter.as_bytes(), raw);
        raw.push(options.byte());
    }

    /// Filters that were written by [`Self::push`].
    pub fn of(raw: &'a [u8]) -> Self {
        Self { raw }
    }
}

impl<'a> UnsubscribeFilters<'a> {
    fn read(mut fields: Fields<'a>) -> Result<Self, PacketFault> {
        let raw = fields.rest();
        if raw.is_empty() {
            return Err(PacketFault::UnsubscribeNothing);
        }
        while !fields.is_empty() {
            filter(&mut fields)?;
        }
        Ok(Self { raw })
    }

    /// The filters, in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let mut fields = Fields::new(self.raw);
        std::iter::from_fn(move || fields.text(PacketField::TopicFilter).ok())
    }

    /// Appends a filter of at most 65,535 bytes to `raw`, of which [`Self::of`] makes the filters
    /// of a packet.
    pub fn push(filter: &str, raw: &mut Vec<u8>) {
        write::bytes(filter.as_bytes(), raw);
    }

    /// Filters that were written by [`Self::push`].
    pub fn of(raw: &'a [u8]) -> Self {
        Self { raw }
    }
}

fn filter<'a>(fields: &mut Fields<'a>) -> Result<&'a str, PacketFault> {
    let filter = fields.text(PacketField::TopicFilter)?;
    if filter.is_empty() { Err(PacketFault::FilterEmpty) } else { Ok(filter) }
}

impl<'a> SubscribePacket<'a> {
    pub(super) fn read(mut fields: Fields<'a>, level: ProtocolLevel) -> Result<Self, PacketFault> {
        let packet_id = fields.packet_id()?;
        let properties = Properties::read(&mut fields, level, PropertyPlace::Subscribe)?;
        Ok(Self { packet_id, properties, filters: SubscribeFilters::read(fields, level)? })
    }

    pub(super) fn encode(&self, level: ProtocolLevel, out: &mut Vec<u8>) {
        numbered(PacketKind::Subscribe, self.packet_id, self.properties, self.filters.raw, level, out);
    }
}

impl<'a> UnsubscribePacket<'a> {
    pub(super) fn read(mut fields: Fields<'a>, level: ProtocolLevel) -> Result<Self, PacketFault> {
        let packet_id = fields.packet_id()?;
        let properties = Properties::read(&mut fields, level, PropertyPlace::Unsubscribe)?;
        Ok(Self { packet_id, properties, filters: UnsubscribeFilters::read(fields)? })
    }

    pub(super) fn encode(&self, level: ProtocolLevel, out: &mut Vec<u8>) {
        numbered(PacketKind::Unsubscribe, self.packet_id, self.properties, self.filters.raw, level, out);
    }
}

/// Appends a packet of the shape that SUBSCRIBE, UNSUBSCRIBE and their answers share.
fn numbered(
    kind: PacketKind,
    id: PacketId,
    properties: Properties<'_>,
    rest: &[u8],
    level: ProtocolLevel,
    out: &mut Vec<u8>,
) {
    write::packet(kind.first_byte(), out, |out| {
        write::short(id.get(), out);
        properties.write(level, out);
        out.extend_from_slice(rest);
    });
}

/// Answer to a SUBSCRIBE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubAckPacket<'a> {
    /// Number of the SUBSCRIBE.
    pub packet_id: PacketId,
    /// Empty in version 3.1.1.
    pub properties: Properties<'a>,
    /// One for each filter, in order: a granted QoS or a [`super::ReasonCode`]; version 3.1.1 knows
    /// 0x80 as the only failure.
    pub codes: &'a [u8],
}

/// Answer to an UNSUBSCRIBE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnsubAckPacket<'a> {
    /// Number of the UNSUBSCRIBE.
    pub packet_id: PacketId,
    /// Empty in version 3.1.1.
    pub properties: Properties<'a>,
    /// One [`super::ReasonCode`] for each filter, in order; none in version 3.1.1.
    pub codes: &'a [u8],
}

impl<'a> SubAckPacket<'a> {
    pub(super) fn read(mut fields: Fields<'a>, level: ProtocolLevel) -> Result<Self, PacketFault> {
        let packet_id = fields.packet_id()?;
        let properties = Properties::read(&mut fields, level, PropertyPlace::SubAck)?;
        let codes = fields.rest();
        if codes.is_empty() {
            return Err(PacketFault::CutByte(PacketField::Reason));
        }
        match level {
            ProtocolLevel::V3 => check_codes(codes, |code| matches!(code, 0..=2 | 0x80))?,
            ProtocolLevel::V5 => check_codes(codes, |code| is_reason(code, PacketKind::SubAck))?,
        }
        Ok(Self { packet_id, properties, codes })
    }

    pub(super) fn encode(&self, level: ProtocolLevel, out: &mut Vec<u8>) {
        numbered(PacketKind::SubAck, self.packet_id, self.properties, self.codes, level, out);
    }
}

impl<'a> UnsubAckPacket<'a> {
    pub(super) fn read(mut fields: Fields<'a>, level: ProtocolLevel) -> Result<Self, PacketFault> {
        let packet_id = fields.packet_id()?;
        let properties = Properties::read(&mut fields, level, PropertyPlace::UnsubAck)?;
        let codes = fields.rest();
        match level {
            ProtocolLevel::V3 => fields.end()?,
            ProtocolLevel::V5 if codes.is_empty() => return Err(PacketFault::CutByte(PacketField::Reason)),
            ProtocolLevel::V5 => check_codes(codes, |code| is_reason(code, PacketKind::UnsubAck))?,
        }
        Ok(Self { packet_id, properties, codes })
    }

    pub(super) fn encode(&self, level: ProtocolLevel, out: &mut Vec<u8>) {
        let codes = match level {
            ProtocolLevel::V3 => &[],
            ProtocolLevel::V5 => self.codes,
        };
        numbered(PacketKind::UnsubAck, self.packet_id, self.properties, codes, level, out);
    }
}

fn check_codes(codes: &[u8], is_one: impl Fn(u8) -> bool) -> Result<(), PacketFault> {
    match codes.iter().find(|code| !is_one(**code)) {
        Some(code) => Err(PacketFault::Reason(*code)),
        None => Ok(()),
    }
}

fn is_reason(code: u8, kind: PacketKind) -> bool {
    ReasonCode::new(code).is_some_and(|reason| reason.is_for(kind))
}
