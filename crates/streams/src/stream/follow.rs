//! Following: how a stream becomes a follower or leads again, and what it knows meanwhile. A
//! follower keeps what a leader needs to know up to date, and does nothing of its own accord.
//!
//! Who applies what the leader has decided appends it to the log and shows each message here. The
//! other way in, [`StreamCore::publish`], is the leader's.

use std::io;
use std::sync::{Arc, Mutex};

use myelin_jsapi::config::Storage;
use myelin_store::consumer::{Consumers, Diverged, DrawnImage, GroupConsumers, Obsolete, WrittenImage};
use myelin_store::{
    DecidedEntry, InstallSource, Message, Seq, StateDigest, StoreError, TakenBack, Timestamp,
};

use super::consumer_activity::ConsumerActivity;
use super::core::StreamCore;
use super::effects::Effects;
use super::group_consumers::StreamGroup;
use super::interest_cleanup::InterestCleanup;
use super::msg_headers::{Key, MsgHeaders};
use crate::ReplicaRole;

/// Message ids that one message makes room for.
const IDS_PER_MESSAGE: usize = 2;

impl StreamCore {
    /// Role of this replica.
    #[must_use]
    pub fn role(&self) -> ReplicaRole {
        self.settings.role
    }

    /// Another role from now on. A leader has due at once what a follower has left, and looks for
    /// schedules as after a start; for what nobody needs when it is told that all consumers are
    /// there ([`StreamCore::reconcile`]), and until then what they settle stays. In a group it
    /// begins when all that is in its log is committed, and consumers with what is applied; with a
    /// leader goes what its consumers have decided and the group has not, and what rollups have
    /// left to remove: the rollup may be taken back, and its sequence be given out again. Batches
    /// that were open when it became a follower are given up when it leads again, if their time is
    /// over.
    pub fn set_role(&mut self, role: ReplicaRole, now: Timestamp, effects: &mut Effects) {
        if self.settings.role == role {
            return;
        }
        debug_assert!(
            !role.leads() || self.store.group().is_none_or(|group| group.commit >= group.index),
            "who begins to lead a group has all of its log committed"
        );
        self.settings.role = role;
        self.forget_proposals();
        self.pending_purges.clear();
        self.outgoing.release_queue.forget_rollups();
        self.cleanup = InterestCleanup::of_another_leader();
        self.feed_ids();
        self.ids.decided.clear();
        if role.leads() {
            // What cannot be written now goes before the first decision.
            let _ = self.store.abort_unfinished(now);
            self.load_schedules();
            self.next.expiry = self.store.next_expiry().unwrap_or(Some(now));
            self.next.expiry_left_at = None;
            self.next.maintenance = Some(now);
        }
        effects.due_changed = true;
    }

    /// Says whether so many disks of its group are full that nothing more would be agreed to:
    /// messages are refused then as if its own disk were full. What makes room is not.
    pub fn set_group_full(&mut self, is_full: bool) {
        self.settings.is_group_full = is_full;
    }

    /// A message was appended to the log as the leader has decided: what is known beside the log
    /// follows it, by its time and not by a clock.
    pub fn applied(&mut self, message: &Message<'_>) {
        debug_assert!(!self.role().leads(), "a leader decides itself");
        debug_assert!(message.seq <= self.store.totals().last_seq, "what is applied was appended");
        let id = MsgHeaders::scan(message.headers).get(Key::MsgId);
        self.feed(message.seq, message.timestamp, id);
        self.charge();
    }

    /// Appends an entry of the group's log that the leader has decided. What is known beside the
    /// log follows its messages, as with [`StreamCore::applied`], when it is committed with all of
    /// its decision: of one that is aborted nothing is known.
    ///
    /// # Errors
    /// As [`Stream::append_decided`](myelin_store::Stream::append_decided): nothing has changed,
    /// unless the stream has failed.
    pub fn append_decided(&mut self, decided: &DecidedEntry, now: Timestamp) -> Result<(), StoreError> {
        debug_assert!(!self.role().leads(), "a leader decides itself");
        self.store.append_decided(decided, now)?;
        self.ids.decided.append(decided);
        self.feed_ids();
        Ok(())
    }

    /// Notes what the log of a group holds that is not released at a start.
    pub(super) fn find_ids(&mut self) {
        if self.store.group().is_some() {
            self.ids.decided.find(self.store.released() + 1, self.store.totals().last_seq);
        }
    }

