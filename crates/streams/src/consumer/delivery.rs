//! Delivering: the loop that brings messages and those who want them together.
//!
//! Budget per message: one copy into the buffer, one change for the record, no allocation, no
//! system call. The loop ends when a slice is full, so that the shard can write what it has.

use super::ack_subject::AckTokens;
use super::core::{ConsumerCore, Deliverer, DeliveryMode, TurnCtx};
use super::effects::Effects;
use super::held_effects::{HeldEffects, HeldTurn};
use super::pull::{Supply, Taker};
use super::redelivery::{ack_wait, most_deliveries, shortest_ack_wait};
use super::status::StatusMessage;
use super::stream_scan::give_back;
use myelin_jsapi::config::Retention;
use myelin_jsapi::consumer::config::{AckPolicy, ConsumerConfig, PriorityPolicy};
use myelin_store::consumer::{Death, DeliverySeq, Delta, Flushed};
use myelin_store::{Message, ReadError, Seq, Timestamp, Wait};
use myelin_wire::encode;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::collections::HashSet;

/// Bytes of messages that one turn delivers.
const SLICE: usize = 128 * 1024;
/// Changes that wait for the record, at most.
const CHANGES: usize = 4096;

/// How a turn of deliveries ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliverOutcome {
    /// Nobody wants more, or nothing may be sent for now: what changes that comes by itself.
    Rests,
    /// There is no more, and somebody wants it: to be woken when the stream has more.
    AtEnd,
    /// There is too little up to this message for the requests that wait: to be woken when the
    /// stream has more.
    TooFew(Seq),
    /// There is more than one turn should deliver.
    More,
    /// The next message is not at hand: it has to be read where one may wait.
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
    /// Receivers are behind, or it is too early.
    Hindered,
    /// There is no more.
    End,
    /// There is, but not in this turn.
    Slice,
    /// The message has to be read where one may wait.
    Cold(Seq),
}

impl Stop {
    fn outcome(self) -> DeliverOutcome {
        match self {
            Self::End => DeliverOutcome::AtEnd,
            Self::Slice => DeliverOutcome::More,
            Self::Cold(seq) => DeliverOutcome::Cold(seq),
            _ => DeliverOutcome::Rests,
        }
    }
}

/// Whether a message was delivered.
enum Given {
    Yes,
    /// Nobody is there to take it.
    NoTaker,
    /// All receivers are behind.
    Congested,
    /// Not before this time.
    Later(Timestamp),
}

impl ConsumerCore {
    /// Delivers what there is to those who want it.
    pub fn deliver(&mut self, turn: &mut TurnCtx<'_>) -> DeliverOutcome {
        if !self.role.leads() {
            return DeliverOutcome::Rests;
        }
        self.notice_removed(turn);
        turn.place = self.place();
        let moving = if self.dead_letters.is_some() { self.move_dead_letters(turn) } else { None };
        let seen = self.scan.reader().release().seq();
        let stop = self.deliver_slice(turn);
        if stop != Stop::Slice {
            self.scan.pause();
            give_back(&mut self.redelivery_buf);
        }
        self.deliverer.commit();
        debug_assert!(self.deliverer.deltas.is_empty(), "the record knows of all deliveries after a turn");
        self.deliverer.check();
        turn.place = self.place();
        if let DeliveryMode::Pull(pull) = &mut self.deliverer.mode
            && !matches!(stop, Stop::Slice | Stop::Cold(_))
            && !pull.is_empty()
        {
            // Compat: who does not want to wait is not told that there is nothing when there is,
            // but may not be sent.
            pull.sweep_requests(!matches!(stop, Stop::Full | Stop::Hindered), turn);
        }
        let outcome = match stop {
            Stop::End | Stop::NoTaker if !self.has_demand() => DeliverOutcome::Rests,
            // Those who wait for enough take it when there is more.
            Stop::NoTaker if self.deliverer.config.priority_policy == PriorityPolicy::Overflow => {
                DeliverOutcome::TooFew(seen)
            }
            stop => stop.outcome(),
        };
        moving.unwrap_or(outcome)
    }

