//! Publishing into streams and buckets with an answer for every message, or for every atomic batch
//! of them.
//!
//! One operation is one message (`sync`, `kv put`), or a batch whose answers are all awaited before
//! the next begins (`async`, `batch`), as in the original. Owns the proof that each message of an
//! operation is answered exactly once.

use std::time::Instant;

use crate::client_pool::inbox::Message;
use crate::client_pool::message_writer::{Ids, Writer, push_number};
use crate::client_pool::outbox::Outbox;
use crate::client_pool::pace::Leave;
use crate::client_pool::sample::{Latencies, Sample};
use crate::client_pool::{NextStep, Waits, Work};
use crate::error::BenchError;
use crate::jetstream::answer::Acknowledgement;
use crate::jetstream::envelope::Envelope;
use crate::workloads::{BURST, Part, Replies};

/// How the messages of an operation are answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerMode {
    /// Each by itself.
    Each,
    /// All by one answer to the last, which commits them; the word begins the id of every batch.
    Atomic(String),
}

/// Client that publishes into a stream or a bucket, and gets an answer for each message or batch.
#[derive(Debug)]
pub struct Store {
    part: Part,
    mode: AnswerMode,
    /// Messages of an operation.
    batch: u64,
    writer: Writer,
    replies: Replies,
    answer: Acknowledgement,
    ids: Ids,
    stored: u64,
    duplicates: u64,
    operation: Operation,
    operations: u64,
    start: Option<Instant>,
    end: Option<Instant>,
    latencies: Latencies,
    headers: Vec<u8>,
}

/// The operation under way.
#[derive(Debug, Default)]
struct Operation {
    size: u64,
    sent: u64,
    /// Which of its messages are answered; one stands for all of an atomic batch.
    answered: Vec<bool>,
    missing: usize,
    /// When it began, without the times that it waited for its turn.
    began: Option<Instant>,
    paused: Option<Instant>,
}

impl Store {
    /// A client that has published nothing yet.
    pub fn new(part: Part, mode: AnswerMode, batch: u64, writer: Writer, inbox: &str, stream: &str) -> Self {
        Self {
            part,
            mode,
            batch,
            writer,
            replies: Replies::new(inbox),
            answer: Acknowledgement::of(stream),
            ids: Ids::default(),
            stored: 0,
            duplicates: 0,
            operation: Operation::default(),
            operations: 0,
            start: None,
            end: None,
            latencies: Latencies::new(),
            headers: Vec::new(),
        }
    }

    /// Gives every message an id, by which the server knows it again.
    pub fn with_ids(self, prefix: Option<String>) -> Self {
        Self { ids: Ids::new(prefix), ..self }
    }

    fn begin(&mut self, now: Instant) {
        let size = self.batch.min(self.part.messages - self.stored);
        let answers = if self.mode == AnswerMode::Each { size as usize } else { 1 };
        let mut answered = std::mem::take(&mut self.operation.answered);
        answered.clear();
        answered.resize(answers, false);
        self.operation =
            Operation { size, sent: 0, answered, missing: answers, began: Some(now), paused: None };
        self.operations += 1;
    }

    fn write(&mut self, out: &mut Outbox, most: u64) -> u64 {
        let mut frames = out.frames();
        let mut count = 0;
        while count < most && frames.len() < BURST {
            let place = self.operation.sent + count;
            let number = self.part.offset + self.stored + place;
            self.headers.clear();
            self.ids.write(&mut self.headers, number);
            let is_last = place + 1 == self.operation.size;
            if let AnswerMode::Atomic(id) = &self.mode {
                self.headers.extend_from_slice(b"Nats-Batch-Id: ");
                self.headers.extend_from_slice(id.as_bytes());
                push_number(&mut self.headers, self.operations, 1);
                self.headers.extend_from_slice(b"\r\nNats-Batch-Sequence: ");
                push_number(&mut self.headers, place + 1, 1);
                self.headers.extend_from_slice(if is_last {
                    b"\r\nNats-Batch-Commit: 1\r\n"
                } else {
                    b"\r\n"
                });
            }
            let reply = match self.mode {
                AnswerMode::Atomic(_) if !is_last => &b""[..],
                AnswerMode::Atomic(_) => self.replies.at(self.operations),
                AnswerMode::Each => self.replies.at(self.stored + place),
            };
            self.writer.write(&mut frames, number, reply, &self.headers);
            count += 1;
        }
        count
    }

