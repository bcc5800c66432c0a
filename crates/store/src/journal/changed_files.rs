//! The files that were appended to since the watermarks stated where they end, and the wait for
//! them.
//!
//! A file enters when it becomes dirty, so an append to a dirty file costs nothing here. Its lock
//! is a leaf.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use myelin_stdx::sync::lock;

use crate::AppendFile;

#[derive(Default)]
struct ChangedState {
    /// Not kept alive by this: a removed file must not stay open for it.
    files: Vec<Weak<AppendFile>>,
    is_asleep: bool,
    is_asked: bool,
}

/// Files that were appended to since the watermarks last stated where they end.
#[derive(Default)]
pub(crate) struct ChangedFiles {
    state: Mutex<ChangedState>,
    wakeup: Condvar,
}

impl ChangedFiles {
    /// Adds a file that was appended to.
    pub(crate) fn push(&self, file: &Arc<AppendFile>) {
        if !file.enlist() {
            return;
        }
        let mut state = self.lock();
        state.files.push(Arc::downgrade(file));
        let must_tell = state.is_asleep && state.files.len() == 1;
        drop(state);
        if must_tell {
            self.wakeup.notify_all();
        }
    }

    /// Takes all of them. Each is to be taken out with `delist` before it is looked at.
    pub(crate) fn take(&self) -> Vec<Weak<AppendFile>> {
        std::mem::take(&mut self.lock().files)
    }

    /// Sleeps until there is one, `wake` was called, or `timeout` has passed.
    pub(crate) fn wait(&self, timeout: Duration) {
        let mut state = self.lock();
        state.is_asleep = true;
        let (mut state, _) = self
            .wakeup
            .wait_timeout_while(state, timeout, |state| state.files.is_empty() && !state.is_asked)
            .unwrap_or_else(PoisonError::into_inner);
        state.is_asleep = false;
        state.is_asked = false;
    }

    /// Ends a `wait`, or the next one.
    pub(crate) fn wake(&self) {
        self.lock().is_asked = true;
        self.wakeup.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, ChangedState> {
        lock(&self.state)
    }
}
