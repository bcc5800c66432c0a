//! Faults of packets, and how a peer is told of them.
//!
//! Compat: the texts of version 3.1.1 are nats-server's, which stand in logs.

use super::exchange::Qos;
use super::level::ProtocolLevel;
use super::reason::ReasonCode;
use myelin_wire::error::Quoted;
use std::fmt;

/// A packet that ends the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// The fault; shown, it is the text for the log.
    pub fault: PacketFault,
    /// The packet to send before the connection is closed.
    pub refusal: Refusal,
    /// Client id in a CONNECT, as far as it could be read: any bytes. The log names the connection
    /// by it.
    pub client_id: Option<Box<[u8]>>,
}

/// Parts of a CONNECT that were read before its fault.
#[derive(Debug, Default)]
pub(super) struct Said<'a> {
    pub(super) level: Option<ProtocolLevel>,
    pub(super) client_id: Option<&'a [u8]>,
}

impl Malformed {
    /// A fault of somebody whose first packet is not through yet.
    pub(super) fn before_connect(fault: PacketFault, said: &Said<'_>) -> Self {
        let refusal = match said.level {
            Some(ProtocolLevel::V5) => Refusal::ConnAck(fault.reason()),
            _ => fault.return_code().map_or(Refusal::None, Refusal::ReturnCode),
        };
        Self { fault, refusal, client_id: said.client_id.map(Box::from) }
    }

    /// A fault of somebody who is connected.
    pub(super) fn connected(fault: PacketFault, level: ProtocolLevel) -> Self {
        let refusal = match level {
            ProtocolLevel::V3 => Refusal::None,
            ProtocolLevel::V5 => Refusal::Disconnect(fault.reason()),
        };
        Self { fault, refusal, client_id: None }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fault.fmt(f)
    }
}

impl std::error::Error for Malformed {}

/// Last packet to somebody who has sent a malformed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The connection is closed without a word.
    None,
    /// A CONNACK of version 3.1.1.
    ReturnCode(u8),
    /// A CONNACK of MQTT 5.
    ConnAck(ReasonCode),
    /// A DISCONNECT of MQTT 5.
    Disconnect(ReasonCode),
}

impl Refusal {
    /// Appends the packet.
    pub fn encode(self, out: &mut Vec<u8>) {
        match self {
            Self::None => {}
            Self::ReturnCode(code) => out.extend_from_slice(&[0x20, 2, 0, code]),
            Self::ConnAck(reason) => out.extend_from_slice(&[0x20, 3, 0, reason as u8, 0]),
            Self::Disconnect(reason) => out.extend_from_slice(&[0xe0, 1, reason as u8]),
        }
    }
}

/// Field of a packet, for what is said of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum PacketField {
    ProtocolName,
    ProtocolLevel,
    Flags,
    KeepAlive,
    ClientId,
    WillTopic,
    WillMessage,
    UserName,
    Password,
    Topic,
    PacketId,
    TopicFilter,
    Options,
    Reason,
    PropertyLength,
    Property,
}

impl fmt::Display for PacketField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ProtocolName => "protocol name",
            Self::ProtocolLevel => "protocol level",
            Self::Flags => "flags",
            Self::KeepAlive => "keep alive",
            Self::ClientId => "client ID",
            Self::WillTopic => "Will topic",
            Self::WillMessage => "Will message",
            Self::UserName => "user name",
            Self::Password => "password",
            Self::Topic => "topic",
            Self::PacketId => "packet identifier",
            Self::TopicFilter => "topic filter",
            Self::Options => "QoS",
            Self::Reason => "reason code",
            Self::PropertyLength => "property length",
            Self::Property => "property",
        })
    }
}

