//! The release position of a stream: up to where its log may be seen and acknowledged.
//!
//! Batches are released in the order in which they were appended, whatever the order in which
//! rounds sync the files that hold them. Written by the stream and by rounds, read by everyone
//! without a lock.
//!
//! Each batch has one gate ([`Gate`]). It waits for the sync of its file, or, in the log of a
//! group, until its index is committed, or for nothing but the *mark*: a sequence that is stated
//! durably as one that may have been given out (`watermarks`), so that it is not given out again
//! where the sync comes too late. The mark moves ahead of the messages, so that on an ordinary run
//! nobody waits for it.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use myelin_stdx::sync::lock;

use crate::recovery::Lost;
use crate::{SegmentNo, Seq, StreamId};

/// From the half of a longer step on the mark is to be moved, from the eighth of a shorter one.
const LONG_STEP: u64 = 8192;

/// Stands for batches that the catalog will never follow.
const NEVER: usize = usize::MAX;

/// Names a batch of a stream. Tickets grow with each batch, from 1, and none is given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Listener that is told when batches which had to wait are released, or never will be. Called
/// outside of all locks: from the thread of a round, or from a call of the stream itself if a round
/// was faster than the append. Must not wait, nor call the stream or the journal. Calls may
/// overtake each other: the highest position counts.
///
/// Batches that are released when they are appended (in memory,
/// [`Durability::Written`](crate::Durability::Written),
/// [`Durability::Memory`](crate::Durability::Memory)) are not told.
pub trait OnRelease: Send + Sync {
    /// Messages up to `seq`, and the batch of `ticket` and all before it, are released.
    fn released(&self, stream: StreamId, seq: Seq, ticket: Ticket);
    /// The stream has failed, was deleted, or opened anew. What waits may never be released, though
    /// some of it may be on disk.
    fn failed(&self, stream: StreamId, why: &str);
    /// A reader has met messages that are not what was written, for the first time since the stream
    /// was opened; `count` messages with these. Not everybody wants to know.
    fn damaged(&self, stream: StreamId, lost: &Lost, count: usize) {
        let _ = (stream, lost, count);
    }
    /// A reader of a stream that others have, too
    /// ([`StreamReader::set_mended`](crate::StreamReader::set_mended)), was refused by the device:
    /// each time. Not everybody wants to know.
    fn unreadable(&self, stream: StreamId, error: &io::Error) {
        let _ = (stream, error);
    }
}

/// Need of a stream for its mark to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// A mark that moves: much of the way to it has been gone.
    Soon,
    /// Batches wait for it.
    Now,
}

/// Release position of a stream, and the batches that wait for it to move.
#[derive(Debug)]
pub struct Release {
    seq: AtomicU64,
    ticket: AtomicU64,
    /// Ticket of the newest batch.
    last_ticket: AtomicU64,
    /// How many batches were released that the catalog has not followed yet; [`NEVER`] once it
    /// could not.
    unfollowed: AtomicUsize,
    waiting: Mutex<ReleaseState>,
}

#[derive(Debug)]
struct ReleaseState {
    batches: VecDeque<WaitingBatch>,
    /// The last ticket that was given out, perhaps to a batch that was taken back since.
    given: u64,
    /// Sequences up to here are released without a look at the mark.
    near: Seq,
    /// None behind it is released, but by a sync.
    mark: Seq,
    /// How far ahead of what is durable the mark is, as long as it is not stated.
    ahead: Option<u64>,
    /// Need that was told since the mark was moved.
    asked: Option<Need>,
    /// How far each file is synced, of files that have waiting batches; a few at most.
    durable: Vec<(SegmentNo, u64)>,
    /// Up to which index the log of the group is committed.
    committed: u64,
}

/// Gate that a batch waits at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    /// The mark has to reach the batch's last sequence.
    Mark,
    /// The file of this segment has to be synced up to this offset.
    Synced(SegmentNo, u64),
    /// An index that has to be committed. How many have synced it is the business of whoever says
    /// so.
    Committed(u64),
    /// As [`Gate::Committed`], for a part of a decision, which passes together with the batch
    /// behind it.
    Part(u64),
}

