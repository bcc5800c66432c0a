//! A consumer that is open: its core inside a turn, and how work gets there.
//!
//! Shards bring requests and acknowledgements and deliver what comes of them; threads that may wait
//! act on the core through the same turn and leave deliveries to a shard. Every turn ends with the
//! changes in the log: what is said of an acknowledgement waits for that.

use super::holding::{Proposing, RETRY, hold_confirmations, hold_for_commit, say_last};
use super::lifecycle::Lifecycle;
use super::shard_env::ShardEnv;
use super::wakeups::FilterEntry;
use super::{ConsumerTurn, StreamConsumers};
use crate::engine::host::{Host, Timer};
use crate::engine::ordered_outbox::OrderedOutbox;
use crate::engine::own_bindings::OwnBindings;
use crate::engine::waits::{Promised, promise};
use crate::engine::wakeup::{self, Wakeup};
use myelin_broker::{Account, Reach, Service, ServiceBatch, ServiceShard, Watch, Watcher};
use myelin_jsapi::consumer::config::ConsumerConfig;
use myelin_stdx::sync::lock;
use myelin_stdx::turn::Submitted;
use myelin_store::{Filter, Timestamp};
use myelin_streams::consumer::{AckSubject, ConsumerCore, DeliverOutcome, Effects, TurnCtx};
use myelin_wire::message_buf::MessageBuf;
use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Release, SeqCst};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// Pieces of work that one turn does before others get their chance.
const TURN_WORK: usize = 64;
/// A consumer that panics twice within so long of its own accord rests for as long before it is
/// opened anew.
const COOLDOWN: Duration = Duration::from_secs(60);

/// Work with the core.
pub(super) enum ConsumerWork {
    /// Pull requests.
    Requests(MessageBuf),
    /// Acknowledgements.
    Acks(MessageBuf),
    /// Answers to flow control.
    Flow(MessageBuf),
    /// Answers to dead letters.
    DeadLetters(MessageBuf),
    /// Something is due, or there may be something to deliver.
    Wake,
    /// Somebody who may wait wants something done.
    Act(Act),
}

type Act = Box<dyn FnOnce(&mut ConsumerCore, &mut TurnCtx<'_>) + Send>;

/// The core, and what it said that is not stored yet.
pub(super) struct ConsumerSlot {
    core: ConsumerCore,
    /// Answers to acknowledgements that could not be written.
    unwritten: MessageBuf,
    /// When it panicked last, of its own accord.
    panicked: Option<Instant>,
    /// Until then it delivers nothing: it panicked too often.
    cooldown_until: Option<Instant>,
}

/// Why a consumer panicked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PanicCause {
    /// By what a client sent, which is gone.
    Client,
    /// Of its own accord: it may do so again at once.
    Own,
}

impl PanicCause {
    fn of(work: &ConsumerWork) -> Self {
        if let ConsumerWork::Wake | ConsumerWork::Act(_) = work { Self::Own } else { Self::Client }
    }
}

/// Consumer that is open: its core inside a turn, and its outbox.
pub struct LiveConsumer {
    name: Box<str>,
    account: Arc<Account>,
    host: Arc<dyn Host>,
    owner: Weak<StreamConsumers>,
    turn: ConsumerTurn,
    outbox: OrderedOutbox,
    /// Whether it waits until its stream has more.
    is_parked: AtomicBool,
    /// Whether there is more to deliver when what was said is flushed.
    is_unfinished: AtomicBool,
    /// Whether it is to look who listens.
    has_listener_change: AtomicBool,
    lifecycle: Lifecycle,
    /// Wakeup by [`ConsumerWork::Wake`] and by what is due.
    wakeup: Wakeup,
    bindings: OwnBindings,
    /// Watch on who listens to what it pushes.
    listeners: Mutex<Option<Watch>>,
    /// Its filters in the index of its stream.
    filter_entries: Mutex<Vec<Arc<FilterEntry>>>,
    me: Weak<Self>,
}

/// Result of a turn.
#[derive(Default)]
struct DeliveryResult {
    must_send: bool,
    settled: Vec<myelin_store::Seq>,
    /// When the stream is to propose what was decided.
    proposing: Proposing,
    outcome: Option<DeliverOutcome>,
    /// Filter of what is looked for where the pace is cold.
    filter: Option<Filter>,
    due: Option<Timestamp>,
    is_over: bool,
    worked: usize,
    /// Whether somebody has asked for messages.
    was_asked: bool,
}

