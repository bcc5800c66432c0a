//! Turn of a stream: who holds it, and what is done then.

use super::LiveStream;
use super::core_cell::CoreSlot;
use super::membership::MemberWork;
use super::sourcing::{NextAction, SourceRun};
use super::traces::BatchTraces;
use crate::engine::host::Timer;
use crate::engine::sourcing::upkeep;
use myelin_broker::{Service, ServiceBatch, ServiceShard};
use myelin_jsapi::ApiError;
use myelin_stdx::turn::Submitted;
use myelin_store::{Done, Filter, Job, Seq, Timestamp};
use myelin_streams::stream::{Cold, Effects, StreamCore};
use myelin_wire::message_buf::MessageBuf;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

/// Bytes of publishes that one turn works off before others get their chance. What is no publish
/// counts as much as a small buffer.
const TURN_BYTES: usize = 256 * 1024;
const OTHER_WORK: usize = 16 * 1024;
/// Work that a run of another stream counts.
const COPY_WORK: usize = 112 * 1024;
/// Work that the removal of a settled message counts, and of how many at most: the core leaves the
/// others for later.
const REMOVAL_WORK: usize = 128;
const REMOVALS_MOST: usize = 1024;

/// Nanoseconds between two slices of what is due in a stream.
const TIMER_INTERVAL: i64 = 500_000;

/// Work for the holder of the turn.
pub(super) enum StreamWork {
    Publish(ServiceBatch),
    /// Something was released, or a batch was left.
    Released,
    /// Something else is due. It may read from the disk: only for threads that may wait.
    TimerFired,
    /// A consumer has settled these messages.
    Acknowledged(Vec<Seq>),
    /// Consumers have decided something that their group has to agree to.
    Propose,
    /// Its member has something to hear, or something that it waits for has happened.
    Member,
    /// Some messages may be needed by no consumer any more.
    Reconcile,
    /// Some messages that pass this filter may be; whether somebody looks next what is left.
    ConsumerLeft(Filter, bool),
    /// A job of the store is done.
    Finish(Done),
    /// A stream that this one copies may have more.
    Copy(Arc<dyn SourceRun>),
    /// The counter of the first of the blocked publishes is in memory.
    CountersLoaded,
    /// The stream leads still: publishes that were held for another leader are its own.
    TakeHeld,
    /// Somebody wants to look at the core.
    Look(Box<dyn FnOnce(&StreamCore) + Send>),
    /// Somebody who may wait wants the core.
    LendCore(SyncSender<Box<StreamCore>>),
}

/// Result of one turn.
#[derive(Default)]
pub(super) struct TurnResult {
    pub(super) effects: Effects,
    /// When something is due in the stream, if that has changed.
    pub(super) due: Option<Timestamp>,
    pub(super) job: Option<Job>,
    /// Messages that were dropped without anybody being told, since the stream was opened, by
    /// error.
    pub(super) drops: Vec<(u16, u64)>,
    /// Traces of messages that are complete now: each is to be served on some shard.
    pub(super) traced: Vec<Arc<dyn Service>>,
    /// Streams that were copied from, and what is to be done about each.
    pub(super) source_readers: Vec<(Arc<dyn SourceRun>, NextAction)>,
    /// Work that its member wants done.
    pub(super) member: MemberWork,
    /// The buffer that was worked off, for its memory.
    pub(super) spare: MessageBuf,
    /// Whether the messages have to be sent by whoever held the turn.
    pub(super) must_send: bool,
    /// Nothing could be done because the core is elsewhere.
    pub(super) is_lent: bool,
    /// Bytes that count against [`TURN_BYTES`].
    pub(super) worked: usize,
}

impl LiveStream {
    /// Leaves work and does it, and whatever else waits, if nobody else is at it. For shards: what
    /// is left when the budget is spent waits for its turn. `out`: memory for what there is to say.
    pub(super) fn submit(&self, work: StreamWork, out: MessageBuf) -> TurnResult {
        let mut after =
            TurnResult { effects: Effects { out, ..Effects::default() }, ..TurnResult::default() };
        let outcome = self.core.submit(work, |slot, batch| self.run_turn(slot, batch, &mut after));
        if self.must_continue(outcome, &mut after) {
            // The budget is spent. The shard's connections run before the rest of this stream's
            // work; nothing else is certain to wake the stream for it, so it wakes itself.
            self.wake_always();
        }
        after
    }

