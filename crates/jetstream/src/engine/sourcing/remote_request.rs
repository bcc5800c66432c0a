//! Request by which a mirror or source asks for a consumer of an origin on another server, and what
//! the answer says.

use myelin_jsapi::ApiError;
use myelin_jsapi::config::StreamSource;
use myelin_jsapi::consumer::config::ConsumerConfig;
use myelin_store::Seq;
use myelin_wire::header;
use myelin_wire::json;
use serde::{Deserialize, Serialize};

/// Header that tells a stream from another one of its name.
const IDENTITY: &str = "Nats-Stream-Identity";
/// Policy by which a consumer counts as acknowledged what answers to flow control name.
const FLOW_CONTROL: &str = "flow_control";

/// A request, but for where its answer goes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RemoteRequest {
    pub(super) subject: String,
    pub(super) headers: String,
    pub(super) body: Vec<u8>,
}

/// Body of a request for a new consumer.
#[derive(Serialize)]
struct CreateBody<'a> {
    stream_name: &'a str,
    config: &'a ConsumerConfig,
    action: &'a str,
}

/// How a mirror or source asks.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    pub(super) source: &'a StreamSource,
    pub(super) is_mirror: bool,
    /// The origin as it was known before; empty: not known.
    pub(super) identity: &'a str,
    /// Whether the server there does not know such consumers: it is asked for a plain one, whose
    /// name is this one's to make up.
    pub(super) is_old: bool,
}

impl Asking<'_> {
    /// Subject of the API there, with this behind its prefix.
    fn subject(&self, request: &str) -> String {
        let prefix = self.source.external.as_ref().map_or("$JS.API", |external| external.api.as_str());
        format!("{prefix}.{request}").replace("..", ".")
    }

    /// Asks that a consumer which somebody has made go on behind what it knows to be stored here.
    pub(super) fn reset(&self, consumer: &str) -> RemoteRequest {
        let subject = self.subject(&format!("CONSUMER.RESET.{}.{consumer}", self.source.name));
        RemoteRequest { subject, headers: self.headers(), body: Vec::new() }
    }

    /// Asks for a consumer of this configuration.
    pub(super) fn create(&self, config: &ConsumerConfig) -> RemoteRequest {
        let stream_name = &self.source.name;
        let mut tail = stream_name.clone();
        if !config.filter_subject.is_empty() {
            tail = format!("{tail}.{}.{}", config.name, config.filter_subject);
        }
        let body = json::compact(&CreateBody { stream_name, config, action: "" });
        RemoteRequest {
            subject: self.subject(&format!("CONSUMER.CREATE.{tail}")),
            headers: self.headers(),
            body,
        }
    }

    /// Asks that a consumer be deleted.
    pub(super) fn delete(&self, consumer: &str) -> RemoteRequest {
        let subject = self.subject(&format!("CONSUMER.DELETE.{}.{consumer}", self.source.name));
        RemoteRequest { subject, headers: String::new(), body: Vec::new() }
    }

    /// Levels of the API from which on such consumers are known, and those of sources are refused
    /// where the origin was made anew.
    fn headers(&self) -> String {
        let required = "NATS/1.0\r\nNats-Required-Api-Level: ";
        match self {
            _ if self.is_old => String::new(),
            _ if self.is_mirror => format!("{required}4\r\n\r\n"),
            _ => format!("{required}5\r\n{IDENTITY}: {}\r\n\r\n", self.identity),
        }
    }
}

/// Consumer that another server has made.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RemoteConsumer {
    pub(super) name: String,
    pub(super) identity: String,
    /// Deliveries that it has made, and the message before which it delivers nothing.
    pub(super) delivery: u64,
    pub(super) seq: Seq,
    /// Messages that it has to deliver.
    pub(super) pending: u64,
}

#[derive(Deserialize)]
struct Answer {
    error: Option<Refusal>,
    #[serde(default)]
    name: String,
    config: Option<AnswerConfig>,
    #[serde(default)]
    delivered: Place,
    #[serde(default)]
    num_pending: u64,
}

#[derive(Deserialize)]
struct AnswerConfig {
    #[serde(default)]
    ack_policy: String,
}

#[derive(Default, Deserialize)]
struct Place {
    #[serde(default)]
    consumer_seq: u64,
    #[serde(default)]
    stream_seq: Seq,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(default)]
    code: u16,
    #[serde(default)]
    err_code: u16,
    #[serde(default)]
    description: String,
}

/// Why there is no consumer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RemoteRefusal {
    /// Nobody is there to answer.
    Nobody,
    /// The origin is another one than was known under its name.
    OtherStream,
    /// The server there does not know such consumers.
    TooNew,
    /// Anything else.
    Because(ApiError),
}

