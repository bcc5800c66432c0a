//! How much waits somewhere, and who wants to be told when it is little again.
//!
//! Whoever adds raises the level, whoever works off lowers it. A producer that finds the level too
//! high leaves a waiter and goes away; whoever has lowered the level looks whether anybody waits
//! and takes them all. Nobody sleeps here and nobody is called: what a waiter is, and how it is
//! woken, is its owner's business.
//!
//! A producer notes its waiter and then looks at the level once more; a worker lowers the level and
//! then looks for waiters. With a fence between the two steps on either side, one of them sees the
//! other: no wake-up is lost.
//!
//! Perf: while nobody waits, a look for waiters is a fence and a relaxed load.

use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst, fence};
use crate::sync::{Mutex, lock};
use std::collections::BTreeSet;

/// Level of waiting work, with the producers that want to be told when it is low again.
#[derive(Debug)]
pub struct Backlog<W> {
    level: AtomicUsize,
    /// Whether `waiting` has any.
    is_awaited: AtomicBool,
    waiting: Mutex<Waiters<W>>,
}

#[derive(Debug)]
struct Waiters<W> {
    /// The level is low when it is below this.
    low: usize,
    waiters: BTreeSet<W>,
    has_ended: bool,
}

impl<W: Ord + Clone> Default for Backlog<W> {
    fn default() -> Self {
        Self::new()
    }
}

impl<W: Ord + Clone> Backlog<W> {
    /// Level zero, and nobody waits.
    #[must_use]
    pub fn new() -> Self {
        let waiting = Waiters { low: 0, waiters: BTreeSet::new(), has_ended: false };
        Self { level: AtomicUsize::new(0), is_awaited: AtomicBool::new(false), waiting: Mutex::new(waiting) }
    }

    /// The level. While others change it, an estimate.
    #[must_use]
    pub fn level(&self) -> usize {
        self.level.load(Relaxed)
    }

    /// Something was added.
    pub fn raise(&self, by: usize) {
        self.level.fetch_add(by, Relaxed);
    }

    /// Something was worked off. When that is enough for now, [`relieved`](Self::relieved) must be
    /// called.
    pub fn lower(&self, by: usize) {
        let before = self.level.fetch_sub(by, Relaxed);
        debug_assert!(before >= by, "no more is worked off than was added: {by} of {before}");
    }

    /// Notes `waiter`, once however often it comes, to be taken when the level is below `low`.
    /// False if the level is that low already, or everything is over: then `waiter` is not noted.
    ///
    /// `beside` is what the caller itself will add and see worked off later: it counts as if it
    /// were there.
    pub fn wait(&self, waiter: &W, low: usize, beside: usize) -> bool {
        {
            let mut waiting = lock(&self.waiting);
            if waiting.has_ended {
                return false;
            }
            // With several bounds the highest counts: who is woken too early looks again.
            waiting.low = if waiting.waiters.is_empty() { low } else { waiting.low.max(low) };
            waiting.waiters.insert(waiter.clone());
            self.is_awaited.store(true, Relaxed);
        }
        fence(SeqCst);
        if self.level.load(Relaxed) + beside >= low {
            return true;
        }
        let mut waiting = lock(&self.waiting);
        waiting.waiters.remove(waiter);
        self.is_awaited.store(!waiting.waiters.is_empty(), Relaxed);
        false
    }

    /// The level below which `waiter` is taken, if it waits.
    #[must_use]
    pub fn low_for(&self, waiter: &W) -> Option<usize> {
        let waiting = lock(&self.waiting);
        waiting.waiters.contains(waiter).then_some(waiting.low)
    }

    /// To be called after the level was lowered: takes those who wait, if it is low now.
    #[must_use = "they are to be woken"]
    #[inline]
    pub fn relieved(&self) -> BTreeSet<W> {
        fence(SeqCst);
        if self.is_awaited.load(Relaxed) { self.take_if_low() } else { BTreeSet::new() }
    }

    #[cold]
    fn take_if_low(&self) -> BTreeSet<W> {
        let mut waiting = lock(&self.waiting);
        if self.level.load(Relaxed) >= waiting.low {
            return BTreeSet::new();
        }
        self.is_awaited.store(false, Relaxed);
        std::mem::take(&mut waiting.waiters)
    }

