//! The core of a stream in the hands of a thread that may wait.

use super::LiveStream;
use super::turn::{StreamWork, TurnResult};
use myelin_streams::stream::{Effects, StreamCore};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

/// Guard of a stream's core, for a thread that may wait. The core goes back when this is dropped,
/// and its effects happen then.
pub struct CoreGuard<'a> {
    stream: &'a LiveStream,
    core: Option<Box<StreamCore>>,
    effects: Effects,
    since: Instant,
}

impl LiveStream {
    /// For how long the core was in the hands of another thread at most: so long publishes have
    /// waited.
    pub fn longest_lent(&self) -> Duration {
        self.core.longest_lent()
    }

    /// Takes the core out of the turn. Waits for whoever holds it; only for threads that may.
    /// `None` when the stream is gone.
    pub fn lock_core(&self) -> Option<CoreGuard<'_>> {
        let (sender, receiver) = sync_channel(1);
        self.submit_and_wait(StreamWork::LendCore(sender));
        let core = receiver.recv().ok()?;
        let since = self.scope.host.instant();
        Some(CoreGuard { stream: self, core: Some(core), effects: Effects::default(), since })
    }
}

impl CoreGuard<'_> {
    /// The core, and where its effects go.
    pub fn parts(&mut self) -> (&mut StreamCore, &mut Effects) {
        (self.core.as_deref_mut().expect("it is there until the core goes back"), &mut self.effects)
    }

    /// Ends the stream: the core does not come back, and what waits for it finds nothing.
    pub fn into_core(mut self) -> Option<Box<StreamCore>> {
        self.stream.core.end();
        self.core.take()
    }
}

impl Drop for CoreGuard<'_> {
    fn drop(&mut self) {
        let stream = self.stream;
        let mut after = TurnResult { effects: std::mem::take(&mut self.effects), ..TurnResult::default() };
        if let Some(core) = self.core.take() {
            let mut returning = ReturningCore { guard: self, core: Some(core), has_panicked: true };
            if let Some(core) = returning.core.as_deref_mut() {
                if std::thread::panicking() {
                    core.store().give_up("a panic while it worked");
                }
                stream.report_drops(core, &mut after);
                if stream.membership.is_taken() {
                    stream.advance_member(core, &mut after);
                }
                stream.collect_followups(core, stream.scope.host.now(), &mut after);
                stream.end_turn(&mut after);
                stream.view.update(core);
                stream.direct.set_reader(core.reader());
            }
            returning.has_panicked = false;
        } else {
            stream.end_turn(&mut after);
            stream.core.note_lent(stream.scope.host.instant().saturating_duration_since(self.since));
        }
        stream.apply_effects_off_shard(after);
        stream.drain_and_wait();
    }
}

/// Core on its way back, also if what is to be done with it before panics: without it, all who
/// work with the stream would wait for ever.
struct ReturningCore<'a> {
    guard: &'a CoreGuard<'a>,
    core: Option<Box<StreamCore>>,
    has_panicked: bool,
}

impl Drop for ReturningCore<'_> {
    fn drop(&mut self) {
        let Some(core) = self.core.take() else { return };
        let CoreGuard { stream, since, .. } = self.guard;
        if self.has_panicked {
            core.store().give_up("a panic while it worked");
        }
        stream.core.note_lent(stream.scope.host.instant().saturating_duration_since(*since));
        stream.core.give_back(core);
        if self.has_panicked {
            stream.wake_always();
        }
    }
}
