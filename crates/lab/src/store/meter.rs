//! Cost of a stretch of work: time on the wall, CPU of this thread, memory of this process.
//!
//! CPU time is the figure to trust on a shared machine; the wall is what a user sees.

use std::fs;
use std::ops::AddAssign;
use std::time::{Duration, Instant};

use myelin_store::Timestamp;
use rustix::time::{ClockId, clock_gettime};

/// The store's clock of a run: nanoseconds since 1970, never going back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadClock {
    begin: Instant,
    base: Timestamp,
}

impl ThreadClock {
    pub(crate) fn new() -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Self { begin: Instant::now(), base: since.as_nanos() as Timestamp }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.base + self.begin.elapsed().as_nanos() as Timestamp
    }

    /// Nanoseconds on the clock that the journal reads.
    pub(crate) fn nanos(&self) -> u64 {
        self.now().unsigned_abs()
    }
}

/// Measures from when it was made.
#[derive(Debug)]
pub(crate) struct ThreadMeter {
    wall: Instant,
    thread: Duration,
    process: Duration,
}

/// Time that a stretch of work took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    /// Seconds on the wall.
    pub(crate) wall: f64,
    /// Seconds that this thread ran.
    pub(crate) thread: f64,
    /// Seconds that all threads of the process ran.
    pub(crate) process: f64,
}

impl ThreadMeter {
    pub(crate) fn start() -> Self {
        let process = cpu(ClockId::ProcessCPUTime);
        Self { wall: Instant::now(), process, thread: cpu(ClockId::ThreadCPUTime) }
    }

    pub(crate) fn spent(&self) -> Spent {
        let thread = cpu(ClockId::ThreadCPUTime).saturating_sub(self.thread);
        let process = cpu(ClockId::ProcessCPUTime).saturating_sub(self.process);
        Spent {
            wall: self.wall.elapsed().as_secs_f64(),
            thread: thread.as_secs_f64(),
            process: process.as_secs_f64(),
        }
    }
}

impl Spent {
    /// Nanoseconds of this thread for each of `count`.
    pub(crate) fn nanos_each(&self, count: u64) -> f64 {
        self.thread * 1e9 / count as f64
    }
}

impl AddAssign for Spent {
    fn add_assign(&mut self, more: Self) {
        self.wall += more.wall;
        self.thread += more.thread;
        self.process += more.process;
    }
}

fn cpu(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Bytes of memory of this process: resident now, and at most so far.
pub(crate) fn resident() -> (u64, u64) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) << 10
    };
    (field("VmRSS:"), field("VmHWM:"))
}
