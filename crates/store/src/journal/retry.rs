//! Work of rounds that a full disk puts off: overwritten bytes, which may only go through the
//! journal, and copies of what the journal alone has of failed files.
//!
//! Owns when each is tried again: after a pause that doubles each time, for whatever is tried reads
//! and writes as much as it would with room. Its lock is a leaf.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use myelin_stdx::sync::lock;

use crate::{AppendFile, StreamId};

/// Nanoseconds of the first pause, and of the longest.
const FIRST_PAUSE: u64 = 10_000_000;
const LONGEST_PAUSE: u64 = 10_000_000_000;

/// Work that waits for room on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Files with overwritten bytes, those of erased messages, that are not durable.
    pub overwritten: usize,
    /// Whether what only the journal has of failed files keeps it from being written anew.
    pub is_carrying: bool,
    /// Age of the oldest of it, in nanoseconds.
    pub age: u64,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("waits for room on the disk: ")?;
        match self.overwritten {
            0 => {}
            1 => f.write_str("bytes of erased messages are still in 1 file")?,
            files => write!(f, "bytes of erased messages are still in {files} files")?,
        }
        if self.overwritten > 0 && self.is_carrying {
            f.write_str(", and ")?;
        }
        if self.is_carrying {
            f.write_str("the journal keeps what it alone has of a file that failed, and grows")?;
        }
        Ok(())
    }
}

/// A pause that doubles with each refusal.
#[derive(Debug, Default)]
struct Pause {
    /// When the first attempt was refused; `None`: the last one had room.
    since: Option<u64>,
    until: u64,
    length: u64,
}

impl Pause {
    fn refuse(&mut self, now: u64) {
        self.length = (self.length * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        self.until = now.saturating_add(self.length);
        self.since.get_or_insert(now);
    }

    /// Nanoseconds until the next attempt. A clock that went back counts as due.
    fn rest(&self, now: u64) -> u64 {
        let rest = self.until.saturating_sub(now);
        if rest > self.length { 0 } else { rest }
    }
}

#[derive(Default)]
struct RetryState {
    /// Files with overwritten bytes, and since when. They are not dirty meanwhile: who appends to
    /// one makes it so.
    overwritten: Vec<(Arc<AppendFile>, u64)>,
    overwriting: Pause,
    carrying: Pause,
}

/// Rounds that wait for room, and when they are tried again.
#[derive(Default)]
pub(super) struct Retry {
    state: Mutex<RetryState>,
}

impl Retry {
    /// A round had no room for bytes of `file` that replace others; `since` is the time of the
    /// oldest.
    pub(super) fn put_off(&self, file: Arc<AppendFile>, since: u64) {
        let mut state = self.lock();
        match state.overwritten.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &file)) {
            Some((_, known)) => *known = since.min(*known),
            None => state.overwritten.push((file, since)),
        }
    }

    /// Notes that a round had no room for its block.
    pub(super) fn refuse_block(&self, now: u64) {
        let mut state = self.lock();
        if !state.overwritten.is_empty() {
            state.overwriting.refuse(now);
        }
    }

    /// Notes that a block of the journal has found room.
    pub(super) fn found_room(&self) {
        let mut state = self.lock();
        // What was put off is due with the next round.
        state.overwriting.until = 0;
        if state.overwritten.is_empty() {
            state.overwriting = Pause::default();
        }
    }

    /// Takes what was put off, if it is due.
    pub(super) fn take(&self, now: u64, with_all: bool) -> Vec<(Arc<AppendFile>, u64)> {
        let mut state = self.lock();
        if !with_all && state.overwriting.rest(now) > 0 {
            return Vec::new();
        }
        std::mem::take(&mut state.overwritten)
    }

    /// Nanoseconds until a round is due for what was put off; `None` if nothing was.
    pub(super) fn due(&self, now: u64) -> Option<u64> {
        let state = self.lock();
        (!state.overwritten.is_empty()).then(|| state.overwriting.rest(now))
    }

    /// Whether what only the journal has may be copied now.
    pub(super) fn may_carry(&self, now: u64) -> bool {
        self.lock().carrying.rest(now) == 0
    }

    /// There was no room for the copy, or there was.
    pub(super) fn carried(&self, has_room: bool, now: u64) {
        let mut state = self.lock();
        if has_room { state.carrying = Pause::default() } else { state.carrying.refuse(now) }
    }

    /// Files of `stream` that were put off. They stay so.
    pub(super) fn of_stream(&self, stream: StreamId) -> Vec<Arc<AppendFile>> {
        let state = self.lock();
        let files = state.overwritten.iter().map(|(file, _)| file);
        files.filter(|file| file.id().stream == stream).cloned().collect()
    }

    /// State of what waits, if anything does.
    pub(super) fn waiting(&self, now: u64) -> Option<Waiting> {
        let state = self.lock();
        let overwritten = state.overwritten.iter().map(|(_, since)| *since);
        let since = overwritten.chain(state.carrying.since).min()?;
        Some(Waiting {
            overwritten: state.overwritten.len(),
            is_carrying: state.carrying.since.is_some(),
            age: now.saturating_sub(since),
        })
    }

    fn lock(&self) -> MutexGuard<'_, RetryState> {
        lock(&self.state)
    }
}
