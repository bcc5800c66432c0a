//! Streams in which nats-server keeps sessions and messages, as data: names, subjects, and what
//! their configurations differ in from a stream that says nothing.
//!
//! An account gets all five when its first client connects. They are found in every store that was
//! written by nats-server, and backups for it have them.

use myelin_wire::json;
use serde::Serialize;
use std::time::Duration;

/// Beginning of all subjects that the parts of MQTT use between each other. No client may subscribe
/// there, or a filter would go past its permissions.
pub const PREFIX: &str = "$MQTT.";

/// Beginning of the subjects that consumers deliver to; permissions of MQTT users allow it always.
pub const DELIVER_PREFIX: &str = "$MQTT.sub.";
/// Beginning of the subjects that PUBRELs are delivered to, likewise allowed.
pub const DELIVER_PUBREL_PREFIX: &str = "$MQTT.deliver.pubrel.";
/// Beginning of the subjects that PUBRELs are stored on, in [`OUT`]; a session's hash follows.
pub const PUBREL_PREFIX: &str = "$MQTT.out.pubrel.";
/// Beginning of the name of the consumer of a session's PUBRELs; its hash follows.
pub const PUBREL_CONSUMER_PREFIX: &str = "$MQTT_PUBREL_";
/// Beginning of the subjects on which answers of the API come; the server's node name follows.
pub const ANSWERS_PREFIX: &str = "$MQTT.JSA.";
/// Beginning of the message id of a QoS 2 message that was released: its sequence in [`HELD`]
/// follows.
pub const RELEASED_ID_PREFIX: &str = "q2-";

/// Time until a message that nobody acknowledged comes again (`ack_wait`).
pub const ACK_WAIT: Duration = Duration::from_secs(30);
/// Messages of a subscription that may be unacknowledged (`max_ack_pending`).
pub const MAX_ACK_PENDING: u16 = 1024;
/// Messages of all subscriptions of a session that may be unacknowledged.
pub const MAX_ACK_PENDING_TOTAL: u32 = 0xffff;
/// Time for which a retained message is held in memory.
pub const RETAINED_CACHE: Duration = Duration::from_secs(120);

/// A stream of MQTT: always on files, of any size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MqttStream {
    /// Its name.
    pub name: &'static str,
    /// Beginning of its subjects, of which it takes all.
    pub subject_prefix: &'static str,
    /// Whether messages go when every consumer has them (`interest`), or stay (`limits`).
    pub is_interest: bool,
    /// Messages for each subject; `None` is unlimited.
    pub max_msgs_per_subject: Option<u64>,
    /// Whether a second message of a subject is refused, instead of the first removed (`discard`
    /// `new`, for each subject).
    pub keeps_first: bool,
    /// Noun of the stream, in texts of the log.
    pub noun: &'static str,
}

/// One record for each session.
pub const SESSIONS: MqttStream = MqttStream {
    name: "$MQTT_sess",
    subject_prefix: "$MQTT.sess.",
    is_interest: false,
    max_msgs_per_subject: Some(1),
    keeps_first: false,
    noun: "sessions",
};

/// Messages of QoS 1 and 2 on their way to sessions; their subjects follow the prefix.
pub const MESSAGES: MqttStream = MqttStream {
    name: "$MQTT_msgs",
    subject_prefix: "$MQTT.msgs.",
    is_interest: true,
    max_msgs_per_subject: None,
    keeps_first: false,
    noun: "messages",
};

/// Messages of QoS 2 that their publishers have not released yet: client id and packet identifier
/// follow the prefix, so that a message that is sent twice is held once.
pub const HELD: MqttStream = MqttStream {
    name: "$MQTT_qos2in",
    subject_prefix: "$MQTT.qos2.in.",
    is_interest: false,
    max_msgs_per_subject: Some(1),
    keeps_first: true,
    noun: "QoS2 incoming messages",
};

/// PUBRELs on their way to sessions.
pub const OUT: MqttStream = MqttStream {
    name: "$MQTT_out",
    subject_prefix: "$MQTT.out.",
    is_interest: true,
    max_msgs_per_subject: None,
    keeps_first: false,
    noun: "QoS2 outgoing PUBREL",
};

/// Retained messages; their subjects follow the prefix.
pub const RETAINED: MqttStream = MqttStream {
    name: "$MQTT_rmsgs",
    subject_prefix: "$MQTT.rmsgs.",
    is_interest: false,
    max_msgs_per_subject: Some(1),
    keeps_first: false,
    noun: "retained messages",
};

