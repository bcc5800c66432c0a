//! `bench js pub fast`: fast-ingest batches, within the flow that the server grants.
//!
//! The reply of every message says where it stands in its batch. The first waits for the server's
//! word how often it will acknowledge; then so many acknowledgements may be outstanding. Ends by a
//! commit with the last message, or by a close behind it. Owns the proof that a batch ends with all
//! of its messages; a latency is that of a flow acknowledgement.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::client_pool::inbox::Message;
use crate::client_pool::message_writer::{Ids, Writer, push_number};
use crate::client_pool::outbox::Outbox;
use crate::client_pool::pace::Leave;
use crate::client_pool::sample::{Latencies, Sample};
use crate::client_pool::{NextStep, Waits, Work};
use crate::error::BenchError;
use crate::jetstream::answer::{Acknowledgement, FastAnswer, json};
use crate::jetstream::envelope::Envelope;
use crate::token::unique;
use crate::workloads::{BURST, Part};

const START: u64 = 0;
const APPEND: u64 = 1;
const COMMIT: u64 = 2;
const CLOSE: u64 = 3;
const PING: u64 = 4;

/// Behaviour of the server when messages of a batch are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Gap {
    /// The messages behind the missing ones are stored.
    Ok,
    /// The batch ends.
    Fail,
}

/// How a batch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum BatchEnd {
    /// Its last message commits it.
    Commit,
    /// A word behind its last message closes it.
    Close,
}

/// How batches are published.
#[derive(Clone, Copy, Debug)]
pub struct FastTerms {
    /// The most messages per acknowledgement.
    pub flow: u64,
    /// Acknowledgements that may be outstanding.
    pub outstanding: u64,
    /// Behaviour of the server when messages of a batch are missing.
    pub gap: Gap,
    /// How a batch ends.
    pub end: BatchEnd,
    /// Messages of a batch; 0 for all in one.
    pub length: u64,
    /// How long an acknowledgement may take before the server is asked for it, and once more before
    /// the run fails.
    pub timeout: Duration,
}

/// Client that publishes fast-ingest batches.
#[derive(Debug)]
pub struct Fast {
    part: Part,
    terms: FastTerms,
    writer: Writer,
    inbox: String,
    answer: Acknowledgement,
    ids: Ids,
    committed: u64,
    batch: Option<FastBatch>,
    start: Option<Instant>,
    end: Option<Instant>,
    latencies: Latencies,
    headers: Vec<u8>,
    reply: Vec<u8>,
}

/// The batch under way.
#[derive(Debug)]
struct FastBatch {
    id: String,
    size: u64,
    sent: u64,
    acknowledged: u64,
    /// Messages per acknowledgement as the server said last; unknown before its first word.
    every: Option<u64>,
    /// The word that closes it is sent.
    is_closed: bool,
    /// Ends of what was sent together, and when.
    pieces: VecDeque<(u64, Instant)>,
    /// When something was last heard or sent, and whether the server was asked since.
    moved: Instant,
    was_asked: bool,
}

impl FastBatch {
    /// How many of its messages may be sent by now.
    fn allowed(&self, outstanding: u64) -> u64 {
        match self.every {
            None => 1,
            Some(every) => (self.acknowledged + every * outstanding).min(self.size),
        }
    }
}

impl Fast {
    /// A client that has published nothing yet.
    pub fn new(part: Part, terms: FastTerms, writer: Writer, inbox: &str, stream: &str) -> Self {
        Self {
            part,
            terms,
            writer,
            inbox: inbox.to_owned(),
            answer: Acknowledgement::of(stream),
            ids: Ids::default(),
            committed: 0,
            batch: None,
            start: None,
            end: None,
            latencies: Latencies::new(),
            headers: Vec::new(),
            reply: Vec::new(),
        }
    }

    /// Gives every message an id, by which the server knows it again.
    pub fn with_ids(self, prefix: Option<String>) -> Self {
        Self { ids: Ids::new(prefix), ..self }
    }

    fn begin(&self, now: Instant) -> FastBatch {
        let left = self.part.messages - self.committed;
        let size = if self.terms.length == 0 { left } else { left.min(self.terms.length) };
        FastBatch {
            id: unique(22),
            size,
            sent: 0,
            acknowledged: 0,
            every: None,
            is_closed: false,
            pieces: VecDeque::new(),
            moved: now,
            was_asked: false,
        }
    }

