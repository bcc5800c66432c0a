//! Fast batches: each message is stored when it comes, and the publisher hears of it only every so
//! many messages.

use super::batch_headers::asks_too_much;
use super::fast_batch::{BatchStatus, FastBatch, PendingMsg};
use super::flow_subject::{FlowOperation, FlowSubject, MalformedFlowSubject};
use super::in_flight::{BatchPermits, InFlight};
use super::open_batches::{BatchHandle, OpenBatches};
use super::{BatchReplies, LONGEST_ID, ReplySink};
use myelin_jsapi::ApiError;
use myelin_store::Timestamp;
use myelin_wire::message_buf::MessageBuf;
use std::sync::Arc;

/// The open batches of a stream.
pub struct FastBatches {
    batches: OpenBatches<FastBatch>,
    in_flight: Arc<InFlight>,
    enabled: bool,
}

/// Decision about a message of a fast batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastStep {
    /// Check it and store it, then say [`FastBatches::stored`] or [`FastBatches::refused`], for the
    /// messages of a batch in their order. When a batch minds gaps, nothing may be stored behind a
    /// message that is refused: what the log itself may refuse must be known before the next
    /// message is taken.
    Store(FastPlace),
    /// Nothing: the publisher was told whatever there is to tell.
    Done,
    /// As `Done`; the message was refused.
    Refused,
}

/// Where a message that is to be stored belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastPlace {
    batch: BatchHandle,
    entry: PendingMsg,
}

/// Why a message was not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FastRefusal {
    /// Its id was seen before, with the message that has this sequence.
    Duplicate(u64),
    /// Anything else.
    Error(ApiError),
}

impl FastBatches {
    /// None is open.
    #[must_use]
    pub fn new(in_flight: Arc<InFlight>, enabled: bool) -> Self {
        Self { batches: OpenBatches::new(in_flight.limits().timeout), in_flight, enabled }
    }

    /// As `allow_batched` says. Without it, open batches are gone and nobody is told.
    pub fn enable(&mut self, enabled: bool) {
        self.enabled = enabled;
        if !enabled {
            self.batches.clear();
        }
    }

    /// Open ones.
    #[must_use]
    pub fn len(&self) -> usize {
        self.batches.len()
    }

    /// Whether none is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A message with a flow subject. `api_level` is its `Nats-Required-Api-Level`, a header that
    /// is not stored.
    pub fn take(
        &mut self,
        flow_subject: Result<FlowSubject<'_>, MalformedFlowSubject>,
        api_level: Option<&[u8]>,
        now: Timestamp,
        sink: &mut ReplySink<'_>,
    ) -> FastStep {
        let (at, flow_subject) = match self.find(flow_subject, api_level, now) {
            Ok(found) => found,
            Err(error) => {
                if !sink.replies.no_ack {
                    sink.replies.refused(sink.reply, &error, sink.out);
                }
                return FastStep::Refused;
            }
        };
        self.batches.touch(at, now);
        let open = self.batches.len();
        let batch = self.batches.get(at);
        batch.note_reply(sink.reply);
        let result = match flow_subject.operation {
            FlowOperation::Ping => Err(batch.ping(&flow_subject, open, sink)),
            _ => batch.message(&flow_subject, sink),
        };
        match result {
            Ok(entry) => {
                let batch = self.batches.handle(at);
                if flow_subject.operation == FlowOperation::Commit {
                    self.batches.keep(at);
                }
                FastStep::Store(FastPlace { batch, entry })
            }
            Err(after) => {
                self.update_batch(at, after);
                FastStep::Done
            }
        }
    }

    /// Whether a message is just the next one of an open batch, so that nothing that is known of
    /// those before it matters.
    pub fn continues(&mut self, flow_subject: Result<FlowSubject<'_>, MalformedFlowSubject>) -> bool {
        let Ok(flow_subject) = flow_subject else { return false };
        let is_next = matches!(flow_subject.operation, FlowOperation::Append | FlowOperation::Commit);
        let Some(at) = self.batches.find(flow_subject.id).filter(|_| is_next) else { return false };
        self.batches.get(at).expects(flow_subject.sequence)
    }

