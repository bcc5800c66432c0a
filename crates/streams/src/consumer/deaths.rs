//! Deaths of messages in a consumer's turn: they are noted, what is dead is published elsewhere,
//! and settled when it is stored there.

use super::ack_subject::AckSubject;
use super::core::{ConsumerCore, TurnCtx};
use super::dead_letters::DeadLetters;
use super::delivery::DeliverOutcome;
use super::effects::{AckedDelivery, ConsumerEvent};
use super::redelivery::most_deliveries;
use myelin_store::consumer::{Death, DeliverySeq, Delta, Pending};
use myelin_store::{ReadError, Seq, Wait};
use myelin_wire::message_buf::MessageRef;

/// Bytes of dead letters that one turn publishes.
const SLICE: usize = 128 * 1024;
/// Damaged ones that one turn gives up.
const MOST_LOST: usize = 1024;

impl ConsumerCore {
    /// Notes that the deliveries of a message are over, and has it moved. False: it awaits no
    /// acknowledgement, or these deaths are none that count.
    pub(super) fn note_death(&mut self, seq: Seq, death: Death, said: &str) -> bool {
        let Some(letters) = self.dead_letters.as_mut().filter(|letters| letters.takes(death)) else {
            return false;
        };
        let Some((pending, redelivered)) = self.deliverer.state_handle.awaited(seq) else { return false };
        if Death::read(redelivered).is_some() {
            return true;
        }
        self.deliverer.state_handle.apply(Delta::Delivered {
            delivery: pending.delivery,
            seq,
            count: death.count(redelivered + 1),
            timestamp: pending.timestamp,
        });
        self.redelivery.remove(seq);
        letters.add(seq, said);
        true
    }

    /// Of what is to come again, has moved what was delivered as often as it may be.
    pub(super) fn note_all_exhausted(&mut self, turn: &mut TurnCtx<'_>) {
        let waiting: Vec<Seq> = match self.most_before_death() {
            Some(_) => self.redelivery.waiting().collect(),
            None => return,
        };
        self.note_exhausted(&waiting, turn);
    }

    /// Of these messages, has moved what was delivered as often as it may be.
    pub(super) fn note_exhausted(&mut self, seqs: &[Seq], turn: &mut TurnCtx<'_>) {
        let Some(most) = self.most_before_death() else { return };
        let exhausted: Vec<(Seq, u64)> = self.deliverer.state_handle.read(|state| {
            let redelivered = |seq: &Seq| state.redelivered().get(seq).copied().unwrap_or(0);
            let counts = seqs.iter().map(|seq| (*seq, redelivered(seq)));
            let alive = counts.filter(|(_, redelivered)| Death::read(*redelivered).is_none());
            let deliveries = alive.map(|(seq, redelivered)| (seq, redelivered + 1));
            deliveries.filter(|(_, deliveries)| *deliveries >= most).collect()
        });
        for (seq, deliveries) in exhausted {
            if self.note_death(seq, Death::Exhausted, "") {
                turn.effects.events.push(ConsumerEvent::MaxDeliveries { seq, deliveries });
            }
        }
    }

    /// After how many deliveries a message is dead, if it is moved then.
    fn most_before_death(&self) -> Option<u64> {
        let takes_exhausted = |letters: &&DeadLetters| letters.takes(Death::Exhausted);
        self.dead_letters.as_deref().filter(takes_exhausted)?;
        most_deliveries(&self.deliverer.config)
    }

    /// Whether this count of redeliveries is that of a message that awaits its move.
    pub(super) fn is_kept_dead(&self, redelivered: u64) -> bool {
        self.dead_letters.is_some() && Death::read(redelivered).is_some()
    }

