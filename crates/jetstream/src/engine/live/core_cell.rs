//! Core cell: the one place of a stream's core, and the way in and out of it.
//!
//! The core is in the slot of the turn, or one thread that may wait has it. Whoever had it leaves
//! it beside the turn, since it must not wait for the turn; the next holder puts it back into the
//! slot. A core that was taken out for ever leaves a mark instead, and the slot is gone with the
//! next holder.

use super::turn::StreamWork;
use myelin_stdx::sync::lock;
use myelin_stdx::turn::{Submitted, Turn};
use myelin_streams::stream::StreamCore;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

/// Where the core is, as the holder of the turn sees it.
pub(super) enum CoreSlot {
    Here(Box<StreamCore>),
    Lent,
    /// The stream was deleted.
    Gone,
}

/// A stream's core behind its turn.
pub(super) struct CoreCell {
    turn: Turn<CoreSlot, StreamWork>,
    /// The core on its way back from a borrower.
    returned: Mutex<Option<Box<StreamCore>>>,
    /// Whether the core does not come back.
    is_gone: AtomicBool,
    /// Nanoseconds for which it was lent at most.
    longest_lent: AtomicU64,
}

impl CoreCell {
    /// A cell with the core in its slot.
    pub(super) fn new(core: StreamCore) -> Self {
        Self {
            turn: Turn::new(CoreSlot::Here(Box::new(core))),
            returned: Mutex::new(None),
            is_gone: AtomicBool::new(false),
            longest_lent: AtomicU64::new(0),
        }
    }

    /// Leaves work in the inbox of the turn, and works the inbox off with `run` if the turn is
    /// free.
    pub(super) fn submit(
        &self,
        work: StreamWork,
        run: impl FnMut(&mut CoreSlot, &mut VecDeque<StreamWork>),
    ) -> Submitted {
        self.turn.submit(work, run)
    }

    /// Takes up what earlier holders have left.
    pub(super) fn resume(&self, run: impl FnMut(&mut CoreSlot, &mut VecDeque<StreamWork>)) -> Submitted {
        self.turn.resume(run)
    }

    /// Whether the stream was deleted.
    pub(super) fn is_gone(&self) -> bool {
        self.is_gone.load(Acquire)
    }

    /// Marks the core as one that does not come back. Whoever has it says so.
    pub(super) fn end(&self) {
        self.is_gone.store(true, Release);
        debug_assert!(lock(&self.returned).is_none(), "a core that was taken for ever is not given back");
    }

    /// Notes for how long the core was lent.
    pub(super) fn note_lent(&self, took: Duration) {
        self.longest_lent.fetch_max(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    /// For how long the core was lent at most.
    pub(super) fn longest_lent(&self) -> Duration {
        Duration::from_nanos(self.longest_lent.load(Relaxed))
    }

    /// Gives the core back. The next holder of the turn finds it, and somebody must see to it that
    /// there is one.
    pub(super) fn give_back(&self, core: Box<StreamCore>) {
        debug_assert!(!self.is_gone(), "a core that was taken for ever is not given back");
        let before = lock(&self.returned).replace(core);
        debug_assert!(before.is_none(), "a core is lent to one borrower at a time");
    }

    /// Whether a holder that found the core lent would find something else now.
    pub(super) fn is_back_or_gone(&self) -> bool {
        lock(&self.returned).is_some() || self.is_gone()
    }

    /// Puts into the slot what became of a core that was lent, if that is known.
    pub(super) fn refill(&self, slot: &mut CoreSlot) {
        if let CoreSlot::Lent = slot {
            match lock(&self.returned).take() {
                Some(core) => *slot = CoreSlot::Here(core),
                None if self.is_gone() => *slot = CoreSlot::Gone,
                None => {}
            }
        }
    }
}

impl CoreSlot {
    /// Gives the core to a borrower, who may be gone.
    pub(super) fn lend(&mut self, borrower: &SyncSender<Box<StreamCore>>) {
        debug_assert!(matches!(self, Self::Here(_)), "only a core that is here is lent");
        if let Self::Here(core) = std::mem::replace(self, Self::Lent)
            && let Err(unwanted) = borrower.send(core)
        {
            *self = Self::Here(unwanted.0);
        }
    }
}
