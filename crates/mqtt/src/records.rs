//! Records of sessions and messages, as nats-server stores them.
//!
//! Reading takes what nats-server takes; writing gives its bytes. Nothing here stores anything.
//!
//! | record | where | form |
//! |---|---|---|
//! | [`SessionRecord`] | [`streams::SESSIONS`] | JSON |
//! | [`RetainedMessage`] | [`streams::RETAINED`] | headers `Nmqtt-R…`, and the payload; once JSON |
//! | [`MessageMark`] | [`streams::MESSAGES`], [`streams::HELD`] | headers `Nmqtt-…` |
//! | [`pubrel_header`] | [`streams::OUT`] | header `Nmqtt-PubRel` |

use crate::packet::Qos;
use crate::{streams, topic};
use aws_lc_rs::digest;
use myelin_stdx::{base64, id};
use myelin_wire::{header, json};
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

const FIRST_LINE: &[u8] = b"NATS/1.0\r\n";
/// Headers of retained messages.
const TOPIC: &str = "Nmqtt-RTopic";
const ORIGIN: &str = "Nmqtt-ROrigin";
const FLAGS: &str = "Nmqtt-RFlags";
const SOURCE: &str = "Nmqtt-RSource";
/// Headers of messages of QoS 1 and 2.
const PUB: &str = "Nmqtt-Pub";
const SUBJECT: &str = "Nmqtt-Subject";
const MAPPED: &str = "Nmqtt-Mapped";
const PUBREL: &str = "Nmqtt-PubRel";

/// Flags of a PUBLISH, and what there is beside them.
const RETAIN: u8 = 1;
const MAX_FLAGS: u8 = 0x0f;
/// Sign in front of the flags of a retained message that removes one.
const REMOVES: u8 = b'-';

/// Name of a session in subjects and names, made of its client id.
pub fn session_hash(client_id: &str) -> String {
    id::short(&digest::digest(&digest::SHA256, client_id.as_bytes()).as_ref()[..8])
}

/// State of a session, in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SessionRecord {
    /// Node name of the server that has written the record.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub origin: String,
    /// Client id.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Whether the session ends with its connection.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "json::is_false")]
    pub clean: bool,
    /// QoS of each subscription, by its subject pattern.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub subs: BTreeMap<String, u8>,
    /// Consumers of subscriptions of QoS 1 and 2, by their patterns; that of the level above `#`
    /// has ` fwc` behind its subject. A null is nobody's.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub cons: BTreeMap<String, Option<ConsumerRecord>>,
    /// Consumer of PUBRELs, once there was a subscription of QoS 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pubrel: Option<ConsumerRecord>,
}

/// End of the key of a consumer that delivers the level above `#`.
pub const LEVEL_ABOVE_SUFFIX: &str = " fwc";

/// Configuration of a consumer in the record of a session, as far as nats-server sets it there.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct ConsumerRecord {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub durable_name: String,
    pub deliver_policy: String,
    pub ack_policy: String,
    /// Nanoseconds.
    #[serde(skip_serializing_if = "json::is_zero")]
    pub ack_wait: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub filter_subject: String,
    pub replay_policy: String,
    #[serde(skip_serializing_if = "json::is_zero")]
    pub max_ack_pending: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub deliver_subject: String,
    /// Nanoseconds.
    #[serde(skip_serializing_if = "json::is_zero")]
    pub inactive_threshold: i64,
    pub num_replicas: i64,
    #[serde(skip_serializing_if = "json::is_false")]
    pub mem_storage: bool,
}

impl SessionRecord {
    /// Reads a record.
    ///
    /// # Errors
    /// What is wrong with the JSON.
    pub fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json)
    }

    /// The record as nats-server would write it.
    pub fn encode(&self) -> Vec<u8> {
        json::compact(self)
    }
}

/// A null is what is not there.
fn or_default<'de, T: Deserialize<'de> + Default, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

