//! Lifecycle of a consumer: in use, about to end because nobody uses it, or gone.
//!
//! These exclude each other. That its account may not use JetStream for a while does not: it holds
//! in any of them, and is a mark of its own.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8};

use myelin_store::Timestamp;

/// Somebody uses it, as far as is known.
const IN_USE: u8 = 0;
/// Nobody uses it any more, and the API's thread was asked to end it.
const ENDING: u8 = 1;
/// The consumer is no more.
const GONE: u8 = 2;

/// Stage of a consumer's life.
#[derive(Debug)]
pub(super) struct Lifecycle {
    stage: AtomicU8,
    /// When its end is tried again, which was refused; 0: it is not.
    again_at: AtomicI64,
    /// Whether its account may not use JetStream now: nobody could acknowledge, so nothing is
    /// delivered.
    is_suspended: AtomicBool,
}

impl Lifecycle {
    /// A consumer that is in use.
    pub(super) fn new() -> Self {
        Self {
            stage: AtomicU8::new(IN_USE),
            again_at: AtomicI64::new(0),
            is_suspended: AtomicBool::new(false),
        }
    }

    /// Notes that nobody uses it. Answers whether the caller has to have it ended: nobody was asked
    /// to before.
    #[must_use = "nobody else ends it"]
    pub(super) fn begin_ending(&self) -> bool {
        self.stage.compare_exchange(IN_USE, ENDING, AcqRel, Acquire).is_ok()
    }

    /// Notes that its end was refused, and when that is tried again.
    pub(super) fn end_later(&self, at: Timestamp) {
        self.again_at.store(at, Release);
    }

    /// Whether the caller has to have it ended once more, if it is still not used.
    #[must_use = "nobody else ends it"]
    pub(super) fn ends_again(&self, now: Timestamp) -> bool {
        let at = self.again_at.load(Acquire);
        let is_due = at != 0 && at <= now && self.is_ending();
        is_due && self.again_at.compare_exchange(at, 0, AcqRel, Acquire).is_ok()
    }

    /// Whether somebody was asked to end it.
    pub(super) fn is_ending(&self) -> bool {
        self.stage.load(Acquire) == ENDING
    }

    /// Notes that it is used after all: it may end another time. One that is gone stays so.
    pub(super) fn keep_alive(&self) {
        let _ = self.stage.compare_exchange(ENDING, IN_USE, AcqRel, Acquire);
    }

    /// Notes that it is no more.
    pub(super) fn retire(&self) {
        self.stage.store(GONE, Release);
    }

    /// Whether it is no more.
    pub(super) fn is_gone(&self) -> bool {
        self.stage.load(Acquire) == GONE
    }

    /// Has it deliver nothing, or go on.
    pub(super) fn suspend(&self, is_suspended: bool) {
        self.is_suspended.store(is_suspended, Release);
    }

    /// Whether it is to deliver nothing for a while.
    pub(super) fn is_suspended(&self) -> bool {
        self.is_suspended.load(Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_ended_once_until_it_is_used_again() {
        let life = Lifecycle::new();
        assert!(life.begin_ending() && !life.begin_ending() && life.is_ending());
        life.keep_alive();
        assert!(!life.is_ending() && life.begin_ending());
    }

    #[test]
    fn gone_is_for_ever() {
        let life = Lifecycle::new();
        life.retire();
        life.keep_alive();
        assert!(life.is_gone() && !life.begin_ending() && !life.is_ending());
        life.suspend(true);
        life.suspend(false);
        assert!(life.is_gone() && !life.is_suspended());
    }
}