    /// Nothing more will be worked off: takes those who wait, and notes nobody any more.
    #[must_use = "they are to be woken"]
    pub fn end(&self) -> BTreeSet<W> {
        let mut waiting = lock(&self.waiting);
        waiting.has_ended = true;
        self.is_awaited.store(false, Relaxed);
        std::mem::take(&mut waiting.waiters)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn taken(backlog: &Backlog<u32>) -> Vec<u32> {
        backlog.relieved().into_iter().collect()
    }

    #[test]
    fn who_waits_is_taken_once_the_level_is_low() {
        let backlog = Backlog::new();
        backlog.raise(10);
        assert!(backlog.wait(&1, 5, 0) && backlog.wait(&2, 5, 0) && backlog.wait(&1, 5, 0));
        assert_eq!((backlog.low_for(&1), backlog.low_for(&3)), (Some(5), None));
        backlog.lower(5);
        assert_eq!(taken(&backlog), []);
        backlog.lower(1);
        assert_eq!((backlog.level(), taken(&backlog)), (4, vec![1, 2]));
        assert_eq!(taken(&backlog), []);
    }

    #[test]
    fn nobody_waits_for_what_is_so_already() {
        let backlog = Backlog::new();
        backlog.raise(4);
        assert!(!backlog.wait(&1, 5, 0));
        assert!(!backlog.is_awaited.load(Relaxed));
        assert!(backlog.wait(&1, 5, 1), "what the caller will add counts");
        assert_eq!(taken(&backlog), [1]);
    }

    #[test]
    fn the_highest_bound_of_those_who_wait_counts() {
        let backlog = Backlog::new();
        backlog.raise(10);
        assert!(backlog.wait(&1, 8, 0) && backlog.wait(&2, 2, 0));
        backlog.lower(3);
        assert_eq!(taken(&backlog), [1, 2]);
        assert!(backlog.wait(&2, 2, 0));
        backlog.lower(4);
        assert_eq!(taken(&backlog), []);
        backlog.lower(2);
        assert_eq!(taken(&backlog), [2]);
    }

    #[test]
    fn the_end_takes_everybody_and_nobody_comes_after() {
        let backlog = Backlog::new();
        backlog.raise(10);
        assert!(backlog.wait(&1, 5, 0));
        assert_eq!(backlog.end().into_iter().collect::<Vec<_>>(), [1]);
        assert!(!backlog.wait(&2, 5, 0));
    }
}

/// Every interleaving of a few threads (`just loom`).
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::Arc;
    use loom::thread;

    /// Whoever was told to wait is taken by somebody.
    fn check(work: impl Fn(&Backlog<u32>) -> usize + Copy + Send + Sync + 'static) {
        loom::model(move || {
            let backlog = Arc::new(Backlog::new());
            backlog.raise(2);
            let worker = {
                let backlog = Arc::clone(&backlog);
                thread::spawn(move || work(&backlog))
            };
            let waits = backlog.wait(&1, 1, 0);
            let woken = worker.join().unwrap();
            // Who need not wait may have been taken meanwhile, and is left behind in no case.
            assert!(woken == usize::from(waits) || woken == 1);
            assert!(backlog.end().is_empty());
        });
    }

    #[test]
    fn no_wake_up_is_lost_beside_a_drain() {
        check(|backlog| {
            backlog.lower(1);
            let first = backlog.relieved().len();
            backlog.lower(1);
            first + backlog.relieved().len()
        });
    }

    #[test]
    fn no_wake_up_is_lost_beside_the_end() {
        check(|backlog| {
            let taken = backlog.end().len();
            backlog.lower(2);
            taken
        });
    }

    #[test]
    fn two_who_wait_are_both_taken() {
        loom::model(|| {
            let backlog = Arc::new(Backlog::new());
            backlog.raise(1);
            let other = {
                let backlog = Arc::clone(&backlog);
                thread::spawn(move || backlog.wait(&2, 1, 0))
            };
            let worker = {
                let backlog = Arc::clone(&backlog);
                thread::spawn(move || {
                    backlog.lower(1);
                    backlog.relieved()
                })
            };
            let waits = [backlog.wait(&1, 1, 0), other.join().unwrap()];
            let woken = worker.join().unwrap();
            for (waiter, waits) in [1, 2].iter().zip(waits) {
                assert!(!waits || woken.contains(waiter));
            }
            assert!(backlog.end().is_empty());
        });
    }
}
