//! A transport that keeps what is written, and blocks or breaks when a test says so.

use crate::conn::{Conn, Transport};
use myelin_stdx::sync::lock;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::{Arc, Mutex};

/// Callback of a test at each write, with the bytes.
type OnWrite = Box<dyn FnMut(&[u8]) + Send>;

/// Transport that keeps what is written, and blocks or breaks when a test says so. Clones are one
/// transport.
#[derive(Clone, Default)]
pub(super) struct FakeSink {
    state: Arc<Mutex<State>>,
    on_write: Arc<Mutex<Option<OnWrite>>>,
}

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    /// Bytes that it still takes; `None` is any number.
    room: Option<usize>,
    /// Bytes that one call takes at most.
    sip: Option<usize>,
    broken: bool,
    waits: usize,
    kicks: usize,
    wakes: usize,
    slices: Vec<(usize, usize)>,
}

impl FakeSink {
    /// Everything written since the last time.
    pub(super) fn take(&self) -> Vec<u8> {
        let mut state = lock(&self.state);
        state.slices.clear();
        std::mem::take(&mut state.bytes)
    }

    /// Blocks after `bytes` more.
    pub(super) fn block_after(&self, bytes: usize) {
        lock(&self.state).room = Some(bytes);
    }

    /// Takes any number of bytes again.
    pub(super) fn unblock(&self) {
        lock(&self.state).room = None;
    }

    /// Takes at most `bytes` per call from now on.
    pub(super) fn sip(&self, bytes: usize) {
        lock(&self.state).sip = Some(bytes);
    }

    /// Fails every write from now on.
    pub(super) fn break_off(&self) {
        lock(&self.state).broken = true;
    }

    /// How often the claim was handed to the owner shard.
    pub(super) fn waits(&self) -> usize {
        lock(&self.state).waits
    }

    /// How often the owner shard was told to end the connection.
    pub(super) fn kicks(&self) -> usize {
        lock(&self.state).kicks
    }

    /// How often the owner shard was told that a link has something to say.
    pub(super) fn wakes(&self) -> usize {
        lock(&self.state).wakes
    }

    /// Address and length of the slices written since the last [`take`](Self::take): equal ones in
    /// two sinks are shared memory.
    pub(super) fn slices(&self) -> Vec<(usize, usize)> {
        lock(&self.state).slices.clone()
    }

    /// Calls `f` with the bytes of each write, before it happens.
    pub(super) fn on_write(&self, f: impl FnMut(&[u8]) + Send + 'static) {
        *lock(&self.on_write) = Some(Box::new(f));
    }
}

impl Transport for FakeSink {
    fn try_write(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        if let Some(f) = lock(&self.on_write).as_mut() {
            f(&bufs.iter().flat_map(|slice| slice.iter().copied()).collect::<Vec<u8>>());
        }
        let mut state = lock(&self.state);
        if state.broken {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let mut room = state.room.unwrap_or(usize::MAX).min(state.sip.unwrap_or(usize::MAX));
        if room == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        let mut written = 0;
        for slice in bufs {
            let n = slice.len().min(room);
            state.bytes.extend_from_slice(&slice[..n]);
            state.slices.push((slice.as_ptr().addr(), n));
            written += n;
            room -= n;
            if room == 0 {
                break;
            }
        }
        if let Some(left) = &mut state.room {
            *left -= written;
        }
        Ok(written)
    }

    fn wait_writable(&self, _: &Arc<Conn>) {
        lock(&self.state).waits += 1;
    }

    fn kick(&self, _: &Arc<Conn>) {
        lock(&self.state).kicks += 1;
    }

    fn wake(&self, _: &Arc<Conn>) {
        lock(&self.state).wakes += 1;
    }
}