/// Fate of a batch that was written.
#[derive(Debug)]
pub(crate) enum Entered<'a> {
    /// Released as soon as the catalog has followed it.
    Passes(Passing<'a>),
    /// Kept until it may be released.
    Waits,
}

/// A batch that need not wait, and has no ticket yet: a catalog that cannot follow it fails, and
/// then it is not released. As long as this is there, nobody moves the release position.
#[derive(Debug)]
pub(crate) struct Passing<'a> {
    release: &'a Release,
    waiting: MutexGuard<'a, ReleaseState>,
    last_seq: Seq,
}

#[derive(Debug)]
struct WaitingBatch {
    gate: Gate,
    last_seq: Seq,
    ticket: Ticket,
}

impl Release {
    pub(crate) fn new(seq: Seq) -> Self {
        Self {
            seq: AtomicU64::new(seq),
            ticket: AtomicU64::new(0),
            last_ticket: AtomicU64::new(0),
            unfollowed: AtomicUsize::new(0),
            waiting: Mutex::new(ReleaseState {
                batches: VecDeque::new(),
                given: 0,
                near: Seq::MAX,
                mark: Seq::MAX,
                ahead: None,
                asked: None,
                durable: Vec::new(),
                committed: 0,
            }),
        }
    }

    /// Messages up to here may be read and acknowledged.
    #[must_use]
    pub fn seq(&self) -> Seq {
        self.seq.load(Ordering::Acquire)
    }

