//! Delivering: the loop that brings messages and those who want them together.
//!
//! Budget per message: one copy into the buffer, one change for the record, no allocation, no system call. The loop ends when
//! a slice is full, so that the shard can write what it has.

use super::ack_subject::Named;
use super::config::{AckPolicy, PriorityPolicy};
use super::core::{ConsumerCore, Deliverer, Mode, Turn};
use super::effects::Event;
use super::pull::{Supply, Taker};
use super::redelivery::ack_wait;
use super::stream_scan::give_back;
use crate::config::Retention;
use myelin_broker::MessageRef;
use myelin_store::consumer::{DeliverySeq, Delta};
use myelin_store::{Message, ReadError, Seq, Timestamp, Wait};
use myelin_wire::encode;

/// Bytes of messages that one turn delivers.
const SLICE: usize = 128 * 1024;
/// Changes that wait for the record, at most.
const CHANGES: usize = 4096;
/// Nanoseconds after which a read that the operating system refused is tried again.
const RETRY: i64 = 1_000_000_000;

/// How a turn of deliveries ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Nobody wants more, or nothing may be sent for now: what changes that comes by itself.
    Rests,
    /// There is no more, and somebody wants it: to be woken when the stream has more.
    AtEnd,
    /// What there is up to this message is too little for those who wait: to be woken when the stream has more.
    TooFew(Seq),
    /// There is more than one turn should deliver.
    More,
    /// What comes next is not at hand: it has to be read where one may wait.
    Cold(Seq),
}

/// Why no more is delivered for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// Nobody wants more.
    NoDemand,
    /// The consumer is paused.
    Paused,
    /// Too much awaits its acknowledgement.
    Full,
    /// Nobody of those who want more may have what comes next.
    NoTaker,
    /// Those who may are behind, or it is too early.
    Hindered,
    /// There is no more.
    End,
    /// There is, but not in this turn.
    Slice,
    /// It has to be read where one may wait.
    Cold(Seq),
}

impl Stop {
    fn pace(self) -> Pace {
        match self {
            Self::End => Pace::AtEnd,
            Self::Slice => Pace::More,
            Self::Cold(seq) => Pace::Cold(seq),
            _ => Pace::Rests,
        }
    }
}

/// Whether a message was delivered.
enum Given {
    Yes,
    /// Nobody is there to take it.
    NoTaker,
    /// Who is there is behind.
    Congested,
    /// Not before this time.
    Later(Timestamp),
}

impl ConsumerCore {
    /// Delivers what there is to those who want it.
    pub fn deliver(&mut self, turn: &mut Turn<'_>) -> Pace {
        self.notice_removed(turn);
        turn.place = self.place();
        let seen = self.source.reader().release().seq();
        let stop = self.deliver_slice(turn);
        if stop != Stop::Slice {
            self.source.pause();
            give_back(&mut self.again);
        }
        self.hands.commit();
        turn.place = self.place();
        if let Mode::Pull(pull) = &mut self.hands.mode
            && !matches!(stop, Stop::Slice | Stop::Cold(_))
            && !pull.is_empty()
        {
            // Compat: who does not want to wait is not told that there is nothing when there is, but may not be sent.
            pull.look_through(!matches!(stop, Stop::Full | Stop::Hindered), turn);
        }
        match stop {
            Stop::End | Stop::NoTaker if !self.has_demand() => Pace::Rests,
            // Those who wait for enough take it when there is more.
            Stop::NoTaker if self.hands.config.priority_policy == PriorityPolicy::Overflow => {
                Pace::TooFew(seen)
            }
            stop => stop.pace(),
        }
    }

    fn deliver_slice(&mut self, turn: &mut Turn<'_>) -> Stop {
        if self.is_paused(turn.now) {
            return Stop::Paused;
        }
        if !self.has_demand() {
            return Stop::NoDemand;
        }
        if self.held_until.is_some_and(|at| at > turn.now) {
            return Stop::Hindered;
        }
        if let Mode::Pull(pull) = &mut self.hands.mode {
            pull.begin();
        } else if turn.world.is_congested(self.hands.config.deliver_subject.as_bytes()) {
            return Stop::Hindered;
        }
        // Once in a turn: what is released meanwhile is counted in the next.
        self.source.left();
        while turn.effects.out.bytes() < SLICE && self.hands.deltas.len() < CHANGES {
            let stop = if self.redelivery.is_empty() { self.next_new(turn) } else { self.next_again(turn) };
            if let Some(stop) = stop {
                return stop;
            }
            if !self.has_demand() {
                return Stop::NoDemand;
            }
        }
        Stop::Slice
    }

