//! CONNECT and CONNACK.

use super::exchange::Qos;
use super::fault::{PacketFault, PacketField, Said};
use super::fields::{self, Fields};
use super::kind::PacketKind;
use super::level::ProtocolLevel;
use super::limits::PacketLimits;
use super::property::{Properties, PropertyPlace};
use super::publish::topic_name;
use super::reason::ReasonCode;
use super::write;
use crate::topic;

/// Name of the protocol, in both versions.
const PROTOCOL_NAME: &[u8] = b"MQTT";

/// A client's first packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectPacket<'a> {
    /// Version that the client speaks.
    pub level: ProtocolLevel,
    /// Whether a session that exists ends: clean start, in version 3.1.1 clean session.
    pub clean: bool,
    /// Seconds that may pass without a packet; 0 is for ever.
    pub keep_alive: u16,
    /// Empty in version 3.1.1.
    pub properties: Properties<'a>,
    /// Empty when the server shall choose one.
    pub client_id: &'a str,
    /// Message for when the connection ends without a DISCONNECT.
    pub will: Option<Will<'a>>,
    /// Name of the user; never empty in version 3.1.1.
    pub user_name: Option<&'a str>,
    /// Password or token.
    pub password: Option<&'a [u8]>,
}

/// Message that the server publishes for a client that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Will<'a> {
    /// QoS of the message.
    pub qos: Qos,
    /// Whether the message is retained.
    pub retain: bool,
    /// Empty in version 3.1.1.
    pub properties: Properties<'a>,
    /// A topic that can be published to.
    pub topic: &'a str,
    /// Payload of the message.
    pub payload: &'a [u8],
}

/// Answer to a CONNECT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnAckPacket<'a> {
    /// Whether the client's session was there already.
    pub session_present: bool,
    /// Success or why not; version 3.1.1 has the few of [`ReasonCode::return_code`].
    pub reason: ReasonCode,
    /// Empty in version 3.1.1.
    pub properties: Properties<'a>,
}

/// Flags of a CONNECT.
#[derive(Debug, Clone, Copy)]
struct ConnectFlags(u8);

impl ConnectFlags {
    const RESERVED: u8 = 1;
    const CLEAN: u8 = 1 << 1;
    const WILL: u8 = 1 << 2;
    const WILL_QOS: u8 = 3 << 3;
    const WILL_RETAIN: u8 = 1 << 5;
    const PASSWORD: u8 = 1 << 6;
    const USER: u8 = 1 << 7;

    /// Reads the flags and checks that they agree with each other.
    fn read(fields: &mut Fields<'_>, level: ProtocolLevel, accepts_qos2: bool) -> Result<Self, PacketFault> {
        let flags = Self(fields.byte(PacketField::Flags)?);
        if flags.has(Self::RESERVED) {
            return Err(PacketFault::ConnectReserved);
        }
        let will_qos = flags.will_qos();
        match (flags.has(Self::WILL), will_qos) {
            (false, 1..) => return Err(PacketFault::WillQosWithoutWill(will_qos)),
            (false, 0) if flags.has(Self::WILL_RETAIN) => return Err(PacketFault::WillRetainWithoutWill),
            (true, 3) => return Err(PacketFault::WillQos),
            (true, 2) if !accepts_qos2 => return Err(PacketFault::WillQos2),
            _ => {}
        }
        if level == ProtocolLevel::V3 && flags.has(Self::PASSWORD) && !flags.has(Self::USER) {
            return Err(PacketFault::PasswordWithoutUser);
        }
        Ok(flags)
    }

    fn of(connect: &ConnectPacket<'_>) -> Self {
        let will = connect.will.map_or(0, |will| {
            Self::WILL | (will.qos as u8) << 3 | if will.retain { Self::WILL_RETAIN } else { 0 }
        });
        let clean = if connect.clean { Self::CLEAN } else { 0 };
        let user = if connect.user_name.is_some() { Self::USER } else { 0 };
        let password = if connect.password.is_some() { Self::PASSWORD } else { 0 };
        Self(clean | will | user | password)
    }

    fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }

    fn will_qos(self) -> u8 {
        (self.0 & Self::WILL_QOS) >> 3
    }
}