    /// Leaves work and waits until it is done with all its effects; only for threads that may.
    pub(super) fn submit_and_wait(&self, work: StreamWork) {
        let mut after = TurnResult::default();
        let outcome = self.core.submit(work, |slot, batch| self.run_turn(slot, batch, &mut after));
        let must_continue = self.must_continue(outcome, &mut after);
        self.apply_effects_off_shard(after);
        if must_continue {
            self.drain_and_wait();
        }
    }

    /// Takes up what others have left, for threads that may wait.
    pub(super) fn drain_and_wait(&self) {
        loop {
            let mut after = TurnResult::default();
            let outcome = self.core.resume(|slot, batch| self.run_turn(slot, batch, &mut after));
            let must_continue = self.must_continue(outcome, &mut after);
            self.apply_effects_off_shard(after);
            if !must_continue {
                return;
            }
        }
    }

    /// Does what others have left, as far as the budget goes.
    pub(super) fn resume(&self) -> TurnResult {
        let mut after = TurnResult::default();
        let outcome = self.core.resume(|slot, batch| self.run_turn(slot, batch, &mut after));
        if self.must_continue(outcome, &mut after) {
            self.wake_always();
        }
        after
    }

    /// Whether a hold has left something that nobody else knows of. While the core is lent its
    /// return sees to it.
    fn must_continue(&self, mut outcome: Submitted, after: &mut TurnResult) -> bool {
        while outcome == Submitted::More && after.is_lent {
            if !self.core.is_back_or_gone() {
                return false;
            }
            after.is_lent = false;
            outcome = self.core.resume(|slot, batch| self.run_turn(slot, batch, after));
        }
        outcome == Submitted::More
    }

    /// Works off what it can; what there is to say is in order when this returns.
    fn run_turn(&self, slot: &mut CoreSlot, batch: &mut VecDeque<StreamWork>, after: &mut TurnResult) {
        self.drain_inbox(slot, batch, after);
        if self.membership.is_taken()
            && let CoreSlot::Here(core) = slot
        {
            self.guard_panics(core, after, |core, after| {
                self.advance_member(core, after);
                self.collect_followups(core, self.scope.host.now(), after);
            });
        }
        self.end_turn(after);
    }

    /// Puts what a turn has to say behind what earlier turns had to.
    pub(super) fn end_turn(&self, after: &mut TurnResult) {
        self.add_advisories(after);
        after.must_send |= self.outbox.add(&mut after.effects.out);
        debug_assert!(after.effects.out.is_empty(), "what a turn has to say is said once");
        debug_assert!(after.effects.abandoned.is_empty(), "batches that were given up are told of once");
    }

    fn drain_inbox(&self, slot: &mut CoreSlot, batch: &mut VecDeque<StreamWork>, after: &mut TurnResult) {
        while after.worked < TURN_BYTES && !batch.is_empty() {
            self.core.refill(slot);
            match slot {
                CoreSlot::Lent => {
                    after.is_lent = true;
                    return;
                }
                // Who waits for the core hears of it, and nobody else asks for an answer any more.
                CoreSlot::Gone => self.drop_work(batch.pop_front()),
                CoreSlot::Here(core) => match batch.pop_front() {
                    Some(StreamWork::LendCore(borrower)) => slot.lend(&borrower),
                    Some(work) => self.try_work(core, work, after),
                    None => return,
                },
            }
        }
    }

    fn drop_work(&self, work: Option<StreamWork>) {
        match work {
            Some(StreamWork::Publish(msgs)) => {
                self.ingress.forget(&msgs);
                self.give_up_traces(&msgs);
            }
            Some(StreamWork::CountersLoaded) => {
                let blocked_publishes = std::mem::take(&mut *self.ingress.blocked());
                blocked_publishes
                    .into_iter()
                    .for_each(|msgs| self.drop_work(Some(StreamWork::Publish(msgs))));
            }
            Some(StreamWork::Released) => {
                self.wakeup.dequeue();
                self.wakeup.arrived();
            }
            _ => {}
        }
    }

    fn try_work(&self, core: &mut StreamCore, work: StreamWork, after: &mut TurnResult) {
        self.guard_panics(core, after, |core, after| self.work(core, work, after));
    }

    /// A panic costs the work in hand: what the core did is not known, only its files say what is
    /// true (contracts.md C12).
    fn guard_panics(
        &self,
        core: &mut StreamCore,
        after: &mut TurnResult,
        work: impl FnOnce(&mut StreamCore, &mut TurnResult),
    ) {
        let working = AssertUnwindSafe(|| work(core, after));
        if let Err(payload) = catch_unwind(working) {
            let (account, name) = (self.scope.account.name(), &self.scope.name);
            let cost = format_args!("the work in hand is lost, and the stream is opened anew from its files");
            self.scope.host.panicked(format_args!("in stream '{account} > {name}'"), &*payload, cost);
            core.panicked(&mut after.effects);
            // Nobody may be left who would see to them.
            self.drop_work(Some(StreamWork::CountersLoaded));
        }
    }

