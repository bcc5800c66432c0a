//! State of a consumer: what was delivered to it and what it acknowledged, and the rules by which
//! both change.
//!
//! Owns pure transitions: no clock, no file, no configuration but [`AckRules`]. The rules are the
//! reference's as seen from its clients. Invariants: the floor is never above what was delivered,
//! and what is pending lies between them. Must never drop a message from `pending` that nobody
//! acknowledged, terminated, gave up or deleted.

use std::collections::BTreeMap;
use std::fmt;

use super::death::Death;
use super::pending::{Pending, PendingMessages};
use super::{AckPolicy, AckRules, DeliverySeq, SequencePair};
use crate::{Seq, Timestamp};

/// The state of one consumer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerState {
    /// The last delivery, and the highest sequence delivered or passed over.
    pub(super) delivered: SequencePair,
    /// Everything up to here is done.
    pub(super) ack_floor: SequencePair,
    pub(super) pending: PendingMessages,
    pub(super) redelivered: BTreeMap<Seq, u64>,
}

/// Effect of a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The state is another one.
    Changed,
    /// The message was below the floor, or what was asked for was so already.
    Stale,
    /// The message does not await an acknowledgement.
    Unknown,
    /// A consumer with [`AckPolicy::None`] knows neither acknowledgements nor redeliveries.
    NoAckPolicy,
}

/// A state that breaks the invariants: what exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidState(pub &'static str);

impl fmt::Display for InvalidState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "impossible state of a consumer: {}", self.0)
    }
}

impl std::error::Error for InvalidState {}

impl ConsumerState {
    /// A state from its parts. `pending` in the order of the stream.
    ///
    /// # Errors
    /// If the floor is above what was delivered, or a pending message does not lie between, has a
    /// delivery that was not made, or is out of order.
    pub fn from_parts(
        delivered: SequencePair,
        ack_floor: SequencePair,
        pending: impl IntoIterator<Item = (Seq, Pending)>,
        redelivered: BTreeMap<Seq, u64>,
    ) -> Result<Self, InvalidState> {
        let mut ring = PendingMessages::default();
        for (seq, message) in pending {
            if !ring.push(seq, message) {
                return Err(InvalidState("pending messages are out of order"));
            }
        }
        Self { delivered, ack_floor, pending: ring, redelivered }.checked()
    }

    /// Returns the state unchanged if it is possible: floor, deliveries and pending messages do not
    /// contradict each other.
    pub(super) fn checked(self) -> Result<Self, InvalidState> {
        let (floor, delivered) = (self.ack_floor, self.delivered);
        if floor.consumer > delivered.consumer || floor.stream > delivered.stream {
            return Err(InvalidState("the floor is above what was delivered"));
        }
        let ends = [self.pending.oldest(), self.pending.newest()].into_iter().flatten();
        let are_between = ends.into_iter().all(|(seq, _)| seq > floor.stream && seq <= delivered.stream);
        if !are_between || self.pending.iter().any(|(_, message)| message.delivery > delivered.consumer) {
            return Err(InvalidState("a pending message was never delivered, or is done"));
        }
        Ok(self)
    }

    /// The number of the last delivery, and the highest sequence that was delivered or passed over.
    #[must_use]
    pub fn delivered(&self) -> SequencePair {
        self.delivered
    }

    /// Everything up to here is done.
    #[must_use]
    pub fn ack_floor(&self) -> SequencePair {
        self.ack_floor
    }

    /// Messages that await their acknowledgement.
    #[must_use]
    pub fn pending(&self) -> &PendingMessages {
        &self.pending
    }

    /// How often messages were delivered beyond the first time. Messages that were given up stay in
    /// it until they leave the stream.
    #[must_use]
    pub fn redelivered(&self) -> &BTreeMap<Seq, u64> {
        &self.redelivered
    }

