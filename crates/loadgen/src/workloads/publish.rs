//! `bench pub`: messages that nobody answers.
//!
//! Budget: messages that are all alike are encoded once and staged again and again; others cost a
//! few copies each. A latency is the time that a write took, divided by the messages in it. Owns
//! nothing but its place in its part.

use std::time::Instant;

use crate::client_pool::inbox::Message;
use crate::client_pool::message_writer::Writer;
use crate::client_pool::outbox::Outbox;
use crate::client_pool::pace::Leave;
use crate::client_pool::sample::{Latencies, Sample};
use crate::client_pool::{NextStep, Waits, Work};
use crate::error::BenchError;
use crate::workloads::{BURST, Part};

/// Client that publishes messages which nobody answers.
#[derive(Debug)]
pub struct Publish {
    part: Part,
    writer: Writer,
    sent: u64,
    /// Where messages of a tape end, if all messages are alike.
    tape: Vec<usize>,
    start: Option<Instant>,
    end: Option<Instant>,
    /// Messages that are on their way, and the time since when.
    staged: Option<(u64, Instant)>,
    latencies: Latencies,
}

impl Publish {
    /// A client that has published nothing yet.
    pub fn new(part: Part, writer: Writer) -> Self {
        let latencies = Latencies::new();
        Self { part, writer, sent: 0, tape: Vec::new(), start: None, end: None, staged: None, latencies }
    }

    fn settle(&mut self, now: Instant) {
        if let Some((count, since)) = self.staged.take() {
            let each = now.saturating_duration_since(since).as_nanos() as u64 / count;
            self.latencies.record_many(each, count);
            self.sent += count;
        }
    }

    fn stage(&mut self, most: u64, out: &mut Outbox) -> u64 {
        if !self.writer.is_constant() {
            let mut frames = out.frames();
            let mut count = 0;
            while count < most && frames.len() < BURST {
                self.writer.write(&mut frames, self.part.offset + self.sent + count, b"", b"");
                count += 1;
            }
            return count;
        }
        if self.tape.is_empty() {
            self.load(out);
        }
        let count = most.min(self.tape.len() as u64);
        out.stage(0..self.tape[count as usize - 1]);
        count
    }

    fn load(&mut self, out: &mut Outbox) {
        let mut bytes = Vec::new();
        while bytes.is_empty() || (bytes.len() < BURST && (self.tape.len() as u64) < self.part.messages) {
            self.writer.write(&mut bytes, 0, b"", b"");
            self.tape.push(bytes.len());
        }
        out.load_tape(bytes);
    }
}

impl Work for Publish {
    fn fill(&mut self, out: &mut Outbox, now: Instant) -> Result<NextStep, BenchError> {
        self.start.get_or_insert(now);
        self.settle(now);
        let left = self.part.messages - self.sent;
        if left == 0 {
            return Ok(NextStep::Done);
        }
        match self.part.pace.leave(now) {
            Leave::Wait(time) => Ok(NextStep::At(time)),
            Leave::Send(most) => {
                let count = self.stage(most.min(left), out);
                self.part.pace.sent(count, now);
                self.staged = Some((count, now));
                Ok(NextStep::More)
            }
        }
    }

    fn take(&mut self, _: &Message<'_>, _: &mut Outbox, _: Instant) -> Result<(), BenchError> {
        Err(BenchError::Protocol("a message for a publisher".into()))
    }

    fn finish(&mut self, now: Instant) {
        self.end = Some(now);
    }

    fn messages(&self) -> u64 {
        self.sent
    }

    fn waits_for(&self) -> Waits {
        Waits::ForEver
    }

    fn into_sample(self) -> Sample {
        let now = Instant::now();
        Sample {
            messages: self.sent,
            bytes: self.sent * self.part.size,
            start: self.start.unwrap_or(now),
            end: self.end.unwrap_or(now),
            latencies: self.latencies,
        }
    }
}
