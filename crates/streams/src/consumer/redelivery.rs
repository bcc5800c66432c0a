//! Messages that are to be delivered again: because nobody acknowledged them in time, or a client
//! said so.
//!
//! Owns the queue of those that wait for it, and when to look for more. It must never forget a
//! message: what is not in the queue is found by the next look at what awaits its acknowledgement.

use super::dead_letters::DeadLetters;
use super::retry::RetryPauses;
use super::send_delays::SendDelays;
use myelin_jsapi::consumer::config::ConsumerConfig;
use myelin_store::consumer::{ConsumerState, Death, Pending};
use myelin_store::{Seq, Timestamp};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

/// Messages that one look goes through.
const SLICE: usize = 64 * 1024;
/// Nanoseconds that a look comes later than it could, for each message that it has to look at:
/// where a million are pending it is not begun anew for each of them.
const PAUSE_PER_MESSAGE: i64 = 100;
/// Compat: an acknowledgement may be late by so much.
const GRACE: i64 = 1_000_000;

/// Queue of messages that are to be delivered again.
#[derive(Default)]
pub(super) struct Redelivery {
    /// With the number of the place: who is taken out and comes again has another one.
    queue: VecDeque<(Seq, u64)>,
    /// The places of those that are still wanted.
    queued: HashMap<Seq, u64>,
    places: u64,
    next_scan: Option<Timestamp>,
    /// A scan that is not through: where it goes on, and when the next one is due by what it has
    /// seen.
    scan_due: Option<(Seq, Option<Timestamp>)>,
    /// How late deliveries left; only where they waited for a commit.
    send_delays: Option<Box<SendDelays>>,
    /// Whether dead messages await their move, and do not come again.
    keeps_dead: bool,
    /// Pauses of its own.
    retry: Option<Box<RetryPauses>>,
}

/// Result of a scan for messages that are due.
#[derive(Debug, Default)]
pub(super) struct DueScan {
    /// Messages that were delivered as often as they may be.
    pub(super) exhausted: Vec<(Seq, Pending, u64)>,
    /// Messages that a client has terminated and that were to move elsewhere, where nothing limits
    /// deliveries.
    pub(super) terminated: Vec<Seq>,
    /// Whether messages came into the queue.
    pub(super) is_more_due: bool,
}

/// How often a message is delivered at most; `None`: as often as it takes.
pub(super) fn most_deliveries(config: &ConsumerConfig) -> Option<u64> {
    u64::try_from(config.max_deliver).ok().filter(|most| *most > 0)
}

/// How long after its last delivery a message is delivered again. Compat: without a time that does
/// not happen.
pub(super) fn ack_wait(config: &ConsumerConfig, redelivered: u64) -> i64 {
    match config.backoff.as_slice() {
        [] if config.ack_wait == 0 => i64::MAX,
        [] => config.ack_wait,
        backoff => {
            let at = usize::try_from(redelivered).unwrap_or(usize::MAX).min(backoff.len() - 1);
            backoff[at]
        }
    }
}

/// How long after its delivery a message is delivered again, at least.
pub(super) fn shortest_ack_wait(config: &ConsumerConfig) -> i64 {
    let counts = 0..config.backoff.len().max(1) as u64;
    counts.map(|count| ack_wait(config, count)).min().unwrap_or(i64::MAX)
}

impl Redelivery {
    /// Keeps what is dead from coming again, if there are dead letters, and makes their pauses.
    pub(super) fn follow(
        &mut self,
        letters: Option<&DeadLetters>,
        config: &ConsumerConfig,
        created: Timestamp,
    ) {
        self.keeps_dead = letters.is_some();
        let backoff = letters.and_then(DeadLetters::backoff);
        self.retry = backoff.map(|backoff| Box::new(RetryPauses::new(backoff, config, created)));
    }

    /// Pause of its own before a message comes again.
    pub(super) fn pause(&self, seq: Seq, redelivered: u64) -> Option<i64> {
        self.retry.as_ref().map(|retry| retry.pause(seq, redelivered))
    }

    pub(super) fn len(&self) -> usize {
        self.queued.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queued.is_empty()
    }

