//! Advisories: what the server tells about streams and the API to whoever subscribes to
//! `$JS.EVENT.ADVISORY.>`.
//!
//! Gives subject and bytes. Whether anybody listens, and in which account they are published,
//! others decide. The reference publishes that of a change to a stream before the answer to the
//! request, and the audit after it. Those about consumers are in [`consumer`].

pub mod backup;
pub mod consumer;
pub mod damage;
pub mod leadership;

use crate::api::moment;
use crate::json::{Moment, parse_moment};
use myelin_stdx::time::Timestamp;
use myelin_wire::json::{compact, is_zero, text};
use serde::{Deserialize, Deserializer, Serialize};

/// Where audits are published.
pub const AUDIT: &[u8] = b"$JS.EVENT.ADVISORY.API";

/// A message to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advisory {
    /// Where.
    pub subject: String,
    /// What.
    pub body: Vec<u8>,
}

/// Fields that every advisory carries.
#[derive(Clone, Copy, Debug)]
pub struct AdvisoryHeader<'a> {
    /// Unique, 22 characters.
    pub id: &'a str,
    /// Now.
    pub time: Timestamp,
    /// The server's domain; empty: none.
    pub domain: &'a str,
}

/// Client that asked, as audits show it, and servers tell each other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientInfo {
    /// When it connected.
    #[serde(skip_serializing_if = "is_zero", serialize_with = "moment", deserialize_with = "read_moment")]
    pub start: Timestamp,
    /// Its address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// Its number on this server.
    #[serde(skip_serializing_if = "is_zero")]
    pub id: u64,
    /// Its account.
    #[serde(rename = "acc", skip_serializing_if = "String::is_empty")]
    pub account: String,
    /// The account whose API it used, if not its own.
    #[serde(rename = "svc", skip_serializing_if = "String::is_empty")]
    pub service: String,
    /// As it authenticated.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// As it calls itself.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The language of its library.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub lang: String,
    /// The version of its library.
    #[serde(rename = "ver", skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Round trip in nanoseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub rtt: i64,
    /// Name of the server.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub server: String,
    /// Name of the server's cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    /// Key that signed its JWT.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub issuer_key: String,
    /// Name in its JWT.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name_tag: String,
    /// Tags in its JWT.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// `Client`, `Leafnode` or the like.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// `nats`, `websocket`, `mqtt`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client_type: String,
    /// Its id in MQTT.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client_id: String,
}

fn read_moment<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    let moment = parse_moment(String::deserialize(deserializer)?.as_bytes());
    moment.map(Moment::timestamp).map_err(serde::de::Error::custom)
}

/// Event in the life of a stream or a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Creation.
    Create,
    /// Change of the configuration.
    Modify,
    /// Deletion.
    Delete,
}

/// A request to the API of an account and the answer to it. An empty request is not shown.
pub fn api_audit(
    header: AdvisoryHeader<'_>,
    server: &str,
    client: Option<&ClientInfo>,
    subject: &[u8],
    request: &[u8],
    response: &[u8],
) -> Advisory {
    #[derive(Serialize)]
    struct Audit<'a> {
        server: &'a str,
        client: Option<&'a ClientInfo>,
        #[serde(serialize_with = "text")]
        subject: &'a [u8],
        #[serde(skip_serializing_if = "<[u8]>::is_empty", serialize_with = "text")]
        request: &'a [u8],
        #[serde(serialize_with = "text")]
        response: &'a [u8],
        #[serde(skip_serializing_if = "str::is_empty")]
        domain: &'a str,
    }
    let audit = Audit { server, client, subject, request, response, domain: header.domain };
    advisory("API".to_owned(), "api_audit", header, audit)
}

/// A stream was made, changed or deleted. For its account.
pub fn stream_action(header: AdvisoryHeader<'_>, stream: &str, action: Action) -> Advisory {
    #[derive(Serialize)]
    struct StreamActionBody<'a> {
        stream: &'a str,
        action: Action,
        #[serde(skip_serializing_if = "str::is_empty")]
        domain: &'a str,
    }
    let verb = match action {
        Action::Create => "CREATED",
        Action::Modify => "UPDATED",
        Action::Delete => "DELETED",
    };
    let changed = StreamActionBody { stream, action, domain: header.domain };
    advisory(format!("STREAM.{verb}.{stream}"), "stream_action", header, changed)
}

