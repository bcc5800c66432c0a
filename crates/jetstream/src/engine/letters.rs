//! What a stream has to say, in the order of its turns, whichever shards these ran on.
//!
//! Effects happen after a turn, and the next turn may be another shard's: without more, what came first could be flushed
//! last. So a turn leaves its messages here, and one shard at a time publishes them: until its flush has moved them into
//! the outboxes, others leave theirs to it.

use myelin_broker::{Account, Parcel, Shard};
use myelin_stdx::claim::{Append, Claimed, Finish};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Emptied parcels kept for their memory.
const SPARES: usize = 4;

/// See the head of this file.
#[derive(Default)]
pub(super) struct Letters {
    queue: Claimed<VecDeque<Parcel>>,
    spares: Mutex<Vec<Parcel>>,
    /// What waits.
    bytes: AtomicUsize,
}

impl Letters {
    /// Takes over the messages of a turn, during it. Answers whether the caller has to see to it that they are sent.
    #[must_use = "nobody else sends them"]
    pub(super) fn add(&self, parcel: &mut Parcel) -> bool {
        if parcel.is_empty() {
            return false;
        }
        let spare = self.spares.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        let parcel = std::mem::replace(parcel, spare);
        self.bytes.fetch_add(parcel.bytes(), Relaxed);
        self.queue.with_queue(|queue| queue.push_back(parcel)) == Append::Claimed
    }

    /// Bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Whether all there was to say is in the outboxes.
    pub(super) fn are_out(&self) -> bool {
        self.queue.is_idle(VecDeque::is_empty)
    }

    /// Takes the right to send what waits, if it does and nobody has it.
    pub(super) fn claim(&self) -> bool {
        self.queue.try_claim(VecDeque::is_empty)
    }

    /// Whether messages wait that nobody has the right to send.
    pub(super) fn are_left(&self) -> bool {
        self.claim() && {
            self.release();
            true
        }
    }

    /// Leaves it to another.
    pub(super) fn release(&self) {
        self.queue.release(|_| ());
    }

    /// Publishes what waits. The shard must call [`Letters::flushed`] when it is in the outboxes.
    pub(super) fn send(&self, account: &Arc<Account>, shard: &mut Shard, now: Instant) {
        let parcels = self.queue.take(std::mem::take);
        let mut spares = Vec::with_capacity(parcels.len());
        for mut parcel in parcels {
            self.bytes.fetch_sub(parcel.bytes(), Relaxed);
            shard.send(account, &mut parcel, now);
            spares.push(parcel);
        }
        let mut kept = self.spares.lock().unwrap_or_else(PoisonError::into_inner);
        spares.truncate(SPARES.saturating_sub(kept.len()));
        kept.append(&mut spares);
    }

    /// Whether more came meanwhile, which the caller has to send.
    pub(super) fn flushed(&self) -> bool {
        self.queue.finish(|queue| queue.is_empty()) == Finish::More
    }
}
