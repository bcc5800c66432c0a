//! Who holds the turn of a stream, and what is done then.

use super::{LiveStream, lock};
use crate::engine::host::Alarmed;
use crate::engine::sourcing::{Next, SourceReader};
use crate::error::ApiError;
use crate::stream::{Cold, Effects, StreamCore};
use myelin_broker::{MessageBuf, Service, Shard};
use myelin_stdx::turn::Outcome;
use myelin_store::{Done, Job, Seq, Timestamp};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Weak};

/// Bytes of publishes that one hold of the turn works off before others get their chance. What is no publish counts as
/// much as a small buffer.
const HOLD_BYTES: usize = 256 * 1024;
const OTHER_WORK: usize = 16 * 1024;
/// What a run of another stream counts.
const COPY_WORK: usize = 112 * 1024;
/// What the removal of a settled message counts, and of how many at most: the core leaves the others for later.
const SETTLED_WORK: usize = 128;
const SETTLED_MOST: usize = 1024;

/// Nanoseconds between two slices of what is due in a stream.
const SLICES_EVERY: i64 = 500_000;

/// Work for the holder of the turn.
pub(super) enum Work {
    Publish(MessageBuf),
    /// Something was released, or a batch was left.
    Look,
    /// Something else is due. It may read from the disk: only for threads that may wait.
    Due,
    /// A consumer has settled these messages.
    Acknowledged(Vec<Seq>),
    /// Some messages may be needed by no consumer any more.
    Reconcile,
    /// A job of the store is done.
    Finish(Done),
    /// A stream that this one copies may have more.
    Copy(Arc<SourceReader>),
    /// What the first of the publishes that are held up counts on from is in memory.
    Warmed,
    /// Somebody who may wait wants the core.
    Lend(SyncSender<Box<StreamCore>>),
}

/// Where the core is.
pub(super) enum CoreSlot {
    Here(Box<StreamCore>),
    Lent,
    /// The stream was deleted.
    Gone,
}

/// What comes of one hold of the turn.
#[derive(Default)]
pub(super) struct TurnResult {
    pub(super) effects: Effects,
    /// When something is due in the stream, if that has changed.
    pub(super) due: Option<Timestamp>,
    pub(super) job: Option<Job>,
    /// Messages that were lost without anybody being told, since the stream was opened, by error.
    pub(super) losses: Vec<(u16, u64)>,
    /// Streams that were copied from, and what is to be done about each.
    pub(super) feeds: Vec<(Arc<SourceReader>, Next)>,
    /// The buffer that was worked off, for its memory.
    pub(super) spare: MessageBuf,
    /// Whether the messages have to be sent by whoever held the turn.
    pub(super) has_letters: bool,
    /// Nothing could be done because the core is elsewhere.
    pub(super) is_lent: bool,
    /// What counts against [`HOLD_BYTES`].
    pub(super) worked: usize,
}

impl LiveStream {
    /// Leaves work and does it, and whatever else waits, if nobody else is at it. For shards: what is left when the budget
    /// is spent waits for its turn. `out`: memory for what there is to say.
    pub(super) fn submit(&self, work: Work, out: MessageBuf) -> TurnResult {
        let mut after =
            TurnResult { effects: Effects { out, ..Effects::default() }, ..TurnResult::default() };
        let outcome = self.turn.submit(work, |seat, batch| self.hold(seat, batch, &mut after));
        if self.has_rest(outcome, &mut after) {
            // Others have their turn first: a shard that works for one stream alone starves its connections. Nobody else
            // knows of what is left, whatever else is on its way.
            self.wake_surely();
        }
        after
    }

    /// The same for threads that may wait: nothing is left, and nothing of the effects either.
    pub(super) fn submit_and_wait(&self, work: Work) {
        let mut after = TurnResult::default();
        let outcome = self.turn.submit(work, |seat, batch| self.hold(seat, batch, &mut after));
        let has_rest = self.has_rest(outcome, &mut after);
        self.heed_elsewhere(after);
        if has_rest {
            self.go_on_and_wait();
        }
    }

    /// Takes up what others have left, for threads that may wait.
    pub(super) fn go_on_and_wait(&self) {
        loop {
            let mut after = TurnResult::default();
            let outcome = self.turn.resume(|seat, batch| self.hold(seat, batch, &mut after));
            let has_rest = self.has_rest(outcome, &mut after);
            self.heed_elsewhere(after);
            if !has_rest {
                return;
            }
        }
    }

