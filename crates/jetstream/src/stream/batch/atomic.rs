//! Atomic batches: messages are held back until the last one is here, then handed out to be stored all or not at all.

use super::in_flight::{Charge, InFlight, Seats};
use super::member::{self, Member, asks_too_much, stored_headers};
use super::open_batches::OpenBatches;
use super::{BatchReplies, LONGEST_ID};
use crate::ApiError;
use myelin_broker::{MessageBuf, MessageRef};
use myelin_store::Timestamp;
use serde::Serialize;
use std::sync::Arc;

/// What a held message takes beside its bytes.
const MESSAGE_OVERHEAD: usize = 32;
/// Emptied buffers that are kept for the next batches.
const SPARE: usize = 4;

/// The open batches of a stream.
pub struct AtomicBatches {
    shelf: OpenBatches<Held>,
    in_flight: Arc<InFlight>,
    enabled: bool,
    spare: Vec<MessageBuf>,
}

struct Held {
    messages: MessageBuf,
    charge: Charge,
}

/// What a message led to. The publisher was told of everything but a commit.
pub enum AtomicStep {
    /// It is held back.
    Held,
    /// It was refused, and its batch, if there was one, is gone.
    Refused {
        /// The error's number, for who counts what is lost without a word.
        err_code: u16,
        /// If there is one, an advisory says so.
        reason: Option<Reason>,
    },
    /// It was the last one.
    Commit(Commit),
}

/// A complete batch, which is no longer open. The core checks all messages in order, each on top of those before it (see
/// [`Staged`](super::Staged)), then stores them all or refuses the batch with the first error; no advisory follows. Before
/// anything else of a message, a `Nats-Expected-Last-Msg-Id` is refused (10177).
pub struct Commit {
    /// As they are to be checked. Their reply subjects are of no use any more.
    pub messages: MessageBuf,
    /// The batch ended behind its last message: that is stored with [`Commit::MARK`] as one more header.
    pub mark_last: bool,
    _charge: Charge,
}

/// Why a batch was given up, as the advisory says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// No message for too long.
    Timeout,
    /// More messages than are allowed, or no memory to hold them.
    Large,
    /// A message is missing.
    Incomplete,
    /// A message asks for a newer server.
    Unsupported,
}

/// A batch that ended by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abandoned {
    /// Its id.
    pub id: Box<[u8]>,
    /// For the advisory.
    pub reason: Reason,
}

struct Fault(ApiError, Option<Reason>);

impl AtomicBatches {
    /// None is open.
    #[must_use]
    pub fn new(in_flight: Arc<InFlight>, enabled: bool) -> Self {
        Self { shelf: OpenBatches::new(in_flight.limits().timeout), in_flight, enabled, spare: Vec::new() }
    }

    /// As `allow_atomic` says. Without it, open batches are gone and nobody is told.
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

    /// A message that belongs to a batch.
    pub fn take(
        &mut self,
        member: &Member<'_>,
        msg: MessageRef<'_>,
        now: Timestamp,
        voice: &mut BatchReplies,
        out: &mut MessageBuf,
    ) -> AtomicStep {
        match self.step(member, msg, now) {
            Ok(Some(commit)) => AtomicStep::Commit(commit),
            Ok(None) => {
                if !voice.no_ack {
                    voice.held(msg.reply, out);
                }
                AtomicStep::Held
            }
            Err(Fault(error, reason)) => {
                if !voice.no_ack {
                    voice.refused(msg.reply, &error, out);
                }
                AtomicStep::Refused { err_code: error.err_code, reason }
            }
        }
    }

    fn step(
        &mut self,
        member: &Member<'_>,
        msg: MessageRef<'_>,
        now: Timestamp,
    ) -> Result<Option<Commit>, Fault> {
        let sequence = self.admit(member)?;
        let at = match self.shelf.find(member.id) {
            Some(at) => at,
            None => self.open(member, sequence, now)?,
        };
        self.shelf.touch(at, now);
        if let Err(fault) = self.add(at, member, sequence, msg) {
            let Held { messages, .. } = self.shelf.remove(at);
            self.recycle(messages);
            return Err(fault);
        }
        let mark_last = match member.commit() {
            member::Commit::Here => false,
            member::Commit::Before => true,
            _ => return Ok(None),
        };
        let Held { messages, charge } = self.shelf.remove(at);
        Ok(Some(Commit { messages, mark_last, _charge: charge }))
    }