    /// Notes that the message `seq` was delivered, for the `count`th time, as delivery `delivery`.
    pub(super) fn deliver(
        &mut self,
        rules: AckRules,
        delivery: DeliverySeq,
        seq: Seq,
        count: u64,
        now: Timestamp,
    ) -> Applied {
        if rules.acks == AckPolicy::None && count != 1 {
            return Applied::NoAckPolicy;
        }
        // One that still awaits its acknowledgement may have a number below the floor, which with
        // `AckPolicy::All` takes that of a redelivery: more time for it counts, and that it was
        // given up.
        if delivery <= self.ack_floor.consumer && self.pending.get(seq).is_none() {
            return Applied::Stale;
        }
        let is_new = seq > self.delivered.stream;
        self.delivered.consumer = self.delivered.consumer.max(delivery);
        self.delivered.stream = self.delivered.stream.max(seq);
        if rules.acks == AckPolicy::None {
            self.done();
            return Applied::Changed;
        }
        if is_new {
            let pushed = self.pending.push(seq, Pending { delivery, timestamp: now });
            debug_assert!(pushed, "a new sequence is above all that is pending");
        } else {
            self.pending.touch(seq, now);
        }
        if count > 1 {
            self.redeliver(rules, seq, count);
        }
        debug_assert!(self.is_possible(), "floor <= delivered, and pending messages lie between");
        Applied::Changed
    }

    /// Everything that was delivered is done: also what is pending from before the rules were
    /// changed. Whether the floor is at most what was delivered, and the ends of what is pending
    /// lie between the two.
    fn is_possible(&self) -> bool {
        let (floor, delivered) = (self.ack_floor, self.delivered);
        let ends = [self.pending.oldest(), self.pending.newest()].into_iter().flatten();
        floor.consumer <= delivered.consumer
            && floor.stream <= delivered.stream
            && ends.into_iter().all(|(seq, _)| seq > floor.stream && seq <= delivered.stream)
    }

    fn done(&mut self) {
        self.pending.remove_through(self.delivered.stream);
        self.ack_floor = self.delivered;
        debug_assert!(self.pending.is_empty(), "nothing is pending behind what was delivered");
    }

    /// The part of a delivery that is not the first one.
    fn redeliver(&mut self, rules: AckRules, seq: Seq, count: u64) {
        let times = self.redelivered.entry(seq).or_default();
        *times = (*times).max(count - 1);
        // What is dead awaits its move, not to be given up.
        if rules.max_deliver.is_some_and(|max| count > max.get()) && Death::read(count).is_none() {
            self.remove_pending(seq, DeliverySeq::default());
        }
    }

    /// Notes that a client acknowledged the message `seq`, by the number of any of its deliveries.
    pub(super) fn acknowledge(&mut self, rules: AckRules, delivery: DeliverySeq, seq: Seq) -> Applied {
        if rules.acks == AckPolicy::None {
            return Applied::NoAckPolicy;
        }
        let uncounted = self.redelivered.remove(&seq).is_some();
        let unless_uncounted = |otherwise| if uncounted { Applied::Changed } else { otherwise };
        if delivery <= self.ack_floor.consumer {
            return unless_uncounted(Applied::Stale);
        }
        match rules.acks {
            AckPolicy::Explicit if self.remove_pending(seq, delivery) => Applied::Changed,
            AckPolicy::All if self.pending.get(seq).is_some() => {
                self.acknowledge_through(delivery, seq);
                Applied::Changed
            }
            _ => unless_uncounted(Applied::Unknown),
        }
    }

    /// Compat: the floor takes the number that the client sent, also a redelivery's, as the
    /// reference has it; but never one that was not given out, which would make the consumer deaf
    /// to what is delivered next.
    fn acknowledge_through(&mut self, delivery: DeliverySeq, seq: Seq) {
        debug_assert!(seq > self.ack_floor.stream, "what lies below the floor is done");
        self.pending.remove_through(seq);
        self.forget_counts_through(seq);
        self.ack_floor = SequencePair { consumer: delivery.min(self.delivered.consumer), stream: seq };
        debug_assert!(self.is_possible(), "floor <= delivered, and pending messages lie between");
    }

    /// Takes `seq` out of what is pending and moves the floor up to the next that is. `false` if it
    /// was not pending.
    ///
    /// Compat: the reference moves the floor only if the first delivery was the one after the
    /// floor. That is the same as "it was the oldest", unless numbers were spent on messages that
    /// were no longer pending; then its floor stands still until nothing is pending, and ours does
    /// not.
    fn remove_pending(&mut self, seq: Seq, hint: DeliverySeq) -> bool {
        let Some(message) = self.pending.remove(seq, hint) else { return false };
        self.raise_floor_after(message.delivery);
        debug_assert!(self.is_possible(), "floor <= delivered, and pending messages lie between");
        true
    }