impl LiveConsumer {
    /// Takes a core into service. Nothing reaches it before [`LiveConsumer::bind`].
    pub(super) fn new(name: &str, core: ConsumerCore, owner: &Arc<StreamConsumers>) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            name: name.into(),
            account: Arc::clone(&owner.account),
            host: Arc::clone(&owner.host),
            owner: Arc::downgrade(owner),
            turn: ConsumerTurn::new(ConsumerSlot {
                core,
                unwritten: MessageBuf::default(),
                panicked: None,
                cooldown_until: None,
            }),
            outbox: OrderedOutbox::default(),
            is_parked: AtomicBool::new(false),
            is_unfinished: AtomicBool::new(false),
            has_listener_change: AtomicBool::new(true),
            lifecycle: Lifecycle::new(),
            wakeup: Wakeup::default(),
            bindings: OwnBindings::default(),
            listeners: Mutex::default(),
            filter_entries: Mutex::default(),
            me: Weak::clone(me),
        })
    }

    /// The consumer's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Receives what `subjects` match, and answers to dead letters, and nothing else.
    pub(super) fn bind(&self, subjects: &[String]) {
        let Some(me) = self.me.upgrade() else { return };
        let bind =
            |subject: &String| self.account.bind(subject.as_bytes(), Arc::clone(&me) as Arc<dyn Service>);
        let mut bindings: Vec<_> = subjects.iter().map(bind).collect();
        let answers = self.owner.upgrade().and_then(|owner| owner.dead_letter_answers(&self.name, &self.me));
        bindings.extend(answers.map(|(subject, service)| self.account.bind(subject.as_bytes(), service)));
        self.bindings.replace(&self.account, &bindings);
        if self.is_gone() {
            self.unbind();
        }
    }

    /// Receives nothing any more.
    pub(super) fn unbind(&self) {
        self.bindings.replace(&self.account, &[]);
    }

    /// Delivers nothing, and has requests wait: it is about to end.
    pub(super) fn stop_delivering(&self) {
        self.lifecycle.suspend(true);
    }

    /// Receives nothing and delivers nothing, until [`resume`](Self::resume).
    pub(super) fn suspend(&self) {
        self.lifecycle.suspend(true);
        self.unbind();
    }

    /// Goes on after [`suspend`](Self::suspend), and looks anew who listens.
    pub(super) fn resume(&self, subjects: &[String]) {
        self.bind(subjects);
        self.lifecycle.suspend(false);
        self.listeners_changed();
        self.wake();
    }

    /// Ends the consumer: it receives nothing, and does nothing that waits.
    pub(super) fn retire(&self) {
        self.lifecycle.retire();
        self.unbind();
        *lock(&self.listeners) = None;
    }

    /// Has other filters in the index; answers those before.
    pub(super) fn set_filter_entries(&self, filter_entries: Vec<Arc<FilterEntry>>) -> Vec<Arc<FilterEntry>> {
        std::mem::replace(&mut *lock(&self.filter_entries), filter_entries)
    }

    /// Hears when somebody begins or ends to listen to what is pushed.
    pub(super) fn listen_at(&self, config: &ConsumerConfig) {
        let me: Weak<dyn Watcher> = Weak::clone(&self.me) as Weak<dyn Watcher>;
        let watch = config.is_push().then(|| self.account.watch(config.deliver_subject.as_bytes(), me));
        *lock(&self.listeners) = watch;
        self.listeners_changed();
    }

    pub(super) fn is_gone(&self) -> bool {
        self.lifecycle.is_gone()
    }

    /// Does something with the core and waits until it is done; only for threads that may. `None`:
    /// a panic ended it.
    pub(in crate::engine) fn act<R: Send + 'static>(
        &self,
        act: impl FnOnce(&mut ConsumerCore, &mut TurnCtx<'_>) -> R + Send + 'static,
    ) -> Option<R> {
        self.act_soon(act).wait()
    }

    /// Does something with the core, now or as soon as whoever has its turn gets to it. `None`: a
    /// panic ended it.
    pub(in crate::engine) fn act_soon<R: Send + 'static>(
        &self,
        act: impl FnOnce(&mut ConsumerCore, &mut TurnCtx<'_>) -> R + Send + 'static,
    ) -> Promised<R> {
        let (promised, _) = self.submit_act(act);
        // A shard delivers, and sends what there is to say.
        self.wake();
        promised
    }

    /// Has something done with the core on a shard that holds no turn: whoever has the consumer's
    /// turn does it.
    pub(in crate::engine) fn act_on_shard(
        &self,
        act: impl FnOnce(&mut ConsumerCore, &mut TurnCtx<'_>) + Send + 'static,
        shard: &mut ServiceShard,
    ) {
        self.submit(ConsumerWork::Act(Box::new(act)), shard);
    }

    /// Does something with the core that leaves nothing new to deliver, now or as soon as whoever
    /// has its turn gets to it. `None`: a panic ended it.
    pub(in crate::engine) fn query_soon<R: Send + 'static>(
        &self,
        query: impl FnOnce(&mut ConsumerCore, &mut TurnCtx<'_>) -> R + Send + 'static,
    ) -> Promised<R> {
        let (promised, is_all) = self.submit_act(query);
        if !is_all {
            self.wake();
        }
        promised
    }

    /// Answers where the result comes, and whether that was all that was done here.
    fn submit_act<R: Send + 'static>(
        &self,
        act: impl FnOnce(&mut ConsumerCore, &mut TurnCtx<'_>) -> R + Send + 'static,
    ) -> (Promised<R>, bool) {
        let (promise, promised) = promise();
        let act: Act = Box::new(move |core, turn| promise.keep(act(core, turn)));
        let mut after = DeliveryResult::default();
        let mut is_all = true;
        let mut outcome = self
            .turn
            .submit(ConsumerWork::Act(act), |slot, batch| self.run_turn(slot, batch, None, &mut after));
        while outcome == Submitted::More {
            (after.worked, is_all) = (0, false);
            outcome = self.turn.resume(|slot, batch| self.run_turn(slot, batch, None, &mut after));
        }
        self.apply_effects(&mut after);
        if after.must_send {
            self.outbox.release();
        }
        if (after.proposing > Proposing::Never || !after.settled.is_empty())
            && let Some(owner) = self.owner.upgrade()
        {
            // What a shard had left here, too.
            owner.settled_off_shard(std::mem::take(&mut after.settled), after.proposing);
        }
        (promised, is_all && after.worked <= 1 && !after.must_send)
    }

    /// Has a shard look at it soon.
    pub(super) fn wake(&self) {
        wakeup::wake(&*self.host, &self.me);
    }

    /// Has a shard look at it soon, behind what was published so far.
    pub(in crate::engine) fn wake_behind(&self) {
        if let Some(me) = self.me.upgrade() {
            self.host.wake_behind(me);
        }
    }

    /// Whether everything it has to say is on its way.
    pub(in crate::engine) fn is_flushed(&self) -> bool {
        self.outbox.is_flushed()
    }

    /// Looks anew who listens to what it pushes.
    pub(super) fn listeners_changed(&self) {
        self.has_listener_change.store(true, Release);
    }

    /// Its stream has more. True: it waited for that.
    pub(super) fn unpark(&self) -> bool {
        self.is_parked.swap(false, SeqCst)
    }

    /// Keeps a consumer that is used after all: it may be over another time.
    pub(super) fn keep_alive(&self) {
        self.lifecycle.keep_alive();
        // With the alarm that it needs.
        self.wake();
    }

    /// Notes that its end was refused. It is still due, and its alarm has that tried again.
    pub(super) fn end_later(&self) {
        self.lifecycle.end_later(self.host.now() + RETRY);
    }

    /// Notes that it waits for more. False: it did already.
    pub(super) fn set_parked(&self) -> bool {
        !self.is_parked.swap(true, SeqCst)
    }

    /// Itself, for those who must not keep it.
    pub(super) fn weak(&self) -> Weak<Self> {
        Weak::clone(&self.me)
    }

    /// Leaves work of others for it, on a shard.
    pub(super) fn submit(&self, work: ConsumerWork, shard: &mut ServiceShard) {
        let mut after = DeliveryResult::default();
        let outcome =
            self.turn.submit(work, |slot, batch| self.run_turn(slot, batch, Some(&mut *shard), &mut after));
        self.end(outcome, after, shard);
    }

    fn run_wake(&self, shard: &mut ServiceShard) {
        let mut after = DeliveryResult::default();
        let outcome = if self.wakeup.enqueue() {
            self.turn.submit(ConsumerWork::Wake, |slot, batch| {
                self.run_turn(slot, batch, Some(&mut *shard), &mut after)
            })
        } else {
            self.turn.resume(|slot, batch| self.run_turn(slot, batch, Some(&mut *shard), &mut after))
        };
        self.end(outcome, after, shard);
    }

    fn end(&self, outcome: Submitted, mut after: DeliveryResult, shard: &mut ServiceShard) {
        self.apply_effects(&mut after);
        if after.must_send || self.outbox.claim() {
            self.outbox.send(&self.account, shard, self.host.instant());
            if let Some(me) = self.me.upgrade() {
                shard.after_flush(me);
            }
        }
        if (after.was_asked || after.proposing > Proposing::Never || !after.settled.is_empty())
            && let Some(owner) = self.owner.upgrade()
        {
            if after.was_asked {
                owner.note_asked(&self.name);
            }
            owner.settled(std::mem::take(&mut after.settled), after.proposing, shard);
        }
        if outcome == Submitted::More {
            self.wake();
        }
    }

    /// Sees to what a turn wants besides its messages.
    fn apply_effects(&self, after: &mut DeliveryResult) {
        match after.outcome.take() {
            Some(DeliverOutcome::More) => {
                self.is_unfinished.store(true, Release);
                // Usually the flush of what was said goes on with it; where nothing was, nobody
                // would.
                if !after.must_send {
                    self.wake();
                }
            }
            Some(DeliverOutcome::Cold(seq)) => {
                if let (Some(owner), Some(me), Some(filter)) =
                    (self.owner.upgrade(), self.me.upgrade(), after.filter.take())
                {
                    owner.warm(filter, seq, me);
                }
            }
            _ => {}
        }
        let is_over = std::mem::take(&mut after.is_over);
        let must_end =
            is_over && (self.lifecycle.begin_ending() || self.lifecycle.ends_again(self.host.now()));
        if let Some(at) = after.due.take() {
            // What is over stays due until it has ended: alarms would follow each other as fast as
            // they can.
            let at = if self.lifecycle.is_ending() { at.max(self.host.now() + RETRY) } else { at };
            self.wakeup.arm(at, &*self.host, &self.me);
        }
        if must_end && let (Some(owner), Some(me)) = (self.owner.upgrade(), self.me.upgrade()) {
            owner.end_unused(me);
        }
    }

    /// Works off what it can; what there is to say is in order when this returns. A panic costs
    /// this consumer what it was doing, and nobody else anything: it is opened anew.
    fn run_turn(
        &self,
        slot: &mut ConsumerSlot,
        batch: &mut VecDeque<ConsumerWork>,
        shard: Option<&mut ServiceShard>,
        after: &mut DeliveryResult,
    ) {
        let mut shard = shard;
        let out = shard.as_deref_mut().map(|shard| shard.spare_buf()).unwrap_or_default();
        let mut effects = Effects { out, ..Effects::default() };
        let has_shard = shard.is_some();
        let me = self.me.upgrade().map(|me| me as Arc<dyn Service>);
        let mut env = ShardEnv { account: &self.account, host: &*self.host, shard, me };
        let now = self.host.now();
        let is_suspended = self.lifecycle.is_suspended() || self.is_cooling_down(slot);
        if !self.is_gone() && !is_suspended && self.has_listener_change.swap(false, AcqRel) {
            let listening = || slot.core.listen(&mut TurnCtx::new(now, &mut env, &mut effects));
            caught(listening)
                .unwrap_or_else(|payload| self.reopen_after_panic(slot, now, &*payload, PanicCause::Own));
        }
        while after.worked < TURN_WORK
            && let Some(work) = batch.pop_front()
        {
            after.worked += 1;
            after.was_asked |= matches!(work, ConsumerWork::Requests(_));
            let cause = PanicCause::of(&work);
            let mut turn = TurnCtx::new(now, &mut env, &mut effects);
            let working = caught(|| self.work(&mut slot.core, work, &mut turn));
            match (working, &mut env.shard) {
                (Ok(spare), Some(shard)) => shard.keep_buf(spare),
                (Ok(_), None) => {}
                (Err(payload), _) => self.reopen_after_panic(slot, now, &*payload, cause),
            }
        }
        if self.is_gone() {
            self.say_last(slot, &mut TurnCtx::new(now, &mut env, &mut effects));
            after.must_send |= self.outbox.add(&mut effects.out);
            return;
        }
        let is_suspended = is_suspended || self.is_cooling_down(slot);
        // Elsewhere a shard is woken that does all this.
        if has_shard && !is_suspended {
            let mut turn = TurnCtx::new(now, &mut env, &mut effects);
            match caught(|| self.run_own_work(&mut slot.core, &mut turn)) {
                Ok(outcome) => {
                    if let DeliverOutcome::Cold(_) = outcome {
                        after.filter = Some(slot.core.filter().clone());
                    }
                    after.outcome = Some(outcome);
                }
                Err(payload) => self.reopen_after_panic(slot, now, &*payload, PanicCause::Own),
            }
        }
        if let Err(payload) = caught(|| self.finish(slot, &mut effects, now, after)) {
            self.reopen_after_panic(slot, now, &*payload, PanicCause::Own);
            after.due = Some(now.saturating_add(RETRY));
        }
        after.must_send |= self.outbox.add(&mut effects.out);
        after.settled.append(&mut effects.settled);
        after.is_over |= effects.is_over;
        self.adjust_due(slot, now, after);
        if let Some(shard) = env.shard {
            shard.keep_buf(effects.out);
        }
    }

    /// Has a consumer that is gone say what is left to say.
    #[cold]
    fn say_last(&self, slot: &mut ConsumerSlot, turn: &mut TurnCtx<'_>) {
        let now = turn.now;
        let wait = || self.owner.upgrade().iter().for_each(|owner| owner.await_release(&self.me));
        caught(|| say_last(&mut slot.core, wait, turn))
            .unwrap_or_else(|payload| self.reopen_after_panic(slot, now, &*payload, PanicCause::Own));
    }

    /// Does what it does of its own accord: what is due, and then deliveries.
    fn run_own_work(&self, core: &mut ConsumerCore, turn: &mut TurnCtx<'_>) -> DeliverOutcome {
        if core.next_due(turn.now).is_some_and(|at| at <= turn.now) {
            core.due(turn);
        }
        self.deliver(core, turn)
    }

    /// After a panic: begins anew from what is written, at once or after a rest.
    #[cold]
    fn reopen_after_panic(
        &self,
        slot: &mut ConsumerSlot,
        now: Timestamp,
        payload: &(dyn Any + Send + 'static),
        cause: PanicCause,
    ) {
        let instant = self.host.instant();
        let is_recent = |last| instant.saturating_duration_since(last) < COOLDOWN;
        let mut must_cool_down = cause == PanicCause::Own && slot.panicked.is_some_and(is_recent);
        if cause == PanicCause::Own {
            slot.panicked = Some(instant);
        }
        if let Some(owner) = self.owner.upgrade() {
            let seed = owner.seed();
            must_cool_down |= caught(|| slot.core.reopen(&owner.stream, seed, now)).is_err();
        }
        // What it was told may have been lost half-way.
        self.listeners_changed();
        if let Some(owner) = self.owner.upgrade() {
            owner.forget_waiting(self, slot.core.filter().is_all());
        }
        let cost = if must_cool_down {
            "it delivers nothing for a minute, and is opened anew then"
        } else {
            "it is opened anew"
        };
        slot.cooldown_until = Some(if must_cool_down { instant + COOLDOWN } else { instant });
        let stream = self.owner.upgrade().map(|owner| owner.stream.clone()).unwrap_or_default();
        let (account, name) = (self.account.name(), &self.name);
        let at = format_args!("in consumer '{account} > {stream} > {name}'");
        self.host.panicked(at, payload, format_args!("{cost}; who waited for messages asks again"));
    }

    /// Whether it panicked too often not long ago.
    fn is_cooling_down(&self, slot: &ConsumerSlot) -> bool {
        slot.cooldown_until.is_some_and(|until| self.host.instant() < until)
    }

    /// After a panic it goes on by itself, when its rest is over; otherwise while nothing is
    /// delivered nothing is due.
    fn adjust_due(&self, slot: &mut ConsumerSlot, now: Timestamp, after: &mut DeliveryResult) {
        if let Some(until) = slot.cooldown_until {
            let left = until.saturating_duration_since(self.host.instant());
            if left.is_zero() {
                slot.cooldown_until = None;
            }
            let left = i64::try_from(left.as_nanos()).unwrap_or(i64::MAX);
            after.due = Some(now.saturating_add(left));
            after.outcome = None;
        }
        if self.lifecycle.is_suspended() {
            after.due = None;
        }
    }

    /// Answers the buffer that was worked off, for its memory.
    fn work(&self, core: &mut ConsumerCore, work: ConsumerWork, turn: &mut TurnCtx<'_>) -> MessageBuf {
        match work {
            ConsumerWork::Requests(msgs) => {
                msgs.iter().for_each(|msg| core.request(&msg, turn));
                return msgs;
            }
            ConsumerWork::Acks(msgs) => {
                for msg in msgs.iter() {
                    if let Some(ack) = AckSubject::read(msg.subject) {
                        core.acknowledge(&ack, &msg, turn);
                    }
                }
                return msgs;
            }
            ConsumerWork::Flow(msgs) => {
                msgs.iter().for_each(|msg| core.flow(&msg, turn));
                return msgs;
            }
            ConsumerWork::DeadLetters(msgs) => {
                msgs.iter().for_each(|msg| core.dead_letter_answered(&msg, turn));
                return msgs;
            }
            ConsumerWork::Wake => self.wakeup.dequeue(),
            ConsumerWork::Act(act) => act(core, turn),
        }
        MessageBuf::default()
    }

    /// Delivers, and parks the consumer at the end of its stream without missing what comes
    /// meanwhile.
    fn deliver(&self, core: &mut ConsumerCore, turn: &mut TurnCtx<'_>) -> DeliverOutcome {
        let owner = self.owner.upgrade().filter(|owner| owner.may_deliver(core));
        let Some(owner) = owner else { return DeliverOutcome::Rests };
        loop {
            let outcome = core.deliver(turn);
            let next = match outcome {
                DeliverOutcome::AtEnd => core.position(),
                DeliverOutcome::TooFew(seen) => seen + 1,
                _ => return outcome,
            };
            if owner.park(self, next, core.filter().is_all()) {
                return outcome;
            }
        }
    }

    /// Has the log know, or the group, and puts what there is to say behind what was said before.
    fn finish(
        &self,
        slot: &mut ConsumerSlot,
        effects: &mut Effects,
        now: Timestamp,
        after: &mut DeliveryResult,
    ) {
        let mut retry_at = None;
        if let Some(owner) = self.owner.upgrade() {
            let state_handle = slot.core.state_handle().clone();
            let is_in_group = owner.is_in_group(&state_handle);
            if is_in_group {
                after.proposing = after.proposing.max(hold_for_commit(&mut slot.core, effects, now));
            } else {
                owner.add_advisories(&self.name, effects);
                let ConsumerSlot { core, unwritten, .. } = slot;
                let flush = |state_handle: &_, is_awaited| owner.flush(state_handle, is_awaited, now);
                retry_at = hold_confirmations(core, unwritten, effects, flush, now);
            }
            if slot.core.is_holding() {
                let is_stored =
                    |position: Option<_>| position.is_none_or(|at| state_handle.lock().is_released(at));
                if slot.core.release_held(is_stored, effects, now) {
                    owner.await_release(&self.me);
                    // It may have come just before somebody waited for it.
                    slot.core.release_held(is_stored, effects, now);
                }
            }
            if is_in_group {
                owner.add_advisories(&self.name, effects);
            }
        }
        after.due = slot.core.next_due(now).into_iter().chain(retry_at).min().or(after.due);
    }
}

/// Perf: once for each step of a turn, never for a message.
fn caught<T>(step: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(step))
}

