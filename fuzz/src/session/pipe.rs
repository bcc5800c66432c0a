//! A transport that keeps what is written to it, and may take little at a time.

use myelin_broker::{Conn, Transport};
use myelin_stdx::sync::lock;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::{Arc, Mutex};

/// Bytes that a narrow pipe takes before it blocks once.
const NARROW: usize = 29;

/// The end of a connection that its owner keeps.
#[derive(Clone, Default)]
pub(super) struct Pipe(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    written: Vec<u8>,
    is_narrow: bool,
    /// Whether the next write blocks.
    is_full: bool,
    /// Whether the claim of the outbox was handed to the owner.
    is_waiting: bool,
}

impl Pipe {
    /// A pipe that takes everything, or one that blocks at every other write.
    pub(super) fn new(is_narrow: bool) -> Self {
        Self(Arc::new(Mutex::new(State { is_narrow, ..State::default() })))
    }

    /// Bytes written since they were last taken.
    pub(super) fn len(&self) -> usize {
        self.with(|state| state.written.len())
    }

    /// Takes what was written.
    pub(super) fn take(&self) -> Vec<u8> {
        self.with(|state| std::mem::take(&mut state.written))
    }

    /// Makes the next write the first: whether it blocks does not hang on those before.
    pub(super) fn rewind(&self) {
        self.with(|state| {
            state.is_full = false;
            state.written.clear();
        });
    }

    /// Whether the owner has to write on; asking takes the duty.
    pub(super) fn take_waiting(&self) -> bool {
        self.with(|state| std::mem::take(&mut state.is_waiting))
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut lock(&self.0))
    }
}

impl Transport for Pipe {
    fn try_write(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.with(|state| {
            if state.is_narrow {
                state.is_full = !state.is_full;
                if !state.is_full {
                    return Err(ErrorKind::WouldBlock.into());
                }
            }
            let before = state.written.len();
            let mut room = if state.is_narrow { NARROW } else { usize::MAX };
            for slice in bufs {
                let taken = &slice[..slice.len().min(room)];
                state.written.extend_from_slice(taken);
                room -= taken.len();
            }
            Ok(state.written.len() - before)
        })
    }

    fn wait_writable(&self, _: &Arc<Conn>) {
        self.with(|state| state.is_waiting = true);
    }

    /// The owner asks the connection itself.
    fn kick(&self, _: &Arc<Conn>) {}
}
