//! Deadlines of a shard's sessions, and of the wills of those that have ended: one task and one
//! heap instead of a runtime timer per connection.
//!
//! Entries are not moved when a session's deadline moves later; a session that is not due yet when
//! its entry comes up is entered again.

use super::ShardLocal;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::time::Instant;
use tokio::sync::Notify;

/// Deadlines of a shard's sessions.
#[derive(Default)]
pub(super) struct Timers {
    heap: RefCell<BinaryHeap<Reverse<(Instant, u64)>>>,
    earlier: Notify,
}

impl Timers {
    /// Wakes connection `cid` at `at`.
    pub(super) fn enter(&self, at: Instant, cid: u64) {
        let mut heap = self.heap.borrow_mut();
        let is_first = heap.peek().is_none_or(|Reverse((first, _))| at < *first);
        heap.push(Reverse((at, cid)));
        if is_first {
            self.earlier.notify_one();
        }
    }

    fn next(&self) -> Option<Instant> {
        self.heap.borrow().peek().map(|Reverse((at, _))| *at)
    }

    fn pop_due(&self, now: Instant) -> Option<u64> {
        let mut heap = self.heap.borrow_mut();
        if heap.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            heap.pop().map(|Reverse((_, cid))| cid)
        } else {
            None
        }
    }
}

/// The timer task of a shard.
pub(super) async fn run(local: Rc<ShardLocal>) {
    let timers = &local.timers;
    loop {
        match timers.next() {
            None => timers.earlier.notified().await,
            Some(at) => tokio::select! {
                () = tokio::time::sleep_until(at.into()) => {}
                () = timers.earlier.notified() => continue,
            },
        }
        while let Some(cid) = timers.pop_due(Instant::now()) {
            let link = local.link(cid);
            link.iter().for_each(|link| link.due());
            if link.is_none_or(|link| link.conn.close_requested().is_some()) {
                local.will_due(cid);
            }
        }
    }
}