    fn deliver_slice(&mut self, turn: &mut TurnCtx<'_>) -> Stop {
        if self.is_paused(turn.now) {
            return Stop::Paused;
        }
        if !self.has_demand() {
            return Stop::NoDemand;
        }
        if self.held_until.is_some_and(|at| at > turn.now) {
            return Stop::Hindered;
        }
        if let DeliveryMode::Pull(pull) = &mut self.deliverer.mode {
            pull.begin();
        } else if turn.env.is_congested(self.deliverer.config.deliver_subject.as_bytes()) {
            return Stop::Hindered;
        }
        // Once in a turn: what is released meanwhile is counted in the next.
        self.scan.left(turn.now);
        while turn.effects.out.bytes() < SLICE && self.deliverer.deltas.len() < CHANGES {
            let stop =
                if self.redelivery.is_empty() { self.next_new(turn) } else { self.next_redelivery(turn) };
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
        match &self.deliverer.mode {
            DeliveryMode::Pull(pull) => !pull.is_empty(),
            DeliveryMode::Push(push) => push.is_active && !push.is_stalled(),
        }
    }

    /// Whether no more may go without an acknowledgement.
    pub(super) fn is_full(&self) -> bool {
        self.is_full_with(self.deliverer.outstanding)
    }

    /// Whether it would be if so many were without one.
    #[inline]
    pub(super) fn is_full_with(&self, outstanding: u64) -> bool {
        let config = &self.deliverer.config;
        config.ack_policy != AckPolicy::None
            && u64::try_from(config.max_ack_pending).is_ok_and(|most| most > 0 && outstanding >= most)
    }

    /// Delivers the next message that nobody has seen. `None`: go on.
    fn next_new(&mut self, turn: &mut TurnCtx<'_>) -> Option<Stop> {
        if self.is_full() {
            return Some(Stop::Full);
        }
        let (redeliveries, outstanding) = (self.redelivery.len() as u64, self.deliverer.outstanding);
        let given = match self.scan.next(Wait::Forbidden) {
            Ok(Some((message, left))) => {
                let supply = Supply { pending: left + 1, redeliveries, outstanding };
                let given = self.deliverer.give(&message, 1, left, supply, turn);
                (message.seq, given)
            }
            Ok(None) => return Some(Stop::End),
            Err(error) => return Some(self.stopped(&error, turn.now)),
        };
        match given {
            (seq, Given::Yes) => {
                self.scan.count_down();
                debug_assert!(
                    seq <= self.scan.reader().release().seq(),
                    "nothing is delivered that is not released"
                );
                debug_assert!(
                    self.deliverer.outstanding == outstanding
                        || self.deliverer.outstanding == outstanding + 1,
                    "a delivery awaits one acknowledgement at most"
                );
                debug_assert!(
                    !self.is_full() || self.deliverer.outstanding.checked_sub(1) == Some(outstanding),
                    "no more awaits its acknowledgement than may"
                );
                if self.deliverer.config.ack_policy != AckPolicy::None {
                    self.redelivery.expect(turn.now.saturating_add(ack_wait(&self.deliverer.config, 0)));
                } else if self.retention != Retention::Limits {
                    turn.effects.settled.push(seq);
                }
                None
            }
            (seq, given) => {
                self.scan.put_back(seq);
                self.not_given(&given)
            }
        }
    }

    /// Tells why to stop where a message was not delivered; `None` if it was.
    fn not_given(&mut self, given: &Given) -> Option<Stop> {
        match given {
            Given::Yes => None,
            Given::NoTaker => Some(Stop::NoTaker),
            Given::Congested => Some(Stop::Hindered),
            Given::Later(at) => {
                self.held_until = Some(*at);
                self.is_held_by_disk = false;
                Some(Stop::Hindered)
            }
        }
    }

    /// Delivers the next message that is to come again.
    fn next_redelivery(&mut self, turn: &mut TurnCtx<'_>) -> Option<Stop> {
        // What was delivered in this turn is not in the record yet.
        self.deliverer.commit();
        let seq = self.redelivery.take()?;
        let (pending, redelivered) = self.deliverer.state_handle.awaited(seq)?;
        if self.stays_dead(seq, redelivered, turn) {
            return None;
        }
        let redelivered = Death::redeliveries(redelivered);
        let deliveries = redelivered + 2;
        if most_deliveries(&self.deliverer.config).is_some_and(|most| deliveries > most) {
            self.give_up((seq, pending), (deliveries - 1, deliveries), turn);
            self.deliverer.count_outstanding();
            return None;
        }
        let left = self.scan.left(turn.now);
        let supply = Supply {
            pending: left,
            redeliveries: self.redelivery.len() as u64,
            outstanding: self.deliverer.outstanding,
        };
        let mut buffer = std::mem::take(&mut self.redelivery_buf);
        let given = match self.scan.reader().get(seq, Wait::Forbidden, &mut buffer) {
            Ok(Some(message)) => Ok(self.deliverer.give(&message, deliveries, left, supply, turn)),
            // It is no more, or damaged, which is told elsewhere: nobody can acknowledge it.
            Ok(None) | Err(ReadError::Damaged(_)) => {
                self.deliverer.state_handle.apply(Delta::Forget { seq });
                self.deliverer.count_outstanding();
                Ok(Given::Yes)
            }
            Err(error) => Err(error),
        };
        self.redelivery_buf = buffer;
        match given {
            Ok(Given::Yes) => {
                let wait = ack_wait(&self.deliverer.config, redelivered + 1);
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
                // The disk's trouble: it stays pending, and comes up again when its time is over.
                let wait = ack_wait(&self.deliverer.config, redelivered);
                self.redelivery.expect(turn.now.saturating_add(wait));
                None
            }
        }
    }

    /// Tells how to go on where the next message cannot be read, or not here.
    fn stopped(&mut self, error: &ReadError, now: Timestamp) -> Stop {
        match error {
            ReadError::WouldWait => Stop::Cold(self.scan.position()),
            // A slice of a long search: nothing was found yet, and nothing is passed over.
            ReadError::More => Stop::Slice,
            ReadError::Io(_) => {
                self.hold_reads(now);
                Stop::Hindered
            }
            ReadError::Damaged(_) => {
                // A message that cannot be read is passed over: it would stop all that come behind
                // it.
                self.scan.pass_over();
                Stop::Slice
            }
        }
    }
}

/// Effects that leave later: they have to be stored before, or a group has to agree.
impl ConsumerCore {
    /// Keeps answers to acknowledgements until `position` is released, behind what waits already.
    pub fn hold_confirmations(&mut self, position: Option<Flushed>, confirmations: MessageBuf) {
        let (events, decided) = (Vec::new(), None);
        self.held.push(HeldTurn { position, out: confirmations, events, decided });
    }

