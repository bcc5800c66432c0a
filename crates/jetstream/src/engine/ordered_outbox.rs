//! Outbox of a stream or consumer, in the order of its turns, whichever shards these ran on.
//!
//! Effects happen after a turn, and the next turn may be another shard's: without more, what came
//! first could be flushed last. So a turn leaves its messages here, and one shard at a time
//! publishes them: until its flush has moved them into the outboxes, others leave theirs to it.

use myelin_broker::{Account, ServiceShard};
use myelin_stdx::claim::{Append, Claimed, Finish};
use myelin_wire::message_buf::MessageBuf;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

/// Outbox of one stream or consumer, whose messages leave in the order of its turns.
#[derive(Default)]
pub(super) struct OrderedOutbox {
    queue: Claimed<VecDeque<MessageBuf>>,
    /// Bytes that wait.
    bytes: AtomicUsize,
}

impl OrderedOutbox {
    /// Takes over the messages of a turn, during it. Answers whether the caller has to see to it
    /// that they are sent.
    #[must_use = "nobody else sends them"]
    pub(super) fn add(&self, msgs: &mut MessageBuf) -> bool {
        if msgs.is_empty() {
            return false;
        }
        let msgs = std::mem::take(msgs);
        self.bytes.fetch_add(msgs.bytes(), Relaxed);
        self.queue.with_queue(|queue| queue.push_back(msgs)) == Append::Claimed
    }

    /// Bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Whether all there was to say is in the outboxes.
    pub(super) fn is_flushed(&self) -> bool {
        self.queue.is_idle(VecDeque::is_empty)
    }

    /// Takes the right to send what waits, if it does and nobody has it.
    pub(super) fn claim(&self) -> bool {
        self.queue.try_claim(VecDeque::is_empty)
    }

    /// Whether messages wait that nobody has the right to send.
    pub(super) fn has_unclaimed(&self) -> bool {
        self.claim() && {
            self.release();
            true
        }
    }

    /// Leaves it to another.
    pub(super) fn release(&self) {
        debug_assert!(self.queue.is_claimed(), "the right to send is given back by whoever has it");
        self.queue.release(|_| ());
    }

    /// Publishes what waits; the memory is the shard's then. It must call
    /// [`OrderedOutbox::flushed`] when it is in the outboxes.
    pub(super) fn send(&self, account: &Arc<Account>, shard: &mut ServiceShard, now: Instant) {
        for mut msgs in self.queue.take(std::mem::take) {
            let bytes = self.bytes.fetch_sub(msgs.bytes(), Relaxed);
            debug_assert!(bytes >= msgs.bytes(), "no more bytes leave the outbox than came in");
            debug_assert!(!msgs.is_empty(), "nothing is sent that says nothing");
            shard.send(account, &mut msgs, now);
            shard.keep_buf(msgs);
        }
    }

    /// Whether more came meanwhile, which the caller has to send.
    pub(super) fn flushed(&self) -> bool {
        self.queue.finish(|queue| queue.is_empty()) == Finish::More
    }
}