    /// When to [`scan_due`](Self::scan_due).
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.next_scan
    }

    /// A message was delivered, and is to be looked at when its time is over.
    pub(super) fn expect(&mut self, at: Timestamp) {
        if let Some((_, next)) = &mut self.scan_due {
            // It may be one that the scan has passed.
            *next = Some(next.map_or(at, |next| next.min(at)));
        }
        let at = at.saturating_add(GRACE);
        self.next_scan = Some(self.next_scan.map_or(at, |known| known.min(at)));
    }

    /// Wants a message delivered again.
    pub(super) fn add(&mut self, seq: Seq) {
        if let Entry::Vacant(vacant) = self.queued.entry(seq) {
            self.places += 1;
            vacant.insert(self.places);
            self.queue.push_back((seq, self.places));
        }
        self.check();
    }

    /// The next message; it is not in the queue any more.
    pub(super) fn take(&mut self) -> Option<Seq> {
        loop {
            let (seq, place) = self.queue.pop_front()?;
            if self.queued.get(&seq) == Some(&place) {
                self.queued.remove(&seq);
                self.check();
                return Some(seq);
            }
        }
    }

    /// Puts a message back that was not delivered.
    pub(super) fn put_back(&mut self, seq: Seq) {
        if let Entry::Vacant(vacant) = self.queued.entry(seq) {
            self.places += 1;
            vacant.insert(self.places);
            self.queue.push_front((seq, self.places));
        }
        self.check();
    }

    /// Nobody wants it again.
    pub(super) fn remove(&mut self, seq: Seq) {
        let was_queued = self.queued.remove(&seq).is_some();
        if was_queued && self.queue.len() > 64 && self.queued.len() < self.queue.len() / 4 {
            self.tidy();
        }
    }

    /// Keeps those for which `keep` says so.
    pub(super) fn retain(&mut self, keep: impl Fn(Seq) -> bool) {
        if !self.queued.is_empty() {
            #[expect(clippy::disallowed_methods, reason = "each is looked at by itself")]
            self.queued.retain(|seq, _| keep(*seq));
            self.tidy();
        }
    }

    /// Places that nobody has any more are given up.
    fn tidy(&mut self) {
        let queued = &self.queued;
        self.queue.retain(|(seq, place)| queued.get(seq) == Some(place));
        debug_assert_eq!(
            self.queue.len(),
            self.queued.len(),
            "each message that is wanted again has one place"
        );
    }

    /// Checks the counts: what is wanted again has a place in the queue.
    fn check(&self) {
        debug_assert!(self.queued.len() <= self.queue.len(), "what is wanted again has a place in the queue");
        debug_assert!(self.queue.len() as u64 <= self.places, "each place is given once");
    }

    /// Deliveries that were decided from then on were not sent yet: they are not due. `None`: all
    /// were.
    pub(super) fn hold_from(&mut self, decided: Option<Timestamp>) {
        if decided.is_some() || self.send_delays.is_some() {
            self.send_delays.get_or_insert_default().held_from = decided;
        }
    }

    /// Deliveries that were decided at `decided` are sent `now`; the first of them may be due in
    /// `wait`.
    pub(super) fn sent_late(&mut self, decided: Timestamp, now: Timestamp, wait: i64) {
        if let Some(delays) = &mut self.send_delays {
            delays.note(decided, now.saturating_sub(decided));
            self.expect(now.saturating_add(wait));
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        let (keeps_dead, retry) = (self.keeps_dead, self.retry.take());
        *self = Self { keeps_dead, retry, ..Self::default() };
    }

    /// When a message that awaits its acknowledgement comes again; `None`: it is dead, and kept.
    fn due(
        &self,
        (seq, pending): (Seq, &Pending),
        redelivered: u64,
        config: &ConsumerConfig,
    ) -> Option<Timestamp> {
        if self.keeps_dead && Death::read(redelivered).is_some() {
            return None;
        }
        let delay = self.send_delays.as_ref().map_or(0, |delays| delays.of(pending.timestamp));
        let pause = self.pause(seq, redelivered).unwrap_or(0);
        let wait = ack_wait(config, redelivered).saturating_add(pause);
        Some(pending.timestamp.saturating_add(delay).saturating_add(wait))
    }

    /// Messages that wait to be delivered again, in order.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Seq> {
        self.queue.iter().filter(|(seq, place)| self.queued.get(seq) == Some(place)).map(|(seq, _)| *seq)
    }

    /// When the first message comes again that awaits its acknowledgement; `None`: none does by
    /// itself. Looks at `most` of them: where there are more, it may be too early.
    pub(super) fn first_due(
        &self,
        state: &ConsumerState,
        config: &ConsumerConfig,
        most: usize,
    ) -> Option<Timestamp> {
        if state.pending().len() > most {
            return self.next_scan;
        }
        let others = state.pending().iter().filter(|(seq, _)| !self.queued.contains_key(seq));
        let due = others.filter_map(|(seq, pending)| {
            let redelivered = state.redelivered().get(&seq).copied().unwrap_or(0);
            self.due((seq, &pending), redelivered, config)
        });
        due.min().filter(|due| *due < Timestamp::MAX)
    }

    /// Looks through a slice of what awaits its acknowledgement for what has waited too long.
    pub(super) fn scan_due(
        &mut self,
        state: &ConsumerState,
        config: &ConsumerConfig,
        now: Timestamp,
    ) -> DueScan {
        let mut found = DueScan::default();
        let (from, mut next) = self.scan_due.take().unwrap_or((0, None));
        let before = self.queued.len();
        let mut last = None;
        let most = most_deliveries(config);
        for (seen, (seq, pending)) in state.pending().iter_from(from).enumerate() {
            if seen == SLICE {
                last = Some(seq);
                break;
            }
            if self.queued.contains_key(&seq) {
                continue;
            }
            let redelivered = state.redelivered().get(&seq).copied().unwrap_or(0);
            let Some(due) = self.due((seq, &pending), redelivered, config) else { continue };
            if due > now {
                next = Some(next.map_or(due, |next: Timestamp| next.min(due)));
            } else if most.is_none() && Death::read(redelivered) == Some(Death::Terminated) {
                found.terminated.push(seq);
            } else if most.is_some_and(|most| redelivered.max(1) >= most) {
                found.exhausted.push((seq, pending, redelivered));
            } else {
                self.add(seq);
            }
        }
        found.is_more_due = self.queued.len() > before;
        debug_assert!(self.queued.len() >= before, "a look takes nothing out of the queue");
        debug_assert!(
            found.exhausted.iter().all(|(seq, ..)| !self.queued.contains_key(seq)),
            "what was delivered often enough does not come again"
        );
        self.next_scan = match last {
            Some(seq) => {
                self.scan_due = Some((seq, next));
                Some(now)
            }
            None => {
                let rest = now.saturating_add(PAUSE_PER_MESSAGE.saturating_mul(state.pending().len() as i64));
                next.map(|next| next.saturating_add(GRACE).max(rest))
            }
        };
        found
    }
}