impl<'a> ConnectPacket<'a> {
    /// Reads a CONNECT; `said` is filled as soon as that is known.
    pub(super) fn read(
        mut fields: Fields<'a>,
        limits: &PacketLimits,
        said: &mut Said<'a>,
    ) -> Result<Self, PacketFault> {
        let fields = &mut fields;
        let level = protocol(fields, limits.accepts_5)?;
        said.level = Some(level);
        let flags = ConnectFlags::read(fields, level, limits.accepts_qos2)?;
        let clean = flags.has(ConnectFlags::CLEAN);
        let keep_alive = fields.short(PacketField::KeepAlive)?;
        let properties = Properties::read(fields, level, PropertyPlace::Connect)?;
        let client_id = fields.bytes(PacketField::ClientId)?;
        said.client_id = Some(client_id);
        let client_id = checked_client_id(client_id, level, clean)?;
        let will = match flags.has(ConnectFlags::WILL) {
            true => Some(Will::read(fields, level, flags)?),
            false => None,
        };
        let user_name = match flags.has(ConnectFlags::USER) {
            true => Some(user_name(fields, level)?),
            false => None,
        };
        let password = match flags.has(ConnectFlags::PASSWORD) {
            true => Some(fields.bytes(PacketField::Password)?),
            false => None,
        };
        fields.end()?;
        Ok(Self { level, clean, keep_alive, properties, client_id, will, user_name, password })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        write::packet(PacketKind::Connect.first_byte(), out, |out| {
            write::bytes(PROTOCOL_NAME, out);
            out.push(self.level as u8);
            out.push(ConnectFlags::of(self).0);
            write::short(self.keep_alive, out);
            self.properties.write(self.level, out);
            write::bytes(self.client_id.as_bytes(), out);
            if let Some(will) = &self.will {
                will.properties.write(self.level, out);
                write::bytes(will.topic.as_bytes(), out);
                write::bytes(will.payload, out);
            }
            if let Some(name) = self.user_name {
                write::bytes(name.as_bytes(), out);
            }
            if let Some(password) = self.password {
                write::bytes(password, out);
            }
        });
    }
}

fn protocol(fields: &mut Fields<'_>, accepts_5: bool) -> Result<ProtocolLevel, PacketFault> {
    match fields.bytes(PacketField::ProtocolName)? {
        PROTOCOL_NAME => {}
        b"MQIsdp" => return Err(PacketFault::OldProtocol),
        name => return Err(PacketFault::ProtocolName(name.into())),
    }
    match fields.byte(PacketField::ProtocolLevel)? {
        4 => Ok(ProtocolLevel::V3),
        5 if accepts_5 => Ok(ProtocolLevel::V5),
        level => Err(PacketFault::ProtocolLevel(level)),
    }
}

/// Checks a client id.
///
/// Compat: characters that NATS cannot have in a name are refused, as by nats-server: a client id
/// is a token of a subject, where QoS 2 messages are held. Stricter: all control characters, too.
fn checked_client_id(id: &[u8], level: ProtocolLevel, clean: bool) -> Result<&str, PacketFault> {
    let id = fields::text(id, PacketField::ClientId)?;
    if id.is_empty() && level == ProtocolLevel::V3 && !clean {
        return Err(PacketFault::ClientIdEmpty);
    }
    match id.bytes().any(|byte| topic::is_refused(byte) || b".*>".contains(&byte)) {
        true => Err(PacketFault::ClientIdCharacter(id.into())),
        false => Ok(id),
    }
}

fn user_name<'a>(fields: &mut Fields<'a>, level: ProtocolLevel) -> Result<&'a str, PacketFault> {
    let name = fields.text(PacketField::UserName)?;
    if name.is_empty() && level == ProtocolLevel::V3 { Err(PacketFault::UserNameEmpty) } else { Ok(name) }
}

impl<'a> Will<'a> {
    fn read(fields: &mut Fields<'a>, level: ProtocolLevel, flags: ConnectFlags) -> Result<Self, PacketFault> {
        let qos = Qos::new(flags.will_qos()).ok_or(PacketFault::WillQos)?;
        let retain = flags.has(ConnectFlags::WILL_RETAIN);
        let properties = Properties::read(fields, level, PropertyPlace::Will)?;
        let topic = fields.bytes(PacketField::WillTopic)?;
        if topic.is_empty() {
            return Err(PacketFault::WillTopicEmpty);
        }
        let topic = topic_name(topic, PacketField::WillTopic)?;
        let payload = fields.bytes(PacketField::WillMessage)?;
        Ok(Self { qos, retain, properties, topic, payload })
    }
}

impl<'a> ConnAckPacket<'a> {
    pub(super) fn read(mut fields: Fields<'a>, level: ProtocolLevel) -> Result<Self, PacketFault> {
        let flags = fields.byte(PacketField::Flags)?;
        let reason = match level {
            ProtocolLevel::V3 => {
                let code = fields.byte(PacketField::Reason)?;
                ReasonCode::of_return_code(code).ok_or(PacketFault::Reason(code))?
            }
            ProtocolLevel::V5 => fields.reason(PacketKind::ConnAck)?,
        };
        let is_refused = reason != ReasonCode::Success;
        if flags > 1 || is_refused && flags != 0 {
            return Err(PacketFault::ConnectReserved);
        }
        let properties = Properties::read(&mut fields, level, PropertyPlace::ConnAck)?;
        fields.end()?;
        Ok(Self { session_present: flags == 1, reason, properties })
    }

    pub(super) fn encode(&self, level: ProtocolLevel, out: &mut Vec<u8>) {
        write::packet(PacketKind::ConnAck.first_byte(), out, |out| {
            let is_present = self.session_present && self.reason == ReasonCode::Success;
            out.push(u8::from(is_present));
            out.push(match level {
                ProtocolLevel::V3 => self.reason.return_code(),
                ProtocolLevel::V5 => self.reason as u8,
            });
            self.properties.write(level, out);
        });
    }
}