    /// Whether its deliveries in a group wait until that has them.
    ///
    /// Compat: those that await no acknowledgement do not, nor where flow control is one, nor those
    /// of one replica in memory. Whoever leads after a server that has died delivers them again.
    #[must_use]
    pub fn awaits_commit(&self) -> bool {
        let config = self.config();
        let is_short_lived = !config.is_durable() && self.retention == Retention::Limits;
        let has_one_replica = config.num_replicas == 1 || config.num_replicas == 0 && is_short_lived;
        let is_acknowledged = matches!(config.ack_policy, AckPolicy::Explicit | AckPolicy::All);
        is_acknowledged && !(config.mem_storage && has_one_replica)
    }

    /// Keeps all that a turn has to say in a group until `position` is released, behind what waits
    /// already, but for deliveries that [do not wait](Self::awaits_commit). Answers whether
    /// anything does.
    pub fn hold(&mut self, position: Option<Flushed>, effects: &mut Effects, now: Timestamp) -> bool {
        let mut out = MessageBuf::default();
        let waits = self.awaits_commit();
        if waits {
            out.append(&mut effects.out);
        }
        out.append(&mut effects.confirmations);
        let events = std::mem::take(&mut effects.events);
        let is_any = !out.is_empty() || !events.is_empty();
        if is_any {
            self.held.push(HeldTurn { position, out, events, decided: waits.then_some(now) });
            self.redelivery.hold_from(self.held.first_decided());
        }
        is_any
    }

    /// Moves what is released to `effects`. Answers whether something waits.
    pub fn release_held(
        &mut self,
        is_released: impl Fn(Option<Flushed>) -> bool,
        effects: &mut Effects,
        now: Timestamp,
    ) -> bool {
        let mut is_any_sent = false;
        while let Some(mut held) = self.held.pop(&is_released) {
            effects.out.append(&mut held.out);
            effects.events.append(&mut held.events);
            if let Some(decided) = held.decided {
                let wait = shortest_ack_wait(&self.deliverer.config);
                self.redelivery.sent_late(decided, now, wait);
                is_any_sent = true;
            }
        }
        if is_any_sent {
            self.redelivery.hold_from(self.held.first_decided());
        }
        self.is_holding()
    }

    /// Whether something waits.
    #[must_use]
    pub fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Another replica is about to lead: nothing of what waits is sent. Answers the subjects of
    /// requests for messages that wait, or have theirs among what is not sent, for whoever tells
    /// them; some twice.
    pub fn leave_requests(&mut self) -> Vec<Vec<u8>> {
        let held = std::mem::take(&mut self.held);
        self.redelivery.hold_from(None);
        let DeliveryMode::Pull(pull) = &mut self.deliverer.mode else { return Vec::new() };
        let mut replies: Vec<Vec<u8>> = held.requests().map(<[u8]>::to_vec).collect();
        replies.extend(pull.leave_requests());
        replies
    }

    /// Requests that wait for messages, at most so many: where each is answered, and until when it
    /// waits.
    #[must_use]
    pub fn waiting_requests(&self, most: usize) -> Vec<(Vec<u8>, Timestamp)> {
        let DeliveryMode::Pull(pull) = &self.deliverer.mode else { return Vec::new() };
        pull.waiting().take(most).collect()
    }