    fn work(&self, core: &mut StreamCore, work: StreamWork, after: &mut TurnResult) {
        let now = self.scope.host.now();
        after.worked += OTHER_WORK;
        match work {
            StreamWork::Publish(msgs) if self.membership.hand_over.is_under_way() => {
                if let Some(msgs) = self.membership.hand_over.hold(msgs) {
                    self.work(core, StreamWork::Publish(msgs), after);
                }
            }
            StreamWork::Publish(msgs) if !self.is_in_lease() && !self.renews_lease(core, after) => {
                if let Some(msgs) = self.hold_in_doubt(msgs) {
                    self.work(core, StreamWork::Publish(msgs), after);
                }
            }
            StreamWork::Publish(msgs) => {
                after.worked += msgs.bytes();
                if let Some(msgs) = self.defer_until_loaded(core, msgs) {
                    self.store_msgs(core, msgs, now, after);
                }
            }
            StreamWork::CountersLoaded => self.publish_blocked(core, now, after),
            StreamWork::TakeHeld => {
                let mut held = TakenPublishes { stream: self, msgs: self.membership.hand_over.take().into() };
                while let Some(msgs) = held.msgs.pop_front() {
                    self.store_msgs(core, msgs, now, after);
                }
            }
            StreamWork::Released => self.look_what_is_released(core, now, &mut after.effects),
            StreamWork::TimerFired => {
                core.run_due(now, &mut after.effects);
                after.effects.due_changed = true;
            }
            StreamWork::Acknowledged(seqs) => {
                after.worked += seqs.len().min(REMOVALS_MOST) * REMOVAL_WORK;
                core.acknowledged(&seqs, now, &mut after.effects);
            }
            StreamWork::Propose => core.propose(now, &mut after.effects),
            StreamWork::Reconcile => core.reconcile(now, &mut after.effects),
            StreamWork::ConsumerLeft(filter, is_awaited) => {
                core.consumer_left(&filter, is_awaited, now, &mut after.effects);
            }
            StreamWork::Finish(done) => core.finish(done, now, &mut after.effects),
            StreamWork::Copy(source_reader) => {
                after.worked += COPY_WORK;
                let next = source_reader.copy(core, now, &mut after.effects);
                after.source_readers.push((source_reader, next));
            }
            // At the end of the turn.
            StreamWork::Member => return,
            StreamWork::Look(look) => return look(core),
            StreamWork::LendCore(_) => {}
        }
        self.report_drops(core, after);
        self.collect_followups(core, now, after);
    }

    fn look_what_is_released(&self, core: &mut StreamCore, now: Timestamp, effects: &mut Effects) {
        // In this order, and both sides with one step: whoever releases something afterwards wakes
        // anew.
        self.wakeup.dequeue();
        self.wakeup.arrived();
        // What calls of the API have decided together is one entry.
        core.propose(now, effects);
        core.released(effects);
        // On a shard: the memory of batches comes back where it came from.
        core.give_up_batches(now, effects);
        effects.due_changed |= !effects.abandoned.is_empty();
    }

    fn store_msgs(
        &self,
        core: &mut StreamCore,
        mut msgs: ServiceBatch,
        now: Timestamp,
        after: &mut TurnResult,
    ) {
        self.ingress.forget(&msgs);
        if msgs.is_traced() {
            let mut traces = BatchTraces { batch: &msgs, complete: &mut after.traced };
            core.publish_traced(&msgs, &mut traces, now, &mut after.effects);
        } else {
            core.publish(&msgs, now, &mut after.effects);
        }
        msgs.msgs.clear();
        after.spare = msgs.msgs;
    }

    /// Keeps a buffer that has to wait, because of what it counts on from or because others before
    /// it do. The core stays in its slot meanwhile: nobody but publishers to this stream waits for
    /// its disk.
    fn defer_until_loaded(&self, core: &mut StreamCore, msgs: ServiceBatch) -> Option<ServiceBatch> {
        if !core.config().allow_msg_counter {
            return Some(msgs);
        }
        let mut blocked_publishes = self.ingress.blocked();
        if blocked_publishes.is_empty() {
            let Some(cold) = core.cold(&msgs) else { return Some(msgs) };
            self.warm(Some(cold));
        }
        blocked_publishes.push_back(msgs);
        None
    }