    /// Does what others have left, as far as the budget goes.
    pub(super) fn resume(&self) -> TurnResult {
        let mut after = TurnResult::default();
        let outcome = self.turn.resume(|seat, batch| self.hold(seat, batch, &mut after));
        if self.has_rest(outcome, &mut after) {
            self.wake_surely();
        }
        after
    }

    /// Whether a hold has left something that nobody else knows of. While the core is lent its return sees to it.
    fn has_rest(&self, mut outcome: Outcome, after: &mut TurnResult) -> bool {
        while outcome == Outcome::More && after.is_lent {
            let is_back = lock(&self.returned).is_some() || self.is_gone.load(Acquire);
            if !is_back {
                return false;
            }
            after.is_lent = false;
            outcome = self.turn.resume(|seat, batch| self.hold(seat, batch, after));
        }
        outcome == Outcome::More
    }

    /// Works off what it can; what there is to say is in order when this returns.
    fn hold(&self, seat: &mut CoreSlot, batch: &mut VecDeque<Work>, after: &mut TurnResult) {
        self.work_off(seat, batch, after);
        self.end_hold(after);
    }

    /// Puts what a turn has to say behind what earlier turns had to.
    pub(super) fn end_hold(&self, after: &mut TurnResult) {
        self.advise(after);
        after.has_letters |= self.outbox.add(&mut after.effects.out);
    }

    fn work_off(&self, seat: &mut CoreSlot, batch: &mut VecDeque<Work>, after: &mut TurnResult) {
        while after.worked < HOLD_BYTES && !batch.is_empty() {
            if let CoreSlot::Lent = seat {
                match lock(&self.returned).take() {
                    Some(core) => *seat = CoreSlot::Here(core),
                    None if self.is_gone.load(Acquire) => *seat = CoreSlot::Gone,
                    None => {}
                }
            }
            match seat {
                CoreSlot::Lent => {
                    after.is_lent = true;
                    return;
                }
                // Who waits for the core hears of it, and nobody else asks for an answer any more.
                CoreSlot::Gone => self.drop_work(batch.pop_front()),
                CoreSlot::Here(core) => match batch.pop_front() {
                    Some(Work::Lend(borrower)) => lend(seat, &borrower),
                    Some(work) => self.try_work(core, work, after),
                    None => return,
                },
            }
        }
    }

    fn drop_work(&self, work: Option<Work>) {
        match work {
            Some(Work::Publish(msgs)) => {
                self.waiting.forget(&msgs);
                self.give_up_traces(&msgs);
            }
            Some(Work::Warmed) => {
                let held_up = std::mem::take(&mut *lock(&self.held_up));
                held_up.into_iter().for_each(|msgs| self.drop_work(Some(Work::Publish(msgs))));
            }
            Some(Work::Look) => {
                self.has_look.store(false, Release);
                self.is_woken.store(false, Release);
            }
            _ => {}
        }
    }

    /// A panic costs the work in hand: what the core did is not known, only its files say what is true (house.md,
    /// decision 13).
    fn try_work(&self, core: &mut StreamCore, work: Work, after: &mut TurnResult) {
        let working = AssertUnwindSafe(|| self.work(core, work, after));
        if let Err(payload) = catch_unwind(working) {
            let (account, name) = (self.account.name(), &self.name);
            let cost = format_args!("the work in hand is lost, and the stream is opened anew from its files");
            self.host.panicked(format_args!("in stream '{account} > {name}'"), &*payload, cost);
            core.panicked(&mut after.effects);
            // Nobody may be left who would see to them.
            self.drop_work(Some(Work::Warmed));
        }
    }

