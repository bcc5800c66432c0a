//! Consumers of a stream that is in a group: the leader's changes become entries of its log, and
//! every replica applies what is committed.
//!
//! Owns the states as the group has them, and which entry has which proposal. It must never write
//! a removal that consumers have led to before what they have decided.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use myelin_stdx::sync::lock;
use myelin_store::consumer::{Consumers, Diverged, GroupConsumers};
use myelin_store::record::ConsumerRecord;
use myelin_store::{Release, StoreError, Stream, Ticket, Timestamp};

use super::core::StreamCore;
use super::effects::Effects;
use super::upkeep::RETRY;

/// Consumers of a stream in a group, as they are decided on and as the group has them.
pub(super) struct StreamGroup {
    /// What the turns of consumers change, while this replica leads.
    decided: Arc<Mutex<Consumers>>,
    applied: GroupConsumers,
    /// Proposals that wait for their commit: the number, and the ticket of the entry.
    proposed: VecDeque<(u64, Ticket)>,
    /// Records that could not be appended yet: they go with the next.
    unwritten: Vec<ConsumerRecord<'static>>,
    /// When to try that again.
    pub(super) next_attempt_at: Option<Timestamp>,
}

impl StreamGroup {
    fn propose(&mut self, store: &mut Stream, now: Timestamp) -> Result<(), StoreError> {
        let mut decided = lock(&self.decided);
        self.unwritten.append(&mut decided.take_records());
        let proposal = decided.proposal();
        drop(decided);
        if self.unwritten.is_empty() {
            return Ok(());
        }
        if let Err(error) = store.propose_consumers(&self.unwritten, now) {
            self.next_attempt_at = Some(now.saturating_add(RETRY));
            return Err(error);
        }
        self.unwritten.clear();
        self.next_attempt_at = None;
        self.proposed.push_back((proposal, store.release().last_ticket()));
        Ok(())
    }

    /// Applies what is committed and was not applied yet.
    fn apply(&mut self, store: &Stream) -> Result<(), Diverged> {
        let Self { applied, .. } = self;
        for (index, records) in store.committed_consumers(applied.applied()) {
            applied.apply(index, records)?;
        }
        if let Some(position) = store.group() {
            applied.pass(position.commit.min(position.index));
        }
        Ok(())
    }

    /// Answers whether proposals were released.
    fn release(&mut self, release: &Release) -> bool {
        let is_released = |(_, ticket): &(u64, Ticket)| release.is_released(*ticket);
        let count = self.proposed.iter().take_while(|proposed| is_released(proposed)).count();
        let Some((proposal, _)) = self.proposed.drain(..count).next_back() else { return false };
        lock(&self.decided).committed(proposal);
        true
    }

    /// What was decided and is not committed is nothing any more.
    fn begin_anew(&mut self) {
        self.proposed.clear();
        self.unwritten.clear();
        self.next_attempt_at = None;
        lock(&self.decided).lead(&self.applied);
    }
}

impl StreamCore {
    /// Has the stream's consumers be those of its group: `decided` is what their turns change from
    /// here on, and begins with what the group has, `applied` and what is committed behind it.
    ///
    /// # Errors
    /// The stream has no group ([`StoreError::NotNext`]), or what is committed does not fit: the
    /// stream has failed.
    pub fn group_consumers(
        &mut self,
        decided: Arc<Mutex<Consumers>>,
        applied: GroupConsumers,
    ) -> Result<(), StoreError> {
        if self.store.group().is_none() {
            return Err(StoreError::NotNext { expected: 0 });
        }
        let (proposed, unwritten) = (VecDeque::new(), Vec::new());
        let mut group = StreamGroup { decided, applied, proposed, unwritten, next_attempt_at: None };
        if let Err(diverged) = group.apply(&self.store) {
            return Err(self.give_up_diverged(&diverged));
        }
        group.begin_anew();
        self.group = Some(Box::new(group));
        Ok(())
    }

    /// Consumers as the group has them, if the stream is in one that has consumers.
    #[must_use]
    pub fn applied_consumers(&self) -> Option<&GroupConsumers> {
        self.group.as_ref().map(|group| &group.applied)
    }

    /// Proposes what consumers have decided, as one entry of the group's log. Nothing where there
    /// is no group, or nothing was decided.
    ///
    /// # Errors
    /// Nothing is lost: it is tried again when it is due, and with the next proposal.
    pub fn propose_consumers(&mut self, now: Timestamp) -> Result<(), StoreError> {
        match &mut self.group {
            Some(group) if self.settings.role.leads() => group.propose(&mut self.store, now),
            _ => Ok(()),
        }
    }

    /// The log of the group is committed up to `index`: what is up to there happens, and may be
    /// told.
    pub fn committed(&mut self, index: u64, effects: &mut Effects) {
        self.store.committed(index);
        self.released(effects);
    }

    /// Tries again to propose what could not be appended.
    pub(super) fn run_due_proposal(&mut self, now: Timestamp, effects: &mut Effects) {
        let due = self.group.as_ref().and_then(|group| group.next_attempt_at);
        if due.is_some_and(|at| at <= now) {
            // It says when to try again.
            let _ = self.propose_consumers(now);
            effects.due_changed = true;
        }
    }

    /// When to do that.
    pub(super) fn next_proposal(&self) -> Option<Timestamp> {
        self.group.as_ref()?.next_attempt_at
    }

    /// Applies what is committed, and has the consumers of a leader know.
    pub(super) fn consumers_released(&mut self, effects: &mut Effects) {
        let Some(group) = &mut self.group else { return };
        if let Err(diverged) = group.apply(&self.store) {
            self.give_up_diverged(&diverged);
            return;
        }
        effects.are_proposals_released |= group.release(self.store.release());
    }

    /// Whatever this replica has decided for its consumers and the group has not, is nothing.
    pub(super) fn forget_proposals(&mut self) {
        if let Some(group) = &mut self.group {
            group.begin_anew();
        }
    }

    fn give_up_diverged(&self, diverged: &Diverged) -> StoreError {
        let Diverged { index, consumer } = diverged;
        self.store.give_up(&format!(
            "consumer {} is not as its group has it: entry {index} does not fit",
            consumer.0
        ));
        StoreError::NotNext { expected: *index }
    }
}