    fn warm(&self, cold: Option<Cold>) {
        let Some(me) = self.me.upgrade() else { return };
        let warmed = CountersLoaded(me);
        self.scope.host.spawn_read(Box::new(move || {
            cold.iter().for_each(Cold::warm);
            drop(warmed);
        }));
    }

    /// Publishes the first of the blocked buffers, and those behind it that need not wait.
    fn publish_blocked(&self, core: &mut StreamCore, now: Timestamp, after: &mut TurnResult) {
        let mut next = self.ingress.blocked().pop_front();
        while let Some(msgs) = next {
            after.worked += msgs.bytes();
            self.store_msgs(core, msgs, now, after);
            let mut blocked_publishes = self.ingress.blocked();
            let Some(msgs) = blocked_publishes.front() else { return };
            let cold = core.cold(msgs);
            if cold.is_some() || after.worked >= TURN_BYTES {
                return self.warm(cold);
            }
            next = blocked_publishes.pop_front();
        }
    }

    pub(super) fn report_drops(&self, core: &mut StreamCore, after: &mut TurnResult) {
        let dropped = self.ingress.take_dropped();
        if dropped > 0 {
            core.count_dropped(ApiError::STREAM_TOO_MANY_REQUESTS.err_code, dropped, &mut after.effects);
        }
        if after.effects.dropped > 0 || self.reports.take_put_off_drops() {
            after.drops = core.drops().to_vec();
        }
    }

    /// Collects what the core wants of its embedder.
    pub(super) fn collect_followups(&self, core: &mut StreamCore, now: Timestamp, after: &mut TurnResult) {
        core.plan_tidying(now, &mut after.effects);
        if std::mem::take(&mut after.effects.due_changed) {
            after.due = core.next_due();
        }
        if after.job.is_none() {
            after.job = core.next_job(now);
        }
        self.ingress.set_behind(core.is_behind());
    }

    /// Sees to what a turn wants besides its messages.
    fn apply_effects(&self, after: &mut TurnResult) {
        if let Some(at) = after.due.take() {
            let at = at.max(self.scope.host.now() + TIMER_INTERVAL);
            self.wakeup.arm(at, &*self.scope.host, &self.me);
        }
        if let Some(job) = after.job.take()
            && let Some(me) = self.me.upgrade()
        {
            self.scope.host.spawn_upkeep(Box::new(move || me.upkeep(job)));
        }
        if let Some(why) = after.effects.failed.take() {
            self.note_failure(why);
        }
        if std::mem::take(&mut after.effects.are_proposals_released) {
            self.consumers.log_released();
        }
        if std::mem::take(&mut after.effects.is_image_due) {
            self.consumers.rewrite_later();
        }
        if self.membership.is_taken() {
            self.apply_member_work(&mut after.member);
        }
        debug_assert!(after.due.is_none() && after.job.is_none(), "what a turn wants is done once");
    }

    /// Does what a turn wants, and answers its spare buffer.
    pub(super) fn deliver(&self, mut after: TurnResult, shard: &mut ServiceShard) -> MessageBuf {
        if std::mem::take(&mut after.effects.are_proposals_released) {
            self.consumers.log_released_on(shard);
        }
        self.apply_effects(&mut after);
        self.send_frames(&mut after.member, Some(&mut *shard));
        self.notify_consumers(Some(&mut *shard));
        self.run_source_readers(&mut after, Some(&mut *shard));
        if after.must_send || self.outbox.claim() {
            self.send_outbox(shard);
        }
        for trace in after.traced.drain(..) {
            shard.wake(&trace);
        }
        shard.keep_buf(after.effects.out);
        after.spare
    }

    /// Sees to the streams that this one copies.
    fn run_source_readers(&self, after: &mut TurnResult, shard: Option<&mut ServiceShard>) {
        for (source_reader, next) in after.source_readers.drain(..) {
            source_reader.apply_effects(next);
        }
        if self.sourcing_marks.take_stalled(|| self.reader().bytes_decided()) {
            self.sourcing.retry_refused();
        }
        if self.sourcing_marks.take_unacked() {
            self.sourcing.acknowledge(shard);
        }
    }

    /// Copies more of another stream, on a shard.
    pub(in crate::engine) fn copy(&self, source_reader: Arc<dyn SourceRun>, shard: &mut ServiceShard) {
        let after = self.submit(StreamWork::Copy(source_reader), MessageBuf::default());
        self.deliver(after, shard);
    }

    /// Publishes what turns have left, holding the right to it.
    pub(super) fn send_outbox(&self, shard: &mut ServiceShard) {
        self.outbox.send(&self.scope.account, shard, self.scope.host.instant());
        if let Some(me) = self.me.upgrade() {
            shard.after_flush(me);
        }
    }

