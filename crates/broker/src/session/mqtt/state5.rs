//! State of a client of MQTT 5, and what the server grants it.

use myelin_mqtt::packet::{DisconnectPacket, PacketId, Property, ProtocolLevel, ReasonCode};
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::Arc;

/// The highest topic alias that a client may use: the server remembers a topic for each.
pub(super) const MAX_ALIAS: u16 = 16;

/// Messages of QoS 2 that a client may have under way.
pub(super) const RECEIVE_MAXIMUM: u16 = 1024;

/// State of a client of MQTT 5.
pub(super) struct Mqtt5Session {
    /// Whether the server has chosen the client id.
    pub(super) has_assigned_id: bool,
    /// Seconds that the session outlives its connection.
    pub(super) expiry: u32,
    /// Messages of QoS 1 and 2 that the client takes before it has acknowledged some.
    pub(super) receive_max: u16,
    /// Topics by alias.
    pub(super) aliases: Vec<Option<Arc<str>>>,
    /// Why the connection ends, where the reason for closing it does not say it.
    pub(super) parting: Option<ReasonCode>,
    /// The client has had its last packet.
    pub(super) has_parted: bool,
    /// Messages of QoS 2 that came by this connection and are not through.
    pub(super) unreleased: BTreeSet<PacketId>,
}

impl Mqtt5Session {
    pub(super) fn new(has_assigned_id: bool, expiry: u32, receive_max: u16) -> Self {
        let (aliases, parting, unreleased) = (Vec::new(), None, BTreeSet::new());
        Self { has_assigned_id, expiry, receive_max, aliases, parting, has_parted: false, unreleased }
    }

    /// The topic of a message with an alias, which stands for it from then on.
    ///
    /// # Errors
    /// When the alias is none.
    pub(super) fn topic(&mut self, topic: &str, alias: NonZeroU16) -> Result<Arc<str>, ReasonCode> {
        let alias = usize::from(alias.get());
        if alias > usize::from(MAX_ALIAS) {
            return Err(ReasonCode::TopicAliasInvalid);
        }
        if self.aliases.len() < alias {
            self.aliases.resize(alias, None);
        }
        let known = &mut self.aliases[alias - 1];
        if !topic.is_empty() && known.as_deref() != Some(topic) {
            *known = Some(topic.into());
        }
        known.clone().ok_or(ReasonCode::ProtocolError)
    }

    /// The client leaves on its own. Answers whether its will is thrown away.
    pub(super) fn leave(&mut self, packet: &DisconnectPacket<'_>) -> bool {
        let expiry = packet.properties.iter().find_map(|property| match property {
            Property::SessionExpiry(seconds) => Some(seconds),
            _ => None,
        });
        if self.expiry == 0 && expiry.is_some_and(|seconds| seconds > 0) {
            self.parting = Some(ReasonCode::ProtocolError);
            return false;
        }
        self.expiry = expiry.unwrap_or(self.expiry);
        self.has_parted = true;
        packet.reason == ReasonCode::Success
    }
}

/// Version of a client whose session is this.
pub(super) fn level(five: Option<&Mqtt5Session>) -> ProtocolLevel {
    if five.is_some() { ProtocolLevel::V5 } else { ProtocolLevel::V3 }
}
