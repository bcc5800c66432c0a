//! Whether a shard looks at its sockets a little longer before it sleeps.
//!
//! A client that waits for each answer brings its next message some microseconds after it got one.
//! Falling asleep and being woken in between costs more than the message (on virtual machines
//! several times as much), for the shard and for the client that has to wake it. So a shard whose
//! last pauses were short stays awake through the next; the first pause that is not short ends
//! that. What was in vain makes it wait for twice as many short pauses before the next attempt, so
//! that little is spent on clients whose pauses are only a little too long. Hypervisors do the same
//! before they halt a processor.
//!
//! Perf: `myelin bench table --rows 'js-sync-*,js-get-1'`: 2 times the messages/s for less CPU
//! each.

use std::time::{Duration, Instant};

/// How long a shard stays awake.
const STAY: Duration = Duration::from_micros(50);
/// A pause that was slept through and was no longer than this, the waking included, counts as
/// short.
const SHORT: Duration = Duration::from_micros(150);
/// Short pauses in a row before a shard stays awake.
const ENOUGH: u32 = 4;
/// Short pauses in a row before a shard stays awake, after many attempts in vain.
const MOST: u32 = 1024;

/// Decision whether a shard looks at its sockets a little longer before it sleeps.
pub(super) struct BusyPoll {
    done: Option<Instant>,
    /// Short pauses in a row.
    short: u32,
    /// How many are enough now.
    enough: u32,
}

impl Default for BusyPoll {
    fn default() -> Self {
        Self { done: None, short: 0, enough: ENOUGH }
    }
}

impl BusyPoll {
    /// There is something to do again.
    pub(super) fn worked(&mut self, now: Instant) {
        if let Some(done) = self.done.take() {
            let pause = now.saturating_duration_since(done);
            if pause < STAY && self.short >= self.enough {
                self.enough = ENOUGH;
            }
            self.short = if pause <= SHORT { self.short.saturating_add(1) } else { 0 };
        }
    }

    /// Everything is done.
    pub(super) fn done(&mut self, now: Instant) {
        self.done = Some(now);
    }

    /// Whether to stay awake now.
    pub(super) fn stays(&mut self, now: Instant) -> bool {
        if self.short < self.enough {
            return false;
        }
        let stays = self.done.is_some_and(|done| now.saturating_duration_since(done) < STAY);
        if !stays {
            // In vain: it is tried again when pauses have turned short, for longer than this time.
            self.short = 0;
            self.enough = (2 * self.enough).min(MOST);
        }
        stays
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Works at once after each of these pauses, in microseconds; says when it was done the last
    /// time.
    fn after(linger: &mut BusyPoll, pauses: &[u64]) -> Instant {
        let mut now = Instant::now();
        linger.done(now);
        for pause in pauses {
            now += Duration::from_micros(*pause);
            linger.worked(now);
            linger.done(now);
        }
        now
    }

    #[test]
    fn it_stays_after_some_short_pauses_and_not_for_long() {
        let mut linger = BusyPoll::default();
        let now = after(&mut linger, &[10, 100, 20]);
        assert!(!linger.stays(now), "three are not enough");
        let now = after(&mut linger, &[10, 100, 20, 150]);
        assert!(linger.stays(now));
        assert!(linger.stays(now + STAY / 2));
        assert!(!linger.stays(now + STAY));
    }

    #[test]
    fn what_was_in_vain_is_not_done_again_at_once() {
        let mut linger = BusyPoll::default();
        let now = after(&mut linger, &[10; 4]);
        assert!(!linger.stays(now + STAY));
        let now = after(&mut linger, &[60; 7]);
        assert!(!linger.stays(now), "twice as many are needed");
        let now = after(&mut linger, &[60]);
        assert!(linger.stays(now));
        assert!(!linger.stays(now + STAY));
        let now = after(&mut linger, &[60; 16]);
        assert!(linger.stays(now));
    }

    #[test]
    fn what_was_fruitful_makes_it_quick_again() {
        let mut linger = BusyPoll::default();
        let now = after(&mut linger, &[10; 4]);
        assert!(!linger.stays(now + STAY));
        let now = after(&mut linger, &[10; 9]);
        assert!(linger.stays(now));
        let now = after(&mut linger, &[151, 10, 10, 10, 10]);
        assert!(linger.stays(now));
    }

    #[test]
    fn a_long_pause_ends_it() {
        let mut linger = BusyPoll::default();
        let now = after(&mut linger, &[10, 10, 10, 10, 151]);
        assert!(!linger.stays(now));
    }
}
