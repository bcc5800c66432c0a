//! Pulling: requests come in, wait, get messages, and end with a status.
//!
//! Owns the rules by which a request is taken, chosen for a message, and given up; every text is
//! the reference's.

use super::core::TurnCtx;
use super::effects::{ConsumerEvent, SlowReceiver};
use super::pin::Pin;
use super::status::StatusMessage;
use super::waiting::{WaitQueue, WaitingRequest};
use myelin_jsapi::advisory::consumer::Unpinned;
use myelin_jsapi::consumer::config::{ConsumerConfig, PriorityPolicy};
use myelin_jsapi::consumer::{NextRequest, RequestRefusal};
use myelin_store::Timestamp;

/// Requests that are too many are looked through for old ones at most so often, in nanoseconds.
const SWEEP_INTERVAL: i64 = 1_000_000_000;

/// Pull side of a consumer: the requests that wait, and the pinned client.
#[derive(Default)]
pub(super) struct Pull {
    queue: WaitQueue,
    pub(super) pin: Option<Pin>,
    /// When somebody last wanted something.
    pub(super) last_used: Timestamp,
    /// Whether a request has come: else `last_used` is when the consumer was made or opened.
    pub(super) is_asked: bool,
    last_sweep: Timestamp,
    /// Counts turns, so that listeners are looked for once in each.
    turn: u64,
    /// Requests of clients that have not taken what they got before, while another one is chosen:
    /// with priorities each has its place, and nobody goes behind all others.
    passed: Vec<WaitingRequest>,
    /// The last request that was ended by the first message for it.
    pub(super) too_small: Option<TooSmall>,
}

/// A request that was ended because the next message was too large for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct TooSmall {
    pub(super) at: Timestamp,
    /// Bytes that it allowed.
    pub(super) bytes: i64,
}

/// How a request stands to the client that its group is pinned to.
enum PinMatch {
    /// None is, and this one may become it.
    Free,
    /// Of that client.
    Same,
    /// Of somebody else, who waits.
    Other,
    /// Of a client that is not pinned any more, by its id.
    Wrong,
}

/// Outlook of a message: what those who wait would do with it.
#[derive(Default)]
pub(super) struct Outlook {
    /// Whether somebody waits, and listens.
    pub(super) is_awaited: bool,
    /// Whether somebody would get it.
    pub(super) is_taken: bool,
    /// Somebody who has not taken what was sent before.
    pub(super) behind: Option<SlowReceiver>,
    /// Whether somebody waits for the end of a pin.
    pub(super) is_pinned: bool,
    /// `min_pending` and `min_ack_pending` of the one that wants the least.
    pub(super) too_few: Option<(i64, i64)>,
    /// Bytes that the largest request allows that is too small for it.
    pub(super) largest: Option<i64>,
}

/// Supply of the consumer, for those who ask.
#[derive(Clone, Copy, Debug)]
pub(super) struct Supply {
    /// Messages not yet delivered.
    pub(super) pending: u64,
    /// Messages to be delivered again.
    pub(super) redeliveries: u64,
    /// Messages that await their acknowledgement.
    pub(super) outstanding: u64,
}

/// Request that gets a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taker {
    /// The request at the front.
    Front,
    /// Nobody who waits.
    Nobody,
    /// The clients that wait have not taken what they got before.
    Congested,
}