    fn admit(&self, member: &Member<'_>) -> Result<u64, Fault> {
        if !self.enabled {
            return Err(Fault(ApiError::ATOMIC_PUBLISH_DISABLED, None));
        }
        if member.id.len() > LONGEST_ID {
            return Err(Fault(ApiError::ATOMIC_PUBLISH_INVALID_BATCH_ID, None));
        }
        member.sequence().ok_or(Fault(ApiError::ATOMIC_PUBLISH_MISSING_SEQ, None))
    }

    fn open(&mut self, member: &Member<'_>, sequence: u64, now: Timestamp) -> Result<usize, Fault> {
        let limits = self.in_flight.limits();
        if sequence != 1 {
            let too_large = counted(member, sequence) > limits.atomic_messages;
            let error = if too_large { self.too_large() } else { ApiError::ATOMIC_PUBLISH_INCOMPLETE_BATCH };
            return Err(Fault(error, None));
        }
        let seat = (self.shelf.len() < limits.atomic_per_stream)
            .then(|| Seats::take(&self.in_flight.atomic, limits.atomic_total))
            .flatten()
            .ok_or(Fault(ApiError::ATOMIC_PUBLISH_TOO_MANY_INFLIGHT, None))?;
        let messages = self.spare.pop().unwrap_or_default();
        let held = Held { messages, charge: Charge::new(&self.in_flight.held) };
        Ok(self.shelf.insert(member.id, held, seat, now))
    }

    /// Puts a message to those before it. An error ends the batch.
    fn add(
        &mut self,
        at: usize,
        member: &Member<'_>,
        sequence: u64,
        msg: MessageRef<'_>,
    ) -> Result<(), Fault> {
        let commit = member.commit();
        if commit == member::Commit::Invalid {
            return Err(Fault(ApiError::ATOMIC_PUBLISH_INVALID_BATCH_COMMIT, None));
        }
        if asks_too_much(member.api_level) {
            return Err(Fault(ApiError::REQUIRED_API_LEVEL, Some(Reason::Unsupported)));
        }
        let expected = self.shelf.get(at).messages.len() as u64 + 1;
        let marks_nothing = sequence == 1 && commit == member::Commit::Before;
        if sequence != expected || marks_nothing {
            return Err(Fault(ApiError::ATOMIC_PUBLISH_INCOMPLETE_BATCH, Some(Reason::Incomplete)));
        }
        if counted(member, sequence) > self.in_flight.limits().atomic_messages {
            return Err(Fault(self.too_large(), Some(Reason::Large)));
        }
        if commit == member::Commit::Before {
            return Ok(());
        }
        let headers = stored_headers(msg.headers, member.api_level);
        let most = self.in_flight.limits().atomic_bytes;
        self.shelf.get(at).hold(MessageRef { reply: b"", headers: &headers, ..msg }, most)
    }

    fn too_large(&self) -> ApiError {
        ApiError::atomic_publish_too_large_batch(self.in_flight.limits().atomic_messages)
    }

    /// When to call [`due`](Self::due); may be too early.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.shelf.next_due()
    }

    /// Gives up batches that had no message for too long. Each is worth an advisory.
    pub fn due(&mut self, now: Timestamp) -> impl Iterator<Item = Abandoned> {
        self.shelf.remove_due(now).into_iter().map(|id| Abandoned { id, reason: Reason::Timeout })
    }

    /// Takes back the buffer of a commit that is done: the next batch finds its memory warm.
    pub fn recycle(&mut self, mut messages: MessageBuf) {
        if self.spare.len() < SPARE {
            messages.clear();
            self.spare.push(messages);
        }
    }
}

/// What a batch is said to have: a mark at its end is not counted.
///
/// Compat: a mark with the sequence 0 counts as far too many.
fn counted(member: &Member<'_>, sequence: u64) -> u64 {
    sequence.wrapping_sub(u64::from(member.commit() == member::Commit::Before))
}

impl Held {
    /// The reference holds batches on disk; we refuse when memory is short.
    fn hold(&mut self, msg: MessageRef<'_>, most: usize) -> Result<(), Fault> {
        let MessageRef { subject, headers, payload, .. } = msg;
        let bytes = self.messages.bytes() + subject.len() + headers.len() + payload.len();
        if !self.charge.grow_to(bytes + (self.messages.len() + 1) * MESSAGE_OVERHEAD, most) {
            return Err(Fault(ApiError::ATOMIC_PUBLISH_TOO_MANY_INFLIGHT, Some(Reason::Large)));
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

    /// What the acknowledgement counts.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.messages.len() as u64
    }
}

impl Reason {
    /// The word of the advisory.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Large => "large",
            Self::Incomplete => "incomplete",
            Self::Unsupported => "unsupported",
        }
    }
}

#[cfg(test)]
mod tests;