    fn find<'a>(
        &mut self,
        flow_subject: Result<FlowSubject<'a>, MalformedFlowSubject>,
        api_level: Option<&[u8]>,
        now: Timestamp,
    ) -> Result<(usize, FlowSubject<'a>), ApiError> {
        if !self.enabled {
            return Err(ApiError::BATCH_PUBLISH_DISABLED);
        }
        let flow_subject =
            flow_subject.map_err(|MalformedFlowSubject| ApiError::BATCH_PUBLISH_INVALID_PATTERN)?;
        if flow_subject.id.len() > LONGEST_ID {
            return Err(ApiError::BATCH_PUBLISH_INVALID_BATCH_ID);
        }
        let at = match self.batches.find(flow_subject.id) {
            Some(at) => at,
            None => self.open(&flow_subject, now)?,
        };
        if asks_too_much(api_level) {
            self.batches.remove(at);
            return Err(ApiError::REQUIRED_API_LEVEL);
        }
        Ok((at, flow_subject))
    }

    fn open(&mut self, flow_subject: &FlowSubject<'_>, now: Timestamp) -> Result<usize, ApiError> {
        if flow_subject.sequence != 1 || flow_subject.operation == FlowOperation::Ping {
            return Err(ApiError::BATCH_PUBLISH_UNKNOWN_BATCH_ID);
        }
        let limits = self.in_flight.limits();
        let permit = (self.batches.len() < limits.fast_per_stream)
            .then(|| BatchPermits::take(&self.in_flight.fast, limits.fast_total))
            .flatten()
            .ok_or(ApiError::BATCH_PUBLISH_TOO_MANY_INFLIGHT)?;
        let alone = self.batches.is_empty();
        debug_assert!(self.enabled, "no batch is opened where none are allowed");
        debug_assert!(self.batches.len() < limits.fast_per_stream, "no more batches are open than may be");
        Ok(self.batches.insert(flow_subject.id, FastBatch::new(flow_subject, alone), permit, now))
    }

    /// A message that was to be stored is stored, as `seq`.
    pub fn stored(&mut self, place: FastPlace, seq: u64, sink: &mut ReplySink<'_>) {
        let Some(at) = self.batches.place(place.batch) else { return };
        let open = self.batches.len();
        let after = self.batches.get(at).stored(place.entry, seq, open, sink);
        self.update_batch(at, after);
    }

    /// A message that was to be stored is not. Tells the publisher.
    pub fn refused(&mut self, place: FastPlace, why: &FastRefusal, sink: &mut ReplySink<'_>) {
        let Some(at) = self.batches.place(place.batch) else { return };
        let open = self.batches.len();
        let after = self.batches.get(at).refused(place.entry, why, open, sink);
        self.update_batch(at, after);
    }

    fn update_batch(&mut self, at: usize, after: BatchStatus) {
        match after {
            BatchStatus::Open => {}
            BatchStatus::Committing => self.batches.keep(at),
            BatchStatus::Over => drop(self.batches.remove(at)),
        }
    }

    /// The stream has failed, and with it perhaps messages that were counted as stored: gives all
    /// batches up, and tells each publisher where its last message asked to be told.
    pub fn fail(&mut self, error: &ApiError, replies: &mut BatchReplies, out: &mut MessageBuf) {
        for batch in self.batches.drain() {
            if !replies.no_ack {
                replies.refused(batch.reply(), error, out);
            }
        }
    }

    /// Gives up batches of which messages behind `last` were stored, which are taken back, and
    /// tells nobody: another leader knows of none of them, and counts no gap.
    pub fn take_back(&mut self, last: u64) {
        self.batches.retain(|batch| !batch.has_stored_behind(last));
    }

    /// Gives up all batches, and tells nobody.
    pub fn forget(&mut self) {
        self.batches.drain().for_each(drop);
    }

    /// When to call [`due`](Self::due); may be too early.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.batches.next_due()
    }

    /// Gives up batches that had no message for too long, and tells nobody. How many.
    pub fn due(&mut self, now: Timestamp) -> usize {
        self.batches.remove_due(now).len()
    }
}

#[cfg(test)]
mod tests;