    /// The ticket of the last batch that is released; 0: none.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        Ticket(self.ticket.load(Ordering::Acquire))
    }

    /// Whether the batch with this ticket, and all before it, are released.
    #[must_use]
    pub fn is_released(&self, ticket: Ticket) -> bool {
        ticket.0 <= self.ticket.load(Ordering::Acquire)
    }

    /// The ticket of the newest batch; of a stream without batches, one that is released.
    #[must_use]
    pub fn last_ticket(&self) -> Ticket {
        Ticket(self.last_ticket.load(Ordering::Acquire))
    }

    /// Lets a batch pass that need not be synced, unless it has to wait for the mark or for those
    /// before it. Under the lock of the catalog, which does what the batch says next, or keeps it.
    ///
    /// Perf: for all batches but a few of a thousand one comparison more than without a mark.
    pub(crate) fn at_once(&self, last_seq: Seq) -> Entered<'_> {
        let mut waiting = self.lock();
        let passes = last_seq <= waiting.near || last_seq <= waiting.mark.max(self.seq());
        if passes && waiting.batches.is_empty() && self.unfollowed() != NEVER {
            return Entered::Passes(Passing { release: self, waiting, last_seq });
        }
        self.wait(&mut waiting, Gate::Mark, last_seq);
        Entered::Waits
    }

    /// Lets what waits for a sync wait for nothing but the mark: this is what a change from
    /// `always` to a weaker mode means. Answers whether anything was released.
    pub(crate) fn all(&self) -> bool {
        let mut waiting = self.lock();
        let synced = waiting.batches.iter_mut().filter(|batch| matches!(batch.gate, Gate::Synced(..)));
        synced.for_each(|batch| batch.gate = Gate::Mark);
        self.release_ready(&mut waiting)
    }

    /// Finds what has to be asked for, and was not since the mark was moved.
    pub(crate) fn need(&self) -> Option<Need> {
        self.need_of(&mut self.lock())
    }

    /// Finds the need that has to be told, and was not since the mark was moved.
    fn need_of(&self, waiting: &mut ReleaseState) -> Option<Need> {
        let is_waited_for = waiting.batches.front().is_some_and(|batch| batch.gate == Gate::Mark);
        let is_near = self.seq() > waiting.near;
        let need = if is_waited_for { Some(Need::Now) } else { is_near.then_some(Need::Soon) };
        let is_new = need > waiting.asked;
        if is_new {
            waiting.asked = need;
        }
        need.filter(|_| is_new)
    }

    /// The mark where nothing was stated: `ahead` behind what is known to be durable.
    pub(crate) fn begin_mark(&self, durable: Seq, ahead: u64) {
        let mut waiting = self.lock();
        waiting.set_mark(durable.saturating_add(ahead), durable);
        waiting.ahead = Some(ahead);
        waiting.check();
    }

    /// Sequences up to `mark` may have been given out, and this is stated. Answers whether anything
    /// was released.
    pub(crate) fn set_mark(&self, mark: Seq) -> bool {
        let mut waiting = self.lock();
        let last = waiting.last_seq().max(self.seq());
        waiting.set_mark(mark, last);
        self.release_ready(&mut waiting)
    }

    /// Brings the mark back to at most `ahead` behind what is released; where it is then, if that
    /// moved it. What waits keeps it where it is.
    pub(crate) fn lower_mark(&self, ahead: u64) -> Option<Seq> {
        let mut waiting = self.lock();
        let mark = self.seq().saturating_add(ahead);
        if !waiting.batches.is_empty() || mark >= waiting.mark {
            return None;
        }
        debug_assert!(mark >= self.seq(), "the mark is not behind what is released");
        waiting.set_mark(mark, self.seq());
        Some(mark)
    }

    /// Whether batches wait for the mark.
    pub(crate) fn waits_for_mark(&self) -> bool {
        self.lock().batches.front().is_some_and(|batch| batch.gate == Gate::Mark)
    }

    /// The last sequence that a batch has, released or not.
    pub(crate) fn last_seq(&self) -> Seq {
        self.lock().last_seq().max(self.seq())
    }

    /// Sequences behind `last` are gone, and those that are given out again are not released before
    /// their batches.
    pub(crate) fn truncated(&self, last: Seq) {
        let mut waiting = self.lock();
        waiting.batches.iter_mut().for_each(|batch| batch.last_seq = batch.last_seq.min(last));
        self.seq.fetch_min(last, Ordering::AcqRel);
        debug_assert!(self.seq() <= last, "what is gone is not released");
        if let Some(ahead) = waiting.ahead {
            // Less may be found, and this is counted from there.
            waiting.mark = waiting.mark.min(last.saturating_add(ahead));
            waiting.near = waiting.near.min(waiting.mark);
            debug_assert!(waiting.near <= waiting.mark, "the mark is asked for before it is reached");
        }
    }

    /// A batch that waits until `segment` is synced up to `end`.
    pub(crate) fn appended(&self, segment: SegmentNo, end: u64, last_seq: Seq) {
        self.wait(&mut self.lock(), Gate::Synced(segment, end), last_seq);
    }

    /// A batch that waits until `index` is committed, which it may be; a part of a decision waits
    /// for the next batch, too.
    pub(crate) fn proposed(&self, index: u64, is_part: bool, last_seq: Seq) {
        let gate = if is_part { Gate::Part(index) } else { Gate::Committed(index) };
        self.wait(&mut self.lock(), gate, last_seq);
    }

    /// The log of the group is committed up to `index`. Answers whether the position moved.
    pub(crate) fn committed(&self, index: u64) -> bool {
        let mut waiting = self.lock();
        waiting.committed = waiting.committed.max(index);
        self.release_ready(&mut waiting)
    }

    /// Forgets the batches from the index `first` on: their tickets are never released. Answers the
    /// first of these.
    pub(crate) fn take_back(&self, first: u64) -> Option<Ticket> {
        let mut waiting = self.lock();
        let is_gone = |batch: &WaitingBatch| match batch.gate {
            Gate::Committed(index) | Gate::Part(index) => index >= first,
            Gate::Mark | Gate::Synced(..) => false,
        };
        let at = waiting.batches.iter().position(is_gone)?;
        let gone = waiting.batches.split_off(at);
        let last = waiting.batches.back().map_or_else(|| self.ticket(), |batch| batch.ticket);
        self.last_ticket.store(last.0, Ordering::Release);
        gone.front().map(|batch| batch.ticket)
    }

    fn wait(&self, waiting: &mut ReleaseState, gate: Gate, last_seq: Seq) {
        let ticket = waiting.give();
        self.last_ticket.store(ticket.0, Ordering::Release);
        debug_assert!(
            waiting.batches.back().is_none_or(|last| last.ticket < ticket),
            "batches wait in order"
        );
        debug_assert!(last_seq >= self.seq(), "what was released is not appended again");
        waiting.batches.push_back(WaitingBatch { gate, last_seq, ticket });
        waiting.check();
    }

    /// `segment` is synced up to `offset`. Answers whether the position moved.
    pub(crate) fn durable(&self, segment: SegmentNo, offset: u64) -> bool {
        let mut waiting = self.lock();
        waiting.note(segment, offset);
        self.release_ready(&mut waiting)
    }

    /// Releases what need not wait any more, in order. Answers whether that is anything.
    ///
    /// The catalog follows when somebody looks at it next ([`Release::to_follow`]): rounds,
    /// which come here, serve many streams, and do not wait for a catalog.
    fn release_ready(&self, waiting: &mut ReleaseState) -> bool {
        if self.unfollowed() == NEVER {
            return false;
        }
        let mut reached = None;
        let mut seq = self.seq();
        let before = waiting.batches.len();
        let mut is_within = false;
        while let Some(batch) = waiting.batches.pop_front() {
            let is_part = matches!(batch.gate, Gate::Part(_));
            let is_whole = is_within || !is_part || waiting.covers_rest();
            if !is_whole || !waiting.covers(&batch, seq) {
                waiting.batches.push_front(batch);
                break;
            }
            seq = seq.max(batch.last_seq);
            reached = Some(batch.ticket);
            is_within = is_part;
        }
        waiting.forget_idle();
        waiting.check();
        let Some(ticket) = reached else { return false };
        // Before the position says so: who sees that it has moved sees that the catalog has not.
        self.unfollowed.fetch_add(before - waiting.batches.len(), Ordering::Release);
        self.move_to(seq, ticket);
        debug_assert!(
            waiting.batches.front().is_none_or(|next| next.ticket > ticket),
            "what waits comes behind what is released"
        );
        true
    }

    /// Whether the catalog has to follow before it shows what is released.
    #[inline]
    pub(crate) fn has_unfollowed(&self) -> bool {
        self.unfollowed() > 0
    }

    /// How many batches, the first that wait in the catalog, it has to follow.
    pub(crate) fn unfollowed(&self) -> usize {
        self.unfollowed.load(Ordering::Acquire)
    }

    /// As [`Release::unfollowed`]; `None` if the catalog could not follow before. Under its lock.
    pub(crate) fn to_follow(&self) -> Option<usize> {
        Some(self.unfollowed()).filter(|count| *count != NEVER)
    }

    /// The catalog has followed so many of them, and not before: whoever comes meanwhile waits for
    /// its lock. Under that.
    pub(crate) fn followed(&self, count: usize) {
        let before = self.unfollowed.fetch_sub(count, Ordering::AcqRel);
        debug_assert!(before >= count && before != NEVER, "what was followed was released");
    }

    /// The catalog could not follow: nothing is released any more. Under its lock.
    pub(crate) fn stop(&self) {
        let _waiting = self.lock();
        self.unfollowed.store(NEVER, Ordering::Release);
    }

    /// Under the lock.
    fn move_to(&self, seq: Seq, ticket: Ticket) {
        debug_assert!(ticket > self.ticket(), "batches are released in order");
        debug_assert!(seq >= self.seq(), "only a truncation takes the position back");
        debug_assert!(ticket.0 > 0, "tickets begin with 1");
        self.seq.store(seq, Ordering::Release);
        self.ticket.fetch_max(ticket.0, Ordering::AcqRel);
    }

    fn lock(&self) -> MutexGuard<'_, ReleaseState> {
        lock(&self.waiting)
    }
}

