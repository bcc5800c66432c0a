//! SUBSCRIBE, UNSUBSCRIBE and their answers.

use super::{PacketId, Properties, Qos};

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
/// They are UTF-8 without U+0000 and not empty, and nothing more: whether a filter has a subject is
/// said by `topic`, for each of them (a SUBACK refuses them one by one).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubscribeFilters<'a> {
    raw: &'a [u8],
}

/// Filters of an UNSUBSCRIBE, as they stand in the packet; they are what [`SubscribeFilters`] are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnsubscribeFilters<'a> {
    raw: &'a [u8],
}

impl<'a> SubscribeFilters<'a> {
    /// The filters and what is wished of each, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, SubscribeOptions)> + use<'a> {
        std::iter::empty()
    }

    /// Appends a filter to `raw`, of which [`Self::of`] makes the filters of a packet.
    pub fn push(filter: &str, options: SubscribeOptions, raw: &mut Vec<u8>) {
        todo!()
    }

    /// Filters that were written by [`Self::push`].
    pub fn of(raw: &'a [u8]) -> Self {
        Self { raw }
    }
}

impl<'a> UnsubscribeFilters<'a> {
    /// The filters, in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        std::iter::empty()
    }

    /// Appends a filter to `raw`, of which [`Self::of`] makes the filters of a packet.
    pub fn push(filter: &str, raw: &mut Vec<u8>) {
        todo!()
    }

    /// Filters that were written by [`Self::push`].
    pub fn of(raw: &'a [u8]) -> Self {
        Self { raw }
    }
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
