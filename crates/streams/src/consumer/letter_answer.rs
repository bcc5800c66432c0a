//! Answers of the stream that takes dead letters: to a letter, and to a look for one.

use myelin_jsapi::ApiError;
use myelin_stdx::base64;
use myelin_store::Seq;
use myelin_wire::header;
use serde::Deserialize;

/// Error of a stream that has a message of the subject already.
const WRONG_LAST_SEQUENCE: u16 = 10071;

/// Step of a letter's way that an answer is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Publishing it.
    Publish,
    /// Look for it, as its id was there already.
    Duplicate,
    /// Look for it, as there is a message of its subject already.
    Occupied,
    /// Look for it before it is published: whoever led before may have published it.
    Sought,
}

impl Step {
    /// End of the subject on which its answer comes. One that is late must not be taken for that to
    /// another step, or to another subject: `is_apart`.
    pub(super) fn token(self, is_apart: bool) -> &'static str {
        match (self, is_apart) {
            (Self::Publish, false) => "",
            (Self::Publish, true) => ".APART",
            (Self::Duplicate, false) => ".HELD",
            (Self::Duplicate, true) => ".HELD-APART",
            (Self::Occupied, false) => ".SEEN",
            (Self::Occupied, true) => ".SEEN-APART",
            (Self::Sought, _) => ".SOUGHT",
        }
    }
}

/// Answer of the stream.
#[derive(Default, Deserialize)]
pub(super) struct LetterAnswer {
    #[serde(default)]
    stream: String,
    #[serde(default)]
    duplicate: bool,
    error: Option<AnsweredError>,
    message: Option<FoundMessage>,
}

#[derive(Deserialize)]
struct AnsweredError {
    #[serde(default)]
    err_code: u16,
    #[serde(default)]
    description: String,
}

#[derive(Deserialize)]
struct FoundMessage {
    subject: String,
    #[serde(default)]
    hdrs: String,
}

/// Outcome of publishing a letter.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LetterPublished {
    /// The stream has it since.
    Stored,
    /// One of its id, or of its subject, was there already: its own or another consumer's.
    Known(Step),
    Refused(String),
}

/// Outcome of a look for a letter.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LetterFound {
    /// The letter of this message.
    Own,
    /// A message that is not that.
    Another,
    Nothing,
    Refused(String),
}

/// Message of which a letter is: stream, consumer and sequence.
pub(super) type Origin<'a> = (&'a str, &'a str, Seq);

impl LetterAnswer {
    pub(super) fn read(payload: &[u8]) -> Self {
        serde_json::from_slice(payload).unwrap_or_default()
    }

    /// Reads it as that of the stream `target` to a letter; `payload`: as it came.
    pub(super) fn published(self, target: &str, payload: &[u8]) -> LetterPublished {
        match self.error {
            Some(error) if error.err_code == WRONG_LAST_SEQUENCE => LetterPublished::Known(Step::Occupied),
            Some(error) => LetterPublished::Refused(error.told()),
            None if self.stream == target && self.duplicate => LetterPublished::Known(Step::Duplicate),
            None if self.stream == target => LetterPublished::Stored,
            None if payload.is_empty() => LetterPublished::Refused("nobody took it".to_owned()),
            None => LetterPublished::Refused("an answer of another stream".to_owned()),
        }
    }

    /// Reads it as that to a look for the last message of this subject.
    pub(super) fn found(self, subject: &[u8], origin: Origin<'_>) -> LetterFound {
        match (self.message, self.error) {
            (Some(message), _) if message.subject.as_bytes() == subject => {
                if message.is_of(origin) {
                    LetterFound::Own
                } else {
                    LetterFound::Another
                }
            }
            (_, Some(error)) if error.err_code == ApiError::NO_MESSAGE_FOUND.err_code => LetterFound::Nothing,
            (_, Some(error)) => LetterFound::Refused(error.told()),
            _ => LetterFound::Refused("an answer of another stream".to_owned()),
        }
    }
}

impl AnsweredError {
    fn told(&self) -> String {
        format!("{} ({})", self.description, self.err_code)
    }
}

impl FoundMessage {
    /// Whether it says that it is the letter of that message. The subject alone does not: the
    /// metadata of several consumers may name one.
    fn is_of(&self, (stream, consumer, seq): Origin<'_>) -> bool {
        let headers = base64::decode(&self.hdrs).unwrap_or_default();
        let says = |name: &str, value: &str| {
            header::get(&headers, name.as_bytes()).is_some_and(|found| found.trim_ascii() == value.as_bytes())
        };
        says("Myelin-DLQ-Stream", stream)
            && says("Myelin-DLQ-Consumer", consumer)
            && says("Myelin-DLQ-Sequence", &seq.to_string())
    }
}