    /// Writes up to so many messages of the batch, and says how many.
    fn write(&mut self, batch: &FastBatch, out: &mut Outbox, most: u64) -> u64 {
        let mut frames = out.frames();
        let mut count = 0;
        while count < most && frames.len() < BURST {
            let sequence = batch.sent + count + 1;
            let operation = match sequence {
                last if last == batch.size && self.terms.end == BatchEnd::Commit => COMMIT,
                1 => START,
                _ => APPEND,
            };
            let number = self.part.offset + self.committed + sequence - 1;
            self.headers.clear();
            self.ids.write(&mut self.headers, number);
            write_reply(&mut self.reply, &self.inbox, &batch.id, self.terms, sequence, operation);
            self.writer.write(&mut frames, number, &self.reply, &self.headers);
            count += 1;
        }
        count
    }

    /// Says something about the batch that is no message of it.
    fn say(&mut self, batch: &FastBatch, out: &mut Outbox, sequence: u64, operation: u64) {
        write_reply(&mut self.reply, &self.inbox, &batch.id, self.terms, sequence, operation);
        let number = self.part.offset + self.committed + batch.sent.saturating_sub(1);
        self.writer.write_empty(&mut out.frames(), number, &self.reply);
    }

    /// Waits for the server, and asks it when it has been silent for too long.
    fn wait(
        &mut self,
        batch: &mut FastBatch,
        out: &mut Outbox,
        now: Instant,
    ) -> Result<NextStep, BenchError> {
        let deadline = batch.moved + self.terms.timeout;
        if now < deadline {
            return Ok(NextStep::At(deadline));
        }
        if batch.was_asked {
            let text = format!("no acknowledgement within {:?}, although asked for", self.terms.timeout);
            return Err(BenchError::Lost(text));
        }
        (batch.was_asked, batch.moved) = (true, now);
        self.say(batch, out, batch.sent, PING);
        Ok(NextStep::At(now + self.terms.timeout))
    }

    fn go_on(
        &mut self,
        batch: &mut FastBatch,
        out: &mut Outbox,
        now: Instant,
    ) -> Result<NextStep, BenchError> {
        let allowed = batch.allowed(self.terms.outstanding);
        if batch.sent < allowed {
            match self.part.pace.leave(now) {
                Leave::Wait(time) => return Ok(NextStep::At(time)),
                Leave::Send(most) => {
                    let count = self.write(batch, out, most.min(allowed - batch.sent));
                    batch.sent += count;
                    batch.pieces.push_back((batch.sent, now));
                    (batch.moved, batch.was_asked) = (now, false);
                    self.part.pace.sent(count, now);
                }
            }
        }
        if batch.sent == batch.size && self.terms.end == BatchEnd::Close && !batch.is_closed {
            // A batch of one message has to be known to the server before it can be closed.
            if batch.every.is_some() {
                batch.is_closed = true;
                batch.moved = now;
                self.say(batch, out, batch.sent + 1, CLOSE);
            }
        }
        if batch.sent < batch.allowed(self.terms.outstanding) {
            return Ok(NextStep::More);
        }
        self.wait(batch, out, now)
    }
}

fn write_reply(reply: &mut Vec<u8>, inbox: &str, id: &str, terms: FastTerms, sequence: u64, operation: u64) {
    reply.clear();
    reply.extend_from_slice(inbox.as_bytes());
    reply.push(b'.');
    reply.extend_from_slice(id.as_bytes());
    reply.push(b'.');
    push_number(reply, terms.flow, 1);
    reply.extend_from_slice(if terms.gap == Gap::Ok { b".ok." } else { b".fail." });
    push_number(reply, sequence, 1);
    reply.push(b'.');
    push_number(reply, operation, 1);
    reply.extend_from_slice(b".$FI");
}

impl Work for Fast {
    fn fill(&mut self, out: &mut Outbox, now: Instant) -> Result<NextStep, BenchError> {
        self.start.get_or_insert(now);
        let mut batch = match self.batch.take() {
            Some(batch) => batch,
            None if self.committed == self.part.messages => return Ok(NextStep::Done),
            None => self.begin(now),
        };
        let next = self.go_on(&mut batch, out, now);
        self.batch = Some(batch);
        next
    }

