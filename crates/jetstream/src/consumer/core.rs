//! One consumer inside its turn: requests and acknowledgements in, deliveries out.
//!
//! Owns everything about a consumer that is not in its [`Record`]: who waits, what is to come again, where it is in the stream. No
//! clock, socket or thread: `now` and the [`World`] are passed in. Nothing is delivered that the stream has not released,
//! and nothing is forgotten that was delivered and not acknowledged.

use super::ack_subject::AckSubjects;
use super::config::{AckPolicy, ConsumerConfig, DeliverPolicy};
use super::effects::{Answered, Effects, Event, World};
use super::pacing::Pacer;
use super::pull::{Pull, Supply};
use super::push::{Push, is_listened_to};
use super::record::Record;
use super::redelivery::{Redelivery, ack_wait};
use super::stream_scan::{Start, StreamScan, contains, filter_of};
use crate::config::Retention;
use myelin_store::consumer::{self, Applied, ConsumerState, Delta, Rules};
use myelin_store::{Filter, ReadError, Reader, Removals, Seq, Timestamp};
use std::num::NonZeroU64;
use std::sync::Arc;

/// What a method works with.
pub struct Turn<'a> {
    /// The time of day.
    pub now: Timestamp,
    /// The last delivery and message, for signs of life: set by the core.
    pub(super) place: (u64, u64),
    /// What may be asked.
    pub world: &'a mut dyn World,
    /// What comes of it.
    pub effects: &'a mut Effects,
}

impl<'a> Turn<'a> {
    /// A turn at this time.
    pub fn new(now: Timestamp, world: &'a mut dyn World, effects: &'a mut Effects) -> Self {
        Self { now, place: (0, 0), world, effects }
    }
}

/// What a consumer is made of.
pub struct ConsumerInit {
    /// The stream's name.
    pub stream: String,
    /// Its configuration, checked, with its name.
    pub config: Arc<ConsumerConfig>,
    /// When it was made.
    pub created: Timestamp,
    /// Of its stream.
    pub reader: Reader,
    /// Its state.
    pub record: Record,
    /// Of the stream.
    pub retention: Retention,
    /// Bytes of the largest message that may come.
    pub largest: i64,
    /// For subjects that nobody should guess.
    pub seed: u64,
}

/// See the module.
pub struct ConsumerCore {
    pub(super) created: Timestamp,
    pub(super) source: StreamScan,
    pub(super) redelivery: Redelivery,
    pub(super) hands: Deliverer,
    pub(super) retention: Retention,
    largest: i64,
    /// Where the stream began when the record was last told.
    first: Seq,
    /// How many messages the stream had lost behind that.
    interior: u64,
    /// A message may go no earlier.
    pub(super) held_until: Option<Timestamp>,
    /// Bytes of a message that comes again.
    pub(super) again: Vec<u8>,
    /// Whether the end of the pause is still to be told.
    is_pause_told: bool,
}

/// What delivers a message, once it is found.
pub(super) struct Deliverer {
    pub(super) config: Arc<ConsumerConfig>,
    pub(super) record: Record,
    pub(super) subjects: AckSubjects,
    pub(super) mode: Mode,
    pub(super) brake: Pacer,
    /// Changes that the record has not seen.
    pub(super) deltas: Vec<Delta>,
    /// The number of the next delivery.
    pub(super) next_delivery: u64,
    /// Messages that await their acknowledgement.
    pub(super) outstanding: u64,
    pub(super) last_delivered: Option<Timestamp>,
    pub(super) last_acked: Option<Timestamp>,
    pub(super) headers: Vec<u8>,
}

/// How messages leave.
pub(super) enum Mode {
    Pull(Pull),
    Push(Box<Push>),
}

/// How its state changes, as the store has it.
#[must_use]
pub fn rules(config: &ConsumerConfig) -> Rules {
    Rules {
        acks: match config.ack_policy {
            AckPolicy::None => consumer::AckPolicy::None,
            AckPolicy::All | AckPolicy::FlowControl => consumer::AckPolicy::All,
            AckPolicy::Explicit => consumer::AckPolicy::Explicit,
        },
        max_deliver: u64::try_from(config.max_deliver).ok().and_then(NonZeroU64::new),
    }
}