    fn work(&self, core: &mut StreamCore, work: Work, after: &mut TurnResult) {
        let now = self.host.now();
        after.worked += OTHER_WORK;
        match work {
            Work::Publish(msgs) => {
                after.worked += msgs.bytes();
                if let Some(msgs) = self.hold_up(core, msgs) {
                    self.store_parcel(core, msgs, now, after);
                }
            }
            Work::Warmed => self.publish_held_up(core, now, after),
            Work::Look => {
                // In this order, and both sides with one step: whoever releases something after the look wakes anew.
                self.has_look.store(false, Release);
                self.is_woken.swap(false, AcqRel);
                core.released(&mut after.effects);
                // On a shard: the memory of batches comes back where it came from.
                core.give_up_batches(now, &mut after.effects);
                after.effects.due_changed |= !after.effects.abandoned.is_empty();
            }
            Work::Due => {
                core.tend(now, &mut after.effects);
                after.effects.due_changed = true;
            }
            Work::Acknowledged(seqs) => {
                after.worked += seqs.len().min(SETTLED_MOST) * SETTLED_WORK;
                core.acknowledged(&seqs, now, &mut after.effects);
            }
            Work::Reconcile => core.reconcile(now, &mut after.effects),
            Work::Finish(done) => core.finish(done, now, &mut after.effects),
            Work::Copy(feed) => {
                after.worked += COPY_WORK;
                let next = feed.copy(core, now, &mut after.effects);
                after.feeds.push((feed, next));
            }
            Work::Lend(_) => {}
        }
        self.count_losses(core, after);
        self.look_around(core, now, after);
    }

    fn store_parcel(
        &self,
        core: &mut StreamCore,
        mut msgs: MessageBuf,
        now: Timestamp,
        after: &mut TurnResult,
    ) {
        self.waiting.forget(&msgs);
        core.publish(&msgs, now, &mut after.effects);
        msgs.clear();
        after.spare = msgs;
    }

    /// Keeps a buffer that has to wait, because of what it counts on from or because others before it do. The core stays in
    /// its seat meanwhile: nobody but publishers to this stream waits for its disk.
    fn hold_up(&self, core: &mut StreamCore, msgs: MessageBuf) -> Option<MessageBuf> {
        if !core.config().allow_msg_counter {
            return Some(msgs);
        }
        let mut held_up = lock(&self.held_up);
        if held_up.is_empty() {
            let Some(cold) = core.cold(&msgs) else { return Some(msgs) };
            self.warm(Some(cold));
        }
        held_up.push_back(msgs);
        None
    }

    fn warm(&self, cold: Option<Cold>) {
        let Some(me) = self.me.upgrade() else { return };
        let warmed = Warmed(me);
        self.host.read(Box::new(move || {
            cold.iter().for_each(Cold::warm);
            drop(warmed);
        }));
    }

    /// Publishes the first buffer that was held up, and those behind it that need not wait.
    fn publish_held_up(&self, core: &mut StreamCore, now: Timestamp, after: &mut TurnResult) {
        let mut next = lock(&self.held_up).pop_front();
        while let Some(msgs) = next {
            after.worked += msgs.bytes();
            self.store_parcel(core, msgs, now, after);
            let mut held_up = lock(&self.held_up);
            let Some(msgs) = held_up.front() else { return };
            let cold = core.cold(msgs);
            if cold.is_some() || after.worked >= HOLD_BYTES {
                return self.warm(cold);
            }
            next = held_up.pop_front();
        }
    }

    pub(super) fn count_losses(&self, core: &mut StreamCore, after: &mut TurnResult) {
        let lost = self.waiting.lost.swap(0, Relaxed);
        if lost > 0 {
            core.lose(ApiError::STREAM_TOO_MANY_REQUESTS.err_code, lost, &mut after.effects);
        }
        if after.effects.lost > 0 || self.has_untold.swap(false, Relaxed) {
            after.losses = core.losses().to_vec();
        }
    }

    /// What the core wants of its embedder.
    pub(super) fn look_around(&self, core: &mut StreamCore, now: Timestamp, after: &mut TurnResult) {
        core.plan_tidying(now, &mut after.effects);
        if std::mem::take(&mut after.effects.due_changed) {
            after.due = core.next_due();
        }
        if after.job.is_none() {
            after.job = core.next_job(now);
        }
    }

    /// Sees to what a turn wants besides its messages.
    fn heed(&self, after: &mut TurnResult) {
        self.direct.released();
        if let Some(at) = after.due.take() {
            let at = at.max(self.host.now() + SLICES_EVERY);
            if at < self.alarm.fetch_min(at, AcqRel) {
                self.host.schedule(at, Weak::clone(&self.me) as Weak<dyn Alarmed>);
            }
        }
        if let Some(job) = after.job.take()
            && let Some(me) = self.me.upgrade()
        {
            self.host.work(me, job);
        }
        if let Some(why) = after.effects.failed.take() {
            self.note_failure(why);
        }
    }

