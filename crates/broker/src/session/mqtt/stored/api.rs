//! Requests to the API of JetStream, and what is read of its answers.

use crate::mqtt_storage::MqttStorage;
use myelin_mqtt::packet::ReasonCode;
use myelin_mqtt::records::ConsumerRecord;
use myelin_stdx::base64;
use myelin_wire::message_buf::MessageRef;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Codes of errors of the API.
pub(super) const MESSAGE_NOT_FOUND: u32 = 10037;
pub(super) const STREAM_NOT_FOUND: u32 = 10059;
/// The cluster has no leader now.
const NOT_AVAILABLE: &[u8] = b"\"err_code\":10008,";
const CONSUMER_NOT_FOUND: u32 = 10014;
pub(super) const STREAM_NAME_IN_USE: u32 = 10058;
pub(super) const TOO_FEW_PEERS: u32 = 10005;
pub(super) const REPLICAS_ALONE: u32 = 10074;
pub(super) const WRONG_SEQUENCE: u32 = 10071;
const STORE_FAILED: u32 = 10077;
const NO_RESOURCES: u32 = 10023;
const NO_MEMORY: u32 = 10028;
const NO_STORAGE: u32 = 10047;

/// Error in an answer.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ApiFault {
    #[serde(default)]
    pub(super) err_code: u32,
    #[serde(default)]
    pub(super) description: String,
}

impl fmt::Display for ApiFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.description, self.err_code)
    }
}

impl ApiFault {
    /// Reason for which a message of a client of MQTT 5 is not taken.
    pub(super) fn reason(&self) -> ReasonCode {
        match self.err_code {
            STORE_FAILED | NO_STORAGE | NO_MEMORY | NO_RESOURCES => ReasonCode::QuotaExceeded,
            _ => ReasonCode::ImplementationSpecific,
        }
    }

    /// Whether a publish was refused because the stream has a message of that subject.
    pub(super) fn is_kept_first(&self) -> bool {
        self.err_code == STORE_FAILED && self.description.contains("messages per subject")
    }
}

/// Answer of which only an error counts, and the sequence of a message that is stored.
#[derive(Debug, Deserialize)]
pub(super) struct PublishAnswer {
    pub(super) error: Option<ApiFault>,
    #[serde(default)]
    pub(super) seq: u64,
    /// The stream has had it before.
    #[serde(default)]
    duplicate: bool,
}

/// Answer about a message.
#[derive(Debug, Deserialize)]
pub(super) struct MessageAnswer {
    pub(super) error: Option<ApiFault>,
    message: Option<EncodedMessage>,
}

#[derive(Debug, Deserialize)]
struct EncodedMessage {
    seq: u64,
    #[serde(default)]
    hdrs: String,
    #[serde(default)]
    data: String,
}

/// A message of a stream.
pub(super) struct StoredMessage {
    pub(super) sequence: u64,
    pub(super) headers: Vec<u8>,
    pub(super) payload: Vec<u8>,
}

/// Answer about a stream.
#[derive(Debug, Deserialize)]
pub(super) struct StreamAnswer {
    pub(super) error: Option<ApiFault>,
    #[serde(default)]
    pub(super) state: StreamPosition,
}

/// Answer about a consumer.
#[derive(Debug, Deserialize)]
pub(super) struct ConsumerAnswer {
    error: Option<ApiFault>,
    #[serde(default)]
    ack_floor: ConsumerFloor,
    #[serde(default)]
    num_ack_pending: u64,
}

#[derive(Debug, Default, Deserialize)]
struct ConsumerFloor {
    stream_seq: u64,
}

impl ConsumerAnswer {
    /// Messages that were delivered and are not acknowledged.
    pub(super) fn pending(self) -> Result<u64, ApiFault> {
        self.error.map_or(Ok(self.num_ack_pending), Err)
    }

    /// Sequence up to which everything is acknowledged. `None`: there is no such consumer.
    pub(super) fn floor(self) -> Result<Option<u64>, ApiFault> {
        match self.error {
            None => Ok(Some(self.ack_floor.stream_seq)),
            Some(fault) if fault.err_code == CONSUMER_NOT_FOUND => Ok(None),
            Some(fault) => Err(fault),
        }
    }
}

/// Answer about the subjects of a stream that match.
#[derive(Debug, Deserialize)]
pub(super) struct MembersAnswer {
    error: Option<ApiFault>,
    #[serde(default)]
    state: MatchingSubjects,
}

#[derive(Debug, Default, Deserialize)]
struct MatchingSubjects {
    #[serde(default)]
    subjects: BTreeMap<String, u64>,
}

impl MembersAnswer {
    pub(super) fn subjects(self) -> Result<Vec<String>, ApiFault> {
        self.error.map_or_else(|| Ok(self.state.subjects.into_keys().collect()), Err)
    }
}

