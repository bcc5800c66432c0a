//! The files that have something to make durable, and the wait for them.
//!
//! Knows three kinds: those somebody waits for (`urgent`: mode `Synced`), those that have until the
//! next interval, and of these the ones that are no reason for a round of their own for a while.
//! Its lock is a leaf: nothing else is locked while it is held.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use myelin_stdx::sync::lock;

use crate::{AppendFile, StreamId};

/// Why [`super::Journal::wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Somebody waits for a round.
    Urgent,
    /// A file has become dirty, the first one since the last round: ask `next_due`.
    Dirty,
    /// `Journal::wake` was called.
    Asked,
    /// Time has passed.
    TimedOut,
}

/// How soon a file is to be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncUrgency {
    /// Somebody waits for it.
    Urgent,
    /// With the next interval.
    Relaxed,
    /// With the next round that takes relaxed ones, or in a while.
    Patient,
}

#[derive(Default)]
struct DirtyState {
    urgent: Vec<Arc<AppendFile>>,
    relaxed: Vec<Arc<AppendFile>>,
    patient: Vec<Arc<AppendFile>>,
    is_asleep: bool,
    /// Wake-up that a sleeper has to be given.
    pending_wake: Option<Wake>,
}

#[derive(Default)]
pub(super) struct Dirty {
    state: Mutex<DirtyState>,
    changed: Condvar,
}

impl Dirty {
    /// Adds a file that has become dirty.
    pub(super) fn push(&self, file: Arc<AppendFile>, urgency: SyncUrgency) {
        let mut state = self.lock();
        let files = match urgency {
            SyncUrgency::Urgent => &mut state.urgent,
            SyncUrgency::Relaxed => &mut state.relaxed,
            SyncUrgency::Patient => &mut state.patient,
        };
        debug_assert!(
            files.last().is_none_or(|last| !Arc::ptr_eq(last, &file)),
            "a file that is dirty is not entered again"
        );
        files.push(file);
        let is_first = files.len() == 1;
        match urgency {
            SyncUrgency::Urgent => self.notify(state, Wake::Urgent),
            _ if is_first => self.notify(state, Wake::Dirty),
            _ => {}
        }
    }

    /// Ends the wait.
    pub(super) fn wake(&self) {
        self.notify(self.lock(), Wake::Asked);
    }

    /// Perf: a condition variable makes a system call for every notification, sleeper or not.
    fn notify(&self, mut state: MutexGuard<'_, DirtyState>, pending_wake: Wake) {
        let must_notify = state.is_asleep && state.pending_wake.is_none();
        if pending_wake == Wake::Asked || matches!(state.pending_wake, None | Some(Wake::Dirty)) {
            state.pending_wake = Some(pending_wake);
        }
        drop(state);
        if must_notify {
            self.changed.notify_all();
        }
    }

    /// Sleeps until something has changed since the last `take`, or `timeout` has passed.
    pub(super) fn wait(&self, timeout: Duration) -> Wake {
        let mut state = self.lock();
        if let Some(pending_wake) = state.pending_wake.take() {
            return pending_wake;
        }
        state.is_asleep = true;
        let (mut state, _) = self
            .changed
            .wait_timeout_while(state, timeout, |state| state.pending_wake.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        state.is_asleep = false;
        state.pending_wake.take().unwrap_or(Wake::TimedOut)
    }

    /// Takes the urgent files, and the others, too, if they are due.
    pub(super) fn take(&self, with_relaxed: bool) -> Vec<Arc<AppendFile>> {
        let mut state = self.lock();
        if state.pending_wake != Some(Wake::Asked) {
            state.pending_wake = None;
        }
        let mut files = std::mem::take(&mut state.urgent);
        if with_relaxed {
            files.append(&mut state.relaxed);
            files.append(&mut state.patient);
        }
        files
    }

    /// The dirty files of a stream. They stay dirty.
    pub(super) fn of_stream(&self, stream: StreamId) -> Vec<Arc<AppendFile>> {
        let state = self.lock();
        let files = state.urgent.iter().chain(&state.relaxed).chain(&state.patient);
        files.filter(|file| file.id().stream == stream).cloned().collect()
    }

    /// Whether somebody waits, and whether anything is dirty.
    pub(super) fn is_urgent(&self) -> bool {
        !self.lock().urgent.is_empty()
    }

    pub(super) fn has_relaxed(&self) -> bool {
        !self.lock().relaxed.is_empty()
    }

    /// Since when the first of the patient ones is dirty, if there is one.
    pub(super) fn patient_since(&self) -> Option<u64> {
        // One that was given up meanwhile waits for nothing.
        self.lock().patient.first().map(|file| file.dirty_since().unwrap_or(0))
    }

    /// How many files are dirty, and since when the oldest with messages that nobody waits for is.
    pub(super) fn survey(&self) -> (usize, Option<u64>) {
        let state = self.lock();
        let oldest = state.relaxed.iter().filter_map(|file| file.dirty_since()).min();
        (state.urgent.len() + state.relaxed.len() + state.patient.len(), oldest)
    }

    fn lock(&self) -> MutexGuard<'_, DirtyState> {
        lock(&self.state)
    }
}
