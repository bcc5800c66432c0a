//! Records of sessions and messages, as nats-server stores them.
//!
//! Reading takes what nats-server takes; writing gives its bytes. Nothing here stores anything.
//!
//! | record | where | form |
//! |---|---|---|
//! | [`SessionRecord`] | [`streams::SESSIONS`] | JSON |
//! | [`RetainedMessage`] | [`streams::RETAINED`] | headers `Nmqtt-R…`, payload; once JSON |
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
/// Header of a PUBREL that nats-server does not know.
const ACK: &str = "Nmqtt-Ack";
/// Beginning of the subjects on which consumers take acknowledgements.
const ACK_PREFIX: &[u8] = b"$JS.ACK.";

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
    /// has ` fwc` behind its subject. A null is nobody's. Boxed: a map has room for eleven at once.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub cons: BTreeMap<String, Option<Box<ConsumerRecord>>>,
    /// Consumer of PUBRELs, once there was a subscription of QoS 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pubrel: Option<Box<ConsumerRecord>>,
    /// Last sequence of [`streams::MESSAGES`] before each subscription that was added to a reader
    /// that was there. nats-server knows no such field.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub since: BTreeMap<String, u64>,
    /// Seconds that the session outlives its connection, where a client of MQTT 5 has said it
    /// ([`FOR_EVER`]). nats-server knows neither this field nor those behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiry: Option<u32>,
    /// Second since 1970 in which the session ends, once its client has left.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "json::is_zero")]
    pub ends: u64,
    /// Options of subscriptions that only MQTT 5 has, by their patterns.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub opts: BTreeMap<String, SubscriptionRecord>,
    /// Subscriptions of MQTT 5 that share messages with others, by their filters.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub shared: BTreeMap<String, SubscriptionRecord>,
}

/// Expiry of a session that does not end by itself.
pub const FOR_EVER: u32 = u32::MAX;

/// Options of a subscription that only MQTT 5 has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SubscriptionRecord {
    /// Number of the subscription; 0: it has none.
    #[serde(skip_serializing_if = "json::is_zero")]
    pub id: u32,
    /// The client's own messages stay away.
    #[serde(skip_serializing_if = "json::is_false")]
    pub no_local: bool,
    /// Messages keep the retain flag that they were published with.
    #[serde(skip_serializing_if = "json::is_false")]
    pub as_published: bool,
    /// QoS of a subscription that shares messages with others.
    #[serde(skip_serializing_if = "json::is_zero")]
    pub qos: u8,
}

/// Key of the one consumer that reads for all subscriptions of a session: no pattern has a blank.
pub const READER: &str = "$ reader";

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
    #[serde(skip_serializing_if = "json::is_zero")]
    pub opt_start_seq: u64,
    pub ack_policy: String,
    /// Nanoseconds.
    #[serde(skip_serializing_if = "json::is_zero")]
    pub ack_wait: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub filter_subject: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filter_subjects: Vec<String>,
    pub replay_policy: String,
    #[serde(skip_serializing_if = "json::is_zero")]
    pub max_ack_pending: i64,
    #[serde(skip_serializing_if = "json::is_zero")]
    pub max_waiting: i64,
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
    /// Whether the session has ended at this second since 1970.
    pub fn has_ended(&self, now: u64) -> bool {
        self.ends > 0 && self.ends <= now
    }

    /// Sets the options of a subscription.
    pub fn set_options(&mut self, pattern: &str, options: SubscriptionRecord) {
        match options == SubscriptionRecord::default() {
            true => self.opts.remove(pattern),
            false => self.opts.insert(pattern.to_owned(), options),
        };
    }

    /// Reads a record.
    ///
    /// # Errors
    /// Fault of the JSON.
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
    /// Compat: one in JSON is taken, as nats-server wrote them once.
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

    /// Appends the header block of the message on `subject`, with further lines; the payload is its
    /// body.
    ///
    /// A user's name with a control character in it is left out: it would write headers of its own.
    pub fn write_header(&self, subject: &[u8], lines: &[u8], out: &mut Vec<u8>) {
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
        out.extend_from_slice(lines);
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

    /// Appends the header block, with the message's id if it has one, and further lines.
    pub fn write(&self, message_id: Option<&str>, lines: &[u8], out: &mut Vec<u8>) {
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
        out.extend_from_slice(lines);
        out.extend_from_slice(b"\r\n");
    }
}

/// Id of a QoS 2 message that was released: stored a second time, it is recognized.
pub fn released_id(held_sequence: u64) -> String {
    format!("{}{held_sequence}", streams::RELEASED_ID_PREFIX)
}

