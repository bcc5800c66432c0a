//! Why a consumer delivers nothing, or less than it could: the questions of the loop of deliveries
//! (`delivery`), asked in its order, with the numbers.
//!
//! Sends nothing, takes no request away and moves nothing on. That it says what the loop does is
//! held by the consumer's twin (`tests/twin.rs`), which compares the two before each turn.

use super::ack_subject::AckTokens;
use super::core::{ConsumerCore, DeliveryMode, TurnCtx};
use super::delivery::{add_size, size_of};
use super::effects::{Env, SlowReceiver};
use super::pull::{Outlook, Pull, Supply};
use super::push::Push;
use super::redelivery::most_deliveries;
use myelin_jsapi::api::why::{ConsumerCause, Holds};
use myelin_store::consumer::Death;
use myelin_store::{Message, ReadError, Seq, Timestamp, Wait};

/// Messages that await their acknowledgement and are looked at one by one, at most.
const MOST_PENDING: usize = 100_000;

/// Place to which the loop would come.
struct Ahead {
    next: NextUp,
    /// Messages that await their acknowledgement then: the loop gives up those that were delivered
    /// often enough, and forgets those that are gone.
    outstanding: u64,
}

/// Message that the loop would deliver next.
enum NextUp {
    /// Readable at once.
    Read(MessageSize),
    /// To be read where one may wait, or the disk could not be read.
    Unread { seq: Seq, is_again: bool },
    /// There is none.
    End,
}

/// Facts about a message by which it is decided whether it goes.
struct MessageSize {
    stored: Timestamp,
    /// Bytes that its delivery counts.
    size: i64,
    /// Whether it was delivered before.
    is_again: bool,
}

impl NextUp {
    fn is_again(&self) -> bool {
        matches!(self, Self::Read(MessageSize { is_again: true, .. }) | Self::Unread { is_again: true, .. })
    }
}

impl ConsumerCore {
    /// Finds what holds deliveries back now. With [`Holds::All`] there is a cause exactly where a
    /// turn would deliver nothing although there is something.
    pub fn why(&mut self, turn: &mut TurnCtx<'_>) -> Vec<(Holds, ConsumerCause)> {
        let supply = self.supply(turn);
        let ahead = self.ahead(supply);
        let stops = self.stops(&ahead, supply, turn);
        let some = self.some_causes(&ahead, supply, turn.env);
        let some = some.into_iter().map(|cause| (Holds::Some, cause));
        if matches!(ahead.next, NextUp::End) {
            let nothing = [self.why_at_end()].into_iter().chain(stops);
            return some.chain(nothing.map(|cause| (Holds::Nothing, cause))).collect();
        }
        stops.into_iter().map(|cause| (Holds::All, cause)).chain(some).collect()
    }