/// State of a stream, as far as it matters.
#[derive(Debug, Default, Deserialize)]
pub(super) struct StreamPosition {
    pub(super) last_seq: u64,
}

/// Reads an answer; what cannot be read is an error.
pub(super) fn read<'a, A: Deserialize<'a>>(answer: &'a [u8]) -> Result<A, ApiFault> {
    serde_json::from_slice(answer)
        .map_err(|error| ApiFault { err_code: 0, description: format!("answer cannot be read: {error}") })
}

/// Text in place of the answer that nobody has given.
const NOBODY: &[u8] =
    br#"{"error":{"code":503,"err_code":0,"description":"nobody has taken the request: no leader (503)"}}"#;

/// The answer as it is read where it has a body, else an error that says so.
pub(super) fn readable<'m>(msg: &MessageRef<'m>) -> MessageRef<'m> {
    let is_nobody =
        msg.payload.is_empty() && (msg.headers.is_empty() || msg.headers.starts_with(b"NATS/1.0 503"));
    MessageRef { payload: if is_nobody { NOBODY } else { msg.payload }, ..*msg }
}

/// Whether an answer says that the cluster has no leader now.
pub(super) fn is_unavailable(answer: &[u8]) -> bool {
    answer.windows(NOT_AVAILABLE.len()).take(512).any(|part| part == NOT_AVAILABLE)
}

/// Reads the answer to a publish, or to a request of which only the error counts.
pub(super) fn outcome(answer: &[u8]) -> Result<u64, ApiFault> {
    let outcome: PublishAnswer = read(answer)?;
    outcome.error.map_or(Ok(outcome.seq), Err)
}

/// Reads the answer to a publish with an id. `None`: the stream had one of that id.
pub(super) fn stored_at(answer: &[u8]) -> Result<Option<u64>, ApiFault> {
    let answer: PublishAnswer = read(answer)?;
    let sequence = Some(answer.seq).filter(|_| !answer.duplicate);
    answer.error.map_or(Ok(sequence), Err)
}

impl MessageAnswer {
    /// The message. `None`: there is none.
    pub(super) fn message(self) -> Result<Option<StoredMessage>, ApiFault> {
        match (self.error, self.message) {
            (Some(fault), _) if fault.err_code == MESSAGE_NOT_FOUND => Ok(None),
            (Some(fault), _) => Err(fault),
            (None, None) => Ok(None),
            (None, Some(message)) => {
                let decode = |text: &str| base64::decode(text);
                let (Some(headers), Some(payload)) = (decode(&message.hdrs), decode(&message.data)) else {
                    let description = "message is no base64".to_owned();
                    return Err(ApiFault { err_code: 0, description });
                };
                Ok(Some(StoredMessage { sequence: message.seq, headers, payload }))
            }
        }
    }
}

/// Body of a request for the last message of a subject.
pub(super) fn last_of(subject: &str) -> Vec<u8> {
    #[derive(Serialize)]
    struct LastOf<'a> {
        last_by_subj: &'a str,
    }
    myelin_wire::json::compact(&LastOf { last_by_subj: subject })
}

/// Body of a request for the message at a sequence.
pub(super) fn at(sequence: u64) -> Vec<u8> {
    format!(r#"{{"seq":{sequence}}}"#).into_bytes()
}

/// Body of a request to remove a message.
pub(super) fn remove(sequence: u64) -> String {
    format!(r#"{{"seq":{sequence},"no_erase":true}}"#)
}

/// Body of a request to remove the messages of a subject.
pub(super) fn purge(subject: &str) -> String {
    serde_json::json!({ "filter": subject }).to_string()
}

/// Body of a request to remove the messages of a subject that are before this sequence.
pub(super) fn purge_below(subject: &str, sequence: u64) -> String {
    serde_json::json!({ "filter": subject, "seq": sequence }).to_string()
}

/// Body of a request to make a consumer, or to change its filters.
pub(super) fn consumer(stream: &str, config: &ConsumerRecord) -> Vec<u8> {
    #[derive(Serialize)]
    struct ConsumerRequest<'a> {
        stream_name: &'a str,
        config: &'a ConsumerRecord,
    }
    myelin_wire::json::compact(&ConsumerRequest { stream_name: stream, config })
}

/// A consumer as the options want it.
pub(super) fn configured(storage: &MqttStorage, consumer: ConsumerRecord) -> ConsumerRecord {
    let nanoseconds = |time: std::time::Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
    ConsumerRecord {
        ack_wait: nanoseconds(storage.ack_wait),
        max_ack_pending: i64::from(storage.max_ack_pending),
        inactive_threshold: storage.consumer_inactive_threshold.map(nanoseconds).unwrap_or_default(),
        mem_storage: storage.consumers_in_memory,
        ..consumer
    }
}
