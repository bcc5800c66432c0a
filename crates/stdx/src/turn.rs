//! Single-writer state without a thread of its own.
//!
//! A [`Turn`] is a state and an inbox of work for it. Whoever submits work while nobody works on
//! the state wins the turn and works the inbox off; who comes meanwhile leaves the work for the
//! holder and goes on. So the state has one writer at a time and no submitter ever sleeps.
//!
//! The turn is idle, held, or held with work waiting: these are the states of a [`Claimed`] queue,
//! and that is what the inbox is. The last look into the inbox and giving the turn back are one
//! step under its lock, so no wake-up is lost. Never submit to a second turn from inside one:
//! collect effects and run them after `submit` has returned.

use std::collections::VecDeque;

use crate::claim::{Append, Claimed, Finish};
use crate::sync::{Mutex, lock_uncontended};

/// An inbox whose spare capacity exceeds this many items is given back to the allocator.
const SPARE_ITEMS: usize = 1024;

/// Result of submitted work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "whoever is told `More` must see to it that `resume` is called"]
pub enum Submitted {
    /// All that was in the inbox is done, and the turn is free.
    Done,
    /// Another holds the turn and will do the work, now or when it resumes.
    Left,
    /// The caller's `run` stopped early and the turn is free: work remains, and nobody but the
    /// caller knows. It must get [`Turn::resume`] called, here or on another thread.
    More,
}

/// A state `T` and its inbox of work `W`.
#[derive(Debug)]
pub struct Turn<T, W> {
    inbox: Claimed<VecDeque<W>>,
    // Never contended: only the holder of the inbox's claim locks it.
    state: Mutex<T>,
}

impl<T, W> Turn<T, W> {
    /// An idle turn.
    pub fn new(state: T) -> Self {
        Self { inbox: Claimed::new(VecDeque::new()), state: Mutex::new(state) }
    }

    /// Leaves `work` in the inbox and, if the turn is free, works the inbox off with `run`.
    ///
    /// `run` gets the state and a batch of work in the order of submission, and takes from the
    /// front what it does. It is called again while new work keeps arriving, so it carries its own
    /// budget; when that is spent it leaves the rest in the batch, which returns to the head of the
    /// inbox.
    ///
    /// If `run` panics, the turn becomes free, the work it had taken is lost, the rest stays in the
    /// inbox until the next call, and the state is as `run` left it: whoever cannot live with that
    /// catches the panic inside `run`.
    pub fn submit(&self, work: W, run: impl FnMut(&mut T, &mut VecDeque<W>)) -> Submitted {
        match self.inbox.with_queue(|inbox| inbox.push_back(work)) {
            Append::Claimed => self.hold(run),
            Append::Left | Append::Closed => Submitted::Left,
        }
    }

    /// Takes up work that an earlier holder left when its budget was spent. `Done` if somebody else
    /// has done it by now, `Left` if somebody is at it.
    pub fn resume(&self, run: impl FnMut(&mut T, &mut VecDeque<W>)) -> Submitted {
        if self.inbox.try_claim(VecDeque::is_empty) {
            self.hold(run)
        } else if self.inbox.is_claimed() {
            Submitted::Left
        } else {
            Submitted::Done
        }
    }

    /// The state itself, for tests and for the owner of the last reference.
    pub fn into_state(self) -> T {
        self.state.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// How many items wait, for monitoring and limits. The batch in hand is not counted.
    pub fn waiting(&self) -> usize {
        self.inbox.inspect(VecDeque::len)
    }

    fn hold(&self, mut run: impl FnMut(&mut T, &mut VecDeque<W>)) -> Submitted {
        let mut hold = Hold { inbox: &self.inbox, batch: VecDeque::new(), held: true };
        loop {
            hold.take();
            // The state is unlocked at the end of this statement, before the claim can be given
            // back.
            run(&mut lock_uncontended(&self.state), &mut hold.batch);
            if !hold.batch.is_empty() {
                return Submitted::More;
            }
            if hold.finish() == Finish::Released {
                return Submitted::Done;
            }
        }
    }
}

/// The turn while it is held: gives it back when dropped, with what of the batch is not done.
struct Hold<'a, W> {
    inbox: &'a Claimed<VecDeque<W>>,
    batch: VecDeque<W>,
    held: bool,
}

