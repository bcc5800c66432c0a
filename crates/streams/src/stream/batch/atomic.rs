//! Atomic batches: messages are held back until the last one is here, then handed out to be stored
//! all or not at all.

use super::batch_headers::{self, BatchHeaders, asks_too_much, stored_headers};
use super::in_flight::{BatchPermits, Charge, InFlight};
use super::open_batches::OpenBatches;
use super::{BatchReplies, LONGEST_ID};
use myelin_jsapi::ApiError;
use myelin_jsapi::advisory::AbandonReason;
use myelin_store::Timestamp;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::sync::Arc;

/// Bytes that a held message takes beside its own.
const MESSAGE_OVERHEAD: usize = 32;
/// Emptied buffers that are kept for the next batches.
const SPARE: usize = 4;

/// The open batches of a stream.
pub struct AtomicBatches {
    batches: OpenBatches<Held>,
    in_flight: Arc<InFlight>,
    enabled: bool,
    spare: Vec<MessageBuf>,
}

struct Held {
    messages: MessageBuf,
    charge: Charge,
}

/// Result of a message of an atomic batch. The publisher was told of everything but a commit.
pub enum AtomicStep {
    /// The message is held back.
    Held,
    /// The message was refused, and its batch, if there was one, is gone.
    Refused {
        /// The error's number, for who counts what is lost without a word.
        err_code: u16,
        /// If there is one, an advisory says so.
        reason: Option<AbandonReason>,
    },
    /// The message was the last one.
    Commit(Commit),
}

/// A complete batch, which is no longer open. The core checks all messages in order, each on top of
/// those before it (see [`Staged`](super::Staged)), then stores them all or refuses the batch with
/// the first error; no advisory follows. Before anything else of a message, a
/// `Nats-Expected-Last-Msg-Id` is refused (10177).
pub struct Commit {
    /// As they are to be checked. Their reply subjects are of no use any more.
    pub messages: MessageBuf,
    /// The batch ended behind its last message: that is stored with [`Commit::MARK`] as one more
    /// header.
    pub mark_last: bool,
    _charge: Charge,
}

/// A batch that ended by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abandoned {
    /// Its id.
    pub id: Box<[u8]>,
    /// For the advisory.
    pub reason: AbandonReason,
}

struct Rejection(ApiError, Option<AbandonReason>);

impl AtomicBatches {
    /// None is open.
    #[must_use]
    pub fn new(in_flight: Arc<InFlight>, enabled: bool) -> Self {
        Self { batches: OpenBatches::new(in_flight.limits().timeout), in_flight, enabled, spare: Vec::new() }
    }

    /// As `allow_atomic` says. Without it, open batches are gone and nobody is told.
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

    /// A message that belongs to a batch.
    pub fn take(
        &mut self,
        batch_headers: &BatchHeaders<'_>,
        msg: MessageRef<'_>,
        now: Timestamp,
        replies: &mut BatchReplies,
        out: &mut MessageBuf,
    ) -> AtomicStep {
        match self.step(batch_headers, msg, now) {
            Ok(Some(commit)) => AtomicStep::Commit(commit),
            Ok(None) => {
                if !replies.no_ack {
                    replies.held(msg.reply, out);
                }
                AtomicStep::Held
            }
            Err(Rejection(error, reason)) => {
                if !replies.no_ack {
                    replies.refused(msg.reply, &error, out);
                }
                AtomicStep::Refused { err_code: error.err_code, reason }
            }
        }
    }

    fn step(
        &mut self,
        batch_headers: &BatchHeaders<'_>,
        msg: MessageRef<'_>,
        now: Timestamp,
    ) -> Result<Option<Commit>, Rejection> {
        let sequence = self.admit(batch_headers)?;
        let at = match self.batches.find(batch_headers.id) {
            Some(at) => at,
            None => self.open(batch_headers, sequence, now)?,
        };
        self.batches.touch(at, now);
        if let Err(fault) = self.add(at, batch_headers, sequence, msg) {
            let Held { messages, .. } = self.batches.remove(at);
            self.recycle(messages);
            return Err(fault);
        }
        let mark_last = match batch_headers.commit() {
            batch_headers::Commit::Here => false,
            batch_headers::Commit::Before => true,
            _ => return Ok(None),
        };
        let Held { messages, charge } = self.batches.remove(at);
        debug_assert!(!messages.is_empty(), "a batch that is committed has messages");
        Ok(Some(Commit { messages, mark_last, _charge: charge }))
    }

    fn admit(&self, batch_headers: &BatchHeaders<'_>) -> Result<u64, Rejection> {
        if !self.enabled {
            return Err(Rejection(ApiError::ATOMIC_PUBLISH_DISABLED, None));
        }
        if batch_headers.id.len() > LONGEST_ID {
            return Err(Rejection(ApiError::ATOMIC_PUBLISH_INVALID_BATCH_ID, None));
        }
        batch_headers.sequence().ok_or(Rejection(ApiError::ATOMIC_PUBLISH_MISSING_SEQ, None))
    }