    /// Applies the effects of a turn on a thread that delivers nothing itself.
    pub(super) fn apply_effects_off_shard(&self, mut after: TurnResult) {
        self.apply_effects(&mut after);
        self.send_frames(&mut after.member, None);
        after.traced.drain(..).for_each(|trace| self.scope.host.wake(trace));
        self.notify_consumers(None);
        self.run_source_readers(&mut after, None);
        if after.must_send {
            self.outbox.release();
        }
        if self.outbox.has_unclaimed() {
            // What is looked at on its way may be looked at by another thread like this one.
            self.wake_always();
        }
    }

    /// Does a job of the store and takes it back; only for threads that may wait.
    pub fn upkeep(&self, job: Job) {
        // Else the server is ending.
        if let Some((log, store)) = self.consumers.log() {
            let done = upkeep(job, log, store.journal(), self.scope.host.now());
            self.submit_and_wait(StreamWork::Finish(done));
        }
    }

    /// Removes messages that a consumer has settled, unless another one needs them (work-queue and
    /// interest retention). For shards that hold no turn.
    pub fn acknowledged(&self, seqs: Vec<Seq>, shard: &mut ServiceShard) {
        let after = self.submit(StreamWork::Acknowledged(seqs), MessageBuf::default());
        self.deliver(after, shard);
    }

    /// Removes messages that a consumer has settled, unless another one needs them. For threads
    /// that may wait.
    pub fn acknowledged_off_shard(&self, seqs: Vec<Seq>) {
        self.submit_and_wait(StreamWork::Acknowledged(seqs));
    }

    /// Removes what the consumers of a work queue have settled and what could not be removed until
    /// now, and has the core for a slice at a time. For threads that may wait.
    ///
    /// # Errors
    /// Words for why it cannot be removed now, either.
    pub(super) fn remove_all_settled(&self) -> Result<(), String> {
        loop {
            // Nothing is left of a stream that is gone.
            let Some(mut guard) = self.lock_core() else { return Ok(()) };
            let (core, effects) = guard.parts();
            if !core.remove_some_settled(self.scope.host.now(), effects)? {
                return Ok(());
            }
        }
    }

    /// Proposes to its group what consumers have decided. For shards that hold no turn.
    pub(super) fn propose(&self, shard: &mut ServiceShard) {
        let after = self.submit(StreamWork::Propose, MessageBuf::default());
        self.deliver(after, shard);
    }

    /// Has all messages removed that no consumer needs any more, slice by slice: when all consumers
    /// are there after a restart. Only for threads that may wait.
    pub fn reconcile(&self) {
        self.submit_and_wait(StreamWork::Reconcile);
    }

    /// Has the messages that pass a filter removed if no consumer needs them any more: when one was
    /// deleted or wants less. The first slice is done here if somebody looks next what is left; the
    /// others, for all consumers that have left meanwhile, where alarms go off. Only for threads
    /// that may wait.
    pub(super) fn consumer_left(&self, filter: Filter, is_awaited: bool) {
        self.submit_and_wait(StreamWork::ConsumerLeft(filter, is_awaited));
    }

    /// Has some shard look what was released.
    pub fn wake(&self) {
        self.wakeup.wake_once(&*self.scope.host, &self.me);
    }

    pub(super) fn wake_always(&self) {
        self.wakeup.wake_always(&*self.scope.host, &self.me);
    }

    /// Takes note of what was released, on a shard. Once in the inbox is enough, however long the
    /// core is away.
    pub(super) fn note_released(&self) -> TurnResult {
        if self.wakeup.enqueue() {
            self.submit(StreamWork::Released, MessageBuf::default())
        } else {
            self.resume()
        }
    }
}

/// Publishes that were held. Where one panics those behind it are lost with it, and count no more.
struct TakenPublishes<'a> {
    stream: &'a LiveStream,
    msgs: VecDeque<ServiceBatch>,
}

impl Drop for TakenPublishes<'_> {
    fn drop(&mut self) {
        self.msgs.drain(..).for_each(|msgs| self.stream.drop_work(Some(StreamWork::Publish(msgs))));
    }
}

/// Says that something was read, whatever became of that.
struct CountersLoaded(Arc<LiveStream>);

impl Drop for CountersLoaded {
    fn drop(&mut self) {
        self.0.submit_and_wait(StreamWork::CountersLoaded);
    }
}

impl Timer for LiveStream {
    /// Works on what is due.
    fn fire(&self) {
        self.wakeup.fired();
        self.repair_if_due();
        self.wake_always();
        self.submit_and_wait(StreamWork::TimerFired);
    }
}