/// All streams, in the order in which nats-server makes them.
pub const ALL: [MqttStream; 5] = [SESSIONS, MESSAGES, HELD, OUT, RETAINED];

/// Beginning of the names of the streams that sessions had for themselves before nats-server 2.3.
pub const OLD_SESSION_PREFIX: &str = "$MQTT_sess_";

impl MqttStream {
    /// The one subject that the stream takes. Sessions are kept apart by `domain`, a JetStream
    /// domain with its dot; the others have none.
    pub fn subject(&self, domain: &str) -> String {
        let domain = if *self == SESSIONS { domain } else { "" };
        format!("{}{domain}>", self.subject_prefix)
    }

    /// Whether messages of the stream may have lifetimes: sessions that end by themselves, and
    /// messages with an expiry (MQTT 5).
    pub fn has_lifetimes(&self) -> bool {
        [SESSIONS, MESSAGES, RETAINED].contains(self)
    }

    /// Request that makes the stream, with so many replicas.
    pub fn create_request(&self, domain: &str, replicas: u32) -> Vec<u8> {
        json::compact(&CreateRequest {
            name: self.name,
            subjects: [self.subject(domain)],
            retention: if self.is_interest { "interest" } else { "limits" },
            storage: "file",
            num_replicas: replicas,
            max_msgs_per_subject: self.max_msgs_per_subject,
            discard: if self.keeps_first { "new" } else { "old" },
            discard_new_per_subject: self.keeps_first,
            allow_direct: *self == RETAINED,
            allow_msg_ttl: self.has_lifetimes(),
        })
    }
}

/// Configuration of a stream, as far as it says something.
#[derive(Serialize)]
struct CreateRequest {
    name: &'static str,
    subjects: [String; 1],
    retention: &'static str,
    storage: &'static str,
    num_replicas: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_msgs_per_subject: Option<u64>,
    discard: &'static str,
    #[serde(skip_serializing_if = "json::is_false")]
    discard_new_per_subject: bool,
    /// Retained messages are asked for by their subjects, many at once.
    #[serde(skip_serializing_if = "json::is_false")]
    allow_direct: bool,
    #[serde(skip_serializing_if = "json::is_false")]
    allow_msg_ttl: bool,
}

/// Subject of the record of a session.
pub fn session_subject(domain: &str, hash: &str) -> String {
    format!("{}{domain}{hash}", SESSIONS.subject_prefix)
}

/// Subject of a QoS 2 message that is held for its publisher; `*` for all of them.
pub fn held_subject(client_id: &str, packet_id: &str) -> String {
    format!("{}{client_id}.{packet_id}", HELD.subject_prefix)
}

/// Whether a subscription's pattern leads to what MQTT keeps for itself.
pub fn is_internal(pattern: &[u8]) -> bool {
    pattern.starts_with(PREFIX.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `name` and `subjects` of the configurations that nats-server 2.15.2 answers with.
    #[test]
    fn streams_take_the_subjects_of_nats_server() {
        let subjects: Vec<(&str, String)> =
            ALL.iter().map(|stream| (stream.name, stream.subject(""))).collect();
        let wanted = [
            ("$MQTT_sess", "$MQTT.sess.>"),
            ("$MQTT_msgs", "$MQTT.msgs.>"),
            ("$MQTT_qos2in", "$MQTT.qos2.in.>"),
            ("$MQTT_out", "$MQTT.out.>"),
            ("$MQTT_rmsgs", "$MQTT.rmsgs.>"),
        ];
        assert_eq!(subjects, wanted.map(|(name, subject)| (name, subject.to_owned())));
        assert!(ALL.iter().all(|stream| is_internal(stream.subject_prefix.as_bytes())));
    }

    #[test]
    fn a_domain_keeps_sessions_apart() {
        assert_eq!(SESSIONS.subject("hub."), "$MQTT.sess.hub.>");
        assert_eq!(RETAINED.subject("hub."), "$MQTT.rmsgs.>");
        assert_eq!(session_subject("hub.", "3C3akiUI"), "$MQTT.sess.hub.3C3akiUI");
        assert_eq!(held_subject("pub-1", "9"), "$MQTT.qos2.in.pub-1.9");
    }

    #[test]
    fn what_is_internal_begins_with_the_prefix() {
        assert!(is_internal(b"$MQTT.>"));
        for pattern in [&b"$MQTT"[..], b"$MQTT_msgs", b"a.$MQTT.x", b">"] {
            assert!(!is_internal(pattern));
        }
    }
}
