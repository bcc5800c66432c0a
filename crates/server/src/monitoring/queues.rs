//! Queues between threads whose lengths monitoring shows.

use myelin_monitor::QueueSnapshot;
use myelin_stdx::sync::lock;
use std::borrow::Cow;
use std::sync::Mutex;

/// Counts what waits in a queue.
pub(crate) type Count = Box<dyn Fn() -> usize + Send + Sync>;

/// Queues that are shown, each with its name.
#[derive(Default)]
pub(super) struct WatchedQueues(Mutex<Vec<(Cow<'static, str>, Count)>>);

impl WatchedQueues {
    /// Shows one more from now on.
    pub(super) fn add(&self, name: Cow<'static, str>, count: Count) {
        lock(&self.0).push((name, count));
    }

    /// How much waits in each.
    pub(super) fn snapshot(&self) -> Vec<QueueSnapshot> {
        lock(&self.0).iter().map(|(name, count)| queue(name.clone().into_owned(), count())).collect()
    }
}

/// A queue of this name in which so much waits.
pub(super) fn queue(name: String, pending: usize) -> QueueSnapshot {
    QueueSnapshot { name, pending: pending as u64, in_progress: 0 }
}
