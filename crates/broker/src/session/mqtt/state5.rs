//! State of a client of MQTT 5, and what the server grants it.

use myelin_mqtt::packet::{DisconnectPacket, PacketId, Property, ProtocolLevel, ReasonCode};
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::Arc;

/// The highest topic alias that a client may use: the server remembers a topic for each.
pub(super) const MAX_ALIAS: u16 = 16;

/// Messages of QoS 2 that a client may have under way.
pub(super) const RECEIVE_MAXIMUM: u16 = 1024;

/// Whether messages are kept for later subscribers.
pub(super) const RETAINS: bool = false;

/// Seconds that a session outlives its connection, at most.
pub(super) const LONGEST_EXPIRY: u32 = 0;

/// State of a client of MQTT 5.
pub(super) struct Mqtt5Session {
    /// Whether the server has chosen the client id.
    pub(super) has_assigned_id: bool,
    /// Seconds that the session was to outlive its connection.
    pub(super) expiry: u32,
    /// Topics by alias.
    pub(super) aliases: Vec<Option<Arc<str>>>,
    /// Why the connection ends, where the reason for closing it does not say it.
    pub(super) parting: Option<ReasonCode>,
    /// The client has had its last packet.
    pub(super) has_parted: bool,
    /// Messages of QoS 2 that were routed and wait for their PUBREL.
    pub(super) unreleased: BTreeSet<PacketId>,
}

impl Mqtt5Session {
    pub(super) fn new(has_assigned_id: bool, expiry: u32) -> Self {
        let (aliases, parting, unreleased) = (Vec::new(), None, BTreeSet::new());
        Self { has_assigned_id, expiry, aliases, parting, has_parted: false, unreleased }
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
        let revives = |property| matches!(property, Property::SessionExpiry(1..));
        if self.expiry == 0 && packet.properties.iter().any(revives) {
            self.parting = Some(ReasonCode::ProtocolError);
            return false;
        }
        self.has_parted = true;
        packet.reason == ReasonCode::Success
    }
}

/// Version of a client whose session is this.
pub(super) fn level(five: Option<&Mqtt5Session>) -> ProtocolLevel {
    if five.is_some() { ProtocolLevel::V5 } else { ProtocolLevel::V3 }
}