impl ConsumerRecord {
    /// A consumer as nats-server makes it for a subscription or for PUBRELs.
    pub fn new(durable_name: String, filter_subject: String, deliver_subject: String) -> Self {
        Self {
            durable_name,
            filter_subject,
            deliver_subject,
            deliver_policy: "new".into(),
            ack_policy: "explicit".into(),
            ack_wait: i64::try_from(streams::ACK_WAIT.as_nanos()).unwrap_or(i64::MAX),
            replay_policy: "instant".into(),
            max_ack_pending: i64::from(streams::MAX_ACK_PENDING),
            ..Self::default()
        }
    }

    /// The consumer of a session's subscription; `name` makes it unique.
    pub fn of_subscription(hash: &str, pattern: &str, name: &str, inbox: &str) -> Self {
        Self::new(
            format!("{hash}_{name}"),
            format!("{}{pattern}", streams::MESSAGES.subject_prefix),
            format!("{}{inbox}", streams::DELIVER_PREFIX),
        )
    }

    /// The consumer of a session's PUBRELs.
    pub fn of_pubrels(hash: &str) -> Self {
        Self::new(
            format!("{}{hash}", streams::PUBREL_CONSUMER_PREFIX),
            format!("{}{hash}", streams::PUBREL_PREFIX),
            format!("{}{hash}", streams::DELIVER_PUBREL_PREFIX),
        )
    }
}

/// Fault in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordFault {
    /// Flags of a retained message that no PUBLISH can have.
    RetainedFlags,
    /// A retained message that is neither headers nor JSON.
    Retained,
}

/// Compat: nats-server's words.
impl fmt::Display for RecordFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RetainedFlags => "invalid retained message flags",
            Self::Retained => "invalid retained message",
        })
    }
}

impl std::error::Error for RecordFault {}

/// A message that is kept for those who subscribe later. Without a payload it removes the one
/// before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetainedMessage<'a> {
    /// Flags of the PUBLISH: below 15, with a QoS.
    pub flags: u8,
    /// Node name of the server that has written the record.
    pub origin: Cow<'a, str>,
    /// User who has published.
    pub source: Cow<'a, str>,
    /// Payload.
    pub payload: Cow<'a, [u8]>,
}

/// A retained message as nats-server wrote it up to 2.9.
#[derive(Deserialize)]
struct RetainedJson {
    #[serde(default, deserialize_with = "or_default")]
    origin: String,
    #[serde(default, deserialize_with = "or_default")]
    msg: String,
    #[serde(default, deserialize_with = "or_default")]
    flags: u8,
    #[serde(default, deserialize_with = "or_default")]
    source: String,
}

impl<'a> RetainedMessage<'a> {
    /// Reads a message of the stream; its subject says the topic.
    ///
    /// # Errors
    /// When it is none.
    pub fn decode(header: &'a [u8], body: &'a [u8]) -> Result<Self, RecordFault> {
        let value = |name: &str| header::get(header, name.as_bytes()).unwrap_or_default();
        let message = match value(FLAGS) {
            b"" => Self::of_json(body)?,
            written => Self {
                flags: flags(written)?,
                origin: String::from_utf8_lossy(value(ORIGIN)),
                source: String::from_utf8_lossy(value(SOURCE)),
                payload: Cow::Borrowed(body),
            },
        };
        let is_none = message.flags >= MAX_FLAGS || Qos::new((message.flags >> 1) & 3).is_none();
        if is_none { Err(RecordFault::RetainedFlags) } else { Ok(message) }
    }

    fn of_json(body: &[u8]) -> Result<Self, RecordFault> {
        let message: RetainedJson = serde_json::from_slice(body).map_err(|_| RecordFault::Retained)?;
        Ok(Self {
            flags: message.flags,
            origin: Cow::Owned(message.origin),
            source: Cow::Owned(message.source),
            payload: Cow::Owned(base64::decode(&message.msg).ok_or(RecordFault::Retained)?),
        })
    }

    /// QoS of the message.
    pub fn qos(&self) -> Qos {
        Qos::new((self.flags >> 1) & 3).unwrap_or_default()
    }

    /// Whether the record removes the retained message of its subject.
    pub fn removes(&self) -> bool {
        self.payload.is_empty()
    }

