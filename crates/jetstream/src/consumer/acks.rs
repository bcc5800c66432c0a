//! Acknowledgements: what clients say of what they got.
//!
//! `+ACK` and nothing at all settle a message, `-NAK` wants it again (at once or later), `+WPI` asks for more time, `+TERM` wants
//! it no more, and `+NXT` acknowledges and asks for the next. Who gives a reply subject hears when that is stored.

use super::ack_subject::AckSubject;
use super::config::AckPolicy;
use super::core::{ConsumerCore, Mode, Turn};
use super::effects::{Answered, Event};
use super::redelivery::ack_wait;
use super::status::Status;
use crate::config::Retention;
use crate::json::{self, object};
use crate::read::is_too_high;
use crate::stream::duration;
use myelin_broker::MessageRef;
use myelin_store::Seq;
use myelin_store::consumer::{Applied, DeliverySeq, Delta, Pending};
use myelin_wire::header;

/// What the body of an acknowledgement says.
enum Word<'a> {
    Ack,
    Next(&'a [u8]),
    Nak(&'a [u8]),
    Progress,
    Term(&'a [u8]),
    /// Compat: is answered all the same.
    Other,
}

impl<'a> Word<'a> {
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
    pub fn acknowledge(&mut self, ack: &AckSubject<'_>, msg: &MessageRef<'_>, turn: &mut Turn<'_>) {
        if matches!(self.hands.config.ack_policy, AckPolicy::None | AckPolicy::FlowControl) {
            // Compat: nobody hears it.
            return;
        }
        let is_answered = match Word::read(msg.payload) {
            Word::Ack => self.settle(ack, true, turn),
            Word::Next(body) => {
                self.settle(ack, true, turn);
                self.ask(msg.reply, body, turn);
                return;
            }
            Word::Nak(how) => {
                self.want_again(ack, how, turn);
                true
            }
            Word::Progress => {
                self.postpone(ack.seq, turn.now);
                true
            }
            Word::Term(reason) => {
                let is_answered = self.settle(ack, false, turn);
                let reason = String::from_utf8_lossy(reason.trim_ascii()).into_owned();
                turn.effects.events.push(Event::Terminated(answered(ack), reason));
                is_answered
            }
            Word::Other => true,
        };
        if is_answered && ack.seq > 0 && !msg.reply.is_empty() {
            turn.effects.confirmations.push(MessageRef { subject: msg.reply, ..MessageRef::default() });
        }
    }

    /// A pull request, as it comes from a client.
    pub fn request(&mut self, msg: &MessageRef<'_>, turn: &mut Turn<'_>) {
        let is_pull = matches!(self.hands.mode, Mode::Pull(_));
        let level = header::get(msg.headers, b"Nats-Required-Api-Level");
        if is_pull && !msg.reply.is_empty() && is_too_high(level) {
            return turn.effects.say(msg.reply, &Status::Plain(412, "Required Api Level"));
        }
        self.ask(msg.reply, msg.payload, turn);
    }

    /// A pull request.
    pub fn ask(&mut self, reply: &[u8], body: &[u8], turn: &mut Turn<'_>) {
        if reply.is_empty() {
            return;
        }
        turn.place = self.place();
        let supply = self.supply(turn);
        match &mut self.hands.mode {
            Mode::Pull(pull) => pull.ask(&self.hands.config, (reply, body), supply, turn),
            Mode::Push(_) => {
                let status = Status::Plain(409, "Consumer is push based");
                turn.effects.say(reply, &status);
            }
        }
    }

    /// An answer to flow control, which may acknowledge something too.
    pub fn flow(&mut self, msg: &MessageRef<'_>, turn: &mut Turn<'_>) {
        let Mode::Push(push) = &mut self.hands.mode else { return };
        if !push.answered(msg.subject) || self.hands.config.ack_policy != AckPolicy::FlowControl {
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
    fn settle(&mut self, ack: &AckSubject<'_>, is_sampled: bool, turn: &mut Turn<'_>) -> bool {
        let policy = self.hands.config.ack_policy;
        // Compat: what was never delivered is not acknowledged; with flow control the consumer may be behind its client.
        if ack.seq >= self.source.position() && !self.hands.config.flow_control {
            return false;
        }
        match policy {
            AckPolicy::None => return false,
            AckPolicy::Explicit => self.settle_one(ack, is_sampled, turn),
            AckPolicy::All | AckPolicy::FlowControl => self.settle_through(ack, turn),
        }
        true
    }

    fn settle_one(&mut self, ack: &AckSubject<'_>, is_sampled: bool, turn: &mut Turn<'_>) {
        let mut states = self.hands.record.lock();
        let id = self.hands.record.id();
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
        self.hands.outstanding = self.hands.outstanding.saturating_sub(1);
        if is_sampled && self.is_sampled(turn) {
            turn.effects.events.push(Event::Acknowledged(answered(ack), pending.timestamp));
        }
    }

    fn settle_through(&mut self, ack: &AckSubject<'_>, turn: &mut Turn<'_>) {
        let floor = self.hands.record.read(|state| state.ack_floor());
        if ack.delivery <= floor.consumer || ack.seq <= floor.stream {
            return;
        }
        let (keeps_all, seqs) = (self.retention == Retention::Limits, &mut turn.effects.settled);
        let through = self.hands.record.read(|state| {
            let through = state.pending().iter().map(|(seq, _)| seq).take_while(|seq| *seq <= ack.seq);
            if !keeps_all {
                seqs.extend(through);
                return seqs.last().copied();
            }
            // The usual case needs no look through all.
            state.pending().get(ack.seq).map(|_| ack.seq).or_else(|| through.last())
        });
        self.redelivery.retain(|seq| seq > ack.seq);
        // The one that the client names may have been given up: then those before it count.
        let Some(seq) = through else { return };
        self.hands.record.apply(Delta::Acknowledged { delivery: ack.delivery, seq });
        self.hands.count_outstanding();
        self.note_ack(turn);
    }

    fn note_ack(&mut self, turn: &Turn<'_>) {
        self.hands.last_acked = Some(turn.now);
        if let Mode::Pull(pull) = &mut self.hands.mode {
            // It may have been counted as used until this was due.
            pull.last_used = pull.last_used.min(turn.now);
        }
    }

    fn is_sampled(&mut self, turn: &Turn<'_>) -> bool {
        let text = self.hands.config.sample_freq.trim_end_matches('%');
        let percent: u64 = text.parse().unwrap_or(0);
        // Any number will do: the clock's last digits are as good as thrown.
        percent >= 100 || (percent > 0 && turn.now.unsigned_abs() / 7 % 100 < percent)
    }

    fn pending(&self, seq: Seq) -> Option<Pending> {
        self.hands.record.read(|state| state.pending().get(seq))
    }

    /// A client wants a message again, at once or after a while.
    fn want_again(&mut self, ack: &AckSubject<'_>, how: &[u8], turn: &mut Turn<'_>) {
        let floor = self.hands.record.read(|state| state.ack_floor().consumer);
        if ack.delivery <= floor || ack.delivery.0 > self.hands.next_delivery {
            return;
        }
        let Some(pending) = self.pending(ack.seq) else { return };
        turn.effects.events.push(Event::Nak(answered(ack)));
        let Some(delay) = delay(how.trim_ascii()) else {
            // Compat: one that cannot be read is none.
            return self.redelivery.add(ack.seq);
        };
        self.redelivery.remove(ack.seq);
        // It is due when its time is over: the record is told of a delivery so long ago that it is then.
        let wait = self.hands.config.ack_wait;
        let timestamp = turn.now.saturating_sub(wait).saturating_add(delay);
        self.touch(ack.seq, pending, timestamp);
        // With pauses that grow, or shrink, that is not in `delay` from now.
        let due = timestamp.saturating_add(ack_wait(&self.hands.config, self.redelivered(ack.seq)));
        self.redelivery.expect(due);
    }

    /// A client needs more time.
    fn postpone(&mut self, seq: Seq, now: i64) {
        if let Some(pending) = self.pending(seq) {
            self.touch(seq, pending, now);
            let wait = ack_wait(&self.hands.config, self.redelivered(seq));
            self.redelivery.expect(now.saturating_add(wait));
        }
    }

    /// How often a message was delivered beyond the first time.
    fn redelivered(&self, seq: Seq) -> u64 {
        self.hands.record.read(|state| state.redelivered().get(&seq).copied().unwrap_or(0))
    }

    fn touch(&mut self, seq: Seq, pending: Pending, timestamp: i64) {
        self.hands.record.apply(Delta::Delivered { delivery: pending.delivery, seq, count: 1, timestamp });
    }
}

fn answered(ack: &AckSubject<'_>) -> Answered {
    Answered { delivery: ack.delivery, seq: ack.seq, deliveries: ack.deliveries }
}

/// What a `-NAK` may say in an object.
#[derive(Default)]
struct NakOptions {
    delay: i64,
}

object! { NakOptions, "ConsumerNakOptions":
    "delay" delay "time.Duration",
}

/// The delay that a `-NAK` asks for: nanoseconds in an object, or a duration as Go writes it.
fn delay(how: &[u8]) -> Option<i64> {
    if how.first() != Some(&b'{') {
        return duration(how);
    }
    let mut options = NakOptions::default();
    json::lenient(how, "server.ConsumerNakOptions", &mut options).ok().map(|()| options.delay)
}
