//! Proposals of the meta leader: an assignment that was decided on the last one of its stream
//! counts only while that is the last one.

use super::{Assignment, Meta, PROPOSAL_WAIT, write_on};
use myelin_jsapi::ApiError;
use myelin_store::Seq;
use myelin_wire::message_buf::MessageBuf;
use std::sync::Arc;
use std::time::Instant;

/// Outcome of a proposal that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProposalOutcome {
    /// Committed, as this server has seen.
    Committed,
    /// Another decision about the stream was quicker: this one never counts.
    Outrun,
}

impl Meta {
    /// The assignment of a stream that is there, and on what is decided by whoever decides now: for
    /// [`Meta::propose`].
    pub(in crate::engine) fn known(&self, account: &str, stream: &str) -> (Option<Arc<Assignment>>, Seq) {
        let view = self.view();
        (view.get(account, stream), view.last_of(&super::StreamKey::new(account, stream)))
    }

    /// Has committed what is decided on the assignment of a stream, and waits until this server has
    /// seen that. Where another decision was quicker, be it only word of the cluster that a change
    /// is through, `decide` is asked again, on that one. It may find that there is nothing to do.
    ///
    /// # Errors
    /// Those of `decide`. Or this server leads no more, or nothing is committed for too long:
    /// whether this will be is not known.
    pub(in crate::engine) async fn decide_on<A: Into<Option<Assignment>>>(
        &self,
        (account, stream): (&str, &str),
        decide: impl AsyncFn(Option<Arc<Assignment>>) -> Result<A, ApiError>,
    ) -> Result<(), ApiError> {
        let jetstream = self.jetstream.upgrade().ok_or(ApiError::CLUSTER_NOT_AVAIL)?;
        let began = jetstream.host.instant();
        loop {
            let (known, on) = self.known(account, stream);
            let Some(proposal) = decide(known).await?.into() else { return Ok(()) };
            let deadline = jetstream.host.instant() + PROPOSAL_WAIT;
            match self.outcome(&proposal, on, deadline).await? {
                ProposalOutcome::Committed => return Ok(()),
                ProposalOutcome::Outrun if jetstream.host.instant() < began + PROPOSAL_WAIT => {}
                ProposalOutcome::Outrun => return Err(ApiError::CLUSTER_NOT_AVAIL),
            }
        }
    }

    /// Has an assignment committed that was decided on what was known (`on`), and waits until this
    /// server has seen that.
    ///
    /// # Errors
    /// This server leads no more, or something else was committed meanwhile: whether this will be
    /// is not known.
    pub(in crate::engine) async fn propose(&self, assignment: &Assignment, on: Seq) -> Result<(), ApiError> {
        let jetstream = self.jetstream.upgrade().ok_or(ApiError::CLUSTER_NOT_AVAIL)?;
        let deadline = jetstream.host.instant() + PROPOSAL_WAIT;
        match self.outcome(assignment, on, deadline).await? {
            ProposalOutcome::Committed => Ok(()),
            // Whoever has asked may look and ask again.
            ProposalOutcome::Outrun => Err(ApiError::CLUSTER_NOT_AVAIL),
        }
    }

    async fn outcome(
        &self,
        assignment: &Assignment,
        on: Seq,
        deadline: Instant,
    ) -> Result<ProposalOutcome, ApiError> {
        let jetstream = self.jetstream.upgrade().filter(|_| self.leads());
        let Some(jetstream) = jetstream else { return Err(ApiError::CLUSTER_NOT_AVAIL) };
        let mut out = MessageBuf::default();
        write_on(assignment, on, &mut out);
        self.groups.publish(out);
        let (key, nonce) = (assignment.key.clone(), assignment.nonce);
        let outcome = || match self.view().outcome_of((&key, nonce), on) {
            Some(true) => Some(Ok(ProposalOutcome::Committed)),
            Some(false) => Some(Ok(ProposalOutcome::Outrun)),
            None if !self.leads() || jetstream.host.instant() >= deadline => {
                Some(Err(ApiError::CLUSTER_NOT_AVAIL))
            }
            None => None,
        };
        self.waits.until(outcome).await.unwrap_or(Err(ApiError::CLUSTER_NOT_AVAIL))
    }

    /// Writes the message that proposes an assignment, decided on what is known now.
    pub(super) fn write(&self, assignment: &Assignment, out: &mut MessageBuf) {
        write_on(assignment, self.view().last_of(&assignment.key), out);
    }
}