/// Appends the header block of a PUBREL, which has no body. `ack` is where its message is
/// acknowledged, empty for nowhere: that may be lost, and is said again with the PUBREL.
pub fn pubrel_header(packet_id: u16, ack: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(FIRST_LINE);
    line(PUBREL, packet_id.to_string().as_bytes(), out);
    if !ack.is_empty() {
        line(ACK, ack, out);
    }
    out.extend_from_slice(b"\r\n");
}

/// Where the message of a PUBREL is acknowledged, if its header block says that.
pub fn pubrel_ack(block: &[u8]) -> Option<&[u8]> {
    header::get(block, ACK.as_bytes()).filter(|ack| ack.starts_with(ACK_PREFIX))
}

/// Packet identifier of a PUBREL in a header block.
pub fn pubrel_id(block: &[u8]) -> Option<u16> {
    let digits = std::str::from_utf8(header::get(block, PUBREL.as_bytes())?).ok()?;
    digits.parse().ok().filter(|id| *id != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Record of a session with subscriptions of each QoS, by nats-server 2.15.2.
    const SESSION: &str = concat!(
        r#"{"origin":"RMLnaEVd","id":"dev-1","subs":{"one.\u003e":1,"plain.*":0,"#,
        r#""two.\u003cb\u003e\u0026c":2},"cons":{"one fwc":{"durable_name":"3C3akiUI_6rZYzUwgqhFOqzcaDNpMyo","#,
        r#""deliver_policy":"new","ack_policy":"explicit","ack_wait":30000000000,"#,
        r#""filter_subject":"$MQTT.msgs.one","replay_policy":"instant","max_ack_pending":1024,"#,
        r#""deliver_subject":"$MQTT.sub.6rZYzUwgqhFOqzcaDNpMww","num_replicas":0},"#,
        r#""one.\u003e":{"durable_name":"3C3akiUI_6rZYzUwgqhFOqzcaDNpMrK","deliver_policy":"new","#,
        r#""ack_policy":"explicit","ack_wait":30000000000,"filter_subject":"$MQTT.msgs.one.\u003e","#,
        r#""replay_policy":"instant","max_ack_pending":1024,"#,
        r#""deliver_subject":"$MQTT.sub.6rZYzUwgqhFOqzcaDNpMpS","num_replicas":0},"#,
        r#""two.\u003cb\u003e\u0026c":{"durable_name":"3C3akiUI_6rZYzUwgqhFOqzcaDNpNA2","#,
        r#""deliver_policy":"new","ack_policy":"explicit","ack_wait":30000000000,"#,
        r#""filter_subject":"$MQTT.msgs.two.\u003cb\u003e\u0026c","replay_policy":"instant","#,
        r#""max_ack_pending":1024,"deliver_subject":"$MQTT.sub.6rZYzUwgqhFOqzcaDNpN8A","num_replicas":0}},"#,
        r#""pubrel":{"durable_name":"$MQTT_PUBREL_3C3akiUI","deliver_policy":"new","ack_policy":"explicit","#,
        r#""ack_wait":30000000000,"filter_subject":"$MQTT.out.pubrel.3C3akiUI","replay_policy":"instant","#,
        r#""max_ack_pending":1024,"deliver_subject":"$MQTT.deliver.pubrel.3C3akiUI","num_replicas":0}}"#,
    );

    #[test]
    fn hashes_are_those_of_nats_server() {
        assert_eq!(session_hash("dev-1"), "3C3akiUI");
        assert_eq!(session_hash("pub-1"), "AYDzbEV1");
        assert_eq!(session_hash("p1"), "y7J4SswZ");
    }

    #[test]
    fn a_session_is_read_and_written_as_by_nats_server() {
        let record = SessionRecord::decode(SESSION.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(record.encode()).unwrap(), SESSION);
        assert_eq!((record.id.as_str(), record.clean), ("dev-1", false));
        assert_eq!(record.subs["two.<b>&c"], 2);
        let hash = session_hash(&record.id);
        assert_eq!(record.pubrel, Some(Box::new(ConsumerRecord::of_pubrels(&hash))));
        let consumer =
            ConsumerRecord::of_subscription(&hash, "one", "6rZYzUwgqhFOqzcaDNpMyo", "6rZYzUwgqhFOqzcaDNpMww");
        assert_eq!(record.cons[&format!("one{LEVEL_ABOVE_SUFFIX}")], Some(Box::new(consumer)));
    }

    #[test]
    fn a_clean_session_says_little() {
        let json = br#"{"origin":"RMLnaEVd","id":"pub-1","clean":true}"#;
        let record = SessionRecord::decode(json).unwrap();
        assert_eq!(record.encode(), json);
        assert!(record.clean && record.subs.is_empty());
    }

    #[test]
    fn nulls_and_unknown_fields_are_nothing() {
        let json = br#"{"id":null,"clean":null,"subs":null,"cons":{"a":null},"pubrel":null,"later":[1]}"#;
        let record = SessionRecord::decode(json).unwrap();
        let nobody = BTreeMap::from([("a".to_owned(), None)]);
        assert_eq!(record, SessionRecord { cons: nobody, ..SessionRecord::default() });
        for json in [&b""[..], b"1", b"{\"subs\":{\"a\":256}}", b"{\"id\":1}"] {
            assert!(SessionRecord::decode(json).is_err());
        }
    }

    fn written(message: &RetainedMessage<'_>, subject: &str) -> Vec<u8> {
        let mut out = Vec::new();
        message.write_header(subject.as_bytes(), b"", &mut out);
        out
    }

    #[test]
    fn retained_messages_are_those_of_nats_server() {
        for (subject, header, flags, qos) in [
            ("one.a", "Nmqtt-RTopic:one/a\r\nNmqtt-RFlags:3\r\nNmqtt-ROrigin:RMLnaEVd\r\n", 3, 1),
            (
                "/.lead./.x//y",
                "Nmqtt-RTopic:/lead//x.y\r\nNmqtt-RFlags:5\r\nNmqtt-ROrigin:RMLnaEVd\r\n",
                5,
                2,
            ),
            ("a", "Nmqtt-RTopic:a\r\nNmqtt-RFlags:d\r\nNmqtt-RSource:alice\r\n", 13, 2),
        ] {
            let header = format!("NATS/1.0\r\n{header}\r\n");
            let message = RetainedMessage::decode(header.as_bytes(), b"body").unwrap();
            assert_eq!((message.flags, message.qos() as u8, message.removes()), (flags, qos, false));
            assert_eq!(&*message.payload, b"body");
            assert_eq!(String::from_utf8(written(&message, subject)).unwrap(), header);
        }
    }

    #[test]
    fn a_retained_message_without_payload_removes() {
        let header = b"NATS/1.0\r\nNmqtt-RTopic:gone/now\r\nNmqtt-RFlags:-3\r\n\r\n";
        let message = RetainedMessage::decode(header, b"").unwrap();
        assert_eq!((message.flags, message.removes()), (3, true));
        assert_eq!(written(&message, "gone.now"), header);
    }

    #[test]
    fn old_retained_messages_are_json() {
        let json = br#"{"origin":"o","subject":"a","topic":"a","msg":"AP8=","flags":3,"source":"u"}"#;
        let message = RetainedMessage::decode(b"", json).unwrap();
        let wanted = RetainedMessage {
            flags: 3,
            origin: "o".into(),
            source: "u".into(),
            payload: vec![0, 0xff].into(),
        };
        assert_eq!(message, wanted);
    }

    #[test]
    fn retained_messages_with_faults() {
        for value in ["f", "10", "6", "x", "-", "--1", "+1", "100000000"] {
            let header = format!("NATS/1.0\r\nNmqtt-RFlags:{value}\r\n\r\n");
            let fault = RetainedMessage::decode(header.as_bytes(), b"x").unwrap_err();
            assert_eq!(fault, RecordFault::RetainedFlags, "{value}");
        }
        for body in [&b""[..], b"null", b"x", b"{\"msg\":\"!\"}", b"{\"flags\":256}"] {
            let fault = RetainedMessage::decode(b"", body).unwrap_err();
            assert_eq!(fault.to_string(), "invalid retained message", "{body:?}");
        }
        assert_eq!(RecordFault::RetainedFlags.to_string(), "invalid retained message flags");
    }

    #[test]
    fn a_user_writes_no_headers() {
        let message = RetainedMessage {
            flags: 1,
            origin: "o".into(),
            source: "u\r\nNmqtt-RFlags:5".into(),
            payload: (&b"x"[..]).into(),
        };
        let header = b"NATS/1.0\r\nNmqtt-RTopic:a\r\nNmqtt-RFlags:1\r\nNmqtt-ROrigin:o\r\n\r\n";
        assert_eq!(written(&message, "a"), header);
    }

    #[test]
    fn marks_are_those_of_nats_server() {
        let held = HeldMark { flags: 5, subject: b"two.<b>&c", mapped: b"" };
        let mapped = HeldMark { flags: 0xc, subject: b"to", mapped: b"from" };
        assert!(held.is_retained() && !mapped.is_retained());
        for (mark, id, block) in [
            (MessageMark { qos: Qos::AtLeastOnce, held: None }, None, "Nmqtt-Pub:1\r\n"),
            (
                MessageMark { qos: Qos::ExactlyOnce, held: None },
                Some(released_id(2)),
                "Nmqtt-Pub:2\r\nNats-Msg-Id:q2-2\r\n",
            ),
            (
                MessageMark { qos: Qos::ExactlyOnce, held: Some(held) },
                None,
                "Nmqtt-Pub:25\r\nNmqtt-Subject:two.<b>&c\r\n",
            ),
            (
                MessageMark { qos: Qos::ExactlyOnce, held: Some(mapped) },
                None,
                "Nmqtt-Pub:2c\r\nNmqtt-Subject:to\r\nNmqtt-Mapped:from\r\n",
            ),
        ] {
            let block = format!("NATS/1.0\r\n{block}\r\n");
            let mut out = Vec::new();
            mark.write(id.as_deref(), b"", &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), block);
            assert_eq!(MessageMark::of(block.as_bytes()), Some(mark));
        }
        // Written before there were flags.
        let old = b"NATS/1.0\r\nNmqtt-Pub:2\r\nNmqtt-Subject:a\r\n\r\n";
        let held = Some(HeldMark { flags: 0, subject: b"a", mapped: b"" });
        assert_eq!(MessageMark::of(old), Some(MessageMark { qos: Qos::ExactlyOnce, held }));
        for block in
            ["", "NATS/1.0\r\n\r\n", "NATS/1.0\r\nNmqtt-Pub:3\r\n\r\n", "NATS/1.0\r\nNmqtt-Pub:\r\n\r\n"]
        {
            assert_eq!(MessageMark::of(block.as_bytes()), None, "{block:?}");
        }
    }

    #[test]
    fn pubrels_have_their_identifier() {
        let mut out = Vec::new();
        pubrel_header(2, b"", &mut out);
        assert_eq!(out, b"NATS/1.0\r\nNmqtt-PubRel:2\r\n\r\n");
        assert_eq!((pubrel_id(&out), pubrel_ack(&out)), (Some(2), None));
        for (ack, is_read) in [("$JS.ACK.s.c.1.2.3.4.5", true), ("elsewhere", false)] {
            out.clear();
            pubrel_header(3, ack.as_bytes(), &mut out);
            assert_eq!((pubrel_id(&out), pubrel_ack(&out).is_some()), (Some(3), is_read));
        }
        for value in ["0", "65536", "x", ""] {
            assert_eq!(pubrel_id(format!("NATS/1.0\r\nNmqtt-PubRel:{value}\r\n\r\n").as_bytes()), None);
        }
    }

    #[test]
    fn sessions_of_mqtt_5_have_an_end_and_options() {
        let mut record = SessionRecord { id: "5".into(), expiry: Some(30), ..SessionRecord::default() };
        let options = SubscriptionRecord { id: 7, no_local: true, ..SubscriptionRecord::default() };
        record.set_options("a.>", options);
        record.set_options("b", SubscriptionRecord::default());
        record.shared.insert("$share/g/c".into(), SubscriptionRecord::default());
        let json = concat!(
            r#"{"id":"5","expiry":30,"opts":{"a.\u003e":{"id":7,"no_local":true}},"#,
            r#""shared":{"$share/g/c":{}}}"#
        );
        assert_eq!(String::from_utf8_lossy(&record.encode()), json);
        assert_eq!(SessionRecord::decode(json.as_bytes()).unwrap(), record);
        record.set_options("a.>", SubscriptionRecord::default());
        assert!(record.opts.is_empty());
        assert!(!record.has_ended(u64::MAX), "its client is there");
        record.ends = 100;
        assert_eq!([record.has_ended(99), record.has_ended(100)], [false, true]);
    }

    proptest! {
        #[test]
        fn sessions_come_back(
            id in "\\PC{0,12}",
            clean in any::<bool>(),
            subs in prop::collection::btree_map("\\PC{1,12}", 0u8..3, 0..4),
            names in prop::collection::btree_map("[a-z.*>]{1,8}", "[A-Za-z0-9]{1,22}", 0..4),
        ) {
            let hash = session_hash(&id);
            let consumer = |(pattern, name): (String, String)| {
                let consumer = ConsumerRecord::of_subscription(&hash, &pattern, &name, &name);
                (pattern, Some(Box::new(consumer)))
            };
            let cons = names.into_iter().map(consumer).collect();
            let record = SessionRecord { origin: hash.clone(), id, clean, subs, cons, ..Default::default() };
            prop_assert_eq!(SessionRecord::decode(&record.encode()).unwrap(), record);
        }

        #[test]
        fn retained_messages_come_back(
            flags in (0u8..15).prop_filter("no QoS 3", |flags| flags & 6 != 6),
            origin in "[A-Za-z0-9]{0,8}",
            source in "[^\\p{Cc} ]{0,8}",
            payload in prop::collection::vec(any::<u8>(), 0..8),
            name in "[a-c/.]{1,8}",
        ) {
            let mut subject = Vec::new();
            topic::name_to_subject(&name, &mut subject).unwrap();
            let message = RetainedMessage {
                flags,
                origin: origin.into(),
                source: source.into(),
                payload: payload.as_slice().into(),
            };
            let mut header = Vec::new();
            message.write_header(&subject, b"", &mut header);
            prop_assert_eq!(RetainedMessage::decode(&header, &payload), Ok(message));
        }
    }
}
