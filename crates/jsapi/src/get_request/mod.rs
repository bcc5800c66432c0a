//! Requests of readers: the body of a direct get and of a message get.

mod decode;

use std::fmt;

use myelin_stdx::seq::Seq;
use myelin_stdx::time::Timestamp;

/// All fields of the request. Zero and empty mean that a field was not given, as for the reference.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct GetRequest {
    /// This message, or the first one looked at.
    pub seq: Seq,
    /// `last_by_subj`: the last message of this subject or pattern.
    pub last_for: Vec<u8>,
    /// `next_by_subj`: the first one of this subject or pattern from `seq` or `start_time` on.
    pub next_for: Vec<u8>,
    /// How many messages; a negative number asks for none and gets an end.
    pub batch: i64,
    /// Where the answer ends.
    pub max_bytes: i64,
    /// The first message accepted then or later.
    pub start_time: Option<Timestamp>,
    /// `multi_last`: of each subject that matches, the last message.
    pub multi_last: Vec<Vec<u8>>,
    /// Limits the answer to messages before or at this sequence.
    pub up_to_seq: Seq,
    /// Limits the answer to messages before this time.
    pub up_to_time: Option<Timestamp>,
    /// `no_hdr`: only payloads.
    pub no_headers: bool,
}

/// The body is not JSON, or a field has the wrong type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedGet;

impl fmt::Display for MalformedGet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a request of a message")
    }
}

impl std::error::Error for MalformedGet {}

impl GetRequest {
    /// Reads a body by the rules of Go's decoder: the case of names means nothing, unknown fields
    /// are ignored, `null` changes nothing. What was there before is forgotten, its memory kept.
    ///
    /// # Errors
    /// [`MalformedGet`]; the fields then mean nothing.
    pub fn read(&mut self, json: &[u8]) -> Result<(), MalformedGet> {
        self.clear();
        decode::read(self, json)
    }

    /// Forgets everything but its memory.
    pub fn clear(&mut self) {
        let Self { mut last_for, mut next_for, mut multi_last, .. } = std::mem::take(self);
        last_for.clear();
        next_for.clear();
        multi_last.clear();
        *self = Self { last_for, next_for, multi_last, ..Self::default() };
    }

    /// Whether it asks for nothing.
    pub fn is_empty(&self) -> bool {
        self.multi_last.is_empty() && self.names_no_message()
    }

    /// Whether it has none of the fields that say which message is meant.
    pub fn names_no_message(&self) -> bool {
        self.seq == 0 && self.last_for.is_empty() && self.next_for.is_empty() && self.start_time.is_none()
    }

    /// Whether fields exclude each other in every kind of request.
    pub fn contradicts_itself(&self) -> bool {
        let by_last = !self.last_for.is_empty();
        let ways = [self.seq > 0, self.start_time.is_some(), by_last];
        ways.into_iter().filter(|is_given| *is_given).count() > 1 || by_last && !self.next_for.is_empty()
    }

    /// Whether fields exclude each other in a direct get.
    pub fn is_bad_direct(&self) -> bool {
        let by_many = !self.multi_last.is_empty();
        let by_last = !self.last_for.is_empty();
        self.contradicts_itself()
            || by_last && (self.batch > 0 || by_many)
            || !self.next_for.is_empty() && by_many
            || self.up_to_seq > 0 && self.up_to_time.is_some()
    }

    /// Whether it says something that a subject in the subject of the request leaves no room for.
    pub fn is_bad_by_subject(&self) -> bool {
        !self.is_empty() || self.batch != 0 || self.up_to_seq != 0 || self.up_to_time.is_some()
    }

    /// Whether the answer is one message without an end behind it.
    pub fn is_single(&self) -> bool {
        self.multi_last.is_empty() && self.batch == 0
    }
}