/// Fault in a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PacketFault {
    /// The first byte of the first packet is not that of a CONNECT.
    FirstPacket(u8),
    /// The first packet is an HTTP request.
    WebSocketPort,
    /// Flags in this first byte that its kind does not have.
    HeaderFlags(u8),
    /// A length of more than four bytes.
    LengthForm,
    /// First byte of a packet whose kind has another length than this one.
    Length(u8, u32),
    /// The packet has more bytes than the limit.
    TooLong(u64, u32),
    /// A kind that does not exist, or that the peer does not send.
    UnknownKind(u8),
    /// A CONNECT of somebody who is connected.
    SecondConnect,
    /// The packet ends in or before a field.
    Cut(PacketField),
    /// The packet ends before a field of one byte.
    CutByte(PacketField),
    /// The packet goes on behind its last field.
    Trailing,
    /// A string that is not UTF-8.
    Utf8(PacketField, Box<[u8]>),
    /// A string with U+0000 in it.
    Null(PacketField, Box<[u8]>),
    /// Version 3.1 or older.
    OldProtocol,
    /// The protocol name is another.
    ProtocolName(Box<[u8]>),
    /// The version is another.
    ProtocolLevel(u8),
    /// The flag of CONNECT or CONNACK that means nothing is set.
    ConnectReserved,
    /// A QoS for a will that is not there.
    WillQosWithoutWill(u8),
    /// A retain flag for a will that is not there.
    WillRetainWithoutWill,
    /// A will with QoS 3.
    WillQos,
    /// A will with QoS 2 (`reject_qos2_publish`).
    WillQos2,
    /// A password without a user's name.
    PasswordWithoutUser,
    /// No client id, and yet a session that is to be kept.
    ClientIdEmpty,
    /// A character in a client id that NATS cannot have in a name.
    ClientIdCharacter(Box<str>),
    /// A will without a topic.
    WillTopicEmpty,
    /// An empty user name.
    UserNameEmpty,
    /// A PUBLISH without a topic.
    TopicEmpty,
    /// An empty filter.
    FilterEmpty,
    /// A packet identifier of 0.
    PacketIdZero,
    /// The PUBLISH has a packet identifier of 0.
    PublishIdZero(Qos),
    /// A PUBLISH with QoS 3.
    PublishQos,
    /// A PUBLISH with QoS 2 (`reject_qos2_publish`).
    PublishQos2,
    /// A PUBLISH of QoS 0 that claims to have been sent before.
    PublishDup,
    /// Wildcards in the topic of a message.
    TopicWildcard(Box<str>),
    /// A character in the topic of a message that no subject can have.
    TopicCharacter,
    /// A subscription of another QoS, or with bits that mean nothing.
    SubscribeQos(u8),
    /// A third way to handle retained messages.
    RetainHandling,
    /// A shared subscription that leaves the client's own messages out.
    SharedNoLocal,
    /// A SUBSCRIBE without filters.
    SubscribeNothing,
    /// An UNSUBSCRIBE without filters.
    UnsubscribeNothing,
    /// A reason code that does not exist, or not in this packet.
    Reason(u8),
    /// A property that does not exist.
    PropertyKind(u8),
    /// A property that this packet does not have.
    PropertyPlace(u8),
    /// A property that is there twice.
    PropertyTwice(u8),
    /// A property whose value is none.
    PropertyValue(u8),
    /// A topic alias of 0.
    TopicAliasZero,
    /// Authentication data without a method.
    DataWithoutMethod,
}

impl fmt::Display for PacketFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FirstPacket(first) => {
                write!(f, "the first packet should be a CONNECT (16), got {}", first & 0xf0)
            }
            Self::HeaderFlags(first) => {
                let (flags, kind) = (first & 0x0f, first & 0xf0);
                write!(f, "invalid fixed header flags {flags:x} for packet type {kind:x}")
            }
            Self::Length(first, length) => {
                write!(f, "invalid remaining length {length} for packet type {:x}", first & 0xf0)
            }
            Self::TooLong(length, limit) => write!(f, "maximum payload exceeded: {length} vs {limit}"),
            Self::UnknownKind(first) => write!(f, "received unknown packet type {}", first >> 4),
            Self::Cut(field) => write!(f, "error reading {field}: unexpected EOF"),
            Self::CutByte(field) => write!(f, "error reading {field}: EOF"),
            Self::Utf8(field, text) => write!(f, "invalid utf8 for {field} {}", Quoted(text)),
            Self::Null(field, text) => write!(f, "invalid null character in {field} {}", Quoted(text)),
            Self::ProtocolName(name) => {
                write!(f, "expected connect packet with protocol name \"MQTT\", got {}", Quoted(name))
            }
            Self::ProtocolLevel(level) => write!(f, "unacceptable protocol version of {level}"),
            Self::WillQosWithoutWill(qos) => {
                write!(f, "if Will flag is set to 0, Will QoS must be 0 too, got {qos}")
            }
            Self::ClientIdCharacter(id) => {
                write!(f, "invalid character in client ID {}", Quoted(id.as_bytes()))
            }
            Self::PublishIdZero(qos) => {
                write!(f, "with QoS={}, packet identifier cannot be 0", *qos as u8)
            }
            Self::TopicWildcard(topic) => {
                write!(f, "wildcards not allowed in publish's topic: {}", Quoted(topic.as_bytes()))
            }
            Self::SubscribeQos(qos) => write!(f, "subscribe QoS value must be 0, 1 or 2, got {qos}"),
            Self::Reason(code) => write!(f, "invalid reason code 0x{code:02x}"),
            Self::PropertyKind(id) => write!(f, "unknown property 0x{id:02x}"),
            Self::PropertyPlace(id) => write!(f, "property 0x{id:02x} is not one of this packet"),
            Self::PropertyTwice(id) => write!(f, "property 0x{id:02x} is there twice"),
            Self::PropertyValue(id) => write!(f, "invalid value of property 0x{id:02x}"),
            fixed => f.write_str(fixed.text()),
        }
    }
}

