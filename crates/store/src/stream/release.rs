//! The release position of a stream: up to where its log may be seen and acknowledged.
//!
//! Batches are released in the order in which they were appended, whatever the order in which rounds sync the files
//! that hold them. Written by the stream and by rounds, read by everyone without a lock.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{SegmentNo, Seq, StreamId};

/// Names a batch of a stream. Tickets grow by one with each batch, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Who wants to know that batches which had to wait are released, or never will be. Called outside of all locks: from
/// the thread of a round, or from a call of the stream itself if a round was faster than the append. Must not wait, nor
/// call the stream or the journal. Calls may overtake each other: the highest position counts.
///
/// Batches that are released when they are appended (in memory, [`Durability::Written`](crate::Durability::Written),
/// [`Durability::Memory`](crate::Durability::Memory)) are not told.
pub trait OnRelease: Send + Sync {
    /// Messages up to `seq`, and the batch of `ticket` and all before it, are released.
    fn released(&self, stream: StreamId, seq: Seq, ticket: Ticket);
    /// The stream has failed, was deleted, or opened anew. What waits may never be released, though some of it may be
    /// on disk.
    fn failed(&self, stream: StreamId, why: &str);
}

/// See the module.
#[derive(Debug)]
pub struct Release {
    seq: AtomicU64,
    ticket: AtomicU64,
    last_ticket: AtomicU64,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    batches: VecDeque<Batch>,
    /// How far each file is synced, of files that have waiting batches; a few at most.
    durable: Vec<(SegmentNo, u64)>,
}

#[derive(Debug)]
struct Batch {
    segment: SegmentNo,
    end: u64,
    last_seq: Seq,
    ticket: Ticket,
}

impl Release {
    pub(crate) fn new(seq: Seq) -> Self {
        Self {
            seq: AtomicU64::new(seq),
            ticket: AtomicU64::new(0),
            last_ticket: AtomicU64::new(0),
            waiting: Mutex::default(),
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

    /// A batch that counts as stored already.
    pub(crate) fn at_once(&self, last_seq: Seq) {
        let waiting = self.lock();
        debug_assert!(waiting.batches.is_empty(), "a weaker mode begins with `all`");
        let ticket = self.last_ticket.fetch_add(1, Ordering::AcqRel) + 1;
        self.move_to(last_seq, Ticket(ticket));
        drop(waiting);
    }

    /// What waits counts as stored now: this is what a change from `always` to a weaker mode means. Answers whether
    /// anything waited.
    pub(crate) fn all(&self, last_seq: Seq) -> bool {
        let mut waiting = self.lock();
        let have_waited = !waiting.batches.is_empty();
        waiting.batches.clear();
        self.move_to(last_seq, self.last_ticket());
        have_waited
    }

    /// Sequences behind `last` are gone, and those that are given out again are not released before their batches.
    pub(crate) fn truncated(&self, last: Seq) {
        let mut waiting = self.lock();
        waiting.batches.iter_mut().for_each(|batch| batch.last_seq = batch.last_seq.min(last));
        self.seq.fetch_min(last, Ordering::AcqRel);
    }

    /// A batch that waits until `segment` is synced up to `end`.
    pub(crate) fn appended(&self, segment: SegmentNo, end: u64, last_seq: Seq) {
        let mut waiting = self.lock();
        let ticket = Ticket(self.last_ticket.fetch_add(1, Ordering::AcqRel) + 1);
        waiting.batches.push_back(Batch { segment, end, last_seq, ticket });
    }

    /// `segment` is synced up to `offset`. Answers whether the position moved.
    pub(crate) fn durable(&self, segment: SegmentNo, offset: u64) -> bool {
        let mut waiting = self.lock();
        waiting.note(segment, offset);
        let mut reached = None;
        while let Some(batch) = waiting.batches.pop_front() {
            if !waiting.covers(&batch) {
                waiting.batches.push_front(batch);
                break;
            }
            reached = Some((batch.last_seq, batch.ticket));
        }
        waiting.forget_idle();
        let Some((seq, ticket)) = reached else { return false };
        self.move_to(seq, ticket);
        true
    }

    /// Under the lock.
    fn move_to(&self, seq: Seq, ticket: Ticket) {
        self.seq.store(seq, Ordering::Release);
        self.ticket.fetch_max(ticket.0, Ordering::AcqRel);
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn note(&mut self, segment: SegmentNo, offset: u64) {
        match self.durable.iter_mut().find(|(no, _)| *no == segment) {
            Some((_, known)) => *known = (*known).max(offset),
            None => self.durable.push((segment, offset)),
        }
    }

    fn covers(&self, batch: &Batch) -> bool {
        self.durable.iter().any(|&(no, offset)| no == batch.segment && batch.end <= offset)
    }

    /// Files of which nothing waits need not be remembered, except the newest: a sync may be told before the batch.
    fn forget_idle(&mut self) {
        if self.durable.len() > 1 {
            let newest = self.durable.iter().map(|&(no, _)| no).max();
            let batches = &self.batches;
            self.durable
                .retain(|&(no, _)| Some(no) == newest || batches.iter().any(|batch| batch.segment == no));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_released_in_order_across_segments() {
        let release = Release::new(4);
        release.appended(SegmentNo(1), 100, 5);
        release.appended(SegmentNo(1), 200, 7);
        release.appended(SegmentNo(2), 150, 9);
        assert!(!release.durable(SegmentNo(2), 150), "the first segment is not synced yet");
        assert_eq!(release.seq(), 4);
        assert!(release.durable(SegmentNo(1), 100));
        assert_eq!(release.seq(), 5);
        assert!(release.is_released(Ticket(1)) && !release.is_released(Ticket(2)));
        assert!(release.durable(SegmentNo(1), 200));
        assert_eq!(release.seq(), 9, "the second segment was synced before");
        assert!(release.is_released(release.last_ticket()));
    }

    #[test]
    fn what_was_truncated_is_not_released_by_older_batches() {
        let release = Release::new(0);
        release.appended(SegmentNo(1), 100, 9);
        release.durable(SegmentNo(1), 100);
        release.appended(SegmentNo(1), 200, 12);
        release.truncated(5);
        release.appended(SegmentNo(2), 50, 7);
        assert_eq!(release.seq(), 5);
        release.durable(SegmentNo(1), 200);
        assert_eq!(release.seq(), 5);
        release.durable(SegmentNo(2), 50);
        assert_eq!(release.seq(), 7);
    }

    #[test]
    fn a_weaker_mode_releases_what_waited_and_stays_there() {
        let release = Release::new(0);
        release.appended(SegmentNo(1), 100, 3);
        assert!(release.all(7), "something waited");
        assert_eq!((release.seq(), release.ticket()), (7, release.last_ticket()));
        release.at_once(8);
        release.durable(SegmentNo(1), 100);
        assert_eq!(release.seq(), 8);
    }

    #[test]
    fn a_sync_between_append_and_entry_is_not_missed() {
        let release = Release::new(0);
        release.durable(SegmentNo(1), 300);
        release.appended(SegmentNo(1), 300, 3);
        assert!(release.durable(SegmentNo(1), 300));
        assert_eq!(release.seq(), 3);
    }
}
