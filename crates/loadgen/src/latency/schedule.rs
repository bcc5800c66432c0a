//! When each message is to be sent: an open loop, whose plan does not know what becomes of it.
//!
//! Owns the arithmetic of planned times, in nanoseconds from the start of the run. Reads no clock.

use std::time::Duration;

const SECOND: u128 = 1_000_000_000;

/// Time between connecting and the first message.
const LEAD: Duration = Duration::from_millis(50);

/// A steady stream of messages, the first of which only warm the system up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Messages per second, all connections together; at least 1.
    rate: u64,
    /// Messages that are sent but not counted.
    warming: u64,
    /// Messages that are counted.
    counted: u64,
}

impl Schedule {
    /// A plan of this many messages per second, over warming and counted time together.
    pub fn new(rate: u64, warming: Duration, counted: Duration) -> Self {
        let within = |time: Duration| u64::try_from(time.as_nanos() * u128::from(rate) / SECOND);
        Self {
            rate: rate.max(1),
            warming: within(warming).unwrap_or(u64::MAX / 4),
            counted: within(counted).unwrap_or(u64::MAX / 4).max(1),
        }
    }

    /// All messages.
    pub fn count(&self) -> u64 {
        self.warming + self.counted
    }

    /// When this message is to be sent.
    pub fn planned(&self, number: u64) -> u64 {
        let since_first = u128::from(number) * SECOND / u128::from(self.rate);
        LEAD.as_nanos() as u64 + since_first as u64
    }

    pub(crate) fn is_counted(&self, number: u64) -> bool {
        number >= self.warming
    }

    /// When the first counted message is to be sent.
    pub(crate) fn counted_from(&self) -> u64 {
        self.planned(self.warming)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_keeps_its_rate_for_its_time() {
        let schedule = Schedule::new(3000, Duration::from_secs(1), Duration::from_secs(30));
        assert_eq!((schedule.warming, schedule.counted, schedule.count()), (3000, 90_000, 93_000));
        let lead = schedule.planned(0);
        assert_eq!(schedule.planned(3000) - lead, 1_000_000_000);
        // No drift: a third of a nanosecond lost at every message would add up.
        assert_eq!(schedule.planned(93_000) - lead, 31_000_000_000);
        assert_eq!(schedule.counted_from(), schedule.planned(3000));
        assert!(!schedule.is_counted(2999) && schedule.is_counted(3000));
        assert!((0..93_000).all(|number| schedule.planned(number) < schedule.planned(number + 1)));
    }

    #[test]
    fn even_the_shortest_has_a_message() {
        let schedule = Schedule::new(1, Duration::ZERO, Duration::ZERO);
        assert_eq!((schedule.count(), schedule.counted_from()), (1, schedule.planned(0)));
    }
}
