//! Acknowledgements: what clients say of what they got.
//!
//! `+ACK` and nothing at all settle a message, `-NAK` wants it again (at once or later), `+WPI`
//! asks for more time, `+TERM` wants it no more, and `+NXT` acknowledges and asks for the next. Who
//! gives a reply subject hears when that is stored.

use super::ack_subject::AckSubject;
use super::core::{ConsumerCore, DeliveryMode, TurnCtx};
use super::effects::{AckedDelivery, ConsumerEvent};
use super::redelivery::ack_wait;
use super::status::StatusMessage;
use crate::read::is_too_high;
use myelin_jsapi::config::Retention;
use myelin_jsapi::consumer::config::AckPolicy;
use myelin_jsapi::consumer::nak_delay;
use myelin_store::consumer::{Applied, Death, DeliverySeq, Delta, Pending};
use myelin_store::{Seq, Timestamp};
use myelin_wire::header;
use myelin_wire::message_buf::MessageRef;

/// Kind of an acknowledgement, as its body says.
enum AckKind<'a> {
    Ack,
    Next(&'a [u8]),
    Nak(&'a [u8]),
    Progress,
    Term(&'a [u8]),
    /// Compat: is answered all the same.
    Other,
}

impl<'a> AckKind<'a> {
    fn read(body: &'a [u8]) -> Self {
        match body {
            b"" | b"+ACK" | b"+OK" => return Self::Ack,
            b"+WPI" => return Self::Progress,
            _ => {}
        }
        if let Some(rest) = body.strip_prefix(b"+NXT") {
            Self::Next(rest)
        } else if let Some(rest) = body.strip_prefix(b"-NAK") {
            Self::Nak(rest)
        } else if let Some(rest) = body.strip_prefix(b"+TERM") {
            Self::Term(rest)
        } else {
            Self::Other
        }
    }
}

impl ConsumerCore {
    /// Does what an acknowledgement says.
    pub fn acknowledge(&mut self, ack: &AckSubject<'_>, msg: &MessageRef<'_>, turn: &mut TurnCtx<'_>) {
        if matches!(self.deliverer.config.ack_policy, AckPolicy::None | AckPolicy::FlowControl)
            || !self.role.leads()
        {
            // Compat: nobody hears it.
            return;
        }
        self.note_use(turn.now);
        let is_answered = match AckKind::read(msg.payload) {
            AckKind::Ack => self.settle(ack, true, turn),
            AckKind::Next(body) => {
                self.settle(ack, true, turn);
                self.ask(msg.reply, body, turn);
                return;
            }
            AckKind::Nak(how) => {
                self.nak(ack, how, turn);
                true
            }
            AckKind::Progress => {
                self.postpone(ack.seq, turn.now);
                true
            }
            AckKind::Term(reason) => {
                let reason = String::from_utf8_lossy(reason.trim_ascii()).into_owned();
                let is_dead = self.note_death(ack.seq, Death::Terminated, &reason);
                let is_answered = is_dead || self.settle(ack, false, turn);
                turn.effects.events.push(ConsumerEvent::Terminated(answered(ack), reason));
                is_answered
            }
            AckKind::Other => true,
        };
        if is_answered && ack.seq > 0 && !msg.reply.is_empty() {
            turn.effects.confirmations.push(MessageRef { subject: msg.reply, ..MessageRef::default() });
        }
    }

    /// A pull request, as it comes from a client.
    pub fn request(&mut self, msg: &MessageRef<'_>, turn: &mut TurnCtx<'_>) {
        let is_pull = matches!(self.deliverer.mode, DeliveryMode::Pull(_));
        let level = header::get(msg.headers, b"Nats-Required-Api-Level");
        if is_pull && !msg.reply.is_empty() && is_too_high(level) {
            return turn.effects.push_status(msg.reply, &StatusMessage::Plain(412, "Required Api Level"));
        }
        self.ask(msg.reply, msg.payload, turn);
    }

    /// A pull request.
    pub fn ask(&mut self, reply: &[u8], body: &[u8], turn: &mut TurnCtx<'_>) {
        if reply.is_empty() || !self.role.leads() {
            return;
        }
        turn.place = self.place();
        let supply = self.supply(turn);
        match &mut self.deliverer.mode {
            DeliveryMode::Pull(pull) => pull.ask(&self.deliverer.config, (reply, body), supply, turn),
            DeliveryMode::Push(_) => {
                let status = StatusMessage::Plain(409, "Consumer is push based");
                turn.effects.push_status(reply, &status);
            }
        }
    }

    /// An answer to flow control, which may acknowledge something too.
    pub fn flow(&mut self, msg: &MessageRef<'_>, turn: &mut TurnCtx<'_>) {
        let DeliveryMode::Push(push) = &mut self.deliverer.mode else { return };
        if !push.answered(msg.subject) || self.deliverer.config.ack_policy != AckPolicy::FlowControl {
            return;
        }
        let number = |key: &[u8]| {
            let text = header::get(msg.headers, key).and_then(|text| std::str::from_utf8(text).ok());
            text.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0)
        };
        let (seq, delivery) = (number(b"Nats-Last-Stream"), number(b"Nats-Last-Consumer"));
        if seq > 0 {
            let ack = AckSubject { consumer: b"", deliveries: 1, seq, delivery: DeliverySeq(delivery) };
            self.settle(&ack, false, turn);
        }
    }

    /// Settles a message. Answers whether its client hears of it.
    fn settle(&mut self, ack: &AckSubject<'_>, is_sampled: bool, turn: &mut TurnCtx<'_>) -> bool {
        let policy = self.deliverer.config.ack_policy;
        // Compat: what was never delivered is not acknowledged; with flow control the consumer may
        // be behind its client.
        if ack.seq >= self.scan.position() && !self.deliverer.config.flow_control {
            return false;
        }
        match policy {
            AckPolicy::None => return false,
            AckPolicy::Explicit => self.settle_one(ack, is_sampled, turn),
            AckPolicy::All | AckPolicy::FlowControl => self.settle_through(ack, turn),
        }
        true
    }

    pub(super) fn settle_one(&mut self, ack: &AckSubject<'_>, is_sampled: bool, turn: &mut TurnCtx<'_>) {
        let mut states = self.deliverer.state_handle.lock();
        let id = self.deliverer.state_handle.id();
        let pending = states.state(id).and_then(|state| state.pending().get(ack.seq));
        // Whatever delivery the client names: it means the message.
        let delivery = pending.map_or(ack.delivery, |pending| pending.delivery);
        // One that was removed knows nothing.
        let applied = states.apply_one(id, Delta::Acknowledged { delivery, seq: ack.seq });
        drop(states);
        self.redelivery.remove(ack.seq);
        // Compat: also of what nobody waited for.
        self.note_ack(turn);
        if applied != Ok(Applied::Changed) {
            return;
        }
        // Also one that was given up, and still counted.
        if self.retention != Retention::Limits {
            turn.effects.settled.push(ack.seq);
        }
        let Some(pending) = pending else { return };
        debug_assert!(self.deliverer.outstanding > 0, "what awaited its acknowledgement was counted");
        debug_assert!(self.pending(ack.seq).is_none(), "what is acknowledged awaits nothing");
        self.deliverer.outstanding = self.deliverer.outstanding.saturating_sub(1);
        if is_sampled && self.is_sampled(turn) {
            turn.effects.events.push(ConsumerEvent::Acknowledged(answered(ack), pending.timestamp));
        }
    }

    fn settle_through(&mut self, ack: &AckSubject<'_>, turn: &mut TurnCtx<'_>) {
        let floor = self.deliverer.state_handle.read(|state| state.ack_floor());
        if ack.delivery <= floor.consumer || ack.seq <= floor.stream {
            return;
        }
        let (keeps_all, seqs) = (self.retention == Retention::Limits, &mut turn.effects.settled);
        let through = self.deliverer.state_handle.read(|state| {
            let through = state.pending().iter().map(|(seq, _)| seq).take_while(|seq| *seq <= ack.seq);
            if !keeps_all {
                // Those of earlier acknowledgements stand before them.
                let before = seqs.len();
                seqs.extend(through);
                return seqs[before..].last().copied();
            }
            // The usual case needs no look through all.
            state.pending().get(ack.seq).map(|_| ack.seq).or_else(|| through.last())
        });
        self.redelivery.retain(|seq| seq > ack.seq);
        // The one that the client names may have been given up: then those before it count.
        let Some(seq) = through else { return };
        debug_assert!(
            seq > floor.stream && seq <= ack.seq,
            "an acknowledgement is for what was delivered since the last"
        );
        self.deliverer.state_handle.apply(Delta::Acknowledged { delivery: ack.delivery, seq });
        self.deliverer.count_outstanding();
        debug_assert!(self.pending(seq).is_none(), "what is acknowledged awaits nothing");
        self.note_ack(turn);
    }

    fn note_ack(&mut self, turn: &TurnCtx<'_>) {
        self.deliverer.last_acked = Some(turn.now);
    }

    /// A client works on what it got: the consumer is used, also by one that does not listen any
    /// more.
    ///
    /// Compat: whatever the acknowledgement says, and of which message.
    fn note_use(&mut self, now: Timestamp) {
        match &mut self.deliverer.mode {
            // It may have been counted as used until this was due.
            DeliveryMode::Pull(pull) => pull.last_used = now,
            DeliveryMode::Push(push) => push.inactive_since = push.inactive_since.map(|_| now),
        }
    }

    fn is_sampled(&mut self, turn: &TurnCtx<'_>) -> bool {
        let text = self.deliverer.config.sample_freq.trim_end_matches('%');
        let percent: u64 = text.parse().unwrap_or(0);
        // Any number will do: the clock's last digits are as good as thrown.
        percent >= 100 || (percent > 0 && turn.now.unsigned_abs() / 7 % 100 < percent)
    }

    fn pending(&self, seq: Seq) -> Option<Pending> {
        self.deliverer.state_handle.read(|state| state.pending().get(seq))
    }

    /// A client wants a message again, at once or after a while.
    fn nak(&mut self, ack: &AckSubject<'_>, how: &[u8], turn: &mut TurnCtx<'_>) {
        let floor = self.deliverer.state_handle.read(|state| state.ack_floor().consumer);
        if ack.delivery <= floor || ack.delivery.0 > self.deliverer.next_delivery {
            return;
        }
        let Some((pending, redelivered)) = self.deliverer.state_handle.awaited(ack.seq) else { return };
        if self.is_kept_dead(redelivered) {
            return;
        }
        turn.effects.events.push(ConsumerEvent::Nak(answered(ack)));
        // Its own pause is left out where the client asks for another.
        let pause = self.redelivery.pause(ack.seq, redelivered);
        let delay = match nak_delay(how.trim_ascii()) {
            Some(delay) => delay.saturating_sub(pause.unwrap_or(0)),
            None if pause.is_some_and(|pause| pause > 0) => 0,
            None => {
                // Compat: one that cannot be read is none.
                self.redelivery.add(ack.seq);
                return self.note_exhausted(&[ack.seq], turn);
            }
        };
        self.redelivery.remove(ack.seq);
        // It is due when its time is over: the record is told of a delivery so long ago that it is
        // then.
        let wait = self.deliverer.config.ack_wait;
        let timestamp = turn.now.saturating_sub(wait).saturating_add(delay);
        self.touch(ack.seq, pending, timestamp);
        // With pauses that grow, or shrink, that is not in `delay` from now.
        let wait = ack_wait(&self.deliverer.config, redelivered);
        self.redelivery.expect(timestamp.saturating_add(wait).saturating_add(pause.unwrap_or(0)));
    }

    /// A client needs more time.
    fn postpone(&mut self, seq: Seq, now: i64) {
        if let Some((pending, redelivered)) = self.deliverer.state_handle.awaited(seq) {
            self.touch(seq, pending, now);
            let wait = ack_wait(&self.deliverer.config, redelivered);
            self.redelivery.expect(now.saturating_add(wait));
        }
    }

    fn touch(&mut self, seq: Seq, pending: Pending, timestamp: i64) {
        self.deliverer.state_handle.apply(Delta::Delivered {
            delivery: pending.delivery,
            seq,
            count: 1,
            timestamp,
        });
    }
}

fn answered(ack: &AckSubject<'_>) -> AckedDelivery {
    AckedDelivery { delivery: ack.delivery, seq: ack.seq, deliveries: ack.deliveries }
}
