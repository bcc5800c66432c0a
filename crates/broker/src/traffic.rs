//! Counters of messages and bytes, one set per shard: written by one thread, read by any.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter with a single writer.
///
/// Perf: a plain load and store instead of a locked add, because only the owning shard writes.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// The value at this moment.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// What one shard has moved.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Messages that clients published.
    pub in_msgs: Counter,
    /// Their payload bytes, headers included.
    pub in_bytes: Counter,
    /// Messages delivered.
    pub out_msgs: Counter,
    /// Their payload bytes.
    pub out_bytes: Counter,
}

/// The server's counters that are rare enough for shared atomics, plus the sum of all shards.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections cut off as slow consumers.
    pub slow_consumers: AtomicU64,
    /// Connections closed for unanswered PINGs.
    pub stale_connections: AtomicU64,
    /// How often a publisher was paused for a receiver that is far behind.
    pub stalls: AtomicU64,
    /// Messages dropped for a receiver that is far behind (`no_fast_producer_stall`).
    pub stall_drops: AtomicU64,
    /// Panics caught while handling a connection's bytes.
    pub panics: AtomicU64,
}