impl Passing<'_> {
    /// As [`Release::unfollowed`], of the batches before this one.
    pub(crate) fn unfollowed(&self) -> usize {
        self.release.unfollowed()
    }

    /// As [`Release::followed`].
    pub(crate) fn followed(&self, count: usize) {
        self.release.followed(count);
    }

    /// As [`Release::stop`].
    pub(crate) fn stop(&self) {
        self.release.unfollowed.store(NEVER, Ordering::Release);
    }

    /// Releases the batch. Answers what has to be asked for.
    ///
    /// Nobody is told of it, so that nobody may have begun to wait for it: it is the newest only
    /// afterwards.
    pub(crate) fn release(mut self) -> Option<Need> {
        let release = self.release;
        let ticket = self.waiting.give();
        release.move_to(self.last_seq.max(release.seq()), ticket);
        release.last_ticket.store(ticket.0, Ordering::Release);
        if self.last_seq <= self.waiting.near { None } else { release.need_of(&mut self.waiting) }
    }
}

impl WaitingBatch {
    fn is_of(&self, segment: SegmentNo) -> bool {
        matches!(self.gate, Gate::Synced(no, _) if no == segment)
    }
}

impl ReleaseState {
    fn check(&self) {
        debug_assert!(self.near <= self.mark, "the mark is asked for before it is reached");
        debug_assert!(
            self.batches
                .iter()
                .zip(self.batches.iter().skip(1))
                .take(8)
                .all(|(one, next)| one.ticket < next.ticket),
            "batches wait in order"
        );
        debug_assert!(
            self.durable
                .iter()
                .enumerate()
                .all(|(at, (no, _))| self.durable[..at].iter().all(|(other, _)| other != no)),
            "a file is known once"
        );
    }