impl PacketFault {
    /// Text of a fault that says no value.
    fn text(&self) -> &'static str {
        match self {
            Self::WebSocketPort => {
                "MQTT clients over websocket must connect to the Websocket port, not the MQTT port"
            }
            Self::LengthForm => "malformed variable int",
            Self::SecondConnect => "received a second CONNECT packet",
            Self::OldProtocol => "older protocol \"MQIsdp\" not supported",
            Self::ConnectReserved => "connect flags reserved bit not set to 0",
            Self::WillRetainWithoutWill => "if Will flag is set to 0, Will Retain flag must be 0 too",
            Self::WillQos => "if Will flag is set to 1, Will QoS can be 0, 1 or 2, got 3",
            Self::WillQos2 => "server does not accept QoS2 for Will messages",
            Self::PasswordWithoutUser => "password flag set but username flag is not",
            Self::ClientIdEmpty => "when client ID is empty, clean session flag must be set to 1",
            Self::WillTopicEmpty => "empty Will topic not allowed",
            Self::UserNameEmpty => "empty user name not allowed",
            Self::TopicEmpty => "topic cannot be empty",
            Self::FilterEmpty => "topic filter cannot be empty",
            Self::PacketIdZero => "packet identifier cannot be 0",
            Self::PublishQos => "QoS=3 is invalid in MQTT",
            Self::PublishQos2 => "QoS=2 is disabled for PUBLISH messages",
            Self::PublishDup => "DUP flag set with QoS=0",
            Self::TopicCharacter => "character not supported for MQTT topics",
            Self::RetainHandling => "subscribe retain handling value must be 0, 1 or 2, got 3",
            Self::SharedNoLocal => "shared subscription with the no local flag",
            Self::SubscribeNothing => "subscribe protocol must contain at least 1 topic filter",
            Self::UnsubscribeNothing => "unsubscribe protocol must contain at least 1 topic filter",
            Self::TopicAliasZero => "topic alias cannot be 0",
            Self::DataWithoutMethod => "authentication data without authentication method",
            _ => "packet goes on behind its last field",
        }
    }

    /// Reason that a peer of MQTT 5 is told.
    pub fn reason(&self) -> ReasonCode {
        match self {
            Self::TooLong(..) => ReasonCode::PacketTooLarge,
            Self::OldProtocol | Self::ProtocolName(_) | Self::ProtocolLevel(_) => {
                ReasonCode::UnsupportedProtocolVersion
            }
            Self::WillQos2 | Self::PublishQos2 => ReasonCode::QosNotSupported,
            Self::ClientIdEmpty | Self::ClientIdCharacter(_) => ReasonCode::ClientIdNotValid,
            Self::UserNameEmpty => ReasonCode::BadUserNameOrPassword,
            Self::TopicWildcard(_) | Self::TopicCharacter | Self::WillTopicEmpty => {
                ReasonCode::TopicNameInvalid
            }
            Self::TopicAliasZero => ReasonCode::TopicAliasInvalid,
            _ if self.is_protocol_error() => ReasonCode::ProtocolError,
            _ => ReasonCode::MalformedPacket,
        }
    }

    /// Whether the packet can be read and says what it must not: a Protocol Error, and not a
    /// Malformed Packet, in the words of MQTT 5.
    fn is_protocol_error(&self) -> bool {
        match self {
            Self::UnknownKind(first) => first >> 4 != 0,
            Self::SubscribeQos(options) => options >> 6 == 0,
            Self::FirstPacket(_)
            | Self::SecondConnect
            | Self::TopicEmpty
            | Self::PacketIdZero
            | Self::PublishIdZero(_)
            | Self::RetainHandling
            | Self::SharedNoLocal
            | Self::SubscribeNothing
            | Self::UnsubscribeNothing
            | Self::Reason(_)
            | Self::PropertyTwice(_)
            | Self::PropertyValue(_)
            | Self::DataWithoutMethod => true,
            _ => false,
        }
    }

    /// Return code of a CONNACK of version 3.1.1, where nats-server sends one.
    pub fn return_code(&self) -> Option<u8> {
        use PacketField::{ClientId, UserName};
        Some(match self {
            Self::ProtocolLevel(_) => 1,
            Self::ClientIdEmpty | Self::ClientIdCharacter(_) => 2,
            Self::Utf8(ClientId, _) | Self::Null(ClientId, _) => 2,
            Self::Utf8(UserName, _) | Self::Null(UserName, _) | Self::UserNameEmpty => 4,
            Self::WillQos2 => 16,
            _ => return None,
        })
    }
}