    /// Has what is known beside the log follow what is committed.
    pub(super) fn feed_ids(&mut self) {
        if self.ids.decided.is_empty() {
            return;
        }
        if let Some((first, last)) = self.ids.decided.take_found(self.store.released()) {
            self.each_id(first, last, Self::feed);
        }
        let commit = self.store.group().map_or(0, |group| group.commit);
        for msg in self.ids.decided.take(commit) {
            if myelin_stdx::planted::bug(131) {
                continue;
            }
            self.feed(msg.seq, msg.time, &msg.id);
        }
        self.charge();
    }

    fn feed(&mut self, seq: Seq, time: Timestamp, id: &[u8]) {
        self.last.time = time;
        self.last.set_id(id);
        self.ids.tidy(time, IDS_PER_MESSAGE);
        self.ids.enter_stored(id, seq, time);
    }

    /// Takes back the entries of the group's log from index `first` on, and what is known of their
    /// messages beside the log. Nobody who waits for one of them hears anything: another leader may
    /// have decided the same message, so that neither answer would be true.
    ///
    /// # Errors
    /// As [`Stream::take_back`](myelin_store::Stream::take_back): nothing has changed, unless the
    /// stream has failed.
    pub fn take_back(&mut self, first: u64, now: Timestamp) -> Result<(), StoreError> {
        debug_assert!(!self.role().leads(), "what a leader has decided stays until another leads");
        let TakenBack { first_ticket, last_seq } = self.store.take_back(first, now)?;
        let Some(first_ticket) = first_ticket else { return Ok(()) };
        if !myelin_stdx::planted::bug(130) {
            self.outgoing.release_queue.take_back(first_ticket);
        }
        if !myelin_stdx::planted::bug(105) {
            self.ids.take_back(last_seq);
            self.ids.decided.take_back(first, last_seq);
        }
        self.batches.fast.take_back(last_seq);
        self.last.time = self.store.totals().last_timestamp;
        self.last.set_id(b"");
        let mut buffer = Vec::new();
        let last = self.store.read(last_seq, &mut buffer);
        self.note_last(last);
        self.charge();
        Ok(())
    }

    /// When a follower has something to do: memory to give back, and lifetimes to look for.
    pub(super) fn next_due_of_follower(&self) -> Option<Timestamp> {
        let lifetimes = self.next.maintenance.filter(|_| self.next.lifetimes.goes_on);
        #[cfg(planted)]
        if myelin_stdx::planted::bug(118) {
            let expiry = self.store.next_expiry().ok().flatten();
            return [self.next.job, self.next.tidying, lifetimes, expiry].into_iter().flatten().min();
        }
        [self.next.job, self.next.tidying, lifetimes].into_iter().flatten().min()
    }

    /// Does a slice of that.
    pub(super) fn run_due_of_follower(&mut self, now: Timestamp, effects: &mut Effects) {
        #[cfg(planted)]
        if myelin_stdx::planted::bug(118) {
            self.store.expire_unsaid(now);
        }
        if self.next.lifetimes.goes_on && self.next.maintenance.is_some_and(|at| at <= now) {
            self.next.maintenance = self.run_lifetimes(now);
        }
        self.give_memory_back(now);
        self.charge();
        self.released(effects);
    }
}

