//! Clock of a server that has replicas: its time of day, as long as that is near the one of most
//! servers.
//!
//! Whoever leads a stream says when its messages were accepted and when they have ended, by its own
//! clock alone. Where that is wrong, as somebody has set it or the machine was asleep, messages
//! would end too early, or never. So what JetStream takes for the time is never further than
//! [`GUARD`] from the median of the clocks of all servers that are heard, and between two looks it
//! goes by the clock that nobody sets. Which of two clocks is right nobody can say: it takes three.

use myelin_store::Timestamp;
use std::sync::OnceLock;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Nanoseconds by which the time may differ from the median of all servers'.
pub(in crate::engine) const GUARD: Timestamp = 500_000_000;

/// Clock of one server, for its [`Host`](super::Host).
#[derive(Debug, Default)]
pub struct GroupClock {
    /// From when on it counts.
    epoch: OnceLock<Instant>,
    /// The time of day at that instant; 0: nobody keeps it, and the time of day counts.
    base: AtomicI64,
}

impl GroupClock {
    /// The time. Perf: one of the two clocks is asked, whether others keep this one or not.
    pub fn now(&self, instant: impl FnOnce() -> Instant, day: impl FnOnce() -> Timestamp) -> Timestamp {
        match (self.base.load(Relaxed), self.epoch.get()) {
            (base @ 1.., Some(epoch)) => base.saturating_add(nanoseconds(*epoch, instant())),
            _ => day(),
        }
    }

    /// At this instant it is `day`, and the time goes on from there.
    pub fn keep(&self, at: Instant, day: Timestamp) {
        let epoch = self.epoch.get_or_init(|| at);
        self.base.store(day.saturating_sub(nanoseconds(*epoch, at)), Relaxed);
    }
}

fn nanoseconds(from: Instant, to: Instant) -> Timestamp {
    Timestamp::try_from(to.saturating_duration_since(from).as_nanos()).unwrap_or(Timestamp::MAX)
}

/// The time that counts where the clock says `day` and the median of all is that: neither too far
/// ahead nor too far behind.
pub(in crate::engine) fn guarded(day: Timestamp, median: Option<Timestamp>) -> Timestamp {
    median.map_or(day, |median| day.clamp(median.saturating_sub(GUARD), median.saturating_add(GUARD)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_time_of_day_counts_until_somebody_keeps_the_time() {
        let (clock, began) = (GroupClock::default(), Instant::now());
        let later = || began + Duration::from_nanos(30);
        assert_eq!(clock.now(later, || 7), 7);
        clock.keep(began, 1000);
        assert_eq!(clock.now(later, || 7), 1030, "it was set back, and nobody has looked yet");
        clock.keep(later(), 500);
        assert_eq!(clock.now(later, || 7), 500);
    }

    #[test]
    fn a_clock_that_is_far_from_the_others_is_followed_to_the_guard_only() {
        assert_eq!(guarded(7, None), 7);
        assert_eq!(guarded(GUARD + 7, Some(7)), GUARD + 7);
        assert_eq!(guarded(9 * GUARD, Some(7)), GUARD + 7);
        assert_eq!(guarded(0, Some(9 * GUARD)), 8 * GUARD);
    }
}
