//! One consumer inside its turn: requests and acknowledgements in, deliveries out.
//!
//! Owns everything about a consumer that is not in its [`StateHandle`]: who waits, what is to come
//! again, where it is in the stream. No clock, socket or thread: `now` and the [`Env`] are passed
//! in. Nothing is delivered that the stream has not released, and nothing is forgotten that was
//! delivered and not acknowledged.

use super::ack_subject::AckSubjects;
use super::dead_letters::DeadLetters;
use super::effects::{AckedDelivery, ConsumerEvent, Effects, Env};
use super::held_effects::HeldEffects;
use super::pacing::Pacer;
use super::pull::{Pull, Supply};
use super::push::{Push, is_listened_to};
use super::redelivery::Redelivery;
use super::state_handle::StateHandle;
use super::status::StatusMessage;
use super::stream_scan::{RETRY, Start, StreamScan, filter_of};
use super::unacknowledged::forget_missing;
use crate::ReplicaRole;
use myelin_jsapi::config::Retention;
use myelin_jsapi::consumer::config::{AckPolicy, ConsumerConfig, DeliverPolicy};
use myelin_store::consumer::{self, AckRules, Applied, Delta};
use myelin_store::{Filter, ReadError, Removals, Seq, StreamReader, Timestamp};
use std::num::NonZeroU64;
use std::sync::Arc;

/// Context in which a method of a consumer works.
pub struct TurnCtx<'a> {
    /// The time of day.
    pub now: Timestamp,
    /// The last delivery and message, for signs of life: set by the core.
    pub(super) place: (u64, u64),
    /// Questions to the embedder.
    pub env: &'a mut dyn Env,
    /// Effects of the turn so far.
    pub effects: &'a mut Effects,
}

impl<'a> TurnCtx<'a> {
    /// A turn at this time.
    pub fn new(now: Timestamp, env: &'a mut dyn Env, effects: &'a mut Effects) -> Self {
        Self { now, place: (0, 0), env, effects }
    }
}

/// Parts of which a consumer is made.
pub struct ConsumerInit {
    /// The stream's name.
    pub stream: String,
    /// Its configuration, checked, with its name.
    pub config: Arc<ConsumerConfig>,
    /// When it was made.
    pub created: Timestamp,
    /// Of its stream.
    pub reader: StreamReader,
    /// Its state.
    pub state_handle: StateHandle,
    /// Of the stream.
    pub retention: Retention,
    /// Bytes of the largest message that may come.
    pub largest: i64,
    /// For subjects that nobody should guess.
    pub seed: u64,
}

/// Core of one consumer: takes requests and acknowledgements, makes deliveries.
pub struct ConsumerCore {
    pub(super) created: Timestamp,
    pub(super) scan: StreamScan,
    pub(super) redelivery: Redelivery,
    pub(super) deliverer: Deliverer,
    pub(super) retention: Retention,
    largest: i64,
    /// Where the stream began when the record was last told.
    first: Seq,
    /// How many messages the stream had lost behind that.
    interior: u64,
    /// A message may go no earlier.
    pub(super) held_until: Option<Timestamp>,
    /// Whether that is because it could not be read, and not for its pace.
    pub(super) is_held_by_disk: bool,
    /// Bytes of a message that comes again.
    pub(super) redelivery_buf: Vec<u8>,
    /// Whether the end of the pause is still to be told.
    pub(super) is_pause_reported: bool,
    pub(super) role: ReplicaRole,
    /// Effects that wait until they may be told.
    pub(super) held: HeldEffects,
    pub(super) dead_letters: Option<Box<DeadLetters>>,
}

