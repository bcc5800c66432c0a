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

use super::consumer_activity::{ActivityPlace, ConsumerActivity};

/// After a failure (a full disk, say), when to propose again.
const RETRY: i64 = 1_000_000_000;

/// Consumers of a stream in a group, as they are decided on and as the group has them.
pub(super) struct StreamGroup {
    /// States that the turns of consumers change, while this replica leads.
    decided: Arc<Mutex<Consumers>>,
    applied: GroupConsumers,
    /// Proposals that wait for their commit: the number, and the ticket of the entry.
    proposed: VecDeque<(u64, Ticket)>,
    /// Records that could not be appended yet: they go with the next.
    unwritten: Vec<ConsumerRecord<'static>>,
    /// When to try that again.
    pub(super) next_attempt_at: Option<Timestamp>,
    /// Whether proposals were released that nobody has told of.
    has_released: bool,
    /// Told of what is applied from here on.
    pub(super) activity: Option<Arc<dyn ConsumerActivity>>,
}

impl StreamGroup {
    /// Begins with what the group has: `applied`, and what is committed behind it.
    pub(super) fn new(
        store: &Stream,
        decided: Arc<Mutex<Consumers>>,
        applied: GroupConsumers,
    ) -> Result<Self, Diverged> {
        let (proposed, unwritten) = (VecDeque::new(), Vec::new());
        let mut group = Self {
            decided,
            applied,
            proposed,
            unwritten,
            next_attempt_at: None,
            has_released: false,
            activity: None,
        };
        group.apply(store)?;
        group.begin_anew();
        Ok(group)
    }

    /// Consumers as the group has them.
    pub(super) fn applied(&self) -> &GroupConsumers {
        &self.applied
    }

    /// As [`Self::applied`], for their image.
    pub(super) fn applied_mut(&mut self) -> &mut GroupConsumers {
        &mut self.applied
    }

    /// Proposes what waits, as one entry. After an error it waits for the next time.
    pub(super) fn propose(&mut self, store: &mut Stream, now: Timestamp) -> Result<(), StoreError> {
        let mut decided = lock(&self.decided);
        if self.unwritten.is_empty() && !decided.is_dirty() {
            return Ok(());
        }
        self.unwritten.append(&mut decided.take_records());
        let proposal = decided.proposal();
        drop(decided);
        if self.unwritten.is_empty() {
            self.propose_nothing(proposal);
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

    /// Numbers up to `proposal` were given out, and what they were for was undone: they are agreed
    /// to with what was proposed before.
    fn propose_nothing(&mut self, proposal: u64) {
        match self.proposed.back_mut() {
            Some((last, _)) => *last = (*last).max(proposal),
            None => {
                lock(&self.decided).committed(proposal);
                self.has_released = true;
            }
        }
    }

    /// Applies what is committed and was not applied yet.
    pub(super) fn apply(&mut self, store: &Stream) -> Result<(), Diverged> {
        let Self { applied, activity, .. } = self;
        for (index, records) in store.committed_consumers(applied.applied()) {
            let before =
                activity.as_ref().map(|activity| (activity, ActivityPlace::of_all(applied, records)));
            if !myelin_stdx::planted::bug(133) || index % 4 > 0 {
                applied.apply(index, records)?;
            }
            if let Some((activity, places)) = before {
                places.iter().for_each(|place| place.tell(applied, &**activity));
            }
        }
        if let Some(position) = store.group() {
            applied.pass(position.commit.min(position.index));
        }
        Ok(())
    }

    /// Answers whether proposals were released.
    pub(super) fn release(&mut self, release: &Release) -> bool {
        let is_released =
            |(_, ticket): &(u64, Ticket)| release.is_released(*ticket) || myelin_stdx::planted::bug(119);
        let count = self.proposed.iter().take_while(|proposed| is_released(proposed)).count();
        if let Some((proposal, _)) = self.proposed.drain(..count).next_back() {
            lock(&self.decided).committed(proposal);
            self.has_released = true;
        }
        std::mem::take(&mut self.has_released)
    }

    /// Forgets what was decided and is not committed.
    pub(super) fn begin_anew(&mut self) {
        self.proposed.clear();
        self.unwritten.clear();
        self.next_attempt_at = None;
        self.applied.lead_with(&mut lock(&self.decided));
    }
}