    /// Looks for what the loop would deliver next.
    fn ahead(&mut self, supply: Supply) -> Ahead {
        let mut outstanding = self.deliverer.outstanding;
        let deliverer = &mut self.deliverer;
        let (config, next_delivery) = (&deliverer.config, deliverer.next_delivery);
        let (subjects, dressed) = (&mut deliverer.subjects, &mut deliverer.headers);
        let mut measure = |message: &Message<'_>, deliveries, pending| {
            let tokens = AckTokens {
                deliveries,
                seq: message.seq,
                delivery: next_delivery,
                timestamp: message.timestamp,
                pending,
            };
            if config.headers_only {
                add_size(dressed, message);
            }
            let size = size_of(config, message, subjects.write(&tokens), dressed);
            NextUp::Read(MessageSize { stored: message.timestamp, size, is_again: deliveries > 1 })
        };
        let most = most_deliveries(config);
        let mut buffer = Vec::new();
        for seq in self.redelivery.waiting() {
            let Some((_, redelivered)) = deliverer.state_handle.awaited(seq) else { continue };
            let deliveries = Death::redeliveries(redelivered) + 2;
            if most.is_some_and(|most| deliveries > most) {
                outstanding = outstanding.saturating_sub(1);
                continue;
            }
            match self.scan.reader().get(seq, Wait::Forbidden, &mut buffer) {
                Ok(Some(message)) => {
                    return Ahead { next: measure(&message, deliveries, supply.pending), outstanding };
                }
                Err(ReadError::WouldWait) => {
                    return Ahead { next: NextUp::Unread { seq, is_again: true }, outstanding };
                }
                Ok(None) | Err(ReadError::Damaged(_)) => outstanding = outstanding.saturating_sub(1),
                // The disk's trouble: it comes up again, and the loop goes on with the next.
                Err(_) => {}
            }
        }
        let next = match self.scan.peek(|message| measure(message, 1, supply.pending.saturating_sub(1))) {
            Ok(Some(next)) => next,
            Ok(None) => NextUp::End,
            Err((seq, _)) => NextUp::Unread { seq, is_again: false },
        };
        Ahead { next, outstanding }
    }

    /// Finds what stops the loop, in its order.
    fn stops(
        &self,
        Ahead { next, outstanding }: &Ahead,
        supply: Supply,
        turn: &TurnCtx<'_>,
    ) -> Vec<ConsumerCause> {
        let mut stops = Vec::new();
        let config = &self.deliverer.config;
        if self.is_paused(turn.now) {
            let until = config.pause_until.map_or(0, |until| until.timestamp());
            stops.push(ConsumerCause::Paused { until });
        }
        let size = if let NextUp::Read(message) = next { message.size } else { 0 };
        let outlook = match &self.deliverer.mode {
            DeliveryMode::Pull(pull) => {
                let outlook = pull.look(config, size, supply, turn);
                if !outlook.is_awaited {
                    stops.push(no_demand(pull, size, supply));
                }
                outlook
            }
            DeliveryMode::Push(push) => {
                self.push_stops(push, turn.now, &mut stops);
                Outlook { is_taken: true, ..Outlook::default() }
            }
        };
        self.pace_stops(next, turn.now, &mut stops);
        if let DeliveryMode::Push(_) = &self.deliverer.mode {
            let behind = turn.env.awaited_receiver(config.deliver_subject.as_bytes());
            stops.extend(behind.map(receiver_behind));
        }
        if self.is_full_with(*outstanding) && !next.is_again() {
            stops.push(self.max_ack_pending());
        }
        match next {
            _ if outlook.is_awaited && !outlook.is_taken => {
                self.taker_stops(&outlook, (size, supply), &mut stops)
            }
            NextUp::Unread { seq, .. } if self.held_until.is_none_or(|at| at <= turn.now) => {
                stops.push(ConsumerCause::WaitsForDisk { seq: *seq, retry_at: None });
            }
            _ => {}
        }
        stops
    }

    fn push_stops(&self, push: &Push, now: Timestamp, stops: &mut Vec<ConsumerCause>) {
        let config = &self.deliverer.config;
        // A stream that reads the log itself takes nothing here, and misses nothing.
        if !push.is_active && !push.is_read {
            let since = push.inactive_since.filter(|since| *since <= now);
            stops.push(ConsumerCause::NobodyListens {
                subject: config.deliver_subject.clone(),
                group: config.deliver_group.clone(),
                since,
            });
        }
        if let Some((sent, window)) = push.stall() {
            stops.push(ConsumerCause::FlowControl { sent, window });
        }
    }

    /// Time that has to pass first.
    fn pace_stops(&self, next: &NextUp, now: Timestamp, stops: &mut Vec<ConsumerCause>) {
        let held = self.held_until.filter(|at| *at > now);
        if self.is_held_by_disk && held.is_some() {
            let seq = if let NextUp::Unread { seq, .. } = next { *seq } else { self.scan.position() };
            return stops.push(ConsumerCause::WaitsForDisk { seq, retry_at: held });
        }
        let (pacer, config) = (&self.deliverer.pacer, &self.deliverer.config);
        let (early, replay) = match next {
            NextUp::Read(message) => (
                pacer.check(message.stored, message.size, now).err(),
                pacer.replay_holds(message.stored, now),
            ),
            _ => (None, None),
        };
        // What it waits for was found out with the message that was next then.
        let Some(next_at) = held.max(early) else { return };
        stops.push(if replay.is_some() || config.rate_limit_bps == 0 {
            ConsumerCause::OriginalPace { next_at }
        } else {
            ConsumerCause::RateLimit { bits_per_second: config.rate_limit_bps, next_at }
        });
    }

    /// Why nobody of those who wait gets the next message.
    fn taker_stops(&self, outlook: &Outlook, (size, supply): (i64, Supply), stops: &mut Vec<ConsumerCause>) {
        stops.extend(outlook.behind.map(receiver_behind));
        if outlook.is_pinned
            && let DeliveryMode::Pull(Pull { pin: Some(pin), .. }) = &self.deliverer.mode
        {
            let (group, id, until) = (pin.group.clone(), pin.id.clone(), pin.until);
            stops.push(ConsumerCause::PinnedElsewhere { group, id, until });
        }
        if let Some((min_pending, min_ack_pending)) = outlook.too_few {
            let Supply { pending, outstanding, .. } = supply;
            stops.push(ConsumerCause::TooFewForRequests {
                pending,
                outstanding,
                min_pending,
                min_ack_pending,
            });
        }
        if let Some(largest) = outlook.largest {
            stops.push(ConsumerCause::RequestsTooSmall { size, largest });
        }
    }

    fn max_ack_pending(&self) -> ConsumerCause {
        let oldest = self.deliverer.state_handle.read(|state| state.pending().iter().next());
        let (oldest, since) = oldest.map_or((0, 0), |(seq, pending)| (seq, pending.timestamp));
        let (pending, limit) = (self.deliverer.outstanding, self.deliverer.config.max_ack_pending);
        ConsumerCause::MaxAckPending { pending, limit, oldest, since }
    }

    /// Finds what holds some messages back, whatever becomes of the next.
    fn some_causes(
        &self,
        Ahead { next, outstanding }: &Ahead,
        supply: Supply,
        env: &dyn Env,
    ) -> Vec<ConsumerCause> {
        let mut some = Vec::new();
        if self.is_full_with(*outstanding) && next.is_again() && supply.pending > 0 {
            some.push(self.max_ack_pending());
        }
        let config = &self.deliverer.config;
        let dead = self.dead_letters.as_ref().map_or(0, |letters| letters.len() as u64);
        self.deliverer.state_handle.read(|state| {
            if let Some(most) = most_deliveries(config) {
                let mut given_up = state
                    .redelivered()
                    .iter()
                    .filter(|(seq, count)| **count >= most && state.pending().get(**seq).is_none());
                if let Some((&first, _)) = given_up.next() {
                    let (messages, max_deliver) = (1 + given_up.count() as u64, config.max_deliver);
                    some.push(ConsumerCause::DeliveriesExhausted { messages, max_deliver, first });
                }
            }
            let messages = (state.pending().len() as u64).saturating_sub(supply.redeliveries + dead);
            if messages > 0 {
                let next_at = self.redelivery.first_due(state, config, MOST_PENDING);
                some.push(ConsumerCause::RedeliveryWaits { messages, next_at });
            }
        });
        if let Some(letters) = self.dead_letters.as_ref().filter(|_| dead > 0) {
            some.push(letters.why(env));
        }
        some
    }

    /// Why there is nothing to be delivered.
    fn why_at_end(&self) -> ConsumerCause {
        let (reader, config) = (self.scan.reader(), &self.deliverer.config);
        let totals = reader.state().totals;
        let (last, position) = (totals.last_seq, self.scan.position());
        if totals.messages == 0 {
            return ConsumerCause::StreamEmpty { last };
        }
        if position > last + 1 {
            return ConsumerCause::BeginsLater { start: position, last };
        }
        let delivered = self.deliverer.next_delivery - 1;
        let filters: Vec<String> = config.filters().map(str::to_owned).collect();
        let matches_none = || matches!(reader.next_seq(self.scan.filter(), totals.first_seq), Ok(None));
        if delivered == 0 && !filters.is_empty() && matches_none() {
            return ConsumerCause::FilterMatchesNothing { filters, messages: totals.messages };
        }
        ConsumerCause::CaughtUp { delivered, last }
    }
}

/// Nobody waits: of the last one that did it is known whether it asked for too little.
fn no_demand(pull: &Pull, size: i64, supply: Supply) -> ConsumerCause {
    if let Some(last) = pull.too_small
        && last.at >= pull.last_used
        && size > last.bytes
    {
        return ConsumerCause::RequestsTooSmall { size, largest: last.bytes };
    }
    let pending = supply.pending + supply.redeliveries;
    ConsumerCause::NoPullWaits { pending, since: pull.is_asked.then_some(pull.last_used) }
}

fn receiver_behind(SlowReceiver { conn, bytes, bound }: SlowReceiver) -> ConsumerCause {
    ConsumerCause::ReceiverBehind { conn, bytes, bound }
}
