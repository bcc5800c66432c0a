//! Threads of JetStream that begin with the first order.
//!
//! Perf: a thread takes some 60 KiB of memory before it has done anything. A server whose streams
//! are small and stay as they are needs none of these.

use super::host::ThreadQueue;
use crate::logging::Logger;
use crate::supervise::{self, SupervisedPart};
use myelin_jetstream::Task;
use myelin_stdx::sync::lock;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Order to such a thread.
enum Order {
    Run(Task),
    Stop,
}

/// A thread that does one task after the other, and begins with the first of them.
pub(super) struct OnDemand {
    part: SupervisedPart,
    queue: Arc<ThreadQueue<Order>>,
    state: Mutex<OnDemandState>,
    log: Arc<Logger>,
}

enum OnDemandState {
    /// Not begun. The thread borrows the orders: if the system has none now, they wait for the next
    /// attempt.
    Waiting(Arc<Mutex<Receiver<Order>>>),
    Running(JoinHandle<()>),
    Ended,
}

impl OnDemand {
    pub(super) fn new(part: SupervisedPart, log: &Arc<Logger>) -> Self {
        let (queue, orders) = ThreadQueue::new();
        let state = Mutex::new(OnDemandState::Waiting(Arc::new(Mutex::new(orders))));
        Self { part, queue: Arc::new(queue), state, log: Arc::clone(log) }
    }

    /// Has a task done. What comes after the [end](Self::stop) is not.
    pub(super) fn put(&self, task: Task) {
        self.put_below(usize::MAX, task);
    }

    /// Has a task done, unless so many wait already: then the answer is false.
    pub(super) fn put_below(&self, limit: usize, task: Task) -> bool {
        let is_put = self.queue.put_below(limit, Order::Run(task));
        self.begin();
        is_put
    }

    /// Tasks that wait.
    pub(super) fn waiting(&self) -> usize {
        self.queue.waiting()
    }

    fn begin(&self) {
        let mut state = lock(&self.state);
        let OnDemandState::Waiting(orders) = &*state else { return };
        let (part, orders, queue) = (self.part, Arc::clone(orders), Arc::clone(&self.queue));
        match supervise::thread(part, move || run(&lock(&orders), part, &queue)) {
            Ok(handle) => *state = OnDemandState::Running(handle),
            Err(error) => self.log.error(format_args!(
                "JetStream has no thread {}: {error}; what it is to do waits for the next attempt",
                part.rule().name
            )),
        }
    }

    /// Has the thread end when it has done what waits; it begins no more.
    pub(super) fn stop(&self) {
        let mut state = lock(&self.state);
        match &*state {
            OnDemandState::Waiting(_) => *state = OnDemandState::Ended,
            OnDemandState::Running(_) => self.queue.put(Order::Stop),
            OnDemandState::Ended => {}
        }
    }

    /// Ends the thread and waits for it.
    ///
    /// # Errors
    /// It has ended in a panic.
    pub(super) fn end(&self) -> std::thread::Result<()> {
        self.stop();
        let state = std::mem::replace(&mut *lock(&self.state), OnDemandState::Ended);
        let OnDemandState::Running(handle) = state else { return Ok(()) };
        handle.join()
    }
}

fn run(orders: &Receiver<Order>, part: SupervisedPart, queue: &ThreadQueue<Order>) {
    while let Ok(Order::Run(task)) = orders.recv() {
        queue.taken();
        supervise::guard(part, task);
    }
}
