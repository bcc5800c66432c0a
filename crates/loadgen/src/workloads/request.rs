//! `bench service request`: one request at a time, and the time until its reply.
//!
//! Owns the check of the reply, which is the original's: not empty, not an error, and only one per
//! request.

use std::time::Instant;

use crate::client_pool::inbox::Message;
use crate::client_pool::message_writer::Writer;
use crate::client_pool::outbox::Outbox;
use crate::client_pool::pace::Leave;
use crate::client_pool::sample::{Latencies, Sample};
use crate::client_pool::{NextStep, Waits, Work};
use crate::error::BenchError;
use crate::workloads::{Part, Replies};

/// Client that sends one request at a time.
#[derive(Debug)]
pub struct Request {
    part: Part,
    writer: Writer,
    replies: Replies,
    answered: u64,
    asked_at: Option<Instant>,
    start: Option<Instant>,
    end: Option<Instant>,
    latencies: Latencies,
}

impl Request {
    /// A client that has asked nothing yet.
    pub fn new(part: Part, writer: Writer, inbox: &str) -> Self {
        Self {
            part,
            writer,
            replies: Replies::new(inbox),
            answered: 0,
            asked_at: None,
            start: None,
            end: None,
            latencies: Latencies::new(),
        }
    }
}

impl Work for Request {
    fn fill(&mut self, out: &mut Outbox, now: Instant) -> Result<NextStep, BenchError> {
        self.start.get_or_insert(now);
        if self.asked_at.is_some() {
            return Ok(NextStep::Wait);
        }
        if self.answered == self.part.messages {
            return Ok(NextStep::Done);
        }
        match self.part.pace.leave(now) {
            Leave::Wait(time) => Ok(NextStep::At(time)),
            Leave::Send(_) => {
                let number = self.part.offset + self.answered;
                self.writer.write(&mut out.frames(), number, self.replies.at(self.answered), b"");
                self.asked_at = Some(now);
                Ok(NextStep::Wait)
            }
        }
    }

    fn take(&mut self, message: &Message<'_>, _: &mut Outbox, now: Instant) -> Result<(), BenchError> {
        let number = self.replies.number(message.subject);
        let Some(asked_at) = self.asked_at.take().filter(|_| number == Some(self.answered)) else {
            return Err(BenchError::Lost("a request was answered twice".into()));
        };
        match message.payload {
            _ if message.status() == Some(503) => return Err(BenchError::NoResponder),
            [] | [b'-', ..] => return Err(bad_reply(message)),
            payload if payload.windows(5).any(|word| word == b"error") => return Err(bad_reply(message)),
            _ => {}
        }
        self.latencies.record(now.saturating_duration_since(asked_at));
        self.answered += 1;
        self.part.pace.sent(1, now);
        self.end = Some(now);
        Ok(())
    }

    fn messages(&self) -> u64 {
        self.answered
    }

    fn waits_for(&self) -> Waits {
        if self.asked_at.is_some() { Waits::Answer } else { Waits::ForEver }
    }

    fn into_sample(self) -> Sample {
        let now = Instant::now();
        Sample {
            messages: self.answered,
            bytes: self.answered * self.part.size,
            start: self.start.unwrap_or(now),
            end: self.end.unwrap_or(now),
            latencies: self.latencies,
        }
    }
}

fn bad_reply(message: &Message<'_>) -> BenchError {
    let payload = String::from_utf8_lossy(message.payload);
    BenchError::Lost(format!("a request did not receive a good reply: {payload:?}"))
}