impl ConsumerCore {
    /// A new consumer: finds where it begins and notes it in its record.
    ///
    /// # Errors
    /// The stream cannot be read.
    pub fn create(opening: ConsumerInit, keeps_one: bool, now: Timestamp) -> Result<Self, ReadError> {
        let start = Start::select(&opening.config, &opening.reader, keeps_one)?;
        opening.record.apply(Delta::Reset { seq: start.floor() });
        Ok(Self::begin(opening, start, now))
    }

    /// A consumer whose record is there already.
    #[must_use]
    pub fn resume(opening: ConsumerInit, now: Timestamp) -> Self {
        let first = opening.reader.removals().first_seq;
        opening.record.apply(Delta::DropBelow { seq: first });
        // A loss of power may have cost the stream its end and not the consumer: new messages will have those sequences.
        opening.record.apply(Delta::CutAbove { seq: opening.reader.state().totals.last_seq });
        forget_missing(&opening.record, &opening.reader);
        let next = opening.record.read(|state| state.delivered().stream) + 1;
        Self::begin(opening, Start { next, ..Start::default() }, now)
    }

    /// Begins anew from its record and its stream, as after a restart: for whoever has caught a panic, after which what it
    /// remembers may be wrong. Deliveries so far count. Who waited for messages asks again.
    pub fn reopen(&mut self, stream: &str, seed: u64, now: Timestamp) {
        self.hands.commit();
        let opening = ConsumerInit {
            stream: stream.to_owned(),
            config: Arc::clone(&self.hands.config),
            created: self.created,
            reader: self.source.reader().clone(),
            record: self.hands.record.clone(),
            retention: self.retention,
            largest: self.largest,
            seed,
        };
        *self = Self::resume(opening, now);
    }

    fn begin(opening: ConsumerInit, start: Start, now: Timestamp) -> Self {
        let ConsumerInit { stream, config, created, reader, record, retention, largest, seed } = opening;
        let mode = if config.is_push() {
            Mode::Push(Box::new(Push::new(&stream, &config.name, &config, seed)))
        } else {
            Mode::Pull(Pull::new(now))
        };
        let (delivered, outstanding) =
            record.read(|state| (state.delivered().consumer.0, state.pending().len() as u64));
        let interior = reader.removals().interior;
        let mut redelivery = Redelivery::default();
        if outstanding > 0 {
            // What was not acknowledged before a restart may be due.
            redelivery.expect(now);
        }
        let mut core = Self {
            created,
            redelivery,
            hands: Deliverer {
                subjects: AckSubjects::new(&stream, &config.name),
                mode,
                brake: Pacer::new(&config, reader.state().totals.last_seq, largest),
                deltas: Vec::new(),
                next_delivery: delivered + 1,
                outstanding,
                last_delivered: None,
                last_acked: None,
                headers: Vec::new(),
                record,
                config: Arc::clone(&config),
            },
            source: StreamScan::new(reader, filter_of(&config), start),
            retention,
            largest,
            first: 0,
            interior,
            held_until: None,
            again: Vec::new(),
            is_pause_told: true,
        };
        core.is_pause_told = !core.is_paused(now);
        if let Mode::Push(push) = &mut core.hands.mode {
            push.inactive_since = Some(now);
            push.beat_later(&config, now);
        }
        core
    }

    /// The configuration in force.
    #[must_use]
    pub fn config(&self) -> &Arc<ConsumerConfig> {
        &self.hands.config
    }