    /// After `removed` is no longer pending: the floor is what lies before the oldest that is.
    fn raise_floor_after(&mut self, removed: DeliverySeq) {
        debug_assert!(removed <= self.delivered.consumer, "a delivery that is done was made");
        match self.pending.oldest() {
            None => self.ack_floor = self.delivered,
            Some((seq, oldest)) if removed < oldest.delivery => {
                let before = SequencePair { consumer: DeliverySeq(oldest.delivery.0 - 1), stream: seq - 1 };
                self.ack_floor.consumer = self.ack_floor.consumer.max(before.consumer);
                self.ack_floor.stream = self.ack_floor.stream.max(before.stream);
            }
            Some(_) => {}
        }
    }

    /// Forgets everything and begins behind `seq`.
    pub(super) fn reset(&mut self, seq: Seq) -> Applied {
        let begun = SequencePair { consumer: DeliverySeq(0), stream: seq };
        *self = Self { delivered: begun, ack_floor: begun, ..Self::default() };
        debug_assert!(self.pending.is_empty() && self.redelivered.is_empty(), "everything is forgotten");
        Applied::Changed
    }

    /// Passes over what follows, up to and with `seq`, without delivering it.
    pub(super) fn skip(&mut self, rules: AckRules, seq: Seq) -> Applied {
        if seq <= self.delivered.stream {
            return Applied::Stale;
        }
        self.delivered.stream = seq;
        if rules.acks == AckPolicy::None {
            self.done();
        }
        debug_assert!(self.is_possible(), "floor <= delivered, and pending messages lie between");
        Applied::Changed
    }

    /// The stream now begins at `seq`: what lies before is done.
    pub(super) fn drop_below(&mut self, seq: Seq) -> Applied {
        let Some(last) = seq.checked_sub(1) else { return Applied::Stale };
        let counted = self.forget_counts_through(last);
        if last <= self.ack_floor.stream {
            return if counted { Applied::Changed } else { Applied::Stale };
        }
        self.pending.remove_through(last);
        self.delivered.stream = self.delivered.stream.max(last);
        match self.pending.oldest() {
            None => self.ack_floor = self.delivered,
            Some((_, oldest)) => {
                self.ack_floor.stream = last;
                self.ack_floor.consumer = self.ack_floor.consumer.max(DeliverySeq(oldest.delivery.0 - 1));
            }
        }
        debug_assert!(self.is_possible(), "floor <= delivered, and pending messages lie between");
        Applied::Changed
    }

    /// The message `seq` was deleted from the stream: nobody can acknowledge it, and nobody has to.
    pub(super) fn forget(&mut self, seq: Seq) -> Applied {
        let counted = self.redelivered.remove(&seq).is_some();
        if self.remove_pending(seq, DeliverySeq::default()) || counted {
            Applied::Changed
        } else {
            Applied::Unknown
        }
    }

    /// The stream now ends at `last`: what lies behind was never delivered, and will be something
    /// else. Numbers of deliveries are not given out again.
    pub(super) fn cut_above(&mut self, last: Seq) -> Applied {
        let counts = self.redelivered.split_off(&last.saturating_add(1));
        if last >= self.delivered.stream {
            return if counts.is_empty() { Applied::Stale } else { Applied::Changed };
        }
        self.pending.remove_above(last);
        self.delivered.stream = last;
        self.ack_floor.stream = self.ack_floor.stream.min(last);
        if self.pending.is_empty() {
            self.ack_floor = self.delivered;
        }
        debug_assert!(self.is_possible(), "floor <= delivered, and pending messages lie between");
        Applied::Changed
    }

    /// Forgets how often messages below `seq` were delivered.
    pub(super) fn forget_counts_below(&mut self, seq: Seq) -> Applied {
        match seq.checked_sub(1) {
            Some(last) if self.forget_counts_through(last) => Applied::Changed,
            _ => Applied::Stale,
        }
    }

    fn forget_counts_through(&mut self, seq: Seq) -> bool {
        if self.redelivered.first_key_value().is_none_or(|(first, _)| *first > seq) {
            return false;
        }
        self.redelivered = self.redelivered.split_off(&seq.saturating_add(1));
        debug_assert!(
            self.redelivered.first_key_value().is_none_or(|(first, _)| *first > seq),
            "nothing is counted of what is done"
        );
        true
    }
}