    /// Does what a turn wants, and answers its spare buffer.
    pub(super) fn deliver(&self, mut after: TurnResult, shard: &mut Shard) -> MessageBuf {
        self.heed(&mut after);
        self.tell_consumers(Some(&mut *shard));
        self.feed(&mut after, Some(&mut *shard));
        if after.has_letters || self.outbox.claim() {
            self.send_letters(shard);
        }
        for trace in after.effects.traced.drain(..) {
            let trace: Arc<dyn Service> = trace;
            shard.wake(&trace);
        }
        shard.keep_buf(after.effects.out);
        after.spare
    }

    /// Sees to the streams that this one copies.
    fn feed(&self, after: &mut TurnResult, mut shard: Option<&mut Shard>) {
        for (feed, next) in after.feeds.drain(..) {
            feed.heed(next);
        }
        self.origins.try_again(|| self.reader().state().totals.bytes);
        for feed in self.origins.unsettled() {
            feed.settle(shard.as_deref_mut());
        }
    }

    /// Copies more of another stream, on a shard.
    pub(in crate::engine) fn copy(&self, feed: Arc<SourceReader>, shard: &mut Shard) {
        let after = self.submit(Work::Copy(feed), MessageBuf::default());
        self.deliver(after, shard);
    }

    /// Publishes what turns have left, holding the right to it.
    pub(super) fn send_letters(&self, shard: &mut Shard) {
        self.outbox.send(&self.account, shard, self.host.instant());
        if let Some(me) = self.me.upgrade() {
            shard.after_flush(me);
        }
    }

    /// The same, on a thread that delivers nothing itself.
    pub(super) fn heed_elsewhere(&self, mut after: TurnResult) {
        self.heed(&mut after);
        after.effects.traced.drain(..).for_each(|trace| self.host.wake(trace));
        self.tell_consumers(None);
        self.feed(&mut after, None);
        if after.has_letters {
            self.outbox.release();
        }
        if self.outbox.are_left() {
            // What is looked at on its way may be looked at by another thread like this one.
            self.wake_surely();
        }
    }

    /// Does a job of the store and takes it back; only for threads that may wait.
    pub fn upkeep(&self, job: Job) {
        if let Some(done) = self.consumers.upkeep(job) {
            self.submit_and_wait(Work::Finish(done));
        }
    }

    /// Removes messages that a consumer has settled, unless another one needs them (work-queue and interest retention). For
    /// shards that hold no turn.
    pub fn acknowledged(&self, seqs: Vec<Seq>, shard: &mut Shard) {
        let after = self.submit(Work::Acknowledged(seqs), MessageBuf::default());
        self.deliver(after, shard);
    }

    /// The same for threads that may wait.
    pub fn acknowledged_elsewhere(&self, seqs: Vec<Seq>) {
        self.submit_and_wait(Work::Acknowledged(seqs));
    }

    /// Has all messages removed that no consumer needs any more, slice by slice: when all consumers are there after a
    /// restart, and when one was deleted or wants less. Only for threads that may wait.
    pub fn reconcile(&self) {
        self.submit_and_wait(Work::Reconcile);
    }

    /// Has some shard look what was released.
    pub fn wake(&self) {
        if !self.is_woken.swap(true, AcqRel)
            && let Some(me) = self.me.upgrade()
        {
            self.host.wake(me);
        }
    }

    pub(super) fn wake_surely(&self) {
        self.is_woken.store(true, Release);
        if let Some(me) = self.me.upgrade() {
            self.host.wake(me);
        }
    }

    /// Looks what was released, on a shard. One look in the inbox is enough, however long the core is away.
    pub(super) fn look(&self) -> TurnResult {
        if self.has_look.swap(true, AcqRel) {
            self.resume()
        } else {
            self.submit(Work::Look, MessageBuf::default())
        }
    }
}

/// Says that something was read, whatever became of that.
struct Warmed(Arc<LiveStream>);

impl Drop for Warmed {
    fn drop(&mut self) {
        self.0.submit_and_wait(Work::Warmed);
    }
}

impl Alarmed for LiveStream {
    /// Works on what is due.
    fn ring(&self) {
        self.alarm.store(i64::MAX, Release);
        self.repair_if_due();
        self.wake_surely();
        self.submit_and_wait(Work::Due);
    }
}

/// Gives the core away. Who wanted it may be gone.
fn lend(seat: &mut CoreSlot, borrower: &SyncSender<Box<StreamCore>>) {
    if let CoreSlot::Here(core) = std::mem::replace(seat, CoreSlot::Lent)
        && let Err(unwanted) = borrower.send(core)
    {
        *seat = CoreSlot::Here(unwanted.0);
    }
}
