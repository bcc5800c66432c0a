//! A queue that many may fill and one at a time may work off, without waiting for each other.
//!
//! Whoever appends to a queue that nobody works on takes the *claim* and must then work it off;
//! everyone else only appends and walks away. Giving the claim back and noticing late work is one
//! step under the lock, so no work is left behind. This is the protocol of a connection's outbox
//! (house rule: who may write a socket), where the queue is bytes and the work is the system call.
//!
//! The claim is not tied to a thread: a holder whose socket would block keeps it and lets another
//! thread go on. No function here blocks for longer than the closure it was given.
//!
//! Perf: appending costs one uncontended lock and no allocation of its own; so do taking and
//! finishing.

use crate::sync::{Mutex, lock};

/// Result of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "whoever is told `Claimed` must work the queue off"]
pub enum Append {
    /// Appended, and the caller now holds the claim: it must [`take`](Claimed::take) and
    /// [`finish`](Claimed::finish), or nobody ever will.
    Claimed,
    /// Appended; whoever holds the claim will come to it.
    Left,
    /// Not appended: the queue is closed.
    Closed,
}

/// Whether the holder is free to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "whoever is told `More` still holds the claim"]
pub enum Finish {
    /// The claim is given back.
    Released,
    /// Work arrived meanwhile: the caller still holds the claim and must take it.
    More,
}

/// A queue `Q` together with the claim on it.
#[derive(Debug, Default)]
pub struct Claimed<Q> {
    inner: Mutex<Inner<Q>>,
}

#[derive(Debug, Default)]
struct Inner<Q> {
    queue: Q,
    claimed: bool,
    closed: bool,
}

impl<Q> Claimed<Q> {
    /// An open queue that nobody has claimed.
    pub fn new(queue: Q) -> Self {
        Self { inner: Mutex::new(Inner { queue, claimed: false, closed: false }) }
    }

    /// Lets `append` add to the queue and takes the claim if it is free.
    ///
    /// `append` does not run when the queue is closed. It holds the lock: keep it to a move or a
    /// copy.
    pub fn with_queue(&self, append: impl FnOnce(&mut Q)) -> Append {
        let mut inner = lock(&self.inner);
        if inner.closed {
            return Append::Closed;
        }
        append(&mut inner.queue);
        if std::mem::replace(&mut inner.claimed, true) { Append::Left } else { Append::Claimed }
    }

    /// Takes the claim without appending, if it is free and the queue is open and not empty.
    ///
    /// For work that a holder left behind when it gave the claim up early
    /// ([`release`](Self::release)).
    pub fn try_claim(&self, is_empty: impl FnOnce(&Q) -> bool) -> bool {
        let mut inner = lock(&self.inner);
        if inner.claimed || inner.closed || is_empty(&inner.queue) {
            return false;
        }
        inner.claimed = true;
        true
    }

    /// Whether nobody has the claim and nothing waits for somebody who does.
    pub fn is_idle(&self, is_empty: impl FnOnce(&Q) -> bool) -> bool {
        let inner = lock(&self.inner);
        !inner.claimed && is_empty(&inner.queue)
    }

    /// Lets the holder of the claim move work out of the queue. After a close there may be none.
    pub fn take<R>(&self, take: impl FnOnce(&mut Q) -> R) -> R {
        let mut inner = lock(&self.inner);
        debug_assert!(inner.claimed, "only the holder of the claim takes");
        take(&mut inner.queue)
    }

    /// Gives the claim back unless the queue holds work again.
    ///
    /// `is_empty` may also leave something behind for the next holder, such as spare capacity.
    pub fn finish(&self, is_empty: impl FnOnce(&mut Q) -> bool) -> Finish {
        let mut inner = lock(&self.inner);
        debug_assert!(inner.claimed, "only the holder of the claim finishes");
        if !is_empty(&mut inner.queue) && !inner.closed {
            return Finish::More;
        }
        inner.claimed = false;
        Finish::Released
    }

    /// Gives the claim back although work may remain, after `put_back` has returned what the holder
    /// took and did not do. The next append claims it, or [`try_claim`](Self::try_claim).
    pub fn release<R>(&self, put_back: impl FnOnce(&mut Q) -> R) -> R {
        let mut inner = lock(&self.inner);
        debug_assert!(inner.claimed, "only the holder of the claim gives it back");
        inner.claimed = false;
        put_back(&mut inner.queue)
    }

    /// Refuses all further appends and lets `drain` dispose of what is queued. Later calls run
    /// `drain` again on what is then an empty queue.
    pub fn close<R>(&self, drain: impl FnOnce(&mut Q) -> R) -> R {
        let mut inner = lock(&self.inner);
        inner.closed = true;
        drain(&mut inner.queue)
    }

