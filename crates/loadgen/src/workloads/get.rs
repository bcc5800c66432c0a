//! `bench js get` and `bench kv get`: messages that are asked for by sequence, by key, or in
//! batches.
//!
//! One request at a time. Owns the proof that each answer is what was asked for, and where the next
//! batch begins.

use std::time::Instant;

use serde_json::Value;

use crate::client_pool::inbox::Message;
use crate::client_pool::outbox::Outbox;
use crate::client_pool::pace::Leave;
use crate::client_pool::sample::{Latencies, Sample};
use crate::client_pool::{NextStep, Waits, Work};
use crate::connection::write_message;
use crate::error::BenchError;
use crate::workloads::{Part, Replies};

/// Messages to get, and the request for them.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// Message after message, from this sequence.
    Sequence {
        /// Sequence of the first.
        first: u64,
        /// Subject of the request.
        subject: String,
        /// Whether it is a direct get.
        is_direct: bool,
    },
    /// Batches of messages that match a filter.
    Batches {
        /// Messages of a batch.
        size: u64,
        /// Subject of the request.
        subject: String,
        /// Which messages are meant.
        filter: String,
    },
    /// The last message of key after key, or of keys below a number at random if it is more than 0.
    Keys {
        /// Start of the requests' subjects.
        prefix: String,
        /// Keys to draw from; 0 for one after the other.
        random_below: u64,
    },
}

/// Client that gets messages, with one request at a time.
#[derive(Debug)]
pub struct Get {
    part: Part,
    wanted: Wanted,
    replies: Replies,
    requests: u64,
    got: u64,
    /// The request that is unanswered.
    open: Option<Open>,
    /// Where the next batch begins.
    next: u64,
    short: u64,
    random: u64,
    start: Option<Instant>,
    end: Option<Instant>,
    latencies: Latencies,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    since: Instant,
    /// Messages of it that have not come.
    left: u64,
}