    /// Appends the header block of the message on `subject`; the payload is its body.
    ///
    /// A user's name with a control character in it is left out: it would write headers of its own.
    pub fn write_header(&self, subject: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(FIRST_LINE);
        out.extend_from_slice(TOPIC.as_bytes());
        out.push(b':');
        topic::subject_to_topic(subject, out);
        out.extend_from_slice(b"\r\n");
        let sign = if self.removes() { "-" } else { "" };
        line(FLAGS, format!("{sign}{:x}", self.flags).as_bytes(), out);
        for (name, value) in [(ORIGIN, &self.origin), (SOURCE, &self.source)] {
            if !value.is_empty() && !value.contains(char::is_control) {
                line(name, value.as_bytes(), out);
            }
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// Reads flags: a hexadecimal number, behind a sign where the record removes.
fn flags(written: &[u8]) -> Result<u8, RecordFault> {
    let digits = match written {
        [REMOVES, digits @ ..] if !digits.is_empty() => digits,
        digits => digits,
    };
    let is_number = digits.iter().all(u8::is_ascii_hexdigit);
    let number = std::str::from_utf8(digits).ok().filter(|_| is_number);
    number.and_then(|digits| u8::from_str_radix(digits, 16).ok()).ok_or(RecordFault::RetainedFlags)
}

/// Appends a line of a header block.
fn line(name: &str, value: &[u8], out: &mut Vec<u8>) {
    for part in [name.as_bytes(), b":", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

/// Mark of a message that an MQTT client has published, in the headers of the stored message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageMark<'a> {
    /// QoS of the PUBLISH.
    pub qos: Qos,
    /// Of a message that is held: whether it is to be retained, and its subject.
    pub held: Option<HeldMark<'a>>,
}

/// Part of a mark that only messages have that are held ([`streams::HELD`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldMark<'a> {
    /// Flags of the PUBLISH.
    pub flags: u8,
    /// Subject of the message, mappings done.
    pub subject: &'a [u8],
    /// Subject before a mapping; empty without one.
    pub mapped: &'a [u8],
}

impl HeldMark<'_> {
    /// Whether the message is to be retained.
    pub fn is_retained(&self) -> bool {
        self.flags & RETAIN != 0
    }
}

impl<'a> MessageMark<'a> {
    /// The mark in a header block; `None` for messages of NATS clients.
    pub fn of(block: &'a [u8]) -> Option<Self> {
        let value = |name: &str| header::get(block, name.as_bytes()).unwrap_or_default();
        let (qos, flags) = value(PUB).split_first()?;
        let qos = Qos::new(qos.wrapping_sub(b'0'))?;
        let subject = value(SUBJECT);
        let flags = flags.first().and_then(|digit| char::from(*digit).to_digit(16)).unwrap_or_default();
        let held = HeldMark { flags: u8::try_from(flags).ok()?, subject, mapped: value(MAPPED) };
        Some(Self { qos, held: (!subject.is_empty()).then_some(held) })
    }

    /// Appends the header block, with the message's id if it has one.
    pub fn write(&self, message_id: Option<&str>, out: &mut Vec<u8>) {
        out.extend_from_slice(FIRST_LINE);
        let mut value = vec![b'0' + self.qos as u8];
        if let Some(held) = &self.held {
            value.extend_from_slice(format!("{:x}", held.flags & MAX_FLAGS).as_bytes());
        }
        line(PUB, &value, out);
        if let Some(held) = &self.held {
            line(SUBJECT, held.subject, out);
            if !held.mapped.is_empty() {
                line(MAPPED, held.mapped, out);
            }
        }
        if let Some(id) = message_id {
            line("Nats-Msg-Id", id.as_bytes(), out);
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// Id of a QoS 2 message that was released: stored a second time, it is recognized.
pub fn released_id(held_sequence: u64) -> String {
    format!("{}{held_sequence}", streams::RELEASED_ID_PREFIX)
}

/// Appends the header block of a PUBREL, which has no body.
pub fn pubrel_header(packet_id: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(FIRST_LINE);
    line(PUBREL, packet_id.to_string().as_bytes(), out);
    out.extend_from_slice(b"\r\n");
}

/// Packet identifier of a PUBREL in a header block.
pub fn pubrel_id(block: &[u8]) -> Option<u16> {
    let digits = std::str::from_utf8(header::get(block, PUBREL.as_bytes())?).ok()?;
    digits.parse().ok().filter(|id| *id != 0)
}