/// Why a batch was given up, as the advisory says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AbandonReason {
    /// No message for too long.
    Timeout,
    /// More messages than are allowed, or no memory to hold them.
    Large,
    /// A message is missing.
    Incomplete,
    /// A message asks for a newer server.
    Unsupported,
}

impl AbandonReason {
    /// The word of the advisory.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Large => "large",
            Self::Incomplete => "incomplete",
            Self::Unsupported => "unsupported",
        }
    }
}

/// An atomic batch was given up. Once for the stream's account, and once for the system account
/// with the name of the stream's.
pub fn batch_abandoned(
    header: AdvisoryHeader<'_>,
    account: &str,
    stream: &str,
    batch: &[u8],
    reason: AbandonReason,
) -> Advisory {
    #[derive(Serialize)]
    struct AbandonedBody<'a> {
        #[serde(skip_serializing_if = "str::is_empty")]
        account: &'a str,
        stream: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        domain: &'a str,
        #[serde(serialize_with = "text")]
        batch: &'a [u8],
        reason: AbandonReason,
    }
    let abandoned = AbandonedBody { account, stream, domain: header.domain, batch, reason };
    advisory(format!("STREAM.BATCH_ABANDONED.{stream}"), "stream_batch_abandoned", header, abandoned)
}

/// Messages without a reply subject were not stored, so that their publishers do not know: how many
/// of a stream since it was opened, by error. For its account. Ours: the reference tells nobody.
pub fn messages_lost(header: AdvisoryHeader<'_>, stream: &str, by_error: &[(u16, u64)]) -> Advisory {
    #[derive(Serialize)]
    struct LostBody<'a> {
        stream: &'a str,
        messages: u64,
        errors: Vec<Count>,
        #[serde(skip_serializing_if = "str::is_empty")]
        domain: &'a str,
    }
    #[derive(Serialize)]
    struct Count {
        err_code: u16,
        messages: u64,
    }
    let errors = by_error.iter().map(|&(err_code, messages)| Count { err_code, messages }).collect();
    let messages = by_error.iter().map(|(_, messages)| messages).sum();
    let lost = LostBody { stream, messages, errors, domain: header.domain };
    advisory(format!("STREAM.MESSAGES_LOST.{stream}"), "stream_messages_lost", header, lost)
}

/// Too many requests waited for the API, and were dropped. For the system account.
pub fn api_limit_reached(header: AdvisoryHeader<'_>, server: &str, dropped: u64) -> Advisory {
    #[derive(Serialize)]
    struct Limit<'a> {
        server: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        domain: &'a str,
        dropped: u64,
    }
    let limit = Limit { server, domain: header.domain, dropped };
    advisory("API.LIMIT_REACHED".to_owned(), "api_limit_reached", header, limit)
}

/// The disk is full. For the system account. `stream`: where it was noticed; empty: nowhere in
/// particular.
pub fn out_of_storage(
    header: AdvisoryHeader<'_>,
    server: &str,
    server_id: &str,
    stream: &str,
    cluster: &str,
) -> Advisory {
    #[derive(Serialize)]
    struct Full<'a> {
        server: &'a str,
        server_id: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        stream: &'a str,
        cluster: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        domain: &'a str,
    }
    let full = Full { server, server_id, stream, cluster, domain: header.domain };
    advisory("SERVER.OUT_OF_STORAGE".to_owned(), "server_out_of_space", header, full)
}

fn advisory<T: Serialize>(subject: String, kind: &str, header: AdvisoryHeader<'_>, about: T) -> Advisory {
    let kind = format!("io.nats.jetstream.advisory.v1.{kind}");
    event(format!("$JS.EVENT.ADVISORY.{subject}"), kind, header, about)
}

