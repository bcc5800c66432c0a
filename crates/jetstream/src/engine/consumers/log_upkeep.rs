//! Upkeep of the log of a stream's consumers: who waits for its release, whether it is being
//! written anew, and whether it can be written at all.

use super::LiveConsumer;
use crate::engine::waits::Waiters;
use myelin_stdx::sync::lock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release, SeqCst};
use std::sync::{Arc, Mutex, Weak};

/// Marks of what is under way with the log.
#[derive(Default)]
pub(super) struct LogUpkeep {
    /// Consumers that have something to say when the log is released.
    unreleased: Mutex<Vec<Weak<LiveConsumer>>>,
    has_unreleased: AtomicBool,
    /// Whether a position could not be written.
    has_unwritten: AtomicBool,
    /// Whether it is asked for already that the log is written anew.
    is_rewriting: AtomicBool,
    /// Whether it is the log of the stream's group.
    is_of_group: AtomicBool,
    /// Calls that wait until the group has agreed.
    agreements: Waiters,
}

impl LogUpkeep {
    /// Notes that the log is that of the stream's group from here on.
    pub(super) fn join_group(&self) {
        self.is_of_group.store(true, Release);
    }

    /// Whether the log is that of the stream's group.
    pub(super) fn is_of_group(&self) -> bool {
        self.is_of_group.load(Acquire)
    }

    /// Calls that wait until the group has agreed.
    pub(super) fn agreements(&self) -> &Waiters {
        &self.agreements
    }

    /// Keeps a consumer that has something to say when the log is released. It looks once more
    /// afterwards.
    pub(super) fn await_release(&self, consumer: &Weak<LiveConsumer>) {
        lock(&self.unreleased).push(Weak::clone(consumer));
        self.has_unreleased.store(true, SeqCst);
    }

    /// Takes the consumers that have waited for the release, as far as they are still there.
    pub(super) fn take_waiting(&self) -> Vec<Arc<LiveConsumer>> {
        if !self.has_unreleased.swap(false, AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut *lock(&self.unreleased)).iter().filter_map(Weak::upgrade).collect()
    }

    /// Notes whether a position could be written. Answers whether that is news.
    pub(super) fn note_write(&self, has_failed: bool) -> bool {
        self.has_unwritten.swap(has_failed, AcqRel) != has_failed
    }

    /// Takes the order to write the log anew. False: somebody has it already.
    #[must_use = "nobody else does it"]
    pub(super) fn order_rewrite(&self) -> bool {
        !self.is_rewriting.swap(true, AcqRel)
    }

    /// Notes that the log is about to be written anew: what comes now may be a reason to do so once
    /// more.
    pub(super) fn rewrite_begins(&self) {
        self.is_rewriting.store(false, Release);
    }
}