    /// Looks at the queue, for limits and monitoring.
    pub fn inspect<R>(&self, look: impl FnOnce(&Q) -> R) -> R {
        look(&lock(&self.inner).queue)
    }

    /// Whether someone holds the claim at this moment.
    pub fn is_claimed(&self) -> bool {
        lock(&self.inner).claimed
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_first_to_append_claims_and_the_others_leave_their_work() {
        let outbox = Claimed::new(Vec::new());
        assert_eq!(outbox.with_queue(|q| q.push(1)), Append::Claimed);
        assert_eq!(outbox.with_queue(|q| q.push(2)), Append::Left);
        assert_eq!(outbox.take(std::mem::take), [1, 2]);
        assert_eq!(outbox.with_queue(|q| q.push(3)), Append::Left);
        assert_eq!(outbox.finish(|q| q.is_empty()), Finish::More);
        assert_eq!(outbox.take(std::mem::take), [3]);
        assert_eq!(outbox.finish(|q| q.is_empty()), Finish::Released);
        assert!(!outbox.is_claimed());
    }

    #[test]
    fn what_is_put_back_can_be_claimed_without_appending() {
        let outbox = Claimed::new(Vec::new());
        assert!(!outbox.try_claim(Vec::is_empty), "there is nothing to do");
        assert_eq!(outbox.with_queue(|q| q.push(1)), Append::Claimed);
        assert!(!outbox.try_claim(Vec::is_empty), "the claim is taken");
        let taken = outbox.take(std::mem::take);
        outbox.release(|q| *q = taken);
        assert!(outbox.try_claim(Vec::is_empty));
        assert!(outbox.is_claimed());
        assert_eq!(outbox.inspect(Clone::clone), [1]);
    }

    #[test]
    fn a_closed_queue_takes_nothing_and_lets_its_holder_go() {
        let outbox = Claimed::new(Vec::new());
        assert_eq!(outbox.with_queue(|q| q.push(1)), Append::Claimed);
        assert_eq!(outbox.close(std::mem::take), [1]);
        assert_eq!(outbox.with_queue(|_| unreachable!("closed")), Append::Closed);
        assert!(outbox.take(std::mem::take).is_empty());
        assert_eq!(outbox.finish(|q| q.is_empty()), Finish::Released);
        assert!(!outbox.try_claim(Vec::is_empty));
    }
}

/// Every interleaving of a few threads (`just loom`).
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::Arc;
    use loom::thread;

    /// The queue, and how often anybody appended: the order of appends under the lock.
    #[derive(Default)]
    struct CountedQueue {
        items: Vec<u32>,
        appended: u32,
    }

    type Drained = Arc<Mutex<Vec<u32>>>;

    fn append_and_drain(outbox: &Claimed<CountedQueue>, drained: &Drained) {
        let appended = outbox.with_queue(|q| {
            q.items.push(q.appended);
            q.appended += 1;
        });
        if appended == Append::Claimed {
            drain(outbox, drained);
        }
    }

    fn drain(outbox: &Claimed<CountedQueue>, drained: &Drained) {
        loop {
            let items = outbox.take(|q| std::mem::take(&mut q.items));
            drained.try_lock().expect("one holder at a time").extend(items);
            if outbox.finish(|q| q.items.is_empty()) == Finish::Released {
                return;
            }
        }
    }

    fn spawn(outbox: &Arc<Claimed<CountedQueue>>, drained: &Drained, appends: u32) -> thread::JoinHandle<()> {
        let (outbox, drained) = (Arc::clone(outbox), Arc::clone(drained));
        thread::spawn(move || (0..appends).for_each(|_| append_and_drain(&outbox, &drained)))
    }

    #[test]
    fn everything_appended_is_drained_once_in_lock_order_and_the_claim_ends_free() {
        loom::model(|| {
            let (outbox, drained) = (Arc::new(Claimed::new(CountedQueue::default())), Drained::default());
            let threads = [spawn(&outbox, &drained, 2), spawn(&outbox, &drained, 1)];
            append_and_drain(&outbox, &drained);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(*drained.lock().unwrap(), [0, 1, 2, 3]);
            assert!(!outbox.is_claimed());
        });
    }

    #[test]
    fn closing_beside_a_holder_loses_nothing_silently_and_frees_the_claim() {
        loom::model(|| {
            let (outbox, drained) = (Arc::new(Claimed::new(CountedQueue::default())), Drained::default());
            let thread = spawn(&outbox, &drained, 2);
            let disposed = outbox.close(|q| std::mem::take(&mut q.items));
            thread.join().unwrap();
            let accepted = outbox.inspect(|q| q.appended) as usize;
            assert_eq!(drained.lock().unwrap().len() + disposed.len(), accepted);
            assert!(!outbox.is_claimed());
        });
    }
}