    /// Whether somebody wants messages who may have them.
    fn has_demand(&self) -> bool {
        match &self.hands.mode {
            Mode::Pull(pull) => !pull.is_empty(),
            Mode::Push(push) => push.is_active && !push.is_stalled(),
        }
    }

    /// Whether no more may go without an acknowledgement.
    pub(super) fn is_full(&self) -> bool {
        let config = &self.hands.config;
        config.ack_policy != AckPolicy::None
            && u64::try_from(config.max_ack_pending)
                .is_ok_and(|most| most > 0 && self.hands.outstanding >= most)
    }

    /// Delivers the next message that nobody has seen. `None`: go on.
    fn next_new(&mut self, turn: &mut Turn<'_>) -> Option<Stop> {
        if self.is_full() {
            return Some(Stop::Full);
        }
        let (again, outstanding) = (self.redelivery.len() as u64, self.hands.outstanding);
        let given = match self.source.next(Wait::Forbidden) {
            Ok(Some((message, left))) => {
                let supply = Supply { pending: left + 1, again, outstanding };
                let given = self.hands.give(&message, 1, left, supply, turn);
                (message.seq, given)
            }
            Ok(None) => return Some(Stop::End),
            Err(error) => return Some(self.stopped(&error, turn.now)),
        };
        match given {
            (seq, Given::Yes) => {
                self.source.count_down();
                if self.hands.config.ack_policy != AckPolicy::None {
                    self.redelivery.expect(turn.now.saturating_add(ack_wait(&self.hands.config, 0)));
                } else if self.retention != Retention::Limits {
                    turn.effects.settled.push(seq);
                }
                None
            }
            (seq, given) => {
                self.source.put_back(seq);
                self.not_given(&given)
            }
        }
    }

    /// What came next was not delivered.
    fn not_given(&mut self, given: &Given) -> Option<Stop> {
        match given {
            Given::Yes => None,
            Given::NoTaker => Some(Stop::NoTaker),
            Given::Congested => Some(Stop::Hindered),
            Given::Later(at) => {
                self.held_until = Some(*at);
                Some(Stop::Hindered)
            }
        }
    }

    /// Delivers the next message that is to come again.
    fn next_again(&mut self, turn: &mut Turn<'_>) -> Option<Stop> {
        // What was delivered in this turn is not in the record yet.
        self.hands.commit();
        let seq = self.redelivery.take()?;
        let (pending, redelivered) = self
            .hands
            .record
            .read(|state| (state.pending().get(seq), state.redelivered().get(&seq).copied().unwrap_or(0)));
        let pending = pending?;
        let deliveries = redelivered + 2;
        let most = u64::try_from(self.hands.config.max_deliver).unwrap_or(0);
        if most > 0 && deliveries > most {
            turn.effects.events.push(Event::MaxDeliveries { seq, deliveries: deliveries - 1 });
            let (delivery, timestamp) = (pending.delivery, pending.timestamp);
            self.hands.record.apply(Delta::Delivered { delivery, seq, count: deliveries, timestamp });
            self.hands.count_outstanding();
            return None;
        }
        let left = self.source.left();
        let supply = Supply {
            pending: left,
            again: self.redelivery.len() as u64,
            outstanding: self.hands.outstanding,
        };
        let mut buffer = std::mem::take(&mut self.again);
        let given = match self.source.reader().get(seq, Wait::Forbidden, &mut buffer) {
            Ok(Some(message)) => Ok(self.hands.give(&message, deliveries, left, supply, turn)),
            // It is no more: nobody can acknowledge it, and nobody has to.
            Ok(None) => {
                self.hands.record.apply(Delta::Forget { seq });
                self.hands.count_outstanding();
                Ok(Given::Yes)
            }
            Err(error) => Err(error),
        };
        self.again = buffer;
        match given {
            Ok(Given::Yes) => {
                let wait = ack_wait(&self.hands.config, redelivered + 1);
                self.redelivery.expect(turn.now.saturating_add(wait));
                None
            }
            Ok(given) => {
                self.redelivery.put_back(seq);
                self.not_given(&given)
            }
            Err(ReadError::WouldWait) => {
                self.redelivery.put_back(seq);
                Some(Stop::Cold(seq))
            }
            Err(_) => {
                // Damaged: it stays pending, and comes up again when its time is over.
                let wait = ack_wait(&self.hands.config, redelivered);
                self.redelivery.expect(turn.now.saturating_add(wait));
                None
            }
        }
    }