/// Reads an answer. `is_given`: to a request about a consumer that somebody has made.
///
/// # Errors
/// It is a refusal, or cannot be understood.
pub(super) fn read_answer(
    headers: &[u8],
    payload: &[u8],
    is_mirror: bool,
    is_given: bool,
) -> Result<RemoteConsumer, RemoteRefusal> {
    if payload.is_empty() && headers.starts_with(b"NATS/1.0 503") {
        return Err(RemoteRefusal::Nobody);
    }
    let bad = || RemoteRefusal::Because(failed(is_mirror, "invalid consumer create response"));
    let answer: Answer = serde_json::from_slice(payload).map_err(|_| bad())?;
    if let Some(Refusal { code, err_code, description }) = answer.error {
        let [other, level] =
            [ApiError::consumer_stream_identity_mismatch("").err_code, ApiError::REQUIRED_API_LEVEL.err_code];
        return Err(match err_code {
            _ if err_code == other => RemoteRefusal::OtherStream,
            _ if err_code == level || err_code == ApiError::invalid_json("").err_code => {
                RemoteRefusal::TooNew
            }
            _ => RemoteRefusal::Because(ApiError { code, err_code, description: description.into() }),
        });
    }
    let config = answer.config.ok_or_else(bad)?;
    if is_given && config.ack_policy != FLOW_CONTROL {
        let [mirror, source] =
            [ApiError::MIRROR_CONSUMER_REQUIRES_ACK_FC, ApiError::SOURCE_CONSUMER_REQUIRES_ACK_FC];
        return Err(RemoteRefusal::Because(if is_mirror { mirror } else { source }));
    }
    let identity = header::get(headers, IDENTITY.as_bytes()).unwrap_or_default();
    Ok(RemoteConsumer {
        name: answer.name,
        identity: String::from_utf8_lossy(identity).into_owned(),
        delivery: answer.delivered.consumer_seq,
        seq: answer.delivered.stream_seq,
        pending: answer.num_pending,
    })
}

/// Error of a mirror or source that does not come to its origin.
pub(super) fn failed(is_mirror: bool, why: impl std::fmt::Display) -> ApiError {
    if is_mirror {
        ApiError::mirror_consumer_setup_failed(why)
    } else {
        ApiError::source_consumer_setup_failed(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use myelin_jsapi::config::ExternalStream;

    fn source(api: &str) -> StreamSource {
        let external = Some(ExternalStream { api: api.to_owned(), deliver: String::new() });
        StreamSource { name: "O".to_owned(), external, ..StreamSource::default() }
    }

    fn asking(source: &StreamSource, is_mirror: bool) -> Asking<'_> {
        Asking { source, is_mirror, identity: "", is_old: false }
    }

    fn config(filter: &str) -> ConsumerConfig {
        ConsumerConfig {
            name: "C".to_owned(),
            filter_subject: filter.to_owned(),
            ..ConsumerConfig::default()
        }
    }

    #[test]
    fn requests_are_the_references() {
        let source = source("$JS.H.API");
        let mirror = asking(&source, true).create(&config(""));
        assert_eq!(mirror.subject, "$JS.H.API.CONSUMER.CREATE.O");
        assert_eq!(mirror.headers, "NATS/1.0\r\nNats-Required-Api-Level: 4\r\n\r\n");
        let body = String::from_utf8(mirror.body).expect("it is text");
        assert!(body.starts_with(r#"{"stream_name":"O","config":{"name":"C","#), "{body}");
        assert!(body.ends_with(r#"},"action":""}"#), "{body}");
        let filtered = asking(&source, false).create(&config("o.2"));
        assert_eq!(filtered.subject, "$JS.H.API.CONSUMER.CREATE.O.C.o.2");
        assert_eq!(
            filtered.headers,
            "NATS/1.0\r\nNats-Required-Api-Level: 5\r\nNats-Stream-Identity: \r\n\r\n"
        );
        assert_eq!(asking(&source, true).reset("given").subject, "$JS.H.API.CONSUMER.RESET.O.given");
        let old = Asking { is_old: true, ..asking(&source, true) };
        assert_eq!(old.create(&config("")).headers, "");
    }

    #[test]
    fn a_prefix_may_end_in_a_dot() {
        assert_eq!(asking(&source("imported."), true).delete("C").subject, "imported.CONSUMER.DELETE.O.C");
    }

    #[test]
    fn an_answer_says_where_the_consumer_begins() {
        let headers = b"NATS/1.0\r\nNats-Stream-Identity: O2sCj32F\r\n\r\n";
        let payload = br#"{"type":"t","stream_name":"O","name":"C-5IW0eCfa","config":{"deliver_subject":"$JS.M.x","ack_policy":"none"},"delivered":{"consumer_seq":2,"stream_seq":7},"num_pending":3}"#;
        let consumer = RemoteConsumer {
            name: "C-5IW0eCfa".to_owned(),
            identity: "O2sCj32F".to_owned(),
            delivery: 2,
            seq: 7,
            pending: 3,
        };
        assert_eq!(read_answer(headers, payload, true, false), Ok(consumer));
        let refused = RemoteRefusal::Because(ApiError::MIRROR_CONSUMER_REQUIRES_ACK_FC);
        assert_eq!(read_answer(headers, payload, true, true), Err(refused));
    }

    #[test]
    fn refusals_are_told_apart() {
        let of = |error: &ApiError| {
            let error = String::from_utf8(error.json()).expect("it is text");
            read_answer(b"", format!("{{\"error\":{error}}}").as_bytes(), true, false)
        };
        assert_eq!(of(&ApiError::consumer_stream_identity_mismatch("x")), Err(RemoteRefusal::OtherStream));
        assert_eq!(of(&ApiError::REQUIRED_API_LEVEL), Err(RemoteRefusal::TooNew));
        assert_eq!(of(&ApiError::invalid_json("x")), Err(RemoteRefusal::TooNew));
        let missing = ApiError::STREAM_NOT_FOUND;
        assert_eq!(of(&missing), Err(RemoteRefusal::Because(missing)));
        assert_eq!(read_answer(b"NATS/1.0 503\r\n\r\n", b"", true, false), Err(RemoteRefusal::Nobody));
        for junk in [&b"{"[..], b"[]", b"{}", b"{\"delivered\":-1}"] {
            assert!(
                matches!(read_answer(b"", junk, true, false), Err(RemoteRefusal::Because(_))),
                "{junk:?}"
            );
        }
    }
}
