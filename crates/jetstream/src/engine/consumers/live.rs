//! A consumer that is open: its core inside a turn, and how work gets there.
//!
//! Shards bring requests and acknowledgements and deliver what comes of them; threads that may wait act on the core through
//! the same turn and leave deliveries to a shard. Every hold ends with the changes in the log: what is said of an
//! acknowledgement waits for that.

use super::StreamConsumers;
use super::news::Wish;
use crate::consumer::config::ConsumerConfig;
use crate::consumer::{AckSubject, ConsumerCore, Effects, Pace, Turn, World};
use crate::engine::host::{Alarmed, Host};
use crate::engine::letters::Letters;
use crate::engine::live::lock;
use myelin_broker::{Account, Binding, Parcel, Service, Shard, Watch, Watcher};
use myelin_stdx::turn::{self, Outcome};
use myelin_store::consumer::Flushed;
use myelin_store::{Filter, Timestamp};
use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// Pieces of work that one hold does before others get their chance.
const HOLD: usize = 64;
/// Nanoseconds after which a log that could not be written is tried again.
const RETRY: i64 = 1_000_000_000;

/// A consumer that panics twice within so long of its own accord rests for as long before it is opened anew.
const CALM: Duration = Duration::from_secs(60);

/// What is done with the core.
pub(super) enum Work {
    /// Pull requests.
    Requests(Parcel),
    /// Acknowledgements.
    Acks(Parcel),
    /// Answers to flow control.
    Flow(Parcel),
    /// Something is due, or there may be something to deliver.
    Look,
    /// Somebody who may wait wants something done.
    Act(Act),
}

type Act = Box<dyn FnOnce(&mut ConsumerCore, &mut Turn<'_>) + Send>;

/// The core, and what it said that is not stored yet.
pub(super) struct Seat {
    core: ConsumerCore,
    /// Answers to acknowledgements that could not be written.
    unwritten: Parcel,
    /// Those that are, and what must be stored before they are given; `None`: nothing.
    unconfirmed: VecDeque<(Option<Flushed>, Parcel)>,
    /// When it panicked last, of its own accord.
    panicked: Option<Instant>,
    /// Until then it delivers nothing: it panicked too often.
    rests_until: Option<Instant>,
}

/// Why a consumer panicked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// By what a client sent, which is gone.
    Client,
    /// Of its own accord: it may do so again at once.
    Own,
}

/// See the head of this file.
pub struct LiveConsumer {
    name: Box<str>,
    account: Arc<Account>,
    host: Arc<dyn Host>,
    owner: Weak<StreamConsumers>,
    turn: turn::Turn<Seat, Work>,
    letters: Letters,
    /// Whether it waits for news of its stream.
    is_parked: AtomicBool,
    /// Whether there is more to deliver when what was said is flushed.
    is_unfinished: AtomicBool,
    /// Whether a look is in the inbox.
    has_look: AtomicBool,
    /// Whether it is to look who listens.
    has_listeners_news: AtomicBool,
    is_gone: AtomicBool,
    /// Nobody uses it any more, and the API's thread was asked to end it.
    is_ending: AtomicBool,
    /// Its account may not use JetStream now: nobody could acknowledge, so nothing is delivered.
    is_resting: AtomicBool,
    /// When the host will wake it; `i64::MAX`: never.
    alarm: AtomicI64,
    bindings: Mutex<Vec<Arc<Binding>>>,
    /// Who listens to what it pushes.
    listeners: Mutex<Option<Watch>>,
    /// Its filters in the index of its stream.
    wishes: Mutex<Vec<Arc<Wish>>>,
    me: Weak<Self>,
}

/// What comes of a hold.
#[derive(Default)]
struct Aftermath {
    has_letters: bool,
    settled: Vec<myelin_store::Seq>,
    pace: Option<Pace>,
    /// What is looked for where the pace is cold.
    filter: Option<Filter>,
    due: Option<Timestamp>,
    is_over: bool,
    worked: usize,
}