    /// Whether a message of the queue is dead and does not come again. Where nobody moves it any
    /// more, because the metadata says so no longer, one that a client has terminated is settled.
    /// One that is exhausted comes again if there is no limit any more.
    pub(super) fn stays_dead(&mut self, seq: Seq, redelivered: u64, turn: &mut TurnCtx<'_>) -> bool {
        match Death::read(redelivered) {
            Some(_) if self.dead_letters.is_some() => true,
            Some(Death::Terminated) => {
                self.settle_terminated(&[seq], turn);
                true
            }
            Some(Death::Exhausted) | None => false,
        }
    }

    /// Settles messages that a client has terminated and nobody moves any more.
    pub(super) fn settle_terminated(&mut self, seqs: &[Seq], turn: &mut TurnCtx<'_>) {
        seqs.iter().for_each(|&seq| self.settle_one(&of_message(seq), false, turn));
    }

    /// A dead message is damaged: it is told, and keeps nothing back.
    fn lose_dead(&mut self, seq: Seq, (pending, redelivered): (Pending, u64), turn: &mut TurnCtx<'_>) {
        let deliveries = Death::redeliveries(redelivered) + 1;
        let lost = AckedDelivery { delivery: pending.delivery, seq, deliveries };
        let why = "Dead message is damaged and was not moved".to_owned();
        turn.effects.events.push(ConsumerEvent::Terminated(lost, why));
        self.deliverer.state_handle.apply(Delta::Forget { seq });
        self.deliverer.count_outstanding();
    }

    /// Publishes dead letters. Answers how to go on, where there is more.
    pub(super) fn move_dead_letters(&mut self, turn: &mut TurnCtx<'_>) -> Option<DeliverOutcome> {
        let letters = self.dead_letters.as_mut()?;
        letters.look_for_answers(turn.now, turn.env, turn.effects);
        let mut lost = Vec::new();
        let mut buffer = std::mem::take(&mut self.redelivery_buf);
        let outcome = loop {
            let Some(seq) = letters.next() else { break None };
            if turn.effects.confirmations.bytes() >= SLICE || lost.len() >= MOST_LOST {
                break Some(DeliverOutcome::More);
            }
            // Its sequence may have been given to another message, which is alive.
            let awaited = self.deliverer.state_handle.awaited(seq);
            let dead = awaited.filter(|(_, redelivered)| Death::read(*redelivered).is_some());
            let Some((pending, redelivered)) = dead else {
                letters.forget(seq);
                continue;
            };
            let delivered = (redelivered, pending.timestamp);
            match self.scan.reader().get(seq, Wait::Forbidden, &mut buffer) {
                Ok(Some(message)) => letters.publish(&message, delivered, turn.now, turn.effects),
                Ok(None) => letters.forget(seq),
                Err(ReadError::WouldWait) => break Some(DeliverOutcome::Cold(seq)),
                Err(ReadError::Damaged(_)) => {
                    letters.forget(seq);
                    lost.push((seq, (pending, redelivered)));
                }
                Err(error) => {
                    let why = format!("message {seq} cannot be read: {error}");
                    letters.refused(seq, &why, turn.now, turn.effects);
                }
            }
        };
        self.redelivery_buf = buffer;
        lost.into_iter().for_each(|(seq, awaited)| self.lose_dead(seq, awaited, turn));
        outcome
    }

    /// The other stream has answered to a dead letter.
    pub fn dead_letter_answered(&mut self, msg: &MessageRef<'_>, turn: &mut TurnCtx<'_>) {
        if !self.role.leads() {
            return;
        }
        let Some(letters) = &mut self.dead_letters else { return };
        let Some(seq) = letters.answered(msg, turn.now, turn.effects) else { return };
        let awaited = self.deliverer.state_handle.awaited(seq);
        // One that is delivered anew, because the consumer was reset, is not settled by this.
        if awaited.is_some_and(|(_, redelivered)| Death::read(redelivered).is_some()) {
            self.settle_one(&of_message(seq), false, turn);
        }
    }
}

/// Acknowledgement of a message, whichever delivery of it was the last.
fn of_message(seq: Seq) -> AckSubject<'static> {
    AckSubject { consumer: b"", deliveries: 1, seq, delivery: DeliverySeq(0) }
}
