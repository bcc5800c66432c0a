//! Waiting that costs no thread: what a call of the API waits for, and how it is told.
//!
//! A call that has to wait is a future: it answers now, or goes on when a [`Promised`] is kept or a
//! ticket is released. Whoever polls it (`engine/calls/pending.rs`) does other things meanwhile.
//! Threads that may wait have [`block_on`].

use myelin_stdx::sync::lock;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// Side of a promise that keeps it. One that is dropped without that is broken.
pub(super) struct Promise<R>(Arc<Mutex<PromiseState<R>>>);

/// Side of a promise that waits for it. `None`: it was broken.
pub(super) struct Promised<R>(Arc<Mutex<PromiseState<R>>>);

enum PromiseState<R> {
    Open(Option<Waker>),
    Kept(R),
    /// Broken, or kept and taken.
    Over,
}

/// A promise, and who waits for it.
pub(super) fn promise<R>() -> (Promise<R>, Promised<R>) {
    let state = Arc::new(Mutex::new(PromiseState::Open(None)));
    (Promise(Arc::clone(&state)), Promised(state))
}

impl<R> Promise<R> {
    /// Keeps it: whoever waits goes on.
    pub(super) fn keep(self, value: R) {
        self.end(PromiseState::Kept(value));
    }

    fn end(&self, state: PromiseState<R>) {
        let mut before = lock(&self.0);
        if !matches!(*before, PromiseState::Open(_)) {
            return;
        }
        let waiting = std::mem::replace(&mut *before, state);
        drop(before);
        if let PromiseState::Open(Some(waker)) = waiting {
            waker.wake();
        }
    }
}

impl<R> Drop for Promise<R> {
    fn drop(&mut self) {
        self.end(PromiseState::Over);
    }
}

impl<R> Promised<R> {
    /// Waits for it; only for threads that may.
    pub(super) fn wait(self) -> Option<R> {
        block_on(self)
    }
}

impl<R> Future for Promised<R> {
    type Output = Option<R>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<R>> {
        let mut state = lock(&self.0);
        if let PromiseState::Open(waker) = &mut *state {
            *waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        match std::mem::replace(&mut *state, PromiseState::Over) {
            PromiseState::Kept(value) => Poll::Ready(Some(value)),
            PromiseState::Open(_) | PromiseState::Over => Poll::Ready(None),
        }
    }
}

/// Waits for all of these. Answers their results in order.
pub(super) async fn together<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut waiting: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    poll_fn(|context| {
        let mut are_through = true;
        for (future, result) in waiting.iter_mut().filter(|(_, result)| result.is_none()) {
            match future.as_mut().poll(context) {
                Poll::Ready(output) => *result = Some(output),
                Poll::Pending => are_through = false,
            }
        }
        if are_through { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    waiting.into_iter().filter_map(|(_, result)| result).collect()
}

/// Waiters who look again when something may have happened, or hear that it never will.
#[derive(Default)]
pub(super) struct Waiters {
    waiting: Mutex<Vec<Waker>>,
    /// Perf: rounds look here, and mostly nobody waits.
    has_any: AtomicBool,
    /// How often all were sent away.
    sent_away: AtomicU64,
}

impl Waiters {
    /// Keeps somebody who waits, and who looks once more afterwards.
    fn add(&self, waker: &Waker) {
        lock(&self.waiting).push(waker.clone());
        self.has_any.store(true, SeqCst);
    }

    /// Has all look who wait.
    pub(super) fn wake(&self) {
        if self.has_any.swap(false, SeqCst) {
            std::mem::take(&mut *lock(&self.waiting)).into_iter().for_each(Waker::wake);
        }
    }

    /// Sends all away who wait: what they wait for may never happen.
    pub(super) fn send_away(&self) {
        self.sent_away.fetch_add(1, SeqCst);
        self.wake();
    }

    /// Waits until there is an outcome. `None`: sent away.
    pub(super) async fn until<R>(&self, outcome: impl Fn() -> Option<R>) -> Option<R> {
        let began = self.sent_away.load(SeqCst);
        let look = || {
            let is_sent_away = self.sent_away.load(SeqCst) != began;
            if is_sent_away { Some(None) } else { outcome().map(Some) }
        };
        poll_fn(|context| {
            if let Some(seen) = look() {
                return Poll::Ready(seen);
            }
            self.add(context.waker());
            // It may have come just before somebody waited for it.
            look().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// Lets others have a turn before whoever awaits this goes on: between slices of long work.
pub(super) async fn once_more() {
    let mut is_first = true;
    poll_fn(|context| {
        if !std::mem::take(&mut is_first) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Thread that waits in [`block_on`].
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits until a future is through; only for threads that may, and not for the thread that would
/// have to keep what it waits for.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Parked(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[derive(Default)]
    struct CountedWaker(AtomicUsize);

    impl Wake for CountedWaker {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn who_waits_is_woken_once_when_a_promise_is_kept_or_broken() {
        for is_kept in [true, false] {
            let counted = Arc::<CountedWaker>::default();
            let waker = Waker::from(Arc::clone(&counted));
            let (promise, promised) = promise::<u32>();
            let mut promised = pin!(promised);
            assert!(promised.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            if is_kept {
                promise.keep(7);
            } else {
                drop(promise);
            }
            assert_eq!(counted.0.load(Relaxed), 1);
            let outcome = promised.as_mut().poll(&mut Context::from_waker(&waker));
            assert_eq!(outcome, Poll::Ready(is_kept.then_some(7)));
        }
    }

    #[test]
    fn a_thread_may_wait_for_another() {
        let (promise, promised) = promise();
        let other = thread::spawn(move || promise.keep(7));
        assert_eq!(promised.wait(), Some(7));
        other.join().expect("it has kept its promise");
    }
}