/// What a turn asks.
struct Around<'a> {
    account: &'a Arc<Account>,
    host: &'a dyn Host,
    shard: Option<&'a mut Shard>,
    me: Option<Arc<dyn Service>>,
}

impl World for Around<'_> {
    fn has_interest(&self, subject: &[u8]) -> bool {
        self.account.has_interest(subject)
    }

    fn listens(&self, subject: &[u8], group: Option<&[u8]>) -> bool {
        self.account.has_listener(subject, group)
    }

    fn is_congested(&mut self, subject: &[u8]) -> bool {
        match (&mut self.shard, &self.me) {
            (Some(shard), Some(me)) => shard.is_congested(self.account, subject, me),
            // Only shards deliver.
            _ => true,
        }
    }

    fn unique_id(&self) -> String {
        self.host.unique_id()
    }
}

impl LiveConsumer {
    /// Takes a core into service. Nothing reaches it before [`LiveConsumer::bind`].
    pub(super) fn new(name: &str, core: ConsumerCore, owner: &Arc<StreamConsumers>) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            name: name.into(),
            account: Arc::clone(&owner.account),
            host: Arc::clone(&owner.host),
            owner: Arc::downgrade(owner),
            turn: turn::Turn::new(Seat {
                core,
                unwritten: Parcel::default(),
                unconfirmed: VecDeque::new(),
                panicked: None,
                rests_until: None,
            }),
            letters: Letters::default(),
            is_parked: AtomicBool::new(false),
            is_unfinished: AtomicBool::new(false),
            has_look: AtomicBool::new(false),
            has_listeners_news: AtomicBool::new(true),
            is_gone: AtomicBool::new(false),
            is_ending: AtomicBool::new(false),
            is_resting: AtomicBool::new(false),
            alarm: AtomicI64::new(i64::MAX),
            bindings: Mutex::default(),
            listeners: Mutex::default(),
            wishes: Mutex::default(),
            me: Weak::clone(me),
        })
    }

    /// The consumer's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Receives what `subjects` match, and nothing else.
    pub(super) fn bind(&self, subjects: &[String]) {
        let Some(me) = self.me.upgrade() else { return };
        let bind =
            |subject: &String| self.account.bind(subject.as_bytes(), Arc::clone(&me) as Arc<dyn Service>);
        let old = std::mem::replace(&mut *lock(&self.bindings), subjects.iter().map(bind).collect());
        old.iter().for_each(|binding| self.account.unbind(binding));
        if self.is_gone() {
            self.unbind();
        }
    }

    /// Receives nothing any more.
    pub(super) fn unbind(&self) {
        std::mem::take(&mut *lock(&self.bindings)).iter().for_each(|binding| self.account.unbind(binding));
    }

    /// Receives nothing and delivers nothing, until [`go_on`](Self::go_on).
    pub(super) fn rest(&self) {
        self.is_resting.store(true, Release);
        self.unbind();
    }

    /// Goes on after [`rest`](Self::rest).
    pub(super) fn go_on(&self, subjects: &[String]) {
        self.bind(subjects);
        self.is_resting.store(false, Release);
        self.wake();
    }

    /// It is no more: receives nothing, and does nothing that waits.
    pub(super) fn retire(&self) {
        self.is_gone.store(true, Release);
        self.unbind();
        *lock(&self.listeners) = None;
    }

    /// Has other filters in the index; answers those before.
    pub(super) fn set_wishes(&self, wishes: Vec<Arc<Wish>>) -> Vec<Arc<Wish>> {
        std::mem::replace(&mut *lock(&self.wishes), wishes)
    }

    /// Hears when somebody begins or ends to listen to what is pushed.
    pub(super) fn listen_at(&self, config: &ConsumerConfig) {
        let me: Weak<dyn Watcher> = Weak::clone(&self.me) as Weak<dyn Watcher>;
        let watch = config.is_push().then(|| self.account.watch(config.deliver_subject.as_bytes(), me));
        *lock(&self.listeners) = watch;
        self.listeners_changed();
    }

    pub(super) fn is_gone(&self) -> bool {
        self.is_gone.load(Acquire)
    }

    /// Does something with the core and waits until it is done; only for threads that may. `None`: a panic ended it.
    pub(in crate::engine) fn act<R: Send + 'static>(
        &self,
        act: impl FnOnce(&mut ConsumerCore, &mut Turn<'_>) -> R + Send + 'static,
    ) -> Option<R> {
        let (receiver, _) = self.submit_act(act);
        // A shard delivers, and sends what there is to say.
        self.wake();
        receiver.recv().ok()
    }

    /// The same on a shard that holds no turn: whoever has the consumer's does it.
    pub(in crate::engine) fn tell(
        &self,
        act: impl FnOnce(&mut ConsumerCore, &mut Turn<'_>) + Send + 'static,
        shard: &mut Shard,
    ) {
        self.submit(Work::Act(Box::new(act)), shard);
    }

    /// The same for what leaves nothing to deliver that was not to be delivered before.
    pub(in crate::engine) fn ask<R: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut ConsumerCore, &mut Turn<'_>) -> R + Send + 'static,
    ) -> Option<R> {
        let (receiver, is_all) = self.submit_act(ask);
        if !is_all {
            self.wake();
        }
        receiver.recv().ok()
    }

    /// Answers where the result comes, and whether that was all that was done here.
    fn submit_act<R: Send + 'static>(
        &self,
        act: impl FnOnce(&mut ConsumerCore, &mut Turn<'_>) -> R + Send + 'static,
    ) -> (Receiver<R>, bool) {
        let (sender, receiver) = sync_channel(1);
        let act: Act = Box::new(move |core, turn| {
            // Who asked may be gone.
            let _ = sender.send(act(core, turn));
        });
        let mut after = Aftermath::default();
        let mut is_all = true;
        let mut outcome =
            self.turn.submit(Work::Act(act), |seat, batch| self.hold(seat, batch, None, &mut after));
        while outcome == Outcome::More {
            (after.worked, is_all) = (0, false);
            outcome = self.turn.resume(|seat, batch| self.hold(seat, batch, None, &mut after));
        }
        self.heed(&mut after);
        if after.has_letters {
            self.letters.release();
        }
        if let Some(owner) = self.owner.upgrade()
            && !after.settled.is_empty()
        {
            // What a shard had left here, too.
            owner.settled_elsewhere(std::mem::take(&mut after.settled));
        }
        (receiver, is_all && after.worked <= 1 && !after.has_letters)
    }

    /// Has a shard look at it soon.
    pub(super) fn wake(&self) {
        if let Some(me) = self.me.upgrade() {
            self.host.wake(me);
        }
    }

    /// Whether everything it has to say is on its way.
    pub(in crate::engine) fn has_said_all(&self) -> bool {
        self.letters.are_out()
    }

    /// Who listens to what it pushes may have changed.
    pub(super) fn listeners_changed(&self) {
        self.has_listeners_news.store(true, Release);
    }

    /// Its stream has more. True: it waited for that.
    pub(super) fn unpark(&self) -> bool {
        self.is_parked.swap(false, SeqCst)
    }

    /// It is used after all: it may be over another time.
    pub(super) fn keep(&self) {
        self.is_ending.store(false, Release);
        // With the alarm that it needs.
        self.wake();
    }

    /// Notes that it waits for news. False: it did already.
    pub(super) fn set_parked(&self) -> bool {
        !self.is_parked.swap(true, SeqCst)
    }

    /// Itself, for those who must not keep it.
    pub(super) fn weak(&self) -> Weak<Self> {
        Weak::clone(&self.me)
    }

    /// What others have to say to it, on a shard.
    pub(super) fn submit(&self, work: Work, shard: &mut Shard) {
        let mut after = Aftermath::default();
        let outcome =
            self.turn.submit(work, |seat, batch| self.hold(seat, batch, Some(&mut *shard), &mut after));
        self.end(outcome, after, shard);
    }

    fn look(&self, shard: &mut Shard) {
        let mut after = Aftermath::default();
        let outcome = if self.has_look.swap(true, AcqRel) {
            self.turn.resume(|seat, batch| self.hold(seat, batch, Some(&mut *shard), &mut after))
        } else {
            self.turn.submit(Work::Look, |seat, batch| self.hold(seat, batch, Some(&mut *shard), &mut after))
        };
        self.end(outcome, after, shard);
    }

    fn end(&self, outcome: Outcome, mut after: Aftermath, shard: &mut Shard) {
        self.heed(&mut after);
        if after.has_letters || self.letters.claim() {
            self.letters.send(&self.account, shard, self.host.instant());
            if let Some(me) = self.me.upgrade() {
                shard.after_flush(me);
            }
        }
        if let Some(owner) = self.owner.upgrade()
            && !after.settled.is_empty()
        {
            owner.settled(std::mem::take(&mut after.settled), shard);
        }
        if outcome == Outcome::More {
            self.wake();
        }
    }

    /// Sees to what a hold wants besides its messages.
    fn heed(&self, after: &mut Aftermath) {
        match after.pace.take() {
            Some(Pace::More) => {
                self.is_unfinished.store(true, Release);
                // Usually the flush of what was said goes on with it; where nothing was, nobody would.
                if !after.has_letters {
                    self.wake();
                }
            }
            Some(Pace::Cold(seq)) => {
                if let (Some(owner), Some(me), Some(filter)) =
                    (self.owner.upgrade(), self.me.upgrade(), after.filter.take())
                {
                    owner.warm(filter, seq, me);
                }
            }
            _ => {}
        }
        let is_over = std::mem::take(&mut after.is_over);
        let is_told = is_over && !self.is_ending.swap(true, AcqRel);
        if let Some(at) = after.due.take() {
            // What is over stays due until it has ended: alarms would follow each other as fast as they can.
            let at = if self.is_ending.load(Acquire) { at.max(self.host.now() + RETRY) } else { at };
            if at < self.alarm.fetch_min(at, AcqRel) {
                self.host.schedule(at, Weak::clone(&self.me) as Weak<dyn Alarmed>);
            }
        }
        if is_told && let (Some(owner), Some(me)) = (self.owner.upgrade(), self.me.upgrade()) {
            owner.end_unused(me);
        }
    }

    /// Works off what it can; what there is to say is in order when this returns. A panic costs this consumer what it was
    /// doing, and nobody else anything: it is opened anew.
    fn hold(
        &self,
        seat: &mut Seat,
        batch: &mut VecDeque<Work>,
        shard: Option<&mut Shard>,
        after: &mut Aftermath,
    ) {
        let mut shard = shard;
        let out = shard.as_deref_mut().map(Shard::spare_parcel).unwrap_or_default();
        let mut effects = Effects { out, ..Effects::default() };
        let has_shard = shard.is_some();
        let me = self.me.upgrade().map(|me| me as Arc<dyn Service>);
        let mut world = Around { account: &self.account, host: &*self.host, shard, me };
        let now = self.host.now();
        let is_resting = self.is_resting.load(Acquire) || self.rests_after_panic(seat);
        if !self.is_gone() && !is_resting && self.has_listeners_news.swap(false, AcqRel) {
            let listening = || seat.core.listen(&mut Turn::new(now, &mut world, &mut effects));
            caught(listening).unwrap_or_else(|payload| self.open_anew(seat, now, &*payload, Cause::Own));
        }
        while after.worked < HOLD
            && let Some(work) = batch.pop_front()
        {
            after.worked += 1;
            let cause = if let Work::Look | Work::Act(_) = work { Cause::Own } else { Cause::Client };
            let mut turn = Turn::new(now, &mut world, &mut effects);
            let working = caught(|| self.work(&mut seat.core, work, &mut turn));
            match (working, &mut world.shard) {
                (Ok(spare), Some(shard)) => shard.keep_parcel(spare),
                (Ok(_), None) => {}
                (Err(payload), _) => self.open_anew(seat, now, &*payload, cause),
            }
        }
        if self.is_gone() {
            // What was said before is still sent.
            after.has_letters |= self.letters.add(&mut effects.out);
            return;
        }
        let is_resting = is_resting || self.rests_after_panic(seat);
        // Elsewhere a shard is woken that does all this.
        if has_shard && !is_resting {
            let mut turn = Turn::new(now, &mut world, &mut effects);
            match caught(|| self.go_on_with(&mut seat.core, &mut turn)) {
                Ok(pace) => {
                    if let Pace::Cold(_) = pace {
                        after.filter = Some(seat.core.filter().clone());
                    }
                    after.pace = Some(pace);
                }
                Err(payload) => self.open_anew(seat, now, &*payload, Cause::Own),
            }
        }
        if let Err(payload) = caught(|| self.finish(seat, &mut effects, now, after)) {
            self.open_anew(seat, now, &*payload, Cause::Own);
            after.due = Some(now.saturating_add(RETRY));
        }
        after.has_letters |= self.letters.add(&mut effects.out);
        after.settled.append(&mut effects.settled);
        after.is_over |= effects.is_over;
        self.rest_or_wake(seat, now, after);
        if let Some(shard) = world.shard {
            shard.keep_parcel(effects.out);
        }
    }

    /// What it does of its own accord: what is due, and then deliveries.
    fn go_on_with(&self, core: &mut ConsumerCore, turn: &mut Turn<'_>) -> Pace {
        if core.next_due(turn.now).is_some_and(|at| at <= turn.now) {
            core.due(turn);
        }
        self.deliver(core, turn)
    }

    /// After a panic: begins anew from what is written, at once or after a rest.
    #[cold]
    fn open_anew(&self, seat: &mut Seat, now: Timestamp, payload: &(dyn Any + Send + 'static), cause: Cause) {
        let instant = self.host.instant();
        let is_recent = |last| instant.saturating_duration_since(last) < CALM;
        let mut must_rest = cause == Cause::Own && seat.panicked.is_some_and(is_recent);
        if cause == Cause::Own {
            seat.panicked = Some(instant);
        }
        if let Some(owner) = self.owner.upgrade() {
            let seed = owner.jetstream.upgrade().map_or(0, |jetstream| jetstream.seed());
            must_rest |= caught(|| seat.core.reopen(&owner.stream, seed, now)).is_err();
        }
        // Its news may have been lost half-way.
        self.listeners_changed();
        self.unpark();
        let cost = if must_rest {
            "it delivers nothing for a minute, and is opened anew then"
        } else {
            "it is opened anew"
        };
        seat.rests_until = Some(if must_rest { instant + CALM } else { instant });
        let stream = self.owner.upgrade().map(|owner| owner.stream.clone()).unwrap_or_default();
        let (account, name) = (self.account.name(), &self.name);
        let at = format_args!("in consumer '{account} > {stream} > {name}'");
        self.host.panicked(at, payload, format_args!("{cost}; who waited for messages asks again"));
    }

    /// Whether it panicked too often not long ago.
    fn rests_after_panic(&self, seat: &Seat) -> bool {
        seat.rests_until.is_some_and(|until| self.host.instant() < until)
    }

    /// After a panic it goes on by itself, when its rest is over; otherwise while nothing is delivered nothing is due.
    fn rest_or_wake(&self, seat: &mut Seat, now: Timestamp, after: &mut Aftermath) {
        if let Some(until) = seat.rests_until {
            let left = until.saturating_duration_since(self.host.instant());
            if left.is_zero() {
                seat.rests_until = None;
            }
            let left = i64::try_from(left.as_nanos()).unwrap_or(i64::MAX);
            after.due = Some(now.saturating_add(left));
            after.pace = None;
        }
        if self.is_resting.load(Acquire) {
            after.due = None;
        }
    }

    /// Answers the parcel that was worked off, for its memory.
    fn work(&self, core: &mut ConsumerCore, work: Work, turn: &mut Turn<'_>) -> Parcel {
        match work {
            Work::Requests(parcel) => {
                parcel.iter().for_each(|letter| core.request(&letter, turn));
                return parcel;
            }
            Work::Acks(parcel) => {
                for letter in parcel.iter() {
                    if let Some(ack) = AckSubject::read(letter.subject) {
                        core.acknowledge(&ack, &letter, turn);
                    }
                }
                return parcel;
            }
            Work::Flow(parcel) => {
                parcel.iter().for_each(|letter| core.flow(&letter, turn));
                return parcel;
            }
            Work::Look => self.has_look.store(false, Release),
            Work::Act(act) => act(core, turn),
        }
        Parcel::default()
    }

    /// Delivers, and parks the consumer at the end of its stream without missing what comes meanwhile.
    fn deliver(&self, core: &mut ConsumerCore, turn: &mut Turn<'_>) -> Pace {
        let Some(owner) = self.owner.upgrade() else { return Pace::Rests };
        loop {
            let pace = core.deliver(turn);
            let next = match pace {
                Pace::AtEnd => core.position(),
                Pace::TooFew(seen) => seen + 1,
                _ => return pace,
            };
            if owner.park(self, next, core.filter().is_all()) {
                return pace;
            }
        }
    }

    /// Has the log know, and puts what there is to say behind what was said before.
    fn finish(&self, seat: &mut Seat, effects: &mut Effects, now: Timestamp, after: &mut Aftermath) {
        let mut due = seat.core.next_due(now);
        if let Some(owner) = self.owner.upgrade() {
            owner.advise(&self.name, effects);
            let record = seat.core.record().clone();
            if !effects.confirmations.is_empty() {
                seat.unwritten.append(&mut effects.confirmations);
            }
            match owner.flush(&record, !seat.unwritten.is_empty(), now) {
                Ok(position) if !seat.unwritten.is_empty() => {
                    seat.unconfirmed.push_back((position, std::mem::take(&mut seat.unwritten)));
                }
                Ok(_) => {}
                Err(_) => due = Some(due.unwrap_or(Timestamp::MAX).min(now.saturating_add(RETRY))),
            }
            while let Some((position, parcel)) = seat.unconfirmed.front_mut() {
                let is_stored = || position.is_none_or(|position| record.lock().is_released(position));
                if !is_stored() {
                    owner.await_release(&self.me);
                    // It may have come just before somebody waited for it.
                    if !is_stored() {
                        break;
                    }
                }
                effects.out.append(parcel);
                seat.unconfirmed.pop_front();
            }
        }
        after.due = due.or(after.due);
    }
}

/// Perf: once for each step of a hold, never for a message.
fn caught<T>(step: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(step))
}

impl Service for LiveConsumer {
    fn serve(&self, parcel: &mut Parcel, shard: &mut Shard) {
        if self.is_gone() {
            // Who waited is still told that it is.
            return self.end(Outcome::Done, Aftermath::default(), shard);
        }
        if parcel.is_empty() {
            self.look(shard);
        } else {
            self.submit(Work::Requests(std::mem::take(parcel)), shard);
        }
    }

    fn flushed(&self, shard: &mut Shard) {
        let me = self.me.upgrade();
        if self.letters.flushed() {
            self.letters.send(&self.account, shard, self.host.instant());
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
    fn interest_changed(&self, shard: Option<&mut Shard>) {
        self.listeners_changed();
        match (shard, self.me.upgrade()) {
            // In this tick: what was published behind the change finds it known.
            (Some(shard), Some(me)) => shard.wake(&(me as Arc<dyn Service>)),
            _ => self.wake(),
        }
    }
}

impl Alarmed for LiveConsumer {
    fn ring(&self) {
        self.alarm.store(i64::MAX, Relaxed);
        self.wake();
    }

    fn may_wait(&self) -> bool {
        false
    }
}
