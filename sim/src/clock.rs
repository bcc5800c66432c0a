//! Virtual time: a time of day that may jump, and a clock that only goes forward.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use myelin_store::Timestamp;

/// The time of day at which every run begins, in nanoseconds since 1970.
const BEGINNING: Timestamp = 1_800_000_000_000_000_000;

/// The clocks of a run. They outlive the servers of it, as those of a machine do.
pub(crate) struct Clock {
    day: AtomicI64,
    /// The latest time of day before it was set back, or 0.
    latest: AtomicI64,
    elapsed: AtomicU64,
    origin: Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self {
            day: AtomicI64::new(BEGINNING),
            latest: AtomicI64::new(0),
            elapsed: AtomicU64::new(0),
            origin: Instant::now(),
        }
    }

    /// The time of day.
    pub(crate) fn now(&self) -> Timestamp {
        self.day.load(Relaxed)
    }

    /// Nanoseconds since the run began, on the clock that only goes forward.
    pub(crate) fn elapsed(&self) -> u64 {
        self.elapsed.load(Relaxed)
    }

    pub(crate) fn instant(&self) -> Instant {
        self.origin + Duration::from_nanos(self.elapsed())
    }

    /// Lets time pass.
    pub(crate) fn pass(&self, nanos: u64) {
        self.elapsed.fetch_add(nanos, Relaxed);
        self.day.fetch_add(Timestamp::try_from(nanos).unwrap_or(Timestamp::MAX), Relaxed);
    }

    /// Sets the time of day forward or back, as an operator or a time server does.
    pub(crate) fn jump(&self, by: Timestamp) {
        let before = self.day.fetch_add(by, Relaxed);
        self.latest.fetch_max(before, Relaxed);
    }

    /// Sets the time of day forward to where it has been already: nothing waits for longer than it
    /// did then. Compat: what waits for a time of day waits for it, as with nats-server.
    pub(crate) fn catch_up(&self) {
        self.day.fetch_max(self.latest.load(Relaxed), Relaxed);
    }
}