    fn take(&mut self, message: &Message<'_>, _: &mut Outbox, now: Instant) -> Result<(), BenchError> {
        let tail = message.subject.get(self.inbox.len() + 1..).unwrap_or_default();
        let envelope = Envelope { tail, header: message.header, payload: message.payload };
        let Some(batch) = self.batch.as_mut().filter(|batch| tail.starts_with(batch.id.as_bytes())) else {
            let tail = String::from_utf8_lossy(tail);
            return Err(BenchError::Protocol(format!("an answer to {tail:?} out of turn")));
        };
        (batch.moved, batch.was_asked) = (now, false);
        let (acknowledged, is_over) = match self.answer.fast(&envelope, &batch.id)? {
            FastAnswer::Flow { sequence, every } => {
                if every == 0 || sequence > batch.sent {
                    return Err(BenchError::Protocol(format!("{}", json(&envelope)?)));
                }
                batch.every = Some(every);
                (sequence, false)
            }
            FastAnswer::Committed { count, .. } if batch.sent == batch.size && count == batch.size => {
                (batch.size, true)
            }
            FastAnswer::Committed { count, .. } => {
                let text = format!("{count} messages in a batch of {}", batch.size);
                return Err(BenchError::Lost(text));
            }
        };
        let mut sent_at = None;
        while let Some((_, since)) = batch.pieces.front().filter(|(end, _)| *end <= acknowledged) {
            sent_at = Some(*since);
            batch.pieces.pop_front();
        }
        // Where an acknowledgement is for a part of a piece, that piece has been on its way for as
        // long.
        if acknowledged > batch.acknowledged
            && let Some(since) = sent_at.or(batch.pieces.front().map(|(_, since)| *since))
        {
            self.latencies.record(now.saturating_duration_since(since));
        }
        batch.acknowledged = batch.acknowledged.max(acknowledged);
        if is_over {
            self.committed += batch.size;
            self.end = Some(now);
            self.batch = None;
        }
        Ok(())
    }

    fn messages(&self) -> u64 {
        self.committed + self.batch.as_ref().map_or(0, |batch| batch.acknowledged)
    }

    /// Nothing, as the pool sees it: `fill` judges silence, by [`FastTerms::timeout`].
    fn waits_for(&self) -> Waits {
        Waits::ForEver
    }

    fn into_sample(self) -> Sample {
        let now = Instant::now();
        Sample {
            messages: self.committed,
            bytes: self.committed * self.part.size,
            start: self.start.unwrap_or(now),
            end: self.end.unwrap_or(now),
            latencies: self.latencies,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_pool::message_writer::{Payload, Subjects};
    use crate::client_pool::pace::Pace;

    #[test]
    fn a_batch_ends_with_its_commit_however_that_is_written() {
        let part = Part { messages: 1, offset: 0, pace: Pace::free(), size: 1 };
        let timeout = Duration::from_secs(5);
        let terms =
            FastTerms { flow: 1, outstanding: 1, gap: Gap::Ok, end: BatchEnd::Commit, length: 0, timeout };
        let writer = Writer::new(Subjects::One("x".into()), "", Payload::of_size(1), 0);
        let (mut fast, mut out, now) =
            (Fast::new(part, terms, writer, "I", "S"), Outbox::default(), Instant::now());
        fast.fill(&mut out, now).unwrap();
        let id = fast.batch.as_ref().unwrap().id.clone();
        let mut hear = |payload: &str| {
            let subject = format!("I.{id}.1.ok.1.2.$FI");
            let message = Message {
                subject: subject.as_bytes(),
                sid: 1,
                reply: b"",
                header: b"",
                payload: payload.as_bytes(),
            };
            fast.take(&message, &mut Outbox::default(), now).unwrap();
            fast.fill(&mut out, now).unwrap()
        };
        assert_ne!(hear(r#"{"type":"ack","seq":1,"msgs":1}"#), NextStep::Done);
        assert_eq!(
            hear(&format!(r#"{{ "batch":"{id}", "count":1, "seq":1, "stream":"S" }}"#)),
            NextStep::Done
        );
    }
}
