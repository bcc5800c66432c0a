//! The one account of memory that grows with load.
//!
//! Whoever holds bytes on behalf of others charges them here by kind and releases them when they
//! go, so that limits and monitoring look at one place. Nothing is allocated or refused here.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Purpose of the bytes that are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemKind {
    /// Frames staged by a shard in this tick, not yet moved to an outbox.
    Staged,
    /// Bytes waiting for a socket.
    Outbox,
    /// Work waiting in the inbox of a turn.
    Inbox,
    /// Anything that could be dropped and computed again.
    Cache,
}

impl MemKind {
    /// Every kind, in the order of declaration.
    pub const ALL: [Self; 4] = [Self::Staged, Self::Outbox, Self::Inbox, Self::Cache];
}

/// Bytes in use by kind. Shared by reference between all threads.
///
/// The gauges are exact each for itself; they are not read at one instant together.
#[derive(Debug, Default)]
pub struct Accountant {
    gauges: [Gauge; MemKind::ALL.len()],
}

/// A cache line for each gauge (and its neighbour, which processors fetch along), because all
/// shards write them.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Gauge(AtomicU64);

impl Accountant {
    /// An account with nothing in use.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `bytes` to what `kind` uses.
    pub fn charge(&self, kind: MemKind, bytes: usize) {
        let gauge = &self.gauges[kind as usize].0;
        let before = gauge.fetch_add(bytes as u64, Relaxed);
        debug_assert!(before.checked_add(bytes as u64).is_some(), "{kind:?} charged beyond all memory");
    }

    /// Takes back what was charged. Releasing more than is in use is a bug of the caller; the gauge
    /// then stays at 0.
    pub fn release(&self, kind: MemKind, bytes: usize) {
        let gauge = &self.gauges[kind as usize].0;
        let before = gauge
            .fetch_update(Relaxed, Relaxed, |used| Some(used.saturating_sub(bytes as u64)))
            .expect("the update always has a value");
        debug_assert!(before >= bytes as u64, "{kind:?} released {bytes} of {before} bytes");
    }

    /// Bytes in use for `kind`.
    #[must_use]
    pub fn used(&self, kind: MemKind) -> u64 {
        self.gauges[kind as usize].0.load(Relaxed)
    }

    /// Bytes in use for all kinds.
    #[must_use]
    pub fn total(&self) -> u64 {
        MemKind::ALL.iter().map(|&kind| self.used(kind)).sum()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_counted_apart_and_together() {
        let accountant = Accountant::new();
        accountant.charge(MemKind::Staged, 10);
        accountant.charge(MemKind::Outbox, 100);
        accountant.charge(MemKind::Outbox, 5);
        accountant.release(MemKind::Outbox, 100);
        assert_eq!(MemKind::ALL.map(|kind| accountant.used(kind)), [10, 5, 0, 0]);
        assert_eq!(accountant.total(), 15);
    }

    #[test]
    fn no_charge_is_lost_between_threads() {
        let accountant = Accountant::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for bytes in 0..10_000 {
                        accountant.charge(MemKind::Cache, bytes + 1);
                        accountant.release(MemKind::Cache, bytes);
                    }
                });
            }
        });
        assert_eq!(accountant.total(), 40_000);
    }

    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "Inbox released 5 of 3 bytes"))]
    fn releasing_too_much_is_a_bug_that_leaves_the_gauge_at_zero() {
        let accountant = Accountant::new();
        accountant.charge(MemKind::Inbox, 3);
        accountant.release(MemKind::Inbox, 5);
        assert_eq!(accountant.used(MemKind::Inbox), 0);
    }
}
