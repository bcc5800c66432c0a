//! Whether a shard looks at its sockets a little longer before it sleeps.
//!
//! A client that waits for each answer brings its next message some microseconds after it got one. Falling asleep and being
//! woken in between costs more than the message (on virtual machines several times as much), for the shard and for the
//! client that has to wake it. So a shard whose last pauses were short stays awake through the next; the first pause that is
//! not short ends that, so that little is ever spent in vain. The same is done by hypervisors before they halt a processor.

use std::time::{Duration, Instant};

/// How long a shard stays awake.
const STAY: Duration = Duration::from_micros(50);
/// A pause that was slept through and was no longer than this, the waking included, counts as short.
const SHORT: Duration = Duration::from_micros(150);
/// Short pauses in a row before a shard stays awake.
const ENOUGH: u32 = 4;

/// See the module.
#[derive(Default)]
pub(super) struct Linger {
    done: Option<Instant>,
    short: u32,
}

impl Linger {
    /// There is something to do again.
    pub(super) fn worked(&mut self, now: Instant) {
        if let Some(done) = self.done.take() {
            let is_short = now.saturating_duration_since(done) <= SHORT;
            self.short = if is_short { (self.short + 1).min(ENOUGH) } else { 0 };
        }
    }

    /// Everything is done.
    pub(super) fn done(&mut self, now: Instant) {
        self.done = Some(now);
    }

    /// Whether to stay awake now.
    pub(super) fn stays(&mut self, now: Instant) -> bool {
        if self.short < ENOUGH {
            return false;
        }
        let stays = self.done.is_some_and(|done| now.saturating_duration_since(done) < STAY);
        if !stays {
            // In vain: it is tried again when pauses have turned short.
            self.short = 0;
        }
        stays
    }
}
