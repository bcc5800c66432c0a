//! The core of a stream in the hands of a thread that may wait.

use super::turn::{TurnResult, Work};
use super::{LiveStream, lock};
use crate::stream::{Effects, StreamCore};
use std::sync::Arc;
use std::sync::atomic::Ordering::Release;
use std::sync::mpsc::sync_channel;

/// See the head of this file. The core goes back when this is dropped, and its effects happen then.
pub struct CoreGuard<'a> {
    stream: &'a LiveStream,
    core: Option<Box<StreamCore>>,
    effects: Effects,
}

impl LiveStream {
    /// Takes the core out of the turn. Waits for whoever holds it; only for threads that may. `None` when the stream is
    /// gone.
    pub fn borrow(&self) -> Option<CoreGuard<'_>> {
        let (sender, receiver) = sync_channel(1);
        self.submit_and_wait(Work::Lend(sender));
        let core = receiver.recv().ok()?;
        Some(CoreGuard { stream: self, core: Some(core), effects: Effects::default() })
    }
}

impl CoreGuard<'_> {
    /// The core, and where its effects go.
    pub fn parts(&mut self) -> (&mut StreamCore, &mut Effects) {
        (self.core.as_deref_mut().expect("it is there until the loan ends"), &mut self.effects)
    }

    /// Ends the stream: the core does not come back, and what waits for it finds nothing.
    pub fn keep(mut self) -> Option<Box<StreamCore>> {
        self.stream.is_gone.store(true, Release);
        self.core.take()
    }
}

impl Drop for CoreGuard<'_> {
    fn drop(&mut self) {
        let stream = self.stream;
        let mut after = TurnResult { effects: std::mem::take(&mut self.effects), ..TurnResult::default() };
        if let Some(mut core) = self.core.take() {
            if std::thread::panicking() {
                core.store().give_up("a panic while it worked");
            }
            stream.count_losses(&mut core, &mut after);
            stream.look_around(&mut core, stream.host.now(), &mut after);
            stream.end_hold(&mut after);
            *lock(&stream.config) = Arc::clone(core.config());
            stream.direct.set_reader(core.reader());
            *lock(&stream.reader) = core.reader();
            *lock(&stream.returned) = Some(core);
        } else {
            stream.end_hold(&mut after);
        }
        stream.heed_elsewhere(after);
        stream.go_on_and_wait();
    }
}
