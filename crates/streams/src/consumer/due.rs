//! Work of a consumer that comes with time: messages come again, pauses end, requests run out, and
//! so does a consumer that nobody uses.

use super::core::{ConsumerCore, Deliverer, DeliveryMode, TurnCtx};
use super::effects::ConsumerEvent;
use super::redelivery::{ack_wait, most_deliveries};
use myelin_store::consumer::{Death, Delta, Pending};
use myelin_store::{Seq, Timestamp};

impl ConsumerCore {
    /// When [`due`](Self::due) has something to do: perhaps too early, never too late.
    #[must_use]
    pub fn next_due(&self, now: Timestamp) -> Option<Timestamp> {
        if !self.role.leads() {
            return None;
        }
        let config = &self.deliverer.config;
        let pause =
            (!self.is_pause_reported).then(|| config.pause_until.map(|until| until.timestamp())).flatten();
        let mode = match &self.deliverer.mode {
            DeliveryMode::Pull(pull) => pull.next_due(),
            DeliveryMode::Push(push) => push.next_beat(),
        };
        let redeliveries = self.redelivery.next_due();
        let dead_letters = self.dead_letters.as_ref().and_then(|letters| letters.next_due());
        [pause, mode, redeliveries, dead_letters, self.held_until, self.end_of_use(now)]
            .into_iter()
            .flatten()
            .min()
    }

    /// When nobody will have used it for too long.
    fn end_of_use(&self, now: Timestamp) -> Option<Timestamp> {
        let threshold = self.deliverer.config.inactive_threshold;
        if threshold <= 0 {
            return None;
        }
        let since = match &self.deliverer.mode {
            DeliveryMode::Push(push) => push.inactive_since?,
            DeliveryMode::Pull(pull) if pull.is_empty() => pull.last_used,
            DeliveryMode::Pull(_) => now,
        };
        Some(since.saturating_add(threshold))
    }

    /// Does what is due besides deliveries.
    pub fn due(&mut self, turn: &mut TurnCtx<'_>) {
        if !self.role.leads() {
            return;
        }
        turn.place = self.place();
        if self.held_until.is_some_and(|at| at <= turn.now) {
            self.held_until = None;
        }
        if !self.is_pause_reported && !self.is_paused(turn.now) {
            self.is_pause_reported = true;
            turn.effects.events.push(ConsumerEvent::Pause);
        }
        if self.redelivery.next_due().is_some_and(|at| at <= turn.now) {
            self.scan_redeliveries(turn);
        }
        let (has_pending, is_full) = (self.deliverer.outstanding > 0, self.is_full());
        let Deliverer { config, mode, .. } = &mut self.deliverer;
        match mode {
            DeliveryMode::Pull(pull) => {
                pull.unpin_if_due(turn);
                if pull.next_due().is_some_and(|at| at <= turn.now) {
                    // Compat: where acknowledgements are missing, who does not want to wait does so
                    // until the next of these moments.
                    pull.sweep_requests(is_full, turn);
                }
            }
            DeliveryMode::Push(push) => {
                push.beat_if_due(config, turn.place, has_pending, turn.now, turn.effects)
            }
        }
        self.end_if_unused(turn);
    }

    /// Makes messages come again that nobody acknowledged in time, unless they were delivered as
    /// often as they may be.
    fn scan_redeliveries(&mut self, turn: &mut TurnCtx<'_>) {
        self.notice_removed(turn);
        let Self { redelivery, deliverer, .. } = self;
        let found =
            deliverer.state_handle.read(|state| redelivery.scan_due(state, &deliverer.config, turn.now));
        // More often than may be: the record gives it up.
        let count = most_deliveries(&self.deliverer.config).unwrap_or(0) + 1;
        for (seq, pending, redelivered) in found.exhausted {
            let deliveries = Death::redeliveries(redelivered) + 1;
            self.give_up((seq, pending), (deliveries, count), turn);
        }
        self.deliverer.count_outstanding();
        if self.dead_letters.is_none() {
            self.settle_terminated(&found.terminated, turn);
        }
        self.note_all_exhausted(turn);
    }

    /// A message was delivered as often as it may be: it is moved, or the record gives it up with a
    /// `count` that exceeds the most.
    pub(super) fn give_up(
        &mut self,
        (seq, pending): (Seq, Pending),
        (deliveries, count): (u64, u64),
        turn: &mut TurnCtx<'_>,
    ) {
        turn.effects.events.push(ConsumerEvent::MaxDeliveries { seq, deliveries });
        if !self.note_death(seq, Death::Exhausted, "") {
            let Pending { delivery, timestamp } = pending;
            self.deliverer.state_handle.apply(Delta::Delivered { delivery, seq, count, timestamp });
        }
    }

    fn end_if_unused(&mut self, turn: &mut TurnCtx<'_>) {
        if self.end_of_use(turn.now).is_none_or(|at| at > turn.now) {
            return;
        }
        if self.dead_letters.as_ref().is_some_and(|letters| letters.len() > 0) {
            // With it would go what is dead and not moved.
            match &mut self.deliverer.mode {
                DeliveryMode::Pull(pull) => pull.last_used = turn.now,
                DeliveryMode::Push(push) => push.inactive_since = Some(turn.now),
            }
            return;
        }
        if let DeliveryMode::Pull(pull) = &mut self.deliverer.mode {
            // A client that works on what it got is using it, and so it is until a pause of its own
            // is over.
            let newest = self.deliverer.state_handle.read(|state| {
                let waits = state.pending().iter().map(|(seq, pending)| {
                    let redelivered = state.redelivered().get(&seq).copied().unwrap_or(0);
                    let wait = ack_wait(&self.deliverer.config, redelivered);
                    let pause = self.redelivery.pause(seq, redelivered).unwrap_or(0);
                    pending.timestamp.saturating_add(wait).saturating_add(pause)
                });
                waits.max()
            });
            if newest.is_some_and(|at| at > pull.last_used) {
                pull.last_used = newest.unwrap_or(pull.last_used);
                return;
            }
        }
        turn.effects.is_over = true;
    }
}