    fn open(
        &mut self,
        batch_headers: &BatchHeaders<'_>,
        sequence: u64,
        now: Timestamp,
    ) -> Result<usize, Rejection> {
        let limits = self.in_flight.limits();
        if sequence != 1 {
            let too_large = counted(batch_headers, sequence) > limits.atomic_messages;
            let error = if too_large { self.too_large() } else { ApiError::ATOMIC_PUBLISH_INCOMPLETE_BATCH };
            return Err(Rejection(error, None));
        }
        let permit = (self.batches.len() < limits.atomic_per_stream)
            .then(|| BatchPermits::take(&self.in_flight.atomic, limits.atomic_total))
            .flatten()
            .ok_or(Rejection(ApiError::ATOMIC_PUBLISH_TOO_MANY_INFLIGHT, None))?;
        let messages = self.spare.pop().unwrap_or_default();
        debug_assert!(messages.is_empty(), "a batch begins with nothing of another");
        let held = Held { messages, charge: Charge::new(&self.in_flight.held) };
        Ok(self.batches.insert(batch_headers.id, held, permit, now))
    }

    /// Puts a message to those before it. An error ends the batch.
    fn add(
        &mut self,
        at: usize,
        batch_headers: &BatchHeaders<'_>,
        sequence: u64,
        msg: MessageRef<'_>,
    ) -> Result<(), Rejection> {
        let commit = batch_headers.commit();
        if commit == batch_headers::Commit::Invalid {
            return Err(Rejection(ApiError::ATOMIC_PUBLISH_INVALID_BATCH_COMMIT, None));
        }
        if asks_too_much(batch_headers.api_level) {
            return Err(Rejection(ApiError::REQUIRED_API_LEVEL, Some(AbandonReason::Unsupported)));
        }
        let expected = self.batches.get(at).messages.len() as u64 + 1;
        let marks_nothing = sequence == 1 && commit == batch_headers::Commit::Before;
        if sequence != expected || marks_nothing {
            return Err(Rejection(
                ApiError::ATOMIC_PUBLISH_INCOMPLETE_BATCH,
                Some(AbandonReason::Incomplete),
            ));
        }
        if counted(batch_headers, sequence) > self.in_flight.limits().atomic_messages {
            return Err(Rejection(self.too_large(), Some(AbandonReason::Large)));
        }
        if commit == batch_headers::Commit::Before {
            return Ok(());
        }
        let headers = stored_headers(msg.headers, batch_headers.api_level);
        let most = self.in_flight.limits().atomic_bytes;
        self.batches.get(at).hold(MessageRef { reply: b"", headers: &headers, ..msg }, most)
    }

    fn too_large(&self) -> ApiError {
        ApiError::atomic_publish_too_large_batch(self.in_flight.limits().atomic_messages)
    }

    /// When to call [`due`](Self::due); may be too early.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.batches.next_due()
    }

    /// Gives up batches that had no message for too long. Each is worth an advisory.
    pub fn due(&mut self, now: Timestamp) -> impl Iterator<Item = Abandoned> {
        self.batches.remove_due(now).into_iter().map(|id| Abandoned { id, reason: AbandonReason::Timeout })
    }

    /// Takes back the buffer of a commit that is done: the next batch finds its memory warm.
    pub fn recycle(&mut self, mut messages: MessageBuf) {
        if self.spare.len() < SPARE {
            messages.clear();
            self.spare.push(messages);
        }
        debug_assert!(self.spare.len() <= SPARE, "few emptied buffers are kept");
    }
}

/// Count of messages that a batch is said to have: a mark at its end is not counted.
///
/// Compat: a mark with the sequence 0 counts as far too many.
fn counted(batch_headers: &BatchHeaders<'_>, sequence: u64) -> u64 {
    sequence.wrapping_sub(u64::from(batch_headers.commit() == batch_headers::Commit::Before))
}

impl Held {
    /// The reference holds batches on disk; we refuse when memory is short.
    fn hold(&mut self, msg: MessageRef<'_>, most: usize) -> Result<(), Rejection> {
        let MessageRef { subject, headers, payload, .. } = msg;
        let bytes = self.messages.bytes() + subject.len() + headers.len() + payload.len();
        if !self.charge.grow_to(bytes + (self.messages.len() + 1) * MESSAGE_OVERHEAD, most) {
            return Err(Rejection(ApiError::ATOMIC_PUBLISH_TOO_MANY_INFLIGHT, Some(AbandonReason::Large)));
        }
        self.messages.push(msg);
        Ok(())
    }
}

impl Commit {
    /// A header's key and value: the mark of a batch's last message.
    pub const MARK: (&'static str, &'static str) = ("Nats-Batch-Commit", "1");

    /// The batch is stored or refused. For [`AtomicBatches::recycle`].
    #[must_use]
    pub fn done(self) -> MessageBuf {
        self.messages
    }

    /// Number of messages that the acknowledgement counts.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.messages.len() as u64
    }
}

#[cfg(test)]
mod tests;
