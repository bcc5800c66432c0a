//! Counts of batches that all streams of a server share: how many are open, how much is held back,
//! and the limits.

use arc_swap::{ArcSwap, Guard};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Limits of batches. The server's configuration may say otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// Open atomic batches of a stream.
    pub atomic_per_stream: usize,
    /// Open atomic batches of the server.
    pub atomic_total: usize,
    /// Messages of an atomic batch.
    pub atomic_messages: u64,
    /// Bytes that all atomic batches of the server together may hold back. The reference has no
    /// such limit: it holds batches back on disk.
    pub atomic_bytes: usize,
    /// Open fast batches of a stream.
    pub fast_per_stream: usize,
    /// Open fast batches of the server.
    pub fast_total: usize,
    /// Nanoseconds without a message after which a batch is given up.
    pub timeout: i64,
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self {
            atomic_per_stream: 50,
            atomic_total: 1000,
            atomic_messages: 1000,
            atomic_bytes: 1 << 30,
            fast_per_stream: 1000,
            fast_total: 50_000,
            timeout: 10_000_000_000,
        }
    }
}

impl BatchLimits {
    /// As `jetstream.limits.batch` says it, for both kinds of batches; 0 or less is the default.
    #[must_use]
    pub fn configured(per_stream: i64, total: i64, messages: i64, timeout: i64) -> Self {
        let mut limits = Self::default();
        if let Ok(per_stream @ 1..) = usize::try_from(per_stream) {
            (limits.atomic_per_stream, limits.fast_per_stream) = (per_stream, per_stream);
        }
        if let Ok(total @ 1..) = usize::try_from(total) {
            (limits.atomic_total, limits.fast_total) = (total, total);
        }
        if let Ok(messages @ 1..) = u64::try_from(messages) {
            limits.atomic_messages = messages;
        }
        if timeout > 0 {
            limits.timeout = timeout;
        }
        limits
    }
}

/// One for each server.
#[derive(Debug, Default)]
pub struct InFlight {
    limits: ArcSwap<BatchLimits>,
    pub(super) atomic: Arc<BatchPermits>,
    pub(super) fast: Arc<BatchPermits>,
    pub(super) held: Arc<Pool>,
}

impl InFlight {
    /// Nothing is open yet.
    #[must_use]
    pub fn new(limits: BatchLimits) -> Self {
        Self { limits: ArcSwap::from_pointee(limits), ..Self::default() }
    }

    /// The limits in force.
    #[must_use]
    pub fn limits(&self) -> Guard<Arc<BatchLimits>> {
        self.limits.load()
    }

    /// Other limits, for batches that begin from now on. Streams that are open keep the time after
    /// which they give batches up.
    pub fn set_limits(&self, limits: BatchLimits) {
        self.limits.store(Arc::new(limits));
    }

    /// Bytes held back by atomic batches, in the steps in which they are counted.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held.used.load(Relaxed)
    }

    /// Open batches: atomic ones, fast ones.
    #[must_use]
    pub fn open(&self) -> (usize, usize) {
        (self.atomic.taken(), self.fast.taken())
    }
}

/// Open batches of one kind.
#[derive(Debug, Default)]
pub(super) struct BatchPermits(AtomicUsize);

/// One open batch; counts as long as it lives.
#[derive(Debug)]
pub(super) struct BatchPermit(Arc<BatchPermits>);

impl BatchPermits {
    pub(super) fn take(permits: &Arc<Self>, most: usize) -> Option<BatchPermit> {
        let permit = BatchPermit(Arc::clone(permits));
        (permits.0.fetch_add(1, Relaxed) < most).then_some(permit)
    }

    pub(super) fn taken(&self) -> usize {
        self.0.load(Relaxed)
    }
}

impl Drop for BatchPermit {
    fn drop(&mut self) {
        let open = self.0.0.fetch_sub(1, Relaxed);
        debug_assert!(open > 0, "a permit is given back once");
    }
}

/// Bytes are counted in steps, so that most messages touch nothing that is shared.
const STEP: usize = 64 * 1024;

#[derive(Debug, Default)]
pub(super) struct Pool {
    used: AtomicUsize,
}

/// Charge of one batch for what it holds back; gives it back when it goes.
#[derive(Debug)]
pub(super) struct Charge {
    pool: Arc<Pool>,
    bytes: usize,
}

impl Charge {
    pub(super) fn new(pool: &Arc<Pool>) -> Self {
        Self { pool: Arc::clone(pool), bytes: 0 }
    }

    /// Makes room for `bytes` in all. Whether there was enough.
    pub(super) fn grow_to(&mut self, bytes: usize, most: usize) -> bool {
        if bytes <= self.bytes {
            return true;
        }
        let more = (bytes - self.bytes).next_multiple_of(STEP);
        if self.pool.used.fetch_add(more, Relaxed).saturating_add(more) > most {
            let used = self.pool.used.fetch_sub(more, Relaxed);
            debug_assert!(used >= more, "no more bytes are given back than were taken");
            return false;
        }
        self.bytes += more;
        debug_assert!(self.bytes >= bytes, "a batch holds no more than was counted for it");
        true
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let used = self.pool.used.fetch_sub(self.bytes, Relaxed);
        debug_assert!(used >= self.bytes, "no more bytes are given back than were taken");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_limited_and_given_back() {
        let permits = Arc::default();
        let first = BatchPermits::take(&permits, 2);
        let second = BatchPermits::take(&permits, 2);
        assert!(first.is_some() && second.is_some() && BatchPermits::take(&permits, 2).is_none());
        drop(first);
        assert_eq!(permits.taken(), 1);
        assert!(BatchPermits::take(&permits, 2).is_some());
    }

    #[test]
    fn bytes_are_limited_over_all_batches_and_given_back() {
        let pool = Arc::default();
        let (mut one, mut other) = (Charge::new(&pool), Charge::new(&pool));
        assert!(one.grow_to(1, 2 * STEP) && one.grow_to(STEP, 2 * STEP));
        assert_eq!(pool.used.load(Relaxed), STEP);
        assert!(!other.grow_to(STEP + 1, 2 * STEP));
        assert_eq!(pool.used.load(Relaxed), STEP);
        drop(one);
        assert!(other.grow_to(STEP + 1, 2 * STEP));
        drop(other);
        assert_eq!(pool.used.load(Relaxed), 0);
    }

    #[test]
    fn a_configuration_speaks_of_both_kinds() {
        assert_eq!(BatchLimits::configured(0, -1, 0, 0), BatchLimits::default());
        let limits = BatchLimits::configured(3, 4, 5, 6);
        assert_eq!((limits.atomic_per_stream, limits.fast_per_stream), (3, 3));
        assert_eq!((limits.atomic_total, limits.fast_total), (4, 4));
        assert_eq!((limits.atomic_messages, limits.timeout), (5, 6));
    }
}