impl Get {
    /// A client that has asked for nothing yet.
    pub fn new(part: Part, wanted: Wanted, inbox: &str) -> Self {
        let random = (part.offset + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        Self {
            part,
            wanted,
            replies: Replies::new(inbox),
            requests: 0,
            got: 0,
            open: None,
            next: 1,
            short: 0,
            random,
            start: None,
            end: None,
            latencies: Latencies::new(),
        }
    }

    /// The subject and the body of the next request, and how many messages it is for.
    fn request(&mut self) -> (String, String, u64) {
        match &self.wanted {
            Wanted::Sequence { first, subject, .. } => {
                (subject.clone(), format!("{{\"seq\":{}}}", first + self.got), 1)
            }
            Wanted::Batches { size, subject, filter } => {
                let count = (*size).min(self.part.messages - self.got);
                let filter = Value::from(filter.as_str());
                let body = format!("{{\"seq\":{},\"batch\":{count},\"next_by_subj\":{filter}}}", self.next);
                (subject.clone(), body, count)
            }
            Wanted::Keys { prefix, random_below } => {
                let mut key = self.part.offset + self.got;
                if *random_below > 0 {
                    self.random ^= self.random << 13;
                    self.random ^= self.random >> 7;
                    self.random ^= self.random << 17;
                    key = self.random % random_below;
                }
                (format!("{prefix}.{key}"), String::new(), 1)
            }
        }
    }

    /// The request is answered, with fewer messages than it was for if there are no more.
    fn close(&mut self, open: Open, now: Instant) {
        self.latencies.record(now.saturating_duration_since(open.since));
        self.open = None;
        self.end = Some(now);
    }

    fn take_batch(&mut self, message: &Message<'_>, open: Open, now: Instant) -> Result<(), BenchError> {
        match message.status() {
            None => {
                let sequence = sequence(message)?;
                if sequence < self.next || open.left == 0 {
                    return Err(BenchError::Lost(format!("message {sequence} came twice")));
                }
                self.next = sequence + 1;
                self.got += 1;
                self.open = Some(Open { left: open.left - 1, ..open });
                Ok(())
            }
            // The end of a batch.
            Some(204) => {
                if open.left > 0 {
                    self.short += 1;
                }
                self.close(open, now);
                Ok(())
            }
            Some(404) => Err(BenchError::Lost(format!(
                "the stream has no more messages after {} of {}",
                self.got, self.part.messages
            ))),
            Some(503) => Err(BenchError::NoResponder),
            Some(_) => Err(BenchError::Refused(message.status_line())),
        }
    }

    fn check_one(&self, message: &Message<'_>) -> Result<(), BenchError> {
        match (&self.wanted, message.status()) {
            (_, Some(503)) => Err(BenchError::NoResponder),
            (_, Some(404)) => Err(BenchError::Lost(format!("message {} is not there", self.got + 1))),
            (_, Some(_)) => Err(BenchError::Refused(message.status_line())),
            (Wanted::Sequence { first, is_direct: true, .. }, None) => match sequence(message)? {
                found if found == first + self.got => Ok(()),
                found => {
                    Err(BenchError::Lost(format!("message {found} came instead of {}", first + self.got)))
                }
            },
            (Wanted::Sequence { first, .. }, None) => {
                let answer: Value = serde_json::from_slice(message.payload).unwrap_or_default();
                match answer["message"]["seq"].as_u64() {
                    Some(found) if found == first + self.got => Ok(()),
                    _ => Err(BenchError::Refused(answer["error"].to_string())),
                }
            }
            (_, None) => sequence(message).map(drop),
        }
    }
}

fn sequence(message: &Message<'_>) -> Result<u64, BenchError> {
    let value = message.header_value("Nats-Sequence").and_then(|text| text.parse().ok());
    value.ok_or_else(|| BenchError::Protocol("a message without a sequence".into()))
}

impl Work for Get {
    fn fill(&mut self, out: &mut Outbox, now: Instant) -> Result<NextStep, BenchError> {
        self.start.get_or_insert(now);
        if self.open.is_some() {
            return Ok(NextStep::Wait);
        }
        if self.got >= self.part.messages {
            return Ok(NextStep::Done);
        }
        match self.part.pace.leave(now) {
            Leave::Wait(time) => Ok(NextStep::At(time)),
            Leave::Send(_) => {
                let (subject, body, left) = self.request();
                self.requests += 1;
                let reply = String::from_utf8_lossy(self.replies.at(self.requests)).into_owned();
                write_message(&mut out.frames(), &subject, Some(&reply), "", body.as_bytes());
                self.open = Some(Open { since: now, left });
                Ok(NextStep::Wait)
            }
        }
    }

    fn take(&mut self, message: &Message<'_>, _: &mut Outbox, now: Instant) -> Result<(), BenchError> {
        let Some(open) = self.open else {
            return Err(BenchError::Lost("a request was answered twice".into()));
        };
        if matches!(self.wanted, Wanted::Batches { .. }) {
            self.take_batch(message, open, now)?;
        } else {
            if self.replies.number(message.subject) != Some(self.requests) {
                return Err(BenchError::Lost("a request was answered twice".into()));
            }
            self.check_one(message)?;
            self.got += 1;
            self.close(open, now);
        }
        if self.open.is_none() {
            self.part.pace.sent(1, now);
        }
        Ok(())
    }

    fn messages(&self) -> u64 {
        self.got
    }

    fn waits_for(&self) -> Waits {
        if self.open.is_some() { Waits::Answer } else { Waits::ForEver }
    }

    fn into_sample(self) -> Sample {
        if self.short > 0 {
            eprintln!("WARNING: {} batches had fewer messages than were asked for", self.short);
        }
        let now = Instant::now();
        Sample {
            messages: self.got,
            bytes: self.got * self.part.size,
            start: self.start.unwrap_or(now),
            end: self.end.unwrap_or(now),
            latencies: self.latencies,
        }
    }
}
