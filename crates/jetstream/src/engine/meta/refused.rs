//! Streams that cannot be made where they were assigned first: the assignment is taken back, so
//! that the error that the client hears is true.
//!
//! Only what nobody can have stored a message in is taken back, whatever time passes on the way.
//! The order of the meta log decides, and no clock: a removal that takes a stream back counts right
//! behind the stream's first assignment only ([`write_on`]), and until something else stands there,
//! the one who may serve the stream is its first server, in the one attempt to make it that is its
//! first. So each server that wants to serve it otherwise has an assignment committed before that
//! says that it stays ([`Meta::keep`]): another member of its group, which stands for election only
//! then; and the first server itself, when it tries again, or in a later life.

use super::{AnswerKind, Asked, Assignment, Meta, StreamKey, write_on};
use crate::engine::JetStream;
use myelin_jsapi::ApiError;
use myelin_jsapi::api::response::StreamCreate;
use myelin_stdx::sync::lock;
use myelin_store::Seq;
use myelin_wire::message_buf::MessageBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

impl Meta {
    /// Whether an assignment, of this message, is one that its first server alone may take back,
    /// and this is the first time that it is looked at.
    pub(super) fn is_first_look(&self, assignment: &Assignment, seq: Seq) -> bool {
        // What was here when this life began may have been looked at before.
        !self.was_found(seq) && assignment.may_be_taken_back() && !self.view().is_of(assignment)
    }

    /// Whether a message of the meta stream was here when this life began.
    pub(super) fn was_found(&self, seq: Seq) -> bool {
        seq <= self.faults.found.load(Acquire)
    }

    /// Whether this server may serve a stream as soon as it has it. `is_first`: nothing was tried
    /// before.
    pub(super) fn may_open(&self, assignment: &Assignment, is_first: bool) -> bool {
        !assignment.may_be_taken_back() || is_first && assignment.peers.first() == Some(&self.name)
    }

    /// Takes back a stream that this server cannot make, and leads first. `first`: its message.
    pub(in crate::engine) fn take_back(
        &self,
        jetstream: &JetStream,
        (assignment, first): (&Arc<Assignment>, Seq),
        error: &ApiError,
    ) {
        let back = Assignment {
            is_removed: true,
            nonce: jetstream.seed(),
            asked: Asked::default(),
            answer: AnswerKind::Refused,
            ..(**assignment).clone()
        };
        let mut out = MessageBuf::default();
        write_on(&back, first, &mut out);
        let key = assignment.key.clone();
        lock(&self.faults.refused).insert(key, (Arc::clone(assignment), error.clone()));
        self.groups.publish(out);
    }

    /// Proposes that a stream stays which its first server may take back: once that is committed it
    /// cannot any more, and any server that has the stream may serve it.
    pub(super) fn keep(&self, jetstream: &JetStream, key: &StreamKey) {
        let mut out = MessageBuf::default();
        let view = self.view();
        let known = view.last(key).filter(|last| last.may_be_taken_back());
        if let Some(known) = known {
            // Whoever waits for the first one is answered as ever.
            let (nonce, asked) = (jetstream.seed(), Asked::default());
            write_on(&Assignment { nonce, asked, ..(*known).clone() }, view.last_of(key), &mut out);
        }
        drop(view);
        self.groups.publish(out);
    }

    /// As [`keep`](Self::keep), of all streams that this server alone is to have and waits to make:
    /// before somebody led the meta group nobody has heard that.
    pub(super) fn keep_waiting(&self, jetstream: &JetStream) {
        let is_missing = |one: &Assignment| {
            let account = jetstream.account(&one.key.account);
            account.is_some_and(|account| account.stream(&one.key.stream).is_none())
        };
        let mine = self.assigned_here().into_iter();
        let waiting = mine.filter(|one| !one.has_group() && one.may_be_taken_back() && is_missing(one));
        waiting.for_each(|one| self.keep(jetstream, &one.key));
    }

    /// The request to make a stream that could not be made here at first, and is there now.
    pub(super) fn made_after_all(&self, assignment: &Assignment) -> Option<Arc<Assignment>> {
        let (of, _) = lock(&self.faults.refused).remove(&assignment.key)?;
        (of.created == assignment.created).then_some(of)
    }

    /// Tells whoever has asked for a stream that could not be made here: that it is not there, or
    /// that this server alone has it and cannot make it. Of others their leader says that they are
    /// there.
    pub(super) fn answer_refused(&self, jetstream: &JetStream, now: &Assignment) {
        let refused = lock(&self.faults.refused).remove(&now.key);
        if let Some((of, error)) = refused
            && (now.is_removed || !now.has_group())
        {
            self.answer_failed::<StreamCreate>(jetstream, &of, &error);
        }
    }
}