    /// Which answer of the operation this is.
    fn place(&self, message: &Message<'_>) -> Option<usize> {
        let number = self.replies.number(message.subject)?;
        let place = match self.mode {
            AnswerMode::Each => usize::try_from(number.checked_sub(self.stored)?).ok()?,
            AnswerMode::Atomic(_) => (number == self.operations).then_some(0)?,
        };
        (self.operation.answered.get(place) == Some(&false)).then_some(place)
    }
}

impl Work for Store {
    fn fill(&mut self, out: &mut Outbox, now: Instant) -> Result<NextStep, BenchError> {
        self.start.get_or_insert(now);
        if self.operation.sent == self.operation.size {
            if self.operation.missing > 0 {
                return Ok(NextStep::Wait);
            }
            if self.stored == self.part.messages {
                return Ok(NextStep::Done);
            }
        }
        let most = match self.part.pace.leave(now) {
            Leave::Send(most) => most,
            Leave::Wait(time) => {
                self.operation.paused.get_or_insert(now);
                return Ok(NextStep::At(time));
            }
        };
        if self.operation.sent == self.operation.size {
            self.begin(now);
        }
        // Waiting for the next turn is no part of an operation's latency.
        if let (Some(paused), Some(began)) = (self.operation.paused.take(), &mut self.operation.began) {
            *began += now.saturating_duration_since(paused);
        }
        let count = self.write(out, most.min(self.operation.size - self.operation.sent));
        self.operation.sent += count;
        self.part.pace.sent(count, now);
        Ok(if self.operation.sent < self.operation.size { NextStep::More } else { NextStep::Wait })
    }

    fn take(&mut self, message: &Message<'_>, _: &mut Outbox, now: Instant) -> Result<(), BenchError> {
        let envelope = Envelope {
            tail: self.replies.tail(message.subject),
            header: message.header,
            payload: message.payload,
        };
        let Some(place) = self.place(message) else {
            return Err(BenchError::Lost("a message was answered twice".into()));
        };
        match &self.mode {
            AnswerMode::Each => {
                self.answer.sequence(&envelope)?;
                self.duplicates +=
                    u64::from(message.payload.windows(11).any(|word| word == b"\"duplicate\""));
            }
            AnswerMode::Atomic(id) => {
                let id = format!("{id}{}", self.operations);
                let (_, count) = self.answer.committed(&envelope, &id)?;
                if count != self.operation.size {
                    let text = format!("{count} messages in a batch of {}", self.operation.size);
                    return Err(BenchError::Lost(text));
                }
            }
        }
        self.operation.answered[place] = true;
        self.operation.missing -= 1;
        if self.operation.missing == 0 && self.operation.sent == self.operation.size {
            if let Some(began) = self.operation.began {
                self.latencies.record(now.saturating_duration_since(began));
            }
            self.stored += self.operation.size;
            self.operation.size = 0;
            self.operation.sent = 0;
            self.end = Some(now);
        }
        Ok(())
    }

    fn messages(&self) -> u64 {
        self.stored + self.operation.sent
    }

    /// An operation is sent and answered message by message.
    fn steps(&self) -> u64 {
        let answered = self.operation.answered.len() - self.operation.missing;
        self.messages() + answered as u64
    }

    fn waits_for(&self) -> Waits {
        if self.operation.missing > 0 { Waits::Answer } else { Waits::ForEver }
    }

    fn into_sample(self) -> Sample {
        if self.duplicates > 0 {
            eprintln!("WARNING: {} messages were duplicates and are not stored", self.duplicates);
        }
        let now = Instant::now();
        Sample {
            messages: self.stored,
            bytes: self.stored * self.part.size,
            start: self.start.unwrap_or(now),
            end: self.end.unwrap_or(now),
            latencies: self.latencies,
        }
    }
}