    /// Another replica leads: what waits is never sent. Clients that asked for messages are told
    /// that, whether they still wait or have their messages among what is not sent.
    ///
    /// Compat: the reference's new leader tells them, which knows of each request.
    pub(super) fn give_up_leading(&mut self, turn: &mut TurnCtx<'_>) {
        self.end_requests("Leadership Change", turn);
        self.held = HeldEffects::default();
        self.redelivery.hold_from(None);
    }

    /// Ends all requests: their clients are told, whether they still wait or have their messages
    /// among what is not sent yet.
    pub(super) fn end_requests(&mut self, text: &str, turn: &mut TurnCtx<'_>) {
        let DeliveryMode::Pull(pull) = &mut self.deliverer.mode else { return };
        let mut told: HashSet<Vec<u8>> = pull.waiting_replies().map(<[u8]>::to_vec).collect();
        pull.end(text, turn);
        for reply in self.held.requests() {
            if told.insert(reply.to_vec()) {
                turn.effects.push_status(reply, &StatusMessage::Plain(409, text));
            }
        }
    }

    /// Says the last of a consumer that has ended: what waits and is released, and behind that to
    /// clients that have come since that it is gone. Answers whether something waits still.
    pub fn say_last(
        &mut self,
        text: &str,
        is_released: impl Fn(Option<Flushed>) -> bool,
        turn: &mut TurnCtx<'_>,
    ) -> bool {
        if let DeliveryMode::Pull(pull) = &mut self.deliverer.mode {
            pull.end(text, turn);
        }
        let confirmations = std::mem::take(&mut turn.effects.confirmations);
        for reply in confirmations.iter().map(|msg| msg.subject) {
            turn.effects.push_status(reply, &StatusMessage::Nobody);
        }
        let mut late = std::mem::take(&mut turn.effects.out);
        let is_waiting = self.release_held(is_released, turn.effects, turn.now);
        turn.effects.out.append(&mut late);
        is_waiting
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
        turn: &mut TurnCtx<'_>,
    ) -> Given {
        let Self { config, subjects, mode, pacer, deltas, next_delivery, outstanding, headers, .. } = self;
        let tokens = AckTokens {
            deliveries,
            seq: message.seq,
            delivery: *next_delivery,
            timestamp: message.timestamp,
            pending,
        };
        let reply = subjects.write(&tokens);
        // In `headers` or, as they were stored, in the message.
        let mut is_dressed = config.headers_only;
        if is_dressed {
            add_size(headers, message);
        }
        let payload = if config.headers_only { &b""[..] } else { message.payload };
        let size = size_of(config, message, reply, headers);
        let place = (message.seq, message.timestamp);
        if let Err(at) = pacer.check(message.timestamp, size, turn.now) {
            return Given::Later(at);
        }
        let to = match mode {
            DeliveryMode::Push(_) => config.deliver_subject.as_bytes(),
            DeliveryMode::Pull(pull) => {
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
        pacer.delivered(place, size, turn.now);
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

    /// Notes a delivery, and does what follows it.
    fn delivered(&mut self, size: i64, turn: &mut TurnCtx<'_>) {
        if let Some(&Delta::Delivered { delivery, count, .. }) = self.deltas.last() {
            let most = self.config.max_deliver;
            debug_assert_eq!(delivery.0 + 1, self.next_delivery, "deliveries are numbered without a gap");
            debug_assert!(count > 0, "a delivery counts itself");
            debug_assert!(
                most <= 0 || count <= most.unsigned_abs(),
                "nothing is delivered more often than it may"
            );
        }
        let Self { config, mode, outstanding, .. } = self;
        match mode {
            DeliveryMode::Pull(pull) => pull.served(config, turn),
            DeliveryMode::Push(push) => {
                let is_full =
                    config.max_ack_pending > 0 && *outstanding >= config.max_ack_pending.unsigned_abs();
                push.sent(config, size, is_full, turn.effects);
                push.beat_later(config, turn.now);
            }
        }
    }
}

/// Bytes that a delivery counts. `headers`: those that it has where its body is not delivered.
#[inline]
pub(super) fn size_of(config: &ConsumerConfig, message: &Message<'_>, reply: &[u8], headers: &[u8]) -> i64 {
    let shown =
        if config.headers_only { headers.len() } else { message.headers.len() + message.payload.len() };
    (message.subject.len() + reply.len() + shown) as i64
}

/// Puts the headers of a message whose body is not delivered into the buffer: with its size.
pub(super) fn add_size(headers: &mut Vec<u8>, message: &Message<'_>) {
    begin(headers, message.headers);
    headers.extend_from_slice(b"Nats-Msg-Size: ");
    encode::number(headers, message.payload.len());
    headers.extend_from_slice(b"\r\n\r\n");
}

/// Adds the id of the pinned client to the headers in the buffer. `is_begun`: the buffer holds the
/// message's own already.
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
