//! Wakeup: how a stream, a consumer or a source reader comes to its next turn when no message
//! brings it there.
//!
//! In one of three ways: the host's timer fires when something is due, a shard is asked to come, or
//! the work is in an inbox already. Each of them has one mark here, so that however often it is
//! asked for it happens once.

use super::host::{Host, Timer};
use myelin_broker::Service;
use myelin_store::Timestamp;
use std::sync::Weak;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicI64};

/// The time of an alarm that is not set.
const NEVER: Timestamp = i64::MAX;

/// Marks of what has been asked for already.
#[derive(Debug)]
pub(super) struct Wakeup {
    /// When the host's timer will fire next.
    alarm: AtomicI64,
    /// Whether the work that a wake-up stands for is in the inbox.
    is_queued: AtomicBool,
    /// Whether a shard was asked to come, as far as [`Wakeup::wake_once`] asks.
    is_woken: AtomicBool,
}

impl Default for Wakeup {
    fn default() -> Self {
        Self {
            alarm: AtomicI64::new(NEVER),
            is_queued: AtomicBool::new(false),
            is_woken: AtomicBool::new(false),
        }
    }
}

impl Wakeup {
    /// Has `owner` fire at `at`, unless its alarm goes off before that anyway.
    pub(super) fn arm<T: Timer + 'static>(&self, at: Timestamp, host: &dyn Host, owner: &Weak<T>) {
        if at < self.alarm.fetch_min(at, AcqRel) {
            host.schedule(at, Weak::clone(owner) as Weak<dyn Timer>);
        }
    }

    /// Notes that the alarm has gone off: what is due from now on needs another one.
    pub(super) fn fired(&self) {
        self.alarm.store(NEVER, Release);
    }

    /// Notes that the work goes into the inbox. False: it is there, and the caller must not put it
    /// there again.
    #[must_use = "the caller puts the work there"]
    pub(super) fn enqueue(&self) -> bool {
        !self.is_queued.swap(true, AcqRel)
    }

    /// Notes that the work was taken from the inbox. Before it is done: what comes meanwhile is
    /// worth another turn.
    pub(super) fn dequeue(&self) {
        debug_assert!(self.is_queued.load(Acquire), "work of a wake-up is in the inbox at most once");
        self.is_queued.store(false, Release);
    }

    /// Asks for a shard, unless one that was asked has not [come](Wakeup::arrived) yet.
    pub(super) fn wake_once<T: Service + 'static>(&self, host: &dyn Host, owner: &Weak<T>) {
        if !self.is_woken.swap(true, AcqRel) {
            wake(host, owner);
        }
    }

    /// Asks for a shard, whoever was asked before.
    pub(super) fn wake_always<T: Service + 'static>(&self, host: &dyn Host, owner: &Weak<T>) {
        self.is_woken.store(true, Release);
        wake(host, owner);
    }

    /// Whether a shard was asked that has not [come](Wakeup::arrived) yet.
    pub(super) fn is_woken(&self) -> bool {
        self.is_woken.load(Acquire)
    }

    /// Notes that a shard has come. What others have written before they asked is seen from here
    /// on.
    pub(super) fn arrived(&self) {
        self.is_woken.swap(false, AcqRel);
    }
}

/// Asks for a shard that serves `owner`, which may be gone.
pub(super) fn wake<T: Service + 'static>(host: &dyn Host, owner: &Weak<T>) {
    if let Some(owner) = owner.upgrade() {
        host.wake(owner);
    }
}
