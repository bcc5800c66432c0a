//! The core of a stream in the hands of a thread that may wait.

use super::holding::{Aftermath, Seat, Work};
use super::{LiveStream, lock};
use crate::stream::{Effects, StreamCore};
use myelin_broker::Parcel;
use std::sync::Arc;
use std::sync::atomic::Ordering::Release;
use std::sync::mpsc::sync_channel;

/// See the head of this file. The core goes back when this is dropped, and its effects happen then.
pub struct Loan<'a> {
    stream: &'a LiveStream,
    core: Option<Box<StreamCore>>,
    effects: Effects,
}

impl LiveStream {
    /// Takes the core out of the turn. Waits for whoever holds it; only for threads that may. `None` when the stream is
    /// gone.
    pub fn borrow(&self) -> Option<Loan<'_>> {
        let (sender, receiver) = sync_channel(1);
        self.submit_and_wait(Work::Lend(sender));
        let core = receiver.recv().ok()?;
        Some(Loan { stream: self, core: Some(core), effects: Effects::default() })
    }
}

impl LiveStream {
    /// Has a parcel stored by the thread that reads, for which the core leaves the turn: what comes later waits behind it, as
    /// always, and no shard waits for the disk.
    pub(super) fn publish_elsewhere(&self, seat: &mut Seat, parcel: Parcel) {
        let (Some(me), Seat::Here(core)) = (self.me.upgrade(), std::mem::replace(seat, Seat::Lent)) else {
            return;
        };
        let away = Away { stream: me, core: Some(core), parcel };
        self.host.read(Box::new(move || away.publish()));
    }
}

/// A core on its way to the thread that reads, with what is to be stored there. It comes back whatever becomes of that thread.
struct Away {
    stream: Arc<LiveStream>,
    core: Option<Box<StreamCore>>,
    parcel: Parcel,
}

impl Away {
    fn publish(mut self) {
        let Some(core) = self.core.take() else { return };
        let stream = Arc::clone(&self.stream);
        stream.waiting.forget(&self.parcel);
        let mut loan = Loan { stream: &stream, core: Some(core), effects: Effects::default() };
        let (core, effects) = loan.parts();
        core.publish(&self.parcel, stream.host.now(), effects);
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        if let Some(core) = self.core.take() {
            self.stream.waiting.forget(&self.parcel);
            self.stream.give_up_traces(&self.parcel);
            drop(Loan { stream: &self.stream, core: Some(core), effects: Effects::default() });
        }
    }
}

impl Loan<'_> {
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

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        let stream = self.stream;
        let mut after = Aftermath { effects: std::mem::take(&mut self.effects), ..Aftermath::default() };
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
