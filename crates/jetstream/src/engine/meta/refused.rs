//! Streams that cannot be made where they were assigned first: the assignment is taken back, so
//! that the error that the client hears is true.
//!
//! Only what nobody can have stored a message in is taken back. A stream with replicas may be led
//! by another of its servers as soon as that has waited for the first one for long enough, and it
//! counts then; so a removal that is committed later than that is none, for all servers alike.

use super::retries::FirstMessage;
use super::{AnswerKind, Assignment, Meta, write_on};
use crate::engine::JetStream;
use myelin_jsapi::ApiError;
use myelin_jsapi::api::response::StreamCreate;
use myelin_stdx::sync::lock;
use myelin_store::Timestamp;
use myelin_wire::message_buf::MessageBuf;
use std::sync::Arc;

/// Nanoseconds after the assignment in which no other member of the new group can be elected.
const UNLED: Timestamp = 250_000_000;
/// Nanoseconds after it in which its only server does not try again.
const UNTRIED: Timestamp = 1_500_000_000;

impl Assignment {
    /// The assignment as it counts, committed at a certain time: one that takes back what may be
    /// there is as it was.
    pub(super) fn committed_at(mut self, at: Timestamp) -> Self {
        let longest = if self.has_group() { UNLED } else { UNTRIED };
        if let AnswerKind::Refused(first) = self.answer
            && at.saturating_sub(first) > longest
        {
            (self.is_removed, self.answer) = (false, AnswerKind::Create);
        }
        self
    }
}

impl Meta {
    /// Takes back a stream that this server cannot make, and leads first.
    pub(super) fn take_back(
        &self,
        jetstream: &JetStream,
        (assignment, first): (&Arc<Assignment>, FirstMessage),
        error: &ApiError,
    ) {
        let back = Assignment {
            is_removed: true,
            nonce: jetstream.seed(),
            reply: String::new(),
            answer: AnswerKind::Refused(first.at),
            ..(**assignment).clone()
        };
        let mut out = MessageBuf::default();
        write_on(&back, first.seq, &mut out);
        let key = assignment.key.clone();
        lock(&self.faults.refused).insert(key, (Arc::clone(assignment), error.clone()));
        self.groups.publish(out);
    }

    /// Whether somebody waits for a stream that could not be made here at first, and that nobody
    /// else has.
    pub(super) fn is_made_after_all(&self, assignment: &Assignment) -> bool {
        lock(&self.faults.refused).remove(&assignment.key).is_some() && !assignment.has_group()
    }

    /// Tells whoever has asked for a stream that could not be made here, once something else was
    /// committed of it: that it is not there, or that this server alone has it and cannot make it.
    /// Of others their leader says that they are there.
    pub(super) fn answer_refused(&self, jetstream: &JetStream, now: &Assignment) {
        let refused = lock(&self.faults.refused).remove(&now.key);
        if let Some((of, error)) = refused
            && (now.is_removed || !now.has_group())
        {
            self.answer_failed::<StreamCreate>(jetstream, &of, &error);
        }
    }
}
