//! How far publishers may run ahead of receivers, and how both know that a run is complete.
//!
//! Owns the counters that the threads of one run share. The window keeps a slow receiver from being
//! cut as a slow consumer (the reference's limit is 64 MiB per connection) and a server from
//! holding gigabytes; it is the same for every server. Never touches a socket.

use myelin_stdx::sync::lock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::connection::PATIENCE;
use crate::error::BenchError;

/// The most that one receiver may have outstanding, in bytes of MSG frames.
const LARGEST_WINDOW: u64 = 16 * 1024 * 1024;

/// Limit of bytes outstanding to all receivers together, unless the caller gives another. The
/// server must hold this much in memory. 32 MiB, 256 MiB and 1 GiB give the reference the same
/// figures within noise at 1:64 and 1:1000.
pub const BACKLOG: u64 = 256 * 1024 * 1024;

/// Receivers of a published message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Every receiver.
    Each,
    /// Exactly one of the receivers: a queue group, or receivers of different subjects.
    OneOf,
}

/// The shared progress of one run. All counts are bytes of MSG frames.
#[derive(Debug)]
pub struct Flow {
    delivery: Delivery,
    window: u64,
    sent: AtomicU64,
    received: Vec<AtomicU64>,
    /// Bytes that a complete run delivers (to each, or to all, by `delivery`); `u64::MAX` until
    /// they are known.
    expected: AtomicU64,
    failed: AtomicBool,
    waiting: AtomicUsize,
    lock: Mutex<()>,
    room: Condvar,
}

impl Flow {
    /// A run with this many receivers, each of which may have `window` bytes outstanding. Without
    /// receivers publishers never wait.
    pub fn new(delivery: Delivery, receivers: usize, window: u64) -> Self {
        Self {
            delivery,
            window,
            sent: AtomicU64::new(0),
            received: (0..receivers).map(|_| AtomicU64::new(0)).collect(),
            expected: AtomicU64::new(u64::MAX),
            failed: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            lock: Mutex::new(()),
            room: Condvar::new(),
        }
    }

    /// Waits until `bytes` more fit into the window, and takes the room. With several publishers
    /// each may overshoot by one burst.
    pub fn reserve(&self, bytes: u64) -> Result<(), BenchError> {
        if !self.received.is_empty() && !self.fits(bytes, self.window) {
            self.wait_for_room(bytes)?;
        }
        self.sent.fetch_add(bytes, Ordering::SeqCst);
        Ok(())
    }

    /// A burst larger than the window fits when nothing is outstanding.
    fn fits(&self, bytes: u64, window: u64) -> bool {
        let outstanding = self.sent.load(Ordering::SeqCst).saturating_sub(self.arrived());
        outstanding == 0 || outstanding + bytes <= window
    }

    /// Sleeps until half the window is free, so that a publisher is not woken for every burst.
    fn wait_for_room(&self, bytes: u64) -> Result<(), BenchError> {
        let give_up = Instant::now() + PATIENCE;
        let mut guard = lock(&self.lock);
        self.waiting.fetch_add(1, Ordering::SeqCst);
        while !self.fits(bytes, self.window / 2) && !self.has_failed() && Instant::now() < give_up {
            let waited = self.room.wait_timeout(guard, Duration::from_millis(20));
            guard = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        match self.fits(bytes, self.window / 2) {
            true => Ok(()),
            false if self.has_failed() => Err(BenchError::Aborted),
            false => Err(BenchError::Lost("the receivers stopped receiving".into())),
        }
    }

    /// A receiver tells how much it has by now.
    pub fn record(&self, receiver: usize, total: u64) {
        self.received[receiver].store(total, Ordering::SeqCst);
    }

    /// Wakes publishers that wait for room, if there may be some. Call after a round of `record`s.
    pub fn wake_publishers(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 && self.fits(0, self.window / 2) {
            let _guard = lock(&self.lock);
            self.room.notify_all();
        }
    }

    /// Bytes that have surely arrived: at the slowest receiver, or at all of them together.
    pub fn arrived(&self) -> u64 {
        let counts = self.received.iter().map(|count| count.load(Ordering::SeqCst));
        match self.delivery {
            Delivery::Each => counts.min().unwrap_or(0),
            Delivery::OneOf => counts.sum(),
        }
    }

    /// The publishers are done: tells the receivers how much there is to come in all.
    pub fn expect(&self, bytes: u64) {
        self.expected.store(bytes, Ordering::SeqCst);
    }

    /// Whether everything that was published has arrived.
    pub fn is_complete(&self) -> bool {
        let expected = self.expected.load(Ordering::SeqCst);
        expected != u64::MAX && self.arrived() >= expected
    }

    /// Stops the other threads of the run.
    pub fn fail(&self) {
        self.failed.store(true, Ordering::SeqCst);
        self.room.notify_all();
    }

    /// Whether somebody of the run has failed.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }
}

/// How far ahead publishers may be, in bytes per receiver, for all to have `backlog` bytes
/// outstanding.
pub fn window(receivers: usize, backlog: u64) -> u64 {
    (backlog / receivers.max(1) as u64).min(LARGEST_WINDOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_shrinks_with_the_number_of_receivers() {
        assert_eq!(window(1, BACKLOG), 16 << 20);
        assert_eq!(window(16, BACKLOG), 16 << 20);
        assert_eq!(window(1024, BACKLOG), 256 << 10);
    }

    #[test]
    fn a_run_is_complete_when_the_slowest_receiver_has_everything() {
        let flow = Flow::new(Delivery::Each, 2, 1000);
        flow.record(0, 100);
        flow.record(1, 99);
        assert!(!flow.is_complete());
        flow.expect(100);
        assert!(!flow.is_complete());
        flow.record(1, 100);
        assert!(flow.is_complete());
    }

    #[test]
    fn a_queue_group_is_complete_when_its_members_have_everything_together() {
        let flow = Flow::new(Delivery::OneOf, 2, 1000);
        flow.expect(100);
        flow.record(0, 30);
        assert!(!flow.is_complete());
        flow.record(1, 70);
        assert!(flow.is_complete());
    }

    #[test]
    fn a_publisher_waits_at_the_end_of_the_window_and_goes_on_when_there_is_room() {
        let flow = Flow::new(Delivery::Each, 1, 1000);
        flow.reserve(1000).unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| flow.reserve(1));
            while flow.waiting.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            assert_eq!(flow.sent.load(Ordering::SeqCst), 1000);
            flow.record(0, 1000);
            flow.wake_publishers();
            waiter.join().unwrap().unwrap();
        });
        assert_eq!(flow.sent.load(Ordering::SeqCst), 1001);
    }

    #[test]
    fn a_failed_run_lets_waiting_publishers_go() {
        let flow = Flow::new(Delivery::OneOf, 1, 1000);
        flow.reserve(1000).unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| flow.reserve(1));
            flow.fail();
            assert!(matches!(waiter.join().unwrap(), Err(BenchError::Aborted)));
        });
    }
}