/// Consumers of a group: as leader and as follower.
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
        let group = StreamGroup::new(&self.store, decided, applied);
        let group = group.map_err(|diverged| self.give_up_diverged(&diverged))?;
        self.outgoing.group = Some(Box::new(group));
        Ok(())
    }

    /// Tells of what consumers of the group do from here on.
    pub fn watch_consumers(&mut self, activity: Arc<dyn ConsumerActivity>) {
        self.outgoing.group.iter_mut().for_each(|group| group.activity = Some(Arc::clone(&activity)));
    }

    /// Whether it has failed because its consumers were not as its group has them: what it has
    /// stored is not what the others have.
    #[must_use]
    pub fn has_diverged(&self) -> bool {
        self.outgoing.has_diverged
    }

    /// Consumers as the group has them, if the stream is in one that has consumers.
    #[must_use]
    pub fn applied_consumers(&self) -> Option<&GroupConsumers> {
        self.outgoing.group.as_ref().map(|group| group.applied())
    }

    /// Proposes what consumers have decided, as one entry of the group's log. Nothing where there
    /// is no group, or nothing was decided.
    ///
    /// # Errors
    /// Nothing is lost: it is tried again when it is due, and with the next proposal.
    pub fn propose_consumers(&mut self, now: Timestamp) -> Result<(), StoreError> {
        match &mut self.outgoing.group {
            Some(group) if self.settings.role.leads() => group.propose(&mut self.store, now),
            _ => Ok(()),
        }
    }

    /// Does what [`StreamCore::propose_consumers`] does, at the request of a consumer. What could
    /// not be appended is due another time; what has nothing to be agreed to is told at once.
    pub fn propose(&mut self, now: Timestamp, effects: &mut Effects) {
        let proposed = self.propose_consumers(now);
        effects.due_changed |= proposed.is_err();
        effects.is_full |= matches!(proposed, Err(StoreError::Full));
        self.consumers_released(effects);
    }

    /// The log of the group is committed up to `index`: what is up to there happens, and may be
    /// told.
    pub fn committed(&mut self, index: u64, effects: &mut Effects) {
        self.store.committed(index);
        self.released(effects);
    }

    /// Tries again to propose what could not be appended.
    pub(super) fn run_due_proposal(&mut self, now: Timestamp, effects: &mut Effects) {
        let due = self.outgoing.group.as_ref().and_then(|group| group.next_attempt_at);
        if due.is_some_and(|at| at <= now) {
            // It says when to try again.
            effects.is_full |= matches!(self.propose_consumers(now), Err(StoreError::Full));
            effects.due_changed = true;
        }
    }

    /// When to do that.
    pub(super) fn next_proposal(&self) -> Option<Timestamp> {
        self.outgoing.group.as_ref()?.next_attempt_at
    }

    /// Applies what is committed, and has the consumers of a leader know.
    pub(super) fn consumers_released(&mut self, effects: &mut Effects) {
        let Some(group) = &mut self.outgoing.group else { return };
        if let Err(diverged) = group.apply(&self.store) {
            self.give_up_diverged(&diverged);
            return;
        }
        effects.are_proposals_released |= group.release(self.store.release());
        effects.is_image_due |= group.applied().image_due();
        if self.config.storage == Storage::Memory {
            // No start reads them, and there is no image that could have them.
            self.store.consumers_imaged(group.applied().applied());
        }
    }

    /// The stream as a whole, as far as its group has come, to be sent to a replica that lacks what
    /// is no more in the log. `None` where the stream is in no group, or nothing is committed yet.
    #[must_use]
    pub fn install_source(&self) -> Option<InstallSource> {
        self.store.install_source(self.applied_consumers()?)
    }

    /// Digest of the stream as it is released; `None` where it is in no group.
    #[must_use]
    pub fn state_digest(&self) -> Option<StateDigest> {
        self.store.state_digest(self.applied_consumers()?)
    }

    /// Draws the image of the group's consumers as they are applied, for
    /// [`StreamCore::image_written`]. `None` where nothing has to be written: none is due, another
    /// is being written, or the stream is in no group.
    pub fn draw_image(&mut self) -> Option<DrawnImage> {
        self.outgoing.group.as_mut().filter(|group| group.applied().image_due())?.applied_mut().draw_image()
    }

    /// Takes over an image that was drawn and written: segments up to its index may be sealed.
    ///
    /// # Errors
    /// It could not be written; it is tried again with later changes.
    pub fn image_written(&mut self, written: WrittenImage) -> io::Result<()> {
        let Some(group) = &mut self.outgoing.group else { return Ok(()) };
        self.store.consumers_imaged(group.applied_mut().image_written(written)?);
        Ok(())
    }

    /// Files of images that are needed no more, for
    /// [`Store::put_away_files`](myelin_store::Store::put_away_files). Named once.
    pub fn take_obsolete_images(&mut self) -> Vec<Obsolete> {
        let group = self.outgoing.group.as_mut();
        group.map(|group| group.applied_mut().take_obsolete()).unwrap_or_default()
    }

    /// Whatever this replica has decided for its consumers and the group has not, is nothing.
    pub(super) fn forget_proposals(&mut self) {
        if let Some(group) = &mut self.outgoing.group {
            group.begin_anew();
        }
    }

    fn give_up_diverged(&mut self, diverged: &Diverged) -> StoreError {
        self.outgoing.has_diverged = true;
        let Diverged { index, consumer } = diverged;
        self.store.give_up(&format!(
            "consumer {} is not as its group has it: entry {index} does not fit",
            consumer.0
        ));
        StoreError::NotNext { expected: *index }
    }
}