impl Pull {
    /// Nobody waits; the consumer is as good as used.
    pub(super) fn new(now: Timestamp) -> Self {
        Self { last_used: now, ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// A turn begins: who listens, and who is behind, is to be found out anew.
    pub(super) fn begin(&mut self) {
        debug_assert!(self.passed.is_empty(), "a request that was passed over waits again");
        self.turn += 1;
    }

    /// Takes a request, or tells the client why not.
    pub(super) fn ask(
        &mut self,
        config: &ConsumerConfig,
        (reply, body): (&[u8], &[u8]),
        supply: Supply,
        turn: &mut TurnCtx<'_>,
    ) {
        match NextRequest::read(body) {
            Err(why) => refuse(reply, &why, turn),
            Ok(request) => {
                if let Err(why) = self.admit(config, request, reply, supply, turn) {
                    refuse(reply, &why, turn);
                }
            }
        }
    }

    fn admit(
        &mut self,
        config: &ConsumerConfig,
        request: NextRequest,
        reply: &[u8],
        supply: Supply,
        turn: &mut TurnCtx<'_>,
    ) -> Result<(), RequestRefusal> {
        request.check(config)?;
        self.check_pin(config, &request, turn.now)?;
        self.is_asked = true;
        let most = usize::try_from(config.max_waiting).unwrap_or(usize::MAX);
        if self.queue.len() >= most && turn.now - self.last_sweep > SWEEP_INTERVAL {
            self.sweep_requests(false, turn);
        }
        if request.no_wait {
            self.check_supply(&request, supply, turn)?;
        }
        if self.queue.len() >= most {
            // Compat: a client with heartbeats misses them and asks again; told at once it would do
            // so at once.
            return if request.heartbeat == 0 { Err(refusal(409, "Exceeded MaxWaiting")) } else { Ok(()) };
        }
        self.last_used = turn.now;
        let by_priority = config.priority_policy == PriorityPolicy::Prioritized;
        self.queue.add(WaitingRequest::new(reply, request, turn.now), by_priority);
        debug_assert!(self.queue.len() <= most, "no more requests wait than may");
        Ok(())
    }

    /// Whether the request is of the client that its group is pinned to, or of none yet.
    fn check_pin(
        &mut self,
        config: &ConsumerConfig,
        request: &NextRequest,
        now: Timestamp,
    ) -> Result<(), RequestRefusal> {
        match &mut self.pin {
            Some(pin) if pin.id == request.id => pin.renew(config.priority_timeout, now),
            Some(_) if !request.id.is_empty() => return Err(refusal(423, "Nats-Pin-Id mismatch")),
            _ => {}
        }
        Ok(())
    }

    /// One that does not want to wait is refused if there is nothing, or nothing left by those who
    /// wait already.
    fn check_supply(
        &mut self,
        request: &NextRequest,
        supply: Supply,
        turn: &mut TurnCtx<'_>,
    ) -> Result<(), RequestRefusal> {
        let pending = supply.pending + supply.redeliveries;
        if pending == 0 && request.expires.is_none() {
            self.last_used = turn.now;
            return Err(refusal(404, "No Messages"));
        }
        if pending > 0 {
            self.sweep_requests(false, turn);
            let wanted: i64 = self.queue.iter().map(|request| request.left).sum();
            if i128::from(pending) < i128::from(wanted) {
                self.last_used = turn.now;
                return Err(refusal(408, "Requests Pending"));
            }
        }
        Ok(())
    }

    /// Ends what has expired, or does not want to wait when there is nothing more (`is_end`), drops
    /// those to whom nobody listens, and sends signs of life.
    pub(super) fn sweep_requests(&mut self, is_end: bool, turn: &mut TurnCtx<'_>) {
        self.last_sweep = turn.now;
        let Self { queue, last_used, .. } = self;
        queue.retain(|request| {
            if request.has_expired(turn.now) {
                expire(request, last_used, turn);
                return false;
            }
            if is_end && request.ask.no_wait && (request.expires.is_none() || request.delivered > 0) {
                turn.effects.push_status(&request.reply, &StatusMessage::Plain(404, "No Messages"));
                *last_used = turn.now.max(*last_used);
                return false;
            }
            if !turn.env.has_interest(&request.reply) {
                forget(request, turn);
                return false;
            }
            if request.beat_at.is_some_and(|at| at < turn.now) {
                let (delivery, seq) = turn.place;
                turn.effects
                    .push_status(&request.reply, &StatusMessage::Heartbeat { delivery, seq, stalled: None });
                request.beat_later(turn.now);
            }
            true
        });
    }

    /// When [`sweep_requests`](Self::sweep_requests) has something to do.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let requests = self.queue.iter().flat_map(|request| [request.expires, request.beat_at]);
        requests.chain([self.pin.as_ref().map(|pin| pin.until)]).flatten().min()
    }

    /// Finds who gets a message of `size` bytes, and counts it. [`served`](Self::served) must
    /// follow when it was sent.
    pub(super) fn choose(
        &mut self,
        config: &ConsumerConfig,
        size: i64,
        supply: Supply,
        turn: &mut TurnCtx<'_>,
    ) -> Taker {
        let (mut cycled, mut is_congested) = (0, false);
        loop {
            let all = self.queue.len();
            let Some(request) = self.queue.front() else { break };
            if request.has_expired(turn.now) {
                expire(request, &mut self.last_used, turn);
                self.queue.pop();
                continue;
            }
            let mut passes_over = false;
            let mut is_new_pin = false;
            if config.priority_policy == PriorityPolicy::PinnedClient {
                match pin_match(self.pin.as_ref(), &request.ask.id) {
                    PinMatch::Free => is_new_pin = true,
                    PinMatch::Same => {}
                    PinMatch::Other => passes_over = true,
                    PinMatch::Wrong => {
                        let status =
                            StatusMessage::Left(423, "Nats-Wrong-Pin-Id", request.left, request.bytes);
                        turn.effects.push_status(&request.reply, &status);
                        self.queue.pop();
                        continue;
                    }
                }
            }
            passes_over |=
                config.priority_policy == PriorityPolicy::Overflow && !is_overflown(request, supply);
            if !passes_over && request.bytes > 0 && size > request.bytes {
                self.end_too_small(turn);
                continue;
            }
            if !passes_over && request.seen_in != self.turn {
                if !turn.env.has_interest(&request.reply) {
                    forget(request, turn);
                    self.queue.pop();
                    continue;
                }
                if turn.env.is_congested(&request.reply) {
                    (passes_over, is_congested) = (true, true);
                } else {
                    request.seen_in = self.turn;
                }
            }
            if passes_over {
                cycled += self.pass_over(config);
                if cycled >= all {
                    break;
                }
                continue;
            }
            if is_new_pin {
                self.pin = pin(request, config.priority_timeout, turn);
            }
            take_one(request, size, (self.turn, turn.now));
            return Taker::Front;
        }
        self.put_passed_back();
        if is_congested { Taker::Congested } else { Taker::Nobody }
    }

    /// Passes over the request at the front. Answers how many of those that wait have gone behind
    /// the others.
    fn pass_over(&mut self, config: &ConsumerConfig) -> usize {
        if config.priority_policy == PriorityPolicy::Prioritized {
            self.passed.extend(self.queue.pop().map(|request| *request));
            return 0;
        }
        self.queue.cycle();
        1
    }

    /// Has requests that were passed over wait at their places again.
    fn put_passed_back(&mut self) {
        self.passed.drain(..).for_each(|request| self.queue.add(request, true));
    }

    /// Ends the request at the front, for which the next message is too large.
    #[cold]
    fn end_too_small(&mut self, turn: &mut TurnCtx<'_>) {
        let Some(request) = self.queue.pop() else { return };
        let status = StatusMessage::Left(409, "Message Size Exceeds MaxBytes", request.left, request.bytes);
        turn.effects.push_status(&request.reply, &status);
        // One that got messages before has as many bytes as it asked for.
        if request.delivered == 0 {
            self.too_small = Some(TooSmall { at: turn.now, bytes: request.bytes });
        }
    }

    /// Looks who would get a message of `size` bytes by the rules of [`choose`](Self::choose), and
    /// changes nothing.
    pub(super) fn look(
        &self,
        config: &ConsumerConfig,
        size: i64,
        supply: Supply,
        turn: &TurnCtx<'_>,
    ) -> Outlook {
        let mut outlook = Outlook::default();
        for request in self.queue.iter() {
            let pin = match config.priority_policy {
                PriorityPolicy::PinnedClient => pin_match(self.pin.as_ref(), &request.ask.id),
                _ => PinMatch::Same,
            };
            let has_ended = request.has_expired(turn.now) || matches!(pin, PinMatch::Wrong);
            if has_ended || !turn.env.has_interest(&request.reply) {
                continue;
            }
            outlook.is_awaited = true;
            if matches!(pin, PinMatch::Other) {
                outlook.is_pinned = true;
            } else if config.priority_policy == PriorityPolicy::Overflow && !is_overflown(request, supply) {
                let wanted = (request.ask.min_pending, request.ask.min_ack_pending);
                outlook.too_few = Some(outlook.too_few.map_or(wanted, |least| least.min(wanted)));
            } else if request.bytes > 0 && size > request.bytes {
                outlook.largest = outlook.largest.max(Some(request.bytes));
            } else if let Some(behind) = turn.env.awaited_receiver(&request.reply) {
                outlook.behind = Some(behind);
            } else {
                outlook.is_taken = true;
            }
        }
        outlook
    }

    /// Where the chosen message goes.
    pub(super) fn taker(&mut self) -> &[u8] {
        self.queue.front().map_or(b"", |request| &request.reply)
    }

    /// The chosen message was sent.
    pub(super) fn served(&mut self, config: &ConsumerConfig, turn: &mut TurnCtx<'_>) {
        self.last_used = turn.now;
        if let Some(request) = self.queue.front() {
            debug_assert!(request.delivered > 0, "who was served got a message");
            request.beat_later(turn.now);
        }
        let by_priority = config.priority_policy == PriorityPolicy::Prioritized;
        let done = self.queue.served(by_priority);
        self.put_passed_back();
        if let Some(done) = done
            && done.bytes > 0
        {
            turn.effects.push_status(
                &done.reply,
                &StatusMessage::Left(409, "Batch Completed", done.left, done.bytes),
            );
        }
    }

    /// Where those who wait are answered.
    pub(super) fn waiting_replies(&self) -> impl Iterator<Item = &[u8]> {
        self.queue.iter().map(|request| &*request.reply)
    }

    /// Ends all requests.
    pub(super) fn end(&mut self, text: &str, turn: &mut TurnCtx<'_>) {
        for request in self.queue.drain() {
            turn.effects.push_status(&request.reply, &StatusMessage::Plain(409, text));
        }
        debug_assert!(self.queue.is_empty(), "who was told of the end waits no more");
    }

    /// Where those who wait are answered, and until when they wait.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (Vec<u8>, Timestamp)> {
        let until = |request: &WaitingRequest| request.expires.unwrap_or(Timestamp::MAX);
        self.queue.iter().map(move |request| (request.reply.to_vec(), until(request)))
    }

