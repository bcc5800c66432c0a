//! `bench sub`: messages are counted, and checked where that was asked for.
//!
//! Budget per message: what `inbox` needs to find its end. The time is that between the first
//! message and the last.

use std::time::Instant;

use crate::client_pool::inbox::Message;
use crate::client_pool::outbox::Outbox;
use crate::client_pool::sample::{Latencies, Sample};
use crate::client_pool::{NextStep, Waits, Work};
use crate::error::BenchError;
use crate::pubsub::verify::Verifier;

/// Client that counts the messages of its subscription, and verifies them where that was asked for.
#[derive(Debug)]
pub struct Subscribe {
    wanted: u64,
    size: u64,
    received: u64,
    verifier: Option<Verifier>,
    start: Option<Instant>,
    end: Option<Instant>,
}

impl Subscribe {
    /// `size` is what a message counts for, in bytes.
    pub fn new(wanted: u64, size: u64, verifier: Option<Verifier>) -> Self {
        Self { wanted, size, received: 0, verifier, start: None, end: None }
    }
}

impl Work for Subscribe {
    fn fill(&mut self, _: &mut Outbox, _: Instant) -> Result<NextStep, BenchError> {
        Ok(if self.received >= self.wanted { NextStep::Done } else { NextStep::Wait })
    }

    fn take(&mut self, message: &Message<'_>, _: &mut Outbox, now: Instant) -> Result<(), BenchError> {
        self.received += 1;
        if let Some(verifier) = &mut self.verifier {
            verifier.check_message(message.subject, message.reply, message.payload)?;
        }
        if self.received == 1 {
            self.start = Some(now);
        }
        if self.received == self.wanted {
            // Many messages come at once: what it takes to look at them belongs to the time.
            self.end = Some(Instant::now());
        }
        Ok(())
    }

    fn messages(&self) -> u64 {
        self.received.min(self.wanted)
    }

    fn waits_for(&self) -> Waits {
        if self.received > 0 { Waits::Others } else { Waits::ForEver }
    }

    fn into_sample(self) -> Sample {
        let now = Instant::now();
        let start = self.start.unwrap_or(now);
        Sample {
            messages: self.wanted,
            bytes: self.wanted * self.size,
            start,
            end: self.end.unwrap_or(now),
            latencies: Latencies::new(),
        }
    }
}
