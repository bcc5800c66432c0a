//! PUBACK, PUBREC, PUBREL and PUBCOMP: four kinds of one shape.

use super::exchange::PacketId;
use super::fault::PacketFault;
use super::fields::Fields;
use super::kind::PacketKind;
use super::level::ProtocolLevel;
use super::property::{Properties, PropertyPlace};
use super::reason::ReasonCode;
use super::write;

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

impl<'a> AckPacket<'a> {
    pub(super) fn read(
        kind: PacketKind,
        mut fields: Fields<'a>,
        level: ProtocolLevel,
    ) -> Result<Self, PacketFault> {
        let packet_id = fields.packet_id()?;
        if level == ProtocolLevel::V3 {
            fields.end()?;
            return Ok(Self { packet_id, reason: ReasonCode::Success, properties: Properties::EMPTY });
        }
        let (reason, properties) = outcome(kind, fields, PropertyPlace::Ack)?;
        Ok(Self { packet_id, reason, properties })
    }

    pub(super) fn encode(&self, kind: PacketKind, level: ProtocolLevel, out: &mut Vec<u8>) {
        write::packet(kind.first_byte(), out, |out| {
            write::short(self.packet_id.get(), out);
            if level == ProtocolLevel::V5 {
                write_outcome(self.reason, self.properties, out);
            }
        });
    }
}

/// Reads a reason and properties, the last fields of a packet of MQTT 5, which may leave out both,
/// or the properties.
pub(super) fn outcome<'a>(
    kind: PacketKind,
    mut fields: Fields<'a>,
    place: PropertyPlace,
) -> Result<(ReasonCode, Properties<'a>), PacketFault> {
    if fields.is_empty() {
        return Ok((ReasonCode::Success, Properties::EMPTY));
    }
    let reason = fields.reason(kind)?;
    if fields.is_empty() {
        return Ok((reason, Properties::EMPTY));
    }
    let properties = Properties::read(&mut fields, ProtocolLevel::V5, place)?;
    fields.end()?;
    Ok((reason, properties))
}

/// Appends a reason and properties, as short as can be.
pub(super) fn write_outcome(reason: ReasonCode, properties: Properties<'_>, out: &mut Vec<u8>) {
    if reason != ReasonCode::Success || !properties.is_empty() {
        out.push(reason as u8);
    }
    if !properties.is_empty() {
        properties.write(ProtocolLevel::V5, out);
    }
}
