//! DISCONNECT and AUTH.

use super::ack::{outcome, write_outcome};
use super::fault::PacketFault;
use super::fields::Fields;
use super::kind::PacketKind;
use super::level::ProtocolLevel;
use super::property::{Properties, PropertyPlace};
use super::reason::ReasonCode;
use super::write;

/// The end of a connection, told by the side that ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DisconnectPacket<'a> {
    /// Why; always a success in version 3.1.1, which cannot say it.
    pub reason: ReasonCode,
    /// Empty in version 3.1.1.
    pub properties: Properties<'a>,
}

/// A step of an enhanced authentication; MQTT 5 only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthPacket<'a> {
    /// How it goes on.
    pub reason: ReasonCode,
    /// Method and data.
    pub properties: Properties<'a>,
}

impl<'a> DisconnectPacket<'a> {
    pub(super) fn read(
        fields: Fields<'a>,
        level: ProtocolLevel,
        place: PropertyPlace,
    ) -> Result<Self, PacketFault> {
        if level == ProtocolLevel::V3 {
            fields.end()?;
            return Ok(Self { reason: ReasonCode::Success, properties: Properties::EMPTY });
        }
        let (reason, properties) = outcome(PacketKind::Disconnect, fields, place)?;
        Ok(Self { reason, properties })
    }

    pub(super) fn encode(&self, level: ProtocolLevel, out: &mut Vec<u8>) {
        write::packet(PacketKind::Disconnect.first_byte(), out, |out| {
            if level == ProtocolLevel::V5 {
                write_outcome(self.reason, self.properties, out);
            }
        });
    }
}

impl<'a> AuthPacket<'a> {
    pub(super) fn read(fields: Fields<'a>) -> Result<Self, PacketFault> {
        let (reason, properties) = outcome(PacketKind::Auth, fields, PropertyPlace::Auth)?;
        Ok(Self { reason, properties })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        write::packet(PacketKind::Auth.first_byte(), out, |out| {
            write_outcome(self.reason, self.properties, out);
        });
    }
}