    /// Its state's place.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.hands.record
    }

    /// What it is about.
    #[must_use]
    pub fn filter(&self) -> &Filter {
        self.source.filter()
    }

    /// The next message that it looks at.
    #[must_use]
    pub fn position(&self) -> Seq {
        self.source.position()
    }

    /// Whether it delivers nothing for now.
    #[must_use]
    pub fn is_paused(&self, now: Timestamp) -> bool {
        self.hands.config.pause_until.is_some_and(|until| now < until.timestamp())
    }

    /// What it looked for at `from` was found elsewhere: it goes on with `next`, or looks itself.
    pub fn warmed(&mut self, from: Seq, next: Option<Seq>) {
        self.source.warmed(from, next);
    }

    /// The last delivery and message.
    pub(super) fn place(&self) -> (u64, u64) {
        (self.hands.next_delivery - 1, self.source.position() - 1)
    }

    pub(super) fn supply(&mut self, turn: &mut Turn<'_>) -> Supply {
        self.notice_removed(turn);
        let pending = self.source.left();
        let again = self.redelivery.len() as u64;
        Supply { pending, again, outstanding: self.hands.outstanding }
    }

    /// Goes on with another configuration, which was checked.
    pub fn update(&mut self, config: Arc<ConsumerConfig>, turn: &mut Turn<'_>) {
        let old = std::mem::replace(&mut self.hands.config, Arc::clone(&config));
        if filter_of(&old) != filter_of(&config) {
            self.source.set_filter(filter_of(&config));
        }
        if old.rate_limit_bps != config.rate_limit_bps {
            self.hands.brake.update(&config, self.largest);
            self.held_until = None;
        }
        if old.deliver_subject != config.deliver_subject && self.hands.outstanding > 0 {
            self.expect_all_again(turn);
        }
        if old.pause_until != config.pause_until {
            self.is_pause_told = !self.is_paused(turn.now);
            turn.effects.events.push(Event::Pause);
        }
        if self.hands.outstanding > 0 {
            self.redelivery.expect(turn.now);
        }
        if let Mode::Push(push) = &mut self.hands.mode {
            push.beat_later(&config, turn.now);
        }
        self.listen(turn);
    }

    /// Everything that awaits its acknowledgement is delivered again.
    fn expect_all_again(&mut self, turn: &Turn<'_>) {
        let seqs: Vec<Seq> =
            self.hands.record.read(|state| state.pending().iter().map(|(seq, _)| seq).collect());
        seqs.into_iter().for_each(|seq| self.redelivery.add(seq));
        self.redelivery.expect(turn.now);
    }

    /// Reads a stream that was opened anew.
    pub fn set_reader(&mut self, reader: Reader) {
        let last = reader.state().totals.last_seq;
        self.interior = reader.removals().interior;
        self.source.set_reader(reader);
        self.first = 0;
        self.hands.commit();
        let is_cut = self.hands.record.apply(Delta::CutAbove { seq: last }) == Applied::Changed;
        if forget_missing(&self.hands.record, self.source.reader()) || is_cut {
            let source = &self.source;
            self.redelivery.retain(|seq| source.contains(seq));
            self.hands.count_outstanding();
        }
    }

    /// Its stream keeps messages for another reason.
    pub fn set_retention(&mut self, retention: Retention) {
        self.retention = retention;
    }

    /// When it was made.
    #[must_use]
    pub fn created(&self) -> Timestamp {
        self.created
    }

    /// Begins anew with the message `seq`, or behind the last acknowledged for 0; answers with which.
    ///
    /// # Errors
    /// Where it began does not allow that.
    pub fn reset_to(&mut self, seq: Seq) -> Result<Seq, &'static str> {
        let seq = self.reset_place(seq)?;
        self.reset(seq);
        Ok(seq)
    }

    /// With which message it would begin anew.
    ///
    /// # Errors
    /// As [`reset_to`](Self::reset_to).
    pub fn reset_place(&self, seq: Seq) -> Result<Seq, &'static str> {
        let config = &self.hands.config;
        let seq = match config.deliver_policy {
            _ if seq == 0 => self.hands.record.read(|state| state.ack_floor().stream) + 1,
            DeliverPolicy::All => seq,
            DeliverPolicy::ByStartSequence if seq < config.opt_start_seq => return Err("below start seq"),
            DeliverPolicy::ByStartSequence => seq,
            DeliverPolicy::ByStartTime => {
                let time = config.opt_start_time.map_or(0, |time| time.timestamp());
                match self.source.reader().seq_at(time) {
                    Ok(first) if seq < first => return Err("below start time"),
                    _ => seq,
                }
            }
            _ => return Err("not allowed"),
        };
        Ok(seq)
    }

    /// The last message up to which all are acknowledged.
    #[must_use]
    pub fn acknowledged_through(&self) -> Seq {
        self.hands.record.read(|state| state.ack_floor().stream)
    }

    /// Whether another stream of this server reads the log itself and tells what it has stored. Meanwhile nothing is pushed.
    pub fn set_read(&mut self, is_read: bool, turn: &mut Turn<'_>) {
        if let Mode::Push(push) = &mut self.hands.mode {
            push.is_read = is_read;
        }
        self.listen(turn);
    }

    /// Another stream has read these messages, which are this consumer's, and has stored them: as if they were delivered and
    /// acknowledged.
    pub fn sourced(&mut self, seqs: Vec<Seq>, turn: &mut Turn<'_>) {
        let Some(&seq) = seqs.last() else { return };
        let hands = &mut self.hands;
        hands.next_delivery += seqs.len() as u64;
        let delivery = consumer::DeliverySeq(hands.next_delivery - 1);
        let timestamp = turn.now;
        hands.deltas.push(Delta::Delivered { delivery, seq, count: 1, timestamp });
        hands.deltas.push(Delta::Acknowledged { delivery, seq });
        hands.commit();
        hands.count_outstanding();
        (hands.last_delivered, hands.last_acked) = (Some(timestamp), Some(timestamp));
        self.source.seek(self.source.position().max(seq + 1));
        if self.retention != Retention::Limits {
            turn.effects.settled.extend(seqs);
        }
    }

    /// Begins anew with the message `seq`, as [`reset_place`](Self::reset_place) has it.
    pub fn reset(&mut self, seq: Seq) {
        self.hands.record.apply(Delta::Reset { seq: seq - 1 });
        self.redelivery.clear();
        self.source.seek(seq);
        self.first = 0;
        self.hands.next_delivery = 1;
        self.hands.outstanding = 0;
        (self.hands.last_delivered, self.hands.last_acked) = (None, None);
    }

    /// Messages were purged or deleted: what of them awaited an acknowledgement does so no more, and what is no more is not
    /// looked for. `are_told`: those who listen hear of each that awaited one. Compat: not where all up to some message was purged.
    pub fn forget_removed(&mut self, are_told: bool, turn: &mut Turn<'_>) {
        self.trim(are_told, turn);
        let known: Vec<Seq> = self.hands.record.read(|state| {
            let pending = state.pending().iter().map(|(seq, _)| seq);
            pending.chain(state.redelivered().keys().copied()).collect()
        });
        let source = &self.source;
        let gone: Vec<Delta> =
            known.into_iter().filter(|seq| !source.contains(*seq)).map(|seq| Delta::Forget { seq }).collect();
        let unacknowledged = self.unacknowledged_and_gone();
        self.hands.record.apply_all(&gone);
        self.removed(unacknowledged, are_told, turn);
        let source = &self.source;
        self.redelivery.retain(|seq| source.contains(seq));
        self.source.forget_removed();
    }

    /// Nothing that it wants is left up to `through`: the floor of its acknowledgements goes there.
    pub fn skip_through(&mut self, through: Seq, turn: &mut Turn<'_>) {
        self.source.trimmed(through + 1);
        let gone = self.hands.unacknowledged(through + 1);
        if self.hands.record.apply(Delta::DropBelow { seq: through + 1 }) == Applied::Changed {
            self.redelivery.retain(|seq| seq > through);
            self.removed(gone, false, turn);
        }
    }

    /// The stream may have lost messages to its limits: nobody can acknowledge what is gone, and it keeps nothing back.
    pub(super) fn notice_removed(&mut self, turn: &mut Turn<'_>) {
        let interior = self.trim(true, turn).interior;
        let seen = std::mem::replace(&mut self.interior, interior);
        if seen != interior && self.hands.outstanding > 0 {
            self.forget_interior(seen, turn);
        }
    }

    /// Of what was removed since the stream had lost `seen` messages, nothing awaits its acknowledgement any more.
    fn forget_interior(&mut self, seen: u64, turn: &mut Turn<'_>) {
        let gone = match self.source.reader().removed_since(seen) {
            Some(mut removed) => {
                removed.sort_unstable();
                self.hands.unacknowledged_of(&removed)
            }
            None => self.unacknowledged_and_gone(),
        };
        let deltas: Vec<Delta> = gone.iter().map(|one| Delta::Forget { seq: one.seq }).collect();
        self.hands.record.apply_all(&deltas);
        gone.iter().for_each(|one| self.redelivery.remove(one.seq));
        if !gone.is_empty() {
            self.removed(gone, true, turn);
        }
    }

    /// What awaits its acknowledgement and is not in the stream.
    fn unacknowledged_and_gone(&self) -> Vec<Answered> {
        let mut all = self.hands.unacknowledged(Seq::MAX);
        all.retain(|one| !self.source.contains(one.seq));
        all
    }

    fn trim(&mut self, are_told: bool, turn: &mut Turn<'_>) -> Removals {
        let removals = self.source.reader().removals();
        let first = removals.first_seq;
        if first == self.first {
            return removals;
        }
        self.first = first;
        self.source.trimmed(first);
        let gone = self.hands.unacknowledged(first);
        if self.hands.record.apply(Delta::DropBelow { seq: first }) == Applied::Changed {
            self.redelivery.retain(|seq| seq >= first);
            self.removed(gone, are_told, turn);
        }
        removals
    }

    fn removed(&mut self, gone: Vec<Answered>, are_told: bool, turn: &mut Turn<'_>) {
        self.hands.count_outstanding();
        if !gone.is_empty() {
            self.hands.last_acked = Some(turn.now);
        }
        if are_told {
            let told = |one| Event::Terminated(one, "Unacknowledged message was deleted".to_owned());
            turn.effects.events.extend(gone.into_iter().map(told));
        }
    }

    /// Looks whether anybody listens to what it pushes.
    pub fn listen(&mut self, turn: &mut Turn<'_>) {
        let Mode::Push(push) = &mut self.hands.mode else { return };
        let is_active = !push.is_read && is_listened_to(&self.hands.config, turn.world);
        if is_active {
            push.inactive_since = None;
        } else if push.is_active {
            push.inactive_since = Some(turn.now);
        }
        push.is_active = is_active;
    }

    /// Ends it: who waits is told so.
    pub fn end(&mut self, text: &str, turn: &mut Turn<'_>) {
        if let Mode::Pull(pull) = &mut self.hands.mode {
            pull.end(text, turn);
        }
    }

    /// The server ends: who waits is told so. Answers whether anybody did.
    pub fn take_leave(&mut self, turn: &mut Turn<'_>) -> bool {
        match &mut self.hands.mode {
            Mode::Pull(pull) => pull.take_leave(turn),
            Mode::Push(_) => false,
        }
    }

    /// When [`due`](Self::due) has something to do: perhaps too early, never too late.
    #[must_use]
    pub fn next_due(&self, now: Timestamp) -> Option<Timestamp> {
        let config = &self.hands.config;
        let pause =
            (!self.is_pause_told).then(|| config.pause_until.map(|until| until.timestamp())).flatten();
        let mode = match &self.hands.mode {
            Mode::Pull(pull) => pull.next_due(),
            Mode::Push(push) => push.next_beat(),
        };
        let again = self.redelivery.next_due();
        [pause, mode, again, self.held_until, self.end_of_use(now)].into_iter().flatten().min()
    }

    /// When nobody will have used it for too long.
    fn end_of_use(&self, now: Timestamp) -> Option<Timestamp> {
        let threshold = self.hands.config.inactive_threshold;
        if threshold <= 0 {
            return None;
        }
        let since = match &self.hands.mode {
            Mode::Push(push) => push.inactive_since?,
            Mode::Pull(pull) if pull.is_empty() => pull.last_used,
            Mode::Pull(_) => now,
        };
        Some(since.saturating_add(threshold))
    }

    /// Does what is due besides deliveries.
    pub fn due(&mut self, turn: &mut Turn<'_>) {
        turn.place = self.place();
        if self.held_until.is_some_and(|at| at <= turn.now) {
            self.held_until = None;
        }
        if !self.is_pause_told && !self.is_paused(turn.now) {
            self.is_pause_told = true;
            turn.effects.events.push(Event::Pause);
        }
        if self.redelivery.next_due().is_some_and(|at| at <= turn.now) {
            self.look_for_late(turn);
        }
        let (has_pending, is_full) = (self.hands.outstanding > 0, self.is_full());
        let Deliverer { config, mode, .. } = &mut self.hands;
        match mode {
            Mode::Pull(pull) => {
                pull.unpin_if_due(turn);
                if pull.next_due().is_some_and(|at| at <= turn.now) {
                    // Compat: where acknowledgements are missing, who does not want to wait does so until the next of
                    // these moments.
                    pull.look_through(is_full, turn);
                }
            }
            Mode::Push(push) => push.beat_if_due(config, turn.place, has_pending, turn.now, turn.effects),
        }
        self.end_if_unused(turn);
    }

    /// What nobody acknowledged in time is to come again, or was delivered as often as it may be.
    fn look_for_late(&mut self, turn: &mut Turn<'_>) {
        self.notice_removed(turn);
        let Self { redelivery, hands, .. } = self;
        let found = hands.record.read(|state| redelivery.look(state, &hands.config, turn.now));
        for (seq, pending, redelivered) in found.exhausted {
            let deliveries = redelivered + 1;
            turn.effects.events.push(Event::MaxDeliveries { seq, deliveries });
            // More often than may be: the record gives it up.
            let count = u64::try_from(hands.config.max_deliver).unwrap_or(0) + 1;
            let delivery = pending.delivery;
            hands.record.apply(Delta::Delivered { delivery, seq, count, timestamp: pending.timestamp });
        }
        hands.count_outstanding();
    }

    fn end_if_unused(&mut self, turn: &mut Turn<'_>) {
        if self.end_of_use(turn.now).is_none_or(|at| at > turn.now) {
            return;
        }
        if let Mode::Pull(pull) = &mut self.hands.mode {
            // A client that works on what it got is using it.
            let newest = self.hands.record.read(|state| {
                let waits = state.pending().iter().map(|(seq, pending)| {
                    let redelivered = state.redelivered().get(&seq).copied().unwrap_or(0);
                    pending.timestamp.saturating_add(ack_wait(&self.hands.config, redelivered))
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

impl Deliverer {
    pub(super) fn count_outstanding(&mut self) {
        self.outstanding = self.record.read(|state| state.pending().len() as u64);
    }

    /// What awaits its acknowledgement of the messages before `end`.
    fn unacknowledged(&self, end: Seq) -> Vec<Answered> {
        self.record.read(|state| {
            let pending = state.pending().iter().take_while(|(seq, _)| *seq < end);
            pending.map(|(seq, pending)| lost(state, seq, &pending)).collect()
        })
    }

    /// What awaits its acknowledgement of these messages.
    fn unacknowledged_of(&self, seqs: &[Seq]) -> Vec<Answered> {
        self.record.read(|state| {
            let pending = |seq: &Seq| Some(lost(state, *seq, &state.pending().get(*seq)?));
            seqs.iter().filter_map(pending).collect()
        })
    }

    /// Has the record know what was delivered.
    pub(super) fn commit(&mut self) {
        self.record.apply_all(&self.deltas);
        self.deltas.clear();
    }
}

/// Of what awaits its acknowledgement, forgets what is not in the stream: what was removed shortly before a crash may not be
/// in the record. Answers whether there was any.
fn forget_missing(record: &Record, reader: &Reader) -> bool {
    let totals = reader.state().totals;
    if totals.messages == (totals.last_seq + 1).saturating_sub(totals.first_seq) {
        return false;
    }
    let pending: Vec<Seq> = record.read(|state| state.pending().iter().map(|(seq, _)| seq).collect());
    let missing = pending.into_iter().filter(|seq| !contains(reader, *seq));
    let deltas: Vec<Delta> = missing.map(|seq| Delta::Forget { seq }).collect();
    record.apply_all(&deltas);
    !deltas.is_empty()
}

/// A delivery of a message that nobody can acknowledge any more.
fn lost(state: &ConsumerState, seq: Seq, pending: &consumer::Pending) -> Answered {
    // Compat: one that came again once counts like one that came for the first time.
    let deliveries = state.redelivered().get(&seq).copied().unwrap_or(0).max(1);
    Answered { delivery: pending.delivery, seq, deliveries }
}
