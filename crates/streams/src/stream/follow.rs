//! Following: how a stream becomes a follower or leads again, and what it knows meanwhile. A
//! follower keeps what a leader needs to know up to date, and does nothing of its own accord.
//!
//! Who applies what the leader has decided appends it to the log and shows each message here. The
//! other way in, [`StreamCore::publish`], is the leader's.

use myelin_store::{Message, StoreError, TakenBack, Timestamp};

use super::core::StreamCore;
use super::effects::Effects;
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
    /// schedules and for what nobody needs as after a start. In a group it begins when all that is in
    /// its log is committed, and consumers with what is applied; with a leader goes what its
    /// consumers have decided and the group has not. Batches that were open when it became
    /// a follower are given up when it leads again, if their time is over.
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
        if role.leads() {
            self.load_schedules();
            self.next.expiry = self.store.next_expiry().unwrap_or(Some(now));
            self.next.expiry_left_at = None;
            self.next.maintenance = Some(now);
            self.begin_round(now);
        }
        effects.due_changed = true;
    }

    /// A message was appended to the log as the leader has decided: what is known beside the log
    /// follows it, by its time and not by a clock.
    pub fn applied(&mut self, message: &Message<'_>) {
        debug_assert!(!self.role().leads(), "a leader decides itself");
        debug_assert!(message.seq <= self.store.totals().last_seq, "what is applied was appended");
        let id = MsgHeaders::scan(message.headers).get(Key::MsgId);
        self.last.time = message.timestamp;
        self.last.set_id(id);
        self.ids.tidy(message.timestamp, IDS_PER_MESSAGE);
        if !id.is_empty()
            && let Some(slot) = self.ids.begin(id, message.timestamp)
        {
            self.ids.stored(slot, message.seq, message.timestamp);
        }
        self.charge();
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
        self.outgoing.release_queue.take_back(first_ticket);
        self.ids.take_back(last_seq);
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
        [self.next.job, self.next.tidying, lifetimes].into_iter().flatten().min()
    }

    /// Does a slice of that.
    pub(super) fn run_due_of_follower(&mut self, now: Timestamp, effects: &mut Effects) {
        if self.next.lifetimes.goes_on && self.next.maintenance.is_some_and(|at| at <= now) {
            self.next.maintenance = self.run_lifetimes(now);
        }
        self.give_memory_back(now);
        self.charge();
        self.released(effects);
    }
}