    fn give(&mut self) -> Ticket {
        self.given += 1;
        Ticket(self.given)
    }

    /// The last of what waits; 0 if nothing does.
    fn last_seq(&self) -> Seq {
        self.batches.back().map_or(0, |batch| batch.last_seq)
    }

    fn note(&mut self, segment: SegmentNo, offset: u64) {
        match self.durable.iter_mut().find(|(no, _)| *no == segment) {
            Some((_, known)) => *known = (*known).max(offset),
            None => self.durable.push((segment, offset)),
        }
    }

    /// Whether a batch need not wait, where sequences up to `released` are released.
    fn covers(&self, batch: &WaitingBatch, released: Seq) -> bool {
        match batch.gate {
            Gate::Mark => batch.last_seq <= self.mark.max(released),
            Gate::Synced(segment, end) => {
                self.durable.iter().any(|&(no, offset)| no == segment && end <= offset)
            }
            Gate::Committed(index) | Gate::Part(index) => index <= self.committed,
        }
    }

    /// Whether the decision that goes on in what waits is committed up to its end.
    fn covers_rest(&self) -> bool {
        let end = self.batches.iter().find(|batch| !matches!(batch.gate, Gate::Part(_)));
        end.is_some_and(|end| matches!(end.gate, Gate::Committed(index) if index <= self.committed))
    }

    /// `from` is where the way to the mark begins.
    fn set_mark(&mut self, mark: Seq, from: Seq) {
        let step = mark.saturating_sub(from);
        // A short way may be gone while it is moved.
        let part = if step > LONG_STEP { 2 } else { 8 };
        self.mark = mark;
        // Where it has to move at once, the first batch asks.
        self.near = if step == 0 { mark.saturating_sub(1) } else { from.saturating_add(step / part) };
        debug_assert!(self.near <= self.mark, "the mark is asked for before it is reached");
        self.ahead = None;
        self.asked = None;
    }

    /// Files of which nothing waits need not be remembered, except the newest: a sync may be told
    /// before the batch.
    fn forget_idle(&mut self) {
        if self.durable.len() > 1 {
            let newest = self.durable.iter().map(|&(no, _)| no).max();
            let batches = &self.batches;
            self.durable.retain(|&(no, _)| Some(no) == newest || batches.iter().any(|batch| batch.is_of(no)));
            debug_assert!(!self.durable.is_empty(), "the newest file is remembered");
        }
    }
}
