//! Events at a point of the disk besides its own faults: time passes, where the disk is slow,
//! or the room that asked panics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::clock::Clock;

/// The words of a panic that was planned.
pub(crate) const PLANNED: &str = "planned: a panic at a point of the disk";

/// Called before each point of the disk.
pub(crate) struct DiskWatch {
    clock: Arc<Clock>,
    /// Nanoseconds that each point takes.
    pause: AtomicU64,
    /// Points until a panic; 0: there is none.
    panics_in: AtomicU64,
    /// Whether the thread that goes on may panic.
    may_panic: AtomicBool,
}

impl DiskWatch {
    pub(crate) fn new(clock: Arc<Clock>) -> Self {
        Self {
            clock,
            pause: AtomicU64::new(0),
            panics_in: AtomicU64::new(0),
            may_panic: AtomicBool::new(false),
        }
    }

    pub(crate) fn set_pause(&self, nanos: u64) {
        self.pause.store(nanos, Relaxed);
    }

    /// Plans a panic at the point that comes then, of those where one may be.
    pub(crate) fn panic_in(&self, points: u64) {
        self.panics_in.store(points, Relaxed);
    }

    pub(crate) fn let_panic(&self, may_panic: bool) {
        self.may_panic.store(may_panic, Relaxed);
    }

    /// A point is reached.
    pub(crate) fn pass(&self) {
        self.clock.pass(self.pause.load(Relaxed));
        let left = self.panics_in.load(Relaxed);
        if left == 0 || !self.may_panic.load(Relaxed) {
            return;
        }
        self.panics_in.store(left - 1, Relaxed);
        assert!(left > 1, "{PLANNED}");
    }
}