/// Deliverer of messages, once they are found.
pub(super) struct Deliverer {
    pub(super) config: Arc<ConsumerConfig>,
    pub(super) state_handle: StateHandle,
    pub(super) subjects: AckSubjects,
    pub(super) mode: DeliveryMode,
    pub(super) pacer: Pacer,
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
pub(super) enum DeliveryMode {
    Pull(Pull),
    Push(Box<Push>),
}

/// How its state changes, as the store has it.
#[must_use]
pub fn rules(config: &ConsumerConfig) -> AckRules {
    AckRules {
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
    pub fn create(init: ConsumerInit, keeps_one: bool, now: Timestamp) -> Result<Self, ReadError> {
        let start = Start::select(&init.config, &init.reader, keeps_one)?;
        init.state_handle.apply(Delta::Reset { seq: start.floor() });
        Ok(Self::begin(init, start, now))
    }

    /// A consumer whose record is there already.
    #[must_use]
    pub fn resume(init: ConsumerInit, now: Timestamp) -> Self {
        let first = init.reader.removals().first_seq;
        init.state_handle.apply(Delta::DropBelow { seq: first });
        // A loss of power may have cost the stream its end and not the consumer: new messages will
        // have those sequences.
        init.state_handle.apply(Delta::CutAbove { seq: init.reader.state().totals.last_seq });
        forget_missing(&init.state_handle, &init.reader);
        Self::begin_at_record(init, now)
    }

    fn begin_at_record(init: ConsumerInit, now: Timestamp) -> Self {
        let delivered = init.state_handle.read(|state| state.delivered().stream);
        let start = Start::behind(delivered, &init.config, &init.reader);
        Self::begin(init, start, now)
    }

    /// Begins anew from its record and its stream, as after a restart: for whoever has caught a
    /// panic, after which what it remembers may be wrong. Deliveries so far count. Who waited for
    /// messages asks again.
    pub fn reopen(&mut self, stream: &str, seed: u64, now: Timestamp) {
        self.deliverer.commit();
        let init = ConsumerInit {
            stream: stream.to_owned(),
            config: Arc::clone(&self.deliverer.config),
            created: self.created,
            reader: self.scan.reader().clone(),
            state_handle: self.deliverer.state_handle.clone(),
            retention: self.retention,
            largest: self.largest,
            seed,
        };
        let role = self.role;
        // What the stream shows of the record is a leader's to decide.
        let anew = if role.leads() { Self::resume(init, now) } else { Self::begin_at_record(init, now) };
        // Not before: a panic must not take what waits.
        let held = std::mem::take(&mut self.held);
        *self = anew;
        self.role = role;
        self.redelivery.hold_from(held.first_decided());
        self.held = held;
    }

    /// Role of this replica.
    #[must_use]
    pub fn role(&self) -> ReplicaRole {
        self.role
    }

    /// Another role from now on. With the leader goes what it has decided and its group has not:
    /// nothing of what waits is sent, and requests for messages are told. A leader begins from the
    /// record, as after a restart.
    pub fn set_role(&mut self, role: ReplicaRole, stream: &str, seed: u64, turn: &mut TurnCtx<'_>) {
        if self.role == role {
            return;
        }
        if !role.leads() {
            self.give_up_leading(turn);
        }
        self.role = role;
        self.deliverer.deltas.clear();
        self.reopen(stream, seed, turn.now);
    }

    fn begin(init: ConsumerInit, start: Start, now: Timestamp) -> Self {
        let ConsumerInit { stream, config, created, reader, state_handle, retention, largest, seed } = init;
        let mode = if config.is_push() {
            DeliveryMode::Push(Box::new(Push::new(&stream, &config.name, &config, seed)))
        } else {
            DeliveryMode::Pull(Pull::new(now))
        };
        let (delivered, outstanding) =
            state_handle.read(|state| (state.delivered().consumer.0, state.pending().len() as u64));
        let interior = reader.removals().interior;
        let dead_letters = DeadLetters::of(&config, &stream, seed, &state_handle);
        let mut redelivery = Redelivery::default();
        redelivery.follow(dead_letters.as_deref(), &config, created);
        if outstanding > 0 {
            // What was not acknowledged before a restart may be due.
            redelivery.expect(now);
        }
        let mut core = Self {
            created,
            redelivery,
            deliverer: Deliverer {
                subjects: AckSubjects::new(&stream, &config.name),
                mode,
                pacer: Pacer::new(&config, reader.state().totals.last_seq, largest),
                deltas: Vec::new(),
                next_delivery: delivered + 1,
                outstanding,
                last_delivered: None,
                last_acked: None,
                headers: Vec::new(),
                state_handle,
                config: Arc::clone(&config),
            },
            scan: StreamScan::new(reader, filter_of(&config), start),
            retention,
            largest,
            first: 0,
            interior,
            held_until: None,
            is_held_by_disk: false,
            redelivery_buf: Vec::new(),
            is_pause_reported: true,
            role: ReplicaRole::Leader,
            held: HeldEffects::default(),
            dead_letters,
        };
        core.is_pause_reported = !core.is_paused(now);
        if let DeliveryMode::Push(push) = &mut core.deliverer.mode {
            push.inactive_since = Some(now);
            push.beat_later(&config, now);
        }
        core
    }

    /// The configuration in force.
    #[must_use]
    pub fn config(&self) -> &Arc<ConsumerConfig> {
        &self.deliverer.config
    }

    /// Its state's place.
    #[must_use]
    pub fn state_handle(&self) -> &StateHandle {
        &self.deliverer.state_handle
    }

    /// Goes on with its state, as it is, in another place.
    pub fn move_state(&mut self, place: StateHandle) {
        self.deliverer.commit();
        let state = self.deliverer.state_handle.read(Clone::clone);
        // One that was removed meanwhile needs no state.
        let _ = place.lock().replace(place.id(), state);
        self.deliverer.state_handle = place;
    }

    /// Filter of the consumer.
    #[must_use]
    pub fn filter(&self) -> &Filter {
        self.scan.filter()
    }

    /// The next message that it looks at.
    #[must_use]
    pub fn position(&self) -> Seq {
        self.scan.position()
    }

    /// Whether it delivers nothing for now.
    #[must_use]
    pub fn is_paused(&self, now: Timestamp) -> bool {
        let was_reported = myelin_stdx::planted::bug(18) && self.is_pause_reported;
        !was_reported && self.deliverer.config.pause_until.is_some_and(|until| now < until.timestamp())
    }

    /// Goes on with `next`, or looks for it itself, after the message that was sought at `from` was
    /// read by another thread.
    pub fn warmed(&mut self, from: Seq, next: Option<Seq>) {
        self.scan.warmed(from, next);
    }

    /// Waits before it reads on, because another thread could not: it would be as cold as before.
    pub fn hold_reads(&mut self, now: Timestamp) {
        self.held_until = Some(now.saturating_add(RETRY));
        self.is_held_by_disk = true;
    }

    /// The last delivery and message.
    pub(super) fn place(&self) -> (u64, u64) {
        (self.deliverer.next_delivery - 1, self.scan.position() - 1)
    }

    pub(super) fn supply(&mut self, turn: &mut TurnCtx<'_>) -> Supply {
        self.notice_removed(turn);
        let pending = self.scan.left(turn.now);
        let redeliveries = self.redelivery.len() as u64;
        Supply { pending, redeliveries, outstanding: self.deliverer.outstanding }
    }

    /// Goes on with another configuration, which was checked.
    pub fn update(&mut self, config: Arc<ConsumerConfig>, stream: &str, seed: u64, turn: &mut TurnCtx<'_>) {
        let old = std::mem::replace(&mut self.deliverer.config, Arc::clone(&config));
        if filter_of(&old) != filter_of(&config) {
            self.scan.set_filter(filter_of(&config));
        }
        let policy = DeadLetters::policy(&config);
        if self.dead_letters.as_ref().map(|letters| &letters.policy) != policy.as_ref() {
            let state_handle = &self.deliverer.state_handle;
            self.dead_letters = DeadLetters::of(&config, stream, seed, state_handle);
        }
        self.redelivery.follow(self.dead_letters.as_deref(), &config, self.created);
        if old.rate_limit_bps != config.rate_limit_bps {
            self.deliverer.pacer.update(&config, self.largest);
            self.held_until = None;
        }
        if old.deliver_subject != config.deliver_subject && self.deliverer.outstanding > 0 {
            self.redeliver_all(turn);
        }
        if let Some(letters) = &self.dead_letters {
            self.redelivery.retain(|seq| !letters.has(seq));
        }
        if old.pause_until != config.pause_until {
            self.is_pause_reported = !self.is_paused(turn.now);
            turn.effects.events.push(ConsumerEvent::Pause);
        }
        if self.deliverer.outstanding > 0 {
            self.redelivery.expect(turn.now);
        }
        if old.inactive_threshold != config.inactive_threshold {
            self.begin_threshold(turn.now);
        }
        if let DeliveryMode::Push(push) = &mut self.deliverer.mode {
            push.beat_later(&config, turn.now);
        }
        self.listen(turn);
    }

    /// Another time without use ends it from now on. Compat: it begins anew, so that clients have
    /// all of it to come.
    fn begin_threshold(&mut self, now: Timestamp) {
        match &mut self.deliverer.mode {
            DeliveryMode::Pull(pull) => pull.last_used = pull.last_used.max(now),
            DeliveryMode::Push(push) => push.inactive_since = push.inactive_since.map(|_| now),
        }
    }

    /// Everything that awaits its acknowledgement is delivered again.
    fn redeliver_all(&mut self, turn: &TurnCtx<'_>) {
        let seqs: Vec<Seq> =
            self.deliverer.state_handle.read(|state| state.pending().iter().map(|(seq, _)| seq).collect());
        seqs.into_iter().for_each(|seq| self.redelivery.add(seq));
        self.redelivery.expect(turn.now);
    }

    /// Reads a stream that was opened anew.
    pub fn set_reader(&mut self, reader: StreamReader) {
        let last = reader.state().totals.last_seq;
        self.interior = reader.removals().interior;
        self.scan.set_reader(reader);
        self.first = 0;
        self.deliverer.commit();
        if !self.role.leads() {
            return;
        }
        let is_cut = self.deliverer.state_handle.apply(Delta::CutAbove { seq: last }) == Applied::Changed;
        if forget_missing(&self.deliverer.state_handle, self.scan.reader()) || is_cut {
            let scan = &self.scan;
            self.redelivery.retain(|seq| scan.contains(seq));
            self.deliverer.count_outstanding();
        }
    }

    /// Notes when it was active before this replica led, if it was: at the last delivery, and at
    /// the last acknowledgement.
    pub fn was_active(&mut self, (delivered, acked): (Option<Timestamp>, Option<Timestamp>)) {
        let deliverer = &mut self.deliverer;
        deliverer.last_delivered = deliverer.last_delivered.max(delivered);
        deliverer.last_acked = deliverer.last_acked.max(acked);
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

    /// Begins anew with the message `seq`, or behind the last acknowledged for 0; answers with
    /// which.
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
        let config = &self.deliverer.config;
        let seq = match config.deliver_policy {
            _ if seq == 0 => self.deliverer.state_handle.read(|state| state.ack_floor().stream) + 1,
            DeliverPolicy::All => seq,
            DeliverPolicy::ByStartSequence if seq < config.opt_start_seq => return Err("below start seq"),
            DeliverPolicy::ByStartSequence => seq,
            DeliverPolicy::ByStartTime => {
                let time = config.opt_start_time.map_or(0, |time| time.timestamp());
                match self.scan.reader().seq_at(time) {
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
        self.deliverer.state_handle.read(|state| state.ack_floor().stream)
    }

    /// Whether another stream of this server reads the log itself and tells what it has stored.
    /// Meanwhile nothing is pushed.
    pub fn set_read(&mut self, is_read: bool, turn: &mut TurnCtx<'_>) {
        if let DeliveryMode::Push(push) = &mut self.deliverer.mode {
            push.is_read = is_read;
        }
        self.listen(turn);
    }

    /// Another stream has read these messages, which are this consumer's, and has stored them: as
    /// if they were delivered and acknowledged.
    pub fn sourced(&mut self, seqs: Vec<Seq>, turn: &mut TurnCtx<'_>) {
        let Some(&seq) = seqs.last() else { return };
        let deliverer = &mut self.deliverer;
        debug_assert!(
            seqs.is_sorted_by(|one, next| one < next),
            "another stream reads in the order of this one"
        );
        deliverer.next_delivery += seqs.len() as u64;
        let delivery = consumer::DeliverySeq(deliverer.next_delivery - 1);
        let timestamp = turn.now;
        deliverer.deltas.push(Delta::Delivered { delivery, seq, count: 1, timestamp });
        deliverer.deltas.push(Delta::Acknowledged { delivery, seq });
        deliverer.commit();
        deliverer.count_outstanding();
        deliverer.check();
        (deliverer.last_delivered, deliverer.last_acked) = (Some(timestamp), Some(timestamp));
        self.scan.seek(self.scan.position().max(seq + 1));
        if self.retention != Retention::Limits {
            turn.effects.settled.extend(seqs);
        }
    }

    /// Begins anew with the message `seq`, as [`reset_place`](Self::reset_place) has it.
    pub fn reset(&mut self, seq: Seq) {
        self.deliverer.state_handle.apply(Delta::Reset { seq: seq - 1 });
        self.redelivery.clear();
        self.dead_letters.iter_mut().for_each(|letters| letters.clear());
        self.scan.seek(seq);
        self.first = 0;
        self.deliverer.next_delivery = 1;
        self.deliverer.outstanding = 0;
        debug_assert!(
            self.deliverer.deltas.is_empty(),
            "the record knows of all deliveries before it begins anew"
        );
        debug_assert!(self.redelivery.is_empty(), "nothing comes again of what was before");
        (self.deliverer.last_delivered, self.deliverer.last_acked) = (None, None);
    }

    /// Messages were purged or deleted: what of them awaited an acknowledgement does so no more,
    /// and what is no more is not looked for. `are_told`: those who listen hear of each that
    /// awaited one. Compat: not where all up to some message was purged.
    pub fn forget_removed(&mut self, are_told: bool, turn: &mut TurnCtx<'_>) {
        self.trim(are_told, turn);
        let known: Vec<Seq> = self.deliverer.state_handle.read(|state| {
            let pending = state.pending().iter().map(|(seq, _)| seq);
            pending.chain(state.redelivered().keys().copied()).collect()
        });
        let scan = &self.scan;
        let gone: Vec<Delta> =
            known.into_iter().filter(|seq| !scan.contains(*seq)).map(|seq| Delta::Forget { seq }).collect();
        let unacknowledged = self.unacknowledged_and_gone();
        self.deliverer.state_handle.apply_all(&gone);
        self.removed(unacknowledged, are_told, turn);
        let scan = &self.scan;
        self.redelivery.retain(|seq| scan.contains(seq));
        self.scan.forget_removed();
    }

    /// Nothing that it wants is left up to `through`: the floor of its acknowledgements goes there.
    pub fn skip_through(&mut self, through: Seq, turn: &mut TurnCtx<'_>) {
        self.scan.trimmed(through + 1);
        let gone = self.deliverer.unacknowledged(through + 1);
        if self.deliverer.state_handle.apply(Delta::DropBelow { seq: through + 1 }) == Applied::Changed {
            self.redelivery.retain(|seq| seq > through);
            self.removed(gone, false, turn);
        }
    }

    /// The stream may have lost messages to its limits: nobody can acknowledge what is gone, and it
    /// keeps nothing back.
    pub(super) fn notice_removed(&mut self, turn: &mut TurnCtx<'_>) {
        if !self.role.leads() {
            return;
        }
        let interior = self.trim(true, turn).interior;
        let seen = std::mem::replace(&mut self.interior, interior);
        if seen != interior && self.deliverer.outstanding > 0 && !myelin_stdx::planted::bug(14) {
            self.forget_interior(seen, turn);
        }
    }

    /// Of what was removed since the stream had lost `seen` messages, nothing awaits its
    /// acknowledgement any more.
    fn forget_interior(&mut self, seen: u64, turn: &mut TurnCtx<'_>) {
        let gone = match self.scan.reader().removed_since(seen) {
            Some(mut removed) => {
                removed.sort_unstable();
                self.deliverer.unacknowledged_of(&removed)
            }
            None => self.unacknowledged_and_gone(),
        };
        let deltas: Vec<Delta> = gone.iter().map(|one| Delta::Forget { seq: one.seq }).collect();
        self.deliverer.state_handle.apply_all(&deltas);
        gone.iter().for_each(|one| self.redelivery.remove(one.seq));
        if !gone.is_empty() {
            self.removed(gone, true, turn);
        }
    }

    /// Lists the messages that await their acknowledgement and are not in the stream.
    fn unacknowledged_and_gone(&self) -> Vec<AckedDelivery> {
        let mut all = self.deliverer.unacknowledged(Seq::MAX);
        all.retain(|one| !self.scan.contains(one.seq));
        all
    }

    fn trim(&mut self, are_told: bool, turn: &mut TurnCtx<'_>) -> Removals {
        let removals = self.scan.reader().removals();
        let first = removals.first_seq;
        if first == self.first {
            return removals;
        }
        self.first = first;
        self.scan.trimmed(first);
        let gone = self.deliverer.unacknowledged(first);
        if self.deliverer.state_handle.apply(Delta::DropBelow { seq: first }) == Applied::Changed {
            self.redelivery.retain(|seq| seq >= first);
            self.removed(gone, are_told, turn);
        }
        removals
    }

    fn removed(&mut self, gone: Vec<AckedDelivery>, are_told: bool, turn: &mut TurnCtx<'_>) {
        self.deliverer.count_outstanding();
        if !gone.is_empty() {
            self.deliverer.last_acked = Some(turn.now);
        }
        if are_told {
            let told = |one| ConsumerEvent::Terminated(one, "Unacknowledged message was deleted".to_owned());
            turn.effects.events.extend(gone.into_iter().map(told));
        }
    }

    /// Looks whether anybody listens to what it pushes.
    pub fn listen(&mut self, turn: &mut TurnCtx<'_>) {
        let DeliveryMode::Push(push) = &mut self.deliverer.mode else { return };
        let is_active = !push.is_read && is_listened_to(&self.deliverer.config, turn.env);
        if is_active {
            push.inactive_since = None;
        } else if push.is_active {
            push.inactive_since = Some(turn.now);
        }
        push.is_active = is_active;
    }

    /// Ends it: clients that asked for messages are told, behind what waits for them. Called once;
    /// [`say_last`](Self::say_last) tells those that come later.
    pub fn end(&mut self, text: &str, turn: &mut TurnCtx<'_>) {
        self.end_requests(text, turn);
    }

    /// Ends it with its stream, whose group agrees to nothing any more: clients that asked for
    /// messages are told, and what waits is never sent.
    pub fn end_at_once(&mut self, text: &str, turn: &mut TurnCtx<'_>) {
        self.end_requests(text, turn);
        let held = std::mem::take(&mut self.held);
        held.confirmations().for_each(|reply| turn.effects.push_status(reply, &StatusMessage::Nobody));
        self.role = ReplicaRole::Follower;
    }

    /// The server ends: who waits is told so. Answers whether anybody did.
    pub fn announce_shutdown(&mut self, turn: &mut TurnCtx<'_>) -> bool {
        match &mut self.deliverer.mode {
            DeliveryMode::Pull(pull) => pull.announce_shutdown(turn),
            DeliveryMode::Push(_) => false,
        }
    }
}
