//! Fast batches: each message is stored when it comes, and the publisher hears of it only every so many messages.

use super::flow_subject::{FlowSubject, Malformed, Operation};
use super::in_flight::{InFlight, Seats};
use super::ingest::{After, Entry, Ingest};
use super::member::asks_too_much;
use super::open_batches::{Handle, OpenBatches};
use super::{Answer, BatchReplies, LONGEST_ID};
use crate::ApiError;
use myelin_broker::MessageBuf;
use myelin_store::Timestamp;
use std::sync::Arc;

/// The open batches of a stream.
pub struct FastBatches {
    shelf: OpenBatches<Ingest>,
    in_flight: Arc<InFlight>,
    enabled: bool,
}

/// What to do with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastStep {
    /// Check it and store it, then say [`FastBatches::stored`] or [`FastBatches::refused`], for the messages of a batch in
    /// their order. When a batch minds gaps, nothing may be stored behind a message that is refused: what the log itself
    /// may refuse must be known before the next message is taken.
    Store(Place),
    /// Nothing: the publisher was told whatever there is to tell.
    Done,
    /// As `Done`; the message was refused.
    Refused,
}

/// Where a message that is to be stored belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    batch: Handle,
    entry: Entry,
}

/// Why a message was not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its id was seen before, with the message that has this sequence.
    Duplicate(u64),
    /// Anything else.
    Error(ApiError),
}

impl FastBatches {
    /// None is open.
    #[must_use]
    pub fn new(in_flight: Arc<InFlight>, enabled: bool) -> Self {
        Self { shelf: OpenBatches::new(in_flight.limits().timeout), in_flight, enabled }
    }

    /// As `allow_batched` says. Without it, open batches are gone and nobody is told.
    pub fn enable(&mut self, enabled: bool) {
        self.enabled = enabled;
        if !enabled {
            self.shelf.clear();
        }
    }

    /// Open ones.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shelf.len()
    }

    /// Whether none is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A message with a ticket. `api_level` is its `Nats-Required-Api-Level`, a header that is not stored.
    pub fn take(
        &mut self,
        ticket: Result<FlowSubject<'_>, Malformed>,
        api_level: Option<&[u8]>,
        now: Timestamp,
        answer: &mut Answer<'_>,
    ) -> FastStep {
        let (at, ticket) = match self.find(ticket, api_level, now) {
            Ok(found) => found,
            Err(error) => {
                if !answer.voice.no_ack {
                    answer.voice.refused(answer.reply, &error, answer.out);
                }
                return FastStep::Refused;
            }
        };
        self.shelf.touch(at, now);
        let open = self.shelf.len();
        let batch = self.shelf.get(at);
        batch.note_reply(answer.reply);
        let result = match ticket.operation {
            Operation::Ping => Err(batch.ping(&ticket, open, answer)),
            _ => batch.message(&ticket, answer),
        };
        match result {
            Ok(entry) => {
                let batch = self.shelf.handle(at);
                if ticket.operation == Operation::Commit {
                    self.shelf.keep(at);
                }
                FastStep::Store(Place { batch, entry })
            }
            Err(after) => {
                self.settle(at, after);
                FastStep::Done
            }
        }
    }

    /// Whether a message is just the next one of an open batch, so that nothing that is known of those before it matters.
    pub fn continues(&mut self, ticket: Result<FlowSubject<'_>, Malformed>) -> bool {
        let Ok(ticket) = ticket else { return false };
        let is_next = matches!(ticket.operation, Operation::Append | Operation::Commit);
        let Some(at) = self.shelf.find(ticket.id).filter(|_| is_next) else { return false };
        self.shelf.get(at).expects(ticket.sequence)
    }

    fn find<'a>(
        &mut self,
        ticket: Result<FlowSubject<'a>, Malformed>,
        api_level: Option<&[u8]>,
        now: Timestamp,
    ) -> Result<(usize, FlowSubject<'a>), ApiError> {
        if !self.enabled {
            return Err(ApiError::BATCH_PUBLISH_DISABLED);
        }
        let ticket = ticket.map_err(|Malformed| ApiError::BATCH_PUBLISH_INVALID_PATTERN)?;
        if ticket.id.len() > LONGEST_ID {
            return Err(ApiError::BATCH_PUBLISH_INVALID_BATCH_ID);
        }
        let at = match self.shelf.find(ticket.id) {
            Some(at) => at,
            None => self.open(&ticket, now)?,
        };
        if asks_too_much(api_level) {
            self.shelf.remove(at);
            return Err(ApiError::REQUIRED_API_LEVEL);
        }
        Ok((at, ticket))
    }

    fn open(&mut self, ticket: &FlowSubject<'_>, now: Timestamp) -> Result<usize, ApiError> {
        if ticket.sequence != 1 || ticket.operation == Operation::Ping {
            return Err(ApiError::BATCH_PUBLISH_UNKNOWN_BATCH_ID);
        }
        let limits = self.in_flight.limits();
        let seat = (self.shelf.len() < limits.fast_per_stream)
            .then(|| Seats::take(&self.in_flight.fast, limits.fast_total))
            .flatten()
            .ok_or(ApiError::BATCH_PUBLISH_TOO_MANY_INFLIGHT)?;
        let alone = self.shelf.is_empty();
        Ok(self.shelf.insert(ticket.id, Ingest::new(ticket, alone), seat, now))
    }

    /// A message that was to be stored is stored, as `seq`.
    pub fn stored(&mut self, place: Place, seq: u64, answer: &mut Answer<'_>) {
        let Some(at) = self.shelf.place(place.batch) else { return };
        let open = self.shelf.len();
        let after = self.shelf.get(at).stored(place.entry, seq, open, answer);
        self.settle(at, after);
    }

    /// A message that was to be stored is not. Tells the publisher.
    pub fn refused(&mut self, place: Place, why: &Refusal, answer: &mut Answer<'_>) {
        let Some(at) = self.shelf.place(place.batch) else { return };
        let open = self.shelf.len();
        let after = self.shelf.get(at).refused(place.entry, why, open, answer);
        self.settle(at, after);
    }

    fn settle(&mut self, at: usize, after: After) {
        match after {
            After::Open => {}
            After::Committing => self.shelf.keep(at),
            After::Over => drop(self.shelf.remove(at)),
        }
    }

    /// The stream has failed, and with it perhaps messages that were counted as stored: gives all batches up, and tells
    /// each publisher where its last message asked to be told.
    pub fn fail(&mut self, error: &ApiError, voice: &mut BatchReplies, out: &mut MessageBuf) {
        for batch in self.shelf.drain() {
            if !voice.no_ack {
                voice.refused(batch.reply(), error, out);
            }
        }
    }

    /// When to call [`due`](Self::due); may be too early.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.shelf.next_due()
    }

    /// Gives up batches that had no message for too long, and tells nobody. How many.
    pub fn due(&mut self, now: Timestamp) -> usize {
        self.shelf.remove_due(now).len()
    }
}

#[cfg(test)]
mod tests;