impl<W> Hold<'_, W> {
    fn take(&mut self) {
        let batch = &mut self.batch;
        self.inbox.take(|inbox| std::mem::swap(inbox, batch));
    }

    fn finish(&mut self) -> Finish {
        let spare = &mut self.batch;
        let finish = self.inbox.finish(|inbox| {
            if inbox.is_empty() && spare.capacity() <= SPARE_ITEMS {
                std::mem::swap(inbox, spare);
            }
            inbox.is_empty()
        });
        self.held = finish == Finish::More;
        finish
    }
}

impl<W> Drop for Hold<'_, W> {
    fn drop(&mut self) {
        if !self.held {
            return;
        }
        let batch = &mut self.batch;
        self.inbox.release(|inbox| {
            batch.append(inbox);
            std::mem::swap(inbox, batch);
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn all(state: &mut Vec<u32>, batch: &mut VecDeque<u32>) {
        state.extend(batch.drain(..));
    }

    fn one(state: &mut Vec<u32>, batch: &mut VecDeque<u32>) {
        state.extend(batch.pop_front());
    }

    #[test]
    fn work_submitted_from_inside_is_left_to_the_holder() {
        let turn = Turn::new(Vec::new());
        let mut batches = Vec::new();
        let outcome = turn.submit(1, |state, batch| {
            if state.is_empty() {
                assert_eq!(turn.submit(2, |_, _| panic!("held")), Submitted::Left);
                assert_eq!(turn.submit(3, |_, _| panic!("held")), Submitted::Left);
                assert_eq!(turn.waiting(), 2);
                assert_eq!(turn.resume(|_, _| panic!("held")), Submitted::Left);
            }
            batches.push(batch.len());
            all(state, batch);
        });
        assert_eq!((outcome, batches), (Submitted::Done, vec![1, 2]));
        assert_eq!(turn.into_state(), [1, 2, 3]);
    }

    #[test]
    fn a_holder_that_stops_early_leaves_the_rest_at_the_head() {
        let turn = Turn::new(Vec::new());
        let outcome = turn.submit(1, |state, batch| {
            if batch.len() == 1 {
                (2..5).for_each(|work| assert_eq!(turn.submit(work, all), Submitted::Left));
            }
            one(state, batch);
        });
        assert_eq!((outcome, turn.waiting()), (Submitted::More, 2));
        assert_eq!(turn.resume(one), Submitted::More);
        assert_eq!(turn.submit(5, all), Submitted::Done);
        assert_eq!(turn.resume(|_, _| panic!("somebody else did it")), Submitted::Done);
        assert_eq!(turn.into_state(), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn work_left_behind_comes_before_work_that_arrived_since() {
        let turn = Turn::new(Vec::new());
        let outcome = turn.submit(1, |_, batch| {
            let _ = turn.submit(2, all);
            assert_eq!(batch.len(), 1);
        });
        assert_eq!(outcome, Submitted::More);
        assert_eq!(turn.resume(all), Submitted::Done);
        assert_eq!(turn.into_state(), [1, 2]);
    }

    #[test]
    fn a_panic_frees_the_turn_and_loses_only_the_work_in_hand() {
        let turn = Turn::new(Vec::new());
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            turn.submit(1, |_, batch| {
                let _ = turn.submit(2, all);
                panic!("work {:?}", batch.pop_front());
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(turn.waiting(), 1);
        assert_eq!(turn.submit(3, all), Submitted::Done);
        assert_eq!(turn.into_state(), [2, 3]);
    }

    #[test]
    fn the_inbox_keeps_its_memory_unless_it_is_large() {
        let turn = Turn::new(Vec::new());
        assert_eq!(turn.submit(1, all), Submitted::Done);
        assert!(turn.inbox.inspect(VecDeque::capacity) > 0);
        let outcome = turn.submit(0, |state, batch| {
            batch.reserve(2 * SPARE_ITEMS);
            all(state, batch);
        });
        assert_eq!(outcome, Submitted::Done);
        assert_eq!(turn.inbox.inspect(VecDeque::capacity), 0);
    }

    #[test]
    fn many_threads_keep_their_order_and_lose_nothing() {
        const THREADS: u32 = 4;
        const EACH: u32 = 20_000;
        let turn = Turn::new(Vec::new());
        let submit = |thread: u32| {
            for n in 0..EACH {
                let mut outcome = turn.submit(thread * EACH + n, one);
                while outcome == Submitted::More {
                    outcome = turn.resume(one);
                }
            }
        };
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || submit(thread));
            }
        });
        let done = turn.into_state();
        for thread in 0..THREADS {
            let own: Vec<u32> = done.iter().copied().filter(|work| work / EACH == thread).collect();
            assert!(own.into_iter().eq(thread * EACH..(thread + 1) * EACH), "thread {thread}");
        }
    }
}

/// Every interleaving of a few threads (`just loom`).
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::Arc;
    use loom::thread;

    /// Work is (submitter, number). That holders exclude each other is asserted by `hold` itself.
    type Log = Vec<(u32, u32)>;
    type Shared = Arc<Turn<Log, (u32, u32)>>;

    fn all(log: &mut Log, batch: &mut VecDeque<(u32, u32)>) {
        log.extend(batch.drain(..));
    }

    fn one(log: &mut Log, batch: &mut VecDeque<(u32, u32)>) {
        log.extend(batch.pop_front());
    }

    fn submit_all(turn: &Shared, who: u32, count: u32) {
        for n in 0..count {
            assert_ne!(turn.submit((who, n), all), Submitted::More);
        }
    }

    fn submit_with_budget(turn: &Shared, who: u32, count: u32) {
        for n in 0..count {
            let mut outcome = turn.submit((who, n), one);
            while outcome == Submitted::More {
                outcome = turn.resume(one);
            }
        }
    }

    fn check(turn: Shared, expected: &[(u32, u32)]) {
        assert_eq!(turn.waiting(), 0, "nothing is left behind");
        let log = Arc::try_unwrap(turn).unwrap_or_else(|_| panic!("the last reference")).into_state();
        let of = |who| log.iter().filter(move |work| work.0 == who).map(|work| work.1);
        assert_eq!(log.len(), expected.iter().map(|&(_, count)| count as usize).sum::<usize>());
        for &(who, count) in expected {
            assert!(of(who).eq(0..count), "order of submitter {who}: {log:?}");
        }
    }

    fn model(submit: fn(&Shared, u32, u32), counts: &'static [(u32, u32)]) {
        loom::model(move || {
            let turn = Arc::new(Turn::new(Log::new()));
            let (&(own, own_count), others) = counts.split_first().expect("there are submitters");
            let threads: Vec<_> = others
                .iter()
                .map(|&(who, count)| {
                    let turn = Arc::clone(&turn);
                    thread::spawn(move || submit(&turn, who, count))
                })
                .collect();
            submit(&turn, own, own_count);
            threads.into_iter().for_each(|thread| thread.join().expect("no submitter panics"));
            check(turn, counts);
        });
    }

    #[test]
    fn two_submitters_lose_no_work_and_keep_their_order() {
        model(submit_all, &[(0, 2), (1, 2)]);
    }

    #[test]
    fn three_submitters_lose_no_work() {
        model(submit_all, &[(0, 1), (1, 1), (2, 1)]);
    }

    #[test]
    fn holders_with_a_budget_hand_the_rest_on() {
        model(submit_with_budget, &[(0, 2), (1, 1)]);
    }
}