impl Service for LiveConsumer {
    fn reach(&self) -> Reach {
        self.host.reach()
    }

    fn serve(&self, msgs: &mut ServiceBatch, shard: &mut ServiceShard) {
        if msgs.is_empty() {
            self.run_wake(shard);
        } else {
            self.submit(ConsumerWork::Requests(std::mem::take(&mut msgs.msgs)), shard);
        }
    }

    fn flushed(&self, shard: &mut ServiceShard) {
        let me = self.me.upgrade();
        if self.outbox.flushed() {
            self.outbox.send(&self.account, shard, self.host.instant());
            if let Some(me) = &me {
                shard.after_flush(Arc::clone(me) as Arc<dyn Service>);
            }
        }
        if self.is_unfinished.swap(false, AcqRel)
            && let Some(me) = me
        {
            shard.wake(&(me as Arc<dyn Service>));
        }
    }
}

impl Watcher for LiveConsumer {
    fn interest_changed(&self, shard: Option<&mut ServiceShard>) {
        self.listeners_changed();
        match (shard, self.me.upgrade()) {
            // In this tick: what was published behind the change finds it known.
            (Some(shard), Some(me)) => shard.wake(&(me as Arc<dyn Service>)),
            _ => self.wake(),
        }
    }
}

impl Timer for LiveConsumer {
    fn fire(&self) {
        self.wakeup.fired();
        // Somebody may still hold one that was removed.
        if !self.is_gone() {
            self.wake();
        }
    }

    fn may_wait(&self) -> bool {
        false
    }
}
