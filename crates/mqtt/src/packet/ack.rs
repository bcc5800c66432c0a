//! PUBACK, PUBREC, PUBREL and PUBCOMP: four kinds of one shape.

use super::{PacketId, Properties, ReasonCode};

/// One step of the exchange about a message; its kind is the case of [`super::ClientPacket`] or
/// [`super::ServerPacket`] that holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckPacket<'a> {
    /// Which exchange.
    pub packet_id: PacketId,
    /// How the step went; always a success in version 3.1.1, which cannot say it.
    pub reason: ReasonCode,
    /// Empty in version 3.1.1.
    pub properties: Properties<'a>,
}

impl AckPacket<'_> {
    /// A step that went well.
    pub fn success(packet_id: PacketId) -> Self {
        Self { packet_id, reason: ReasonCode::Success, properties: Properties::EMPTY }
    }
}