fn event<T: Serialize>(subject: String, kind: String, header: AdvisoryHeader<'_>, about: T) -> Advisory {
    #[derive(Serialize)]
    struct Envelope<'a, T> {
        #[serde(rename = "type")]
        kind: String,
        id: &'a str,
        #[serde(serialize_with = "moment")]
        timestamp: Timestamp,
        #[serde(flatten)]
        about: T,
    }
    let body = compact(&Envelope { kind, id: header.id, timestamp: header.time, about });
    Advisory { subject, body }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: AdvisoryHeader<'static> =
        AdvisoryHeader { id: "2rNTzcZaUNwjvsdo0N0c2M", time: 1_795_298_535_202_837_447, domain: "" };

    fn shown(advisory: &Advisory) -> (&str, &str) {
        (&advisory.subject, std::str::from_utf8(&advisory.body).unwrap())
    }

    // Recorded from nats-server 2.15.2.
    #[test]
    fn an_audit_shows_who_asked_what() {
        let client = ClientInfo {
            start: 1_795_298_535_196_979_138,
            host: "127.0.0.1".into(),
            id: 18,
            account: "$G".into(),
            name: "n<1>".into(),
            lang: "go".into(),
            version: "1.2".into(),
            rtt: 157_633,
            server: "N".into(),
            kind: "Client".into(),
            client_type: "nats".into(),
            ..Default::default()
        };
        let answer = br#"{"success":true}"#;
        let audit = api_audit(STAMP, "N", Some(&client), b"$JS.API.STREAM.DELETE.Q", b"\xff<", answer);
        let client = r#"{"start":"2026-11-21T22:02:15.196979138Z","host":"127.0.0.1","id":18,"acc":"$G","name":"n\u003c1\u003e","lang":"go","ver":"1.2","rtt":157633,"server":"N","kind":"Client","client_type":"nats"}"#;
        let expected = format!(
            r#"{{"type":"io.nats.jetstream.advisory.v1.api_audit","id":"2rNTzcZaUNwjvsdo0N0c2M","timestamp":"2026-11-21T22:02:15.202837447Z","server":"N","client":{client},"subject":"$JS.API.STREAM.DELETE.Q","request":"\ufffd\u003c","response":"{{\"success\":true}}"}}"#
        );
        assert_eq!(shown(&audit), ("$JS.EVENT.ADVISORY.API", expected.as_str()));
    }

    #[test]
    fn actions_have_verbs_and_names() {
        let updated = stream_action(STAMP, "Q", Action::Modify);
        let expected = r#"{"type":"io.nats.jetstream.advisory.v1.stream_action","id":"2rNTzcZaUNwjvsdo0N0c2M","timestamp":"2026-11-21T22:02:15.202837447Z","stream":"Q","action":"modify"}"#;
        assert_eq!(shown(&updated), ("$JS.EVENT.ADVISORY.STREAM.UPDATED.Q", expected));
    }

    #[test]
    fn the_system_account_is_told_whose_batch_it_was() {
        let batch = |account| batch_abandoned(STAMP, account, "Q", b"b\xff", AbandonReason::Unsupported);
        let (own, system) = (batch(""), batch("A"));
        assert_eq!(own.subject, "$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.Q");
        let tail = r#""stream":"Q","batch":"b\ufffd","reason":"unsupported"}"#;
        assert!(shown(&own).1.ends_with(&format!(r#"447Z",{tail}"#)), "{}", shown(&own).1);
        assert!(
            shown(&system).1.ends_with(&format!(r#"447Z","account":"A",{tail}"#)),
            "{}",
            shown(&system).1
        );
    }

    #[test]
    fn domains_stand_where_the_reference_has_them() {
        let header = AdvisoryHeader { domain: "D", ..STAMP };
        let limit = api_limit_reached(header, "N", 3);
        assert!(shown(&limit).1.ends_with(r#""server":"N","domain":"D","dropped":3}"#));
        let full = out_of_storage(header, "N", "I", "", "");
        assert!(shown(&full).1.ends_with(r#""server":"N","server_id":"I","cluster":"","domain":"D"}"#));
    }
}