    /// Ends all requests. Answers their subjects, for whoever tells them.
    pub(super) fn leave_requests(&mut self) -> impl Iterator<Item = Vec<u8>> {
        self.queue.drain().map(|request| request.reply.to_vec())
    }

    /// The server ends, and with it all requests. Answers whether there were any.
    pub(super) fn announce_shutdown(&mut self, turn: &mut TurnCtx<'_>) -> bool {
        let has_some = !self.queue.is_empty();
        for request in self.queue.drain() {
            let status = StatusMessage::Left(409, "Server Shutdown", request.left, request.bytes);
            turn.effects.push_status(&request.reply, &status);
        }
        debug_assert!(self.queue.is_empty(), "who was told of the end waits no more");
        has_some
    }

    /// The chosen client of a group has not been heard of for too long.
    pub(super) fn unpin_if_due(&mut self, turn: &mut TurnCtx<'_>) {
        if let Some(pin) = self.pin.take_if(|pin| pin.until <= turn.now) {
            turn.effects.events.push(ConsumerEvent::Unpinned { group: pin.group, reason: Unpinned::Timeout });
        }
    }
}

fn refusal(status: u16, description: &str) -> RequestRefusal {
    RequestRefusal { status, description: description.to_owned() }
}

fn refuse(reply: &[u8], why: &RequestRefusal, turn: &mut TurnCtx<'_>) {
    turn.effects.push_status(reply, &StatusMessage::Plain(why.status, &why.description));
}