    /// What is read next cannot be, or not here.
    fn stopped(&mut self, error: &ReadError, now: Timestamp) -> Stop {
        match error {
            ReadError::WouldWait => Stop::Cold(self.source.position()),
            ReadError::Unreleased => Stop::End,
            // A slice of a long search: nothing was found yet, and nothing is passed over.
            ReadError::More => Stop::Slice,
            ReadError::Io(_) => {
                self.held_until = Some(now.saturating_add(RETRY));
                Stop::Hindered
            }
            ReadError::Damaged(_) => {
                // A message that cannot be read is passed over: it would stop all that come behind it.
                self.source.pass_over();
                Stop::Slice
            }
        }
    }
}

impl Deliverer {
    /// Delivers one message, if somebody takes it.
    fn give(
        &mut self,
        message: &Message<'_>,
        deliveries: u64,
        pending: u64,
        supply: Supply,
        turn: &mut Turn<'_>,
    ) -> Given {
        let Self { config, subjects, mode, brake, deltas, next_delivery, outstanding, headers, .. } = self;
        let named = Named {
            deliveries,
            seq: message.seq,
            delivery: *next_delivery,
            timestamp: message.timestamp,
            pending,
        };
        let reply = subjects.write(&named);
        // In `headers` or, as they were stored, in the message.
        let mut is_dressed = config.headers_only;
        if is_dressed {
            add_size(headers, message);
        }
        let payload = if config.headers_only { &b""[..] } else { message.payload };
        let shown = if is_dressed { headers.len() } else { message.headers.len() };
        let size = (message.subject.len() + reply.len() + shown + payload.len()) as i64;
        let place = (message.seq, message.timestamp);
        if let Err(at) = brake.hold(message.timestamp, size, turn.now) {
            return Given::Later(at);
        }
        let to = match mode {
            Mode::Push(_) => config.deliver_subject.as_bytes(),
            Mode::Pull(pull) => {
                match pull.choose(config, size, supply, turn) {
                    Taker::Front => {}
                    Taker::Nobody => return Given::NoTaker,
                    Taker::Congested => return Given::Congested,
                }
                if let Some(pin) = &pull.pin {
                    add_pin(headers, message, &pin.id, is_dressed);
                    is_dressed = true;
                }
                pull.taker()
            }
        };
        brake.delivered(place, size, turn.now);
        let headers = if is_dressed { &headers[..] } else { message.headers };
        turn.effects.out.push_framed(MessageRef { to, subject: message.subject, reply, headers, payload });
        let delivered = Delta::Delivered {
            delivery: DeliverySeq(*next_delivery),
            seq: message.seq,
            count: deliveries,
            timestamp: turn.now,
        };
        if let Some(Delta::Delivered { seq, count: 1, .. }) = deltas.last()
            && (config.ack_policy, deliveries) == (AckPolicy::None, 1)
            && *seq < message.seq
        {
            // Where nothing is acknowledged, the last delivery says all there is to know.
            deltas.pop();
        }
        deltas.push(delivered);
        *next_delivery += 1;
        if config.ack_policy != AckPolicy::None && deliveries == 1 {
            *outstanding += 1;
        }
        self.last_delivered = Some(turn.now);
        self.delivered(size, turn);
        Given::Yes
    }

    /// What follows a delivery.
    fn delivered(&mut self, size: i64, turn: &mut Turn<'_>) {
        let Self { config, mode, outstanding, .. } = self;
        match mode {
            Mode::Pull(pull) => pull.served(config, turn),
            Mode::Push(push) => {
                let is_full =
                    config.max_ack_pending > 0 && *outstanding >= config.max_ack_pending.unsigned_abs();
                push.sent(config, size, is_full, turn.effects);
                push.beat_later(config, turn.now);
            }
        }
    }
}

/// Puts the headers of a message whose body is not delivered into the buffer: with its size.
fn add_size(headers: &mut Vec<u8>, message: &Message<'_>) {
    begin(headers, message.headers);
    headers.extend_from_slice(b"Nats-Msg-Size: ");
    encode::number(headers, message.payload.len());
    headers.extend_from_slice(b"\r\n\r\n");
}

/// The same for a message to the chosen client of a group. `is_begun`: the buffer holds them already.
fn add_pin(headers: &mut Vec<u8>, message: &Message<'_>, id: &str, is_begun: bool) {
    if is_begun {
        headers.truncate(headers.len() - 2);
    } else {
        begin(headers, message.headers);
    }
    headers.extend_from_slice(b"Nats-Pin-Id: ");
    headers.extend_from_slice(id.as_bytes());
    headers.extend_from_slice(b"\r\n\r\n");
}

/// Headers without their end.
fn begin(headers: &mut Vec<u8>, stored: &[u8]) {
    headers.clear();
    match stored.strip_suffix(b"\r\n") {
        Some(stored) => headers.extend_from_slice(stored),
        None => headers.extend_from_slice(b"NATS/1.0\r\n"),
    }
}
