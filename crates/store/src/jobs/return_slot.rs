//! Where a stream finds the task of a job that did not come back: its thread panicked, or somebody
//! dropped it.
//!
//! Without it the stream would wait for that job for ever, and would have lost what only the task
//! knew.

use std::sync::{Arc, Mutex};

use myelin_stdx::sync::lock;

use super::Task;

/// A stream's own; jobs have a share of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReturnSlot(Arc<Mutex<Option<Task>>>);

/// A task that is out. Dropped, it leaves the task in the return slot.
#[derive(Debug)]
pub(crate) struct TaskGuard {
    /// There until it ends.
    task: Option<Task>,
    return_slot: ReturnSlot,
}

impl ReturnSlot {
    pub(crate) fn send(&self, task: Task) -> TaskGuard {
        TaskGuard { task: Some(task), return_slot: self.clone() }
    }

    /// Takes the task that was left here.
    pub(crate) fn take(&self) -> Option<Task> {
        lock(&self.0).take()
    }
}

impl TaskGuard {
    pub(crate) fn task(&self) -> &Task {
        self.task.as_ref().expect("an errand has its task until it ends")
    }

    /// Ends the guard of a task that came back.
    pub(crate) fn end(mut self) -> Task {
        self.task.take().expect("an errand has its task until it ends")
    }
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            *lock(&self.return_slot.0) = Some(task);
        }
    }
}