fn expire(request: &WaitingRequest, last_used: &mut Timestamp, turn: &mut TurnCtx<'_>) {
    let status = StatusMessage::Left(408, "Request Timeout", request.left, request.bytes);
    turn.effects.push_status(&request.reply, &status);
    *last_used = request.expires.unwrap_or(0).max(*last_used);
}

/// Nobody listens for what a request asked for. In its own account that is silence; a reply that
/// stands for somebody in another account is told, so that it does not stand for anybody any
/// longer.
fn forget(request: &WaitingRequest, turn: &mut TurnCtx<'_>) {
    if request.reply.starts_with(b"_R_.") {
        let status = StatusMessage::Left(408, "Interest Expired", request.left, request.bytes);
        turn.effects.push_status(&request.reply, &status);
    }
}

#[inline]
fn pin_match(pin: Option<&Pin>, id: &str) -> PinMatch {
    match pin {
        None if id.is_empty() => PinMatch::Free,
        Some(pin) if pin.id == id => PinMatch::Same,
        Some(_) if id.is_empty() => PinMatch::Other,
        _ => PinMatch::Wrong,
    }
}

/// Whether so much waits that one who asked for that is served too.
fn is_overflown(request: &WaitingRequest, supply: Supply) -> bool {
    let (pending, outstanding) = (request.ask.min_pending, request.ask.min_ack_pending);
    let is_reached = |least: i64, there: u64| least > 0 && i128::from(least) <= i128::from(there);
    // Compat: thresholds below 0 are none.
    (pending <= 0 && outstanding <= 0)
        || is_reached(pending, supply.pending)
        || is_reached(outstanding, supply.outstanding)
}

/// Chooses the client of a request for its group.
fn pin(request: &mut WaitingRequest, timeout: i64, turn: &mut TurnCtx<'_>) -> Option<Pin> {
    if request.ask.group.is_empty() {
        return None;
    }
    let (group, id) = (request.ask.group.clone(), turn.env.unique_id());
    request.ask.id.clone_from(&id);
    turn.effects.events.push(ConsumerEvent::Pinned { group: group.clone(), id: id.clone() });
    Some(Pin::new(&group, id, timeout, turn.now))
}

/// Counts a message of `size` bytes for a request, in the turn of this number at this time.
fn take_one(request: &mut WaitingRequest, size: i64, (turn, now): (u64, Timestamp)) {
    debug_assert!(!request.has_expired(now), "who gets a message still waits for it");
    debug_assert_eq!(request.seen_in, turn, "who gets a message listens");
    debug_assert!(request.bytes <= 0 || size <= request.bytes, "nobody gets more bytes than it asked for");
    if request.bytes > 0 {
        request.bytes -= size;
        if request.bytes == 0 {
            // It is full: this one, and no more.
            request.left = 1;
        }
    }
    request.delivered += 1;
    request.left -= 1;
}
