//! How fast a client may go: `--sleep` between its messages, its share of `--throughput`, or as
//! fast as it can.
//!
//! Owns the plan of send times, which does not move when a send was late. Reads no clock.

use std::time::{Duration, Instant};

/// Pace of one client: a plan of send times from a rate, a sleep between messages, or neither.
#[derive(Clone, Debug)]
pub struct Pace {
    sleep: Duration,
    /// Messages per second of this client.
    rate: Option<f64>,
    /// Waited before the first message, so that sleeping clients do not march in step.
    delay: Duration,
    start: Option<Instant>,
    sent: u64,
    awake: Option<Instant>,
}

/// Permission to send: a number of messages now, or none before a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    /// Send up to so many messages; at least one.
    Send(u64),
    /// Send nothing before this time.
    Wait(Instant),
}

impl Pace {
    /// `client` is its number, from 0, among `clients` that share `throughput`.
    pub fn new(sleep: Duration, throughput: u64, clients: usize, client: usize) -> Self {
        // A golden part of the interval for each keeps them apart, whatever their number.
        let part = (client as f64 * 0.618_034).fract();
        Self {
            sleep,
            rate: (throughput > 0).then(|| throughput as f64 / clients.max(1) as f64),
            delay: sleep.mul_f64(part),
            start: None,
            sent: 0,
            awake: None,
        }
    }

    /// A pace without a limit.
    #[cfg(test)]
    pub fn free() -> Self {
        Self::new(Duration::ZERO, 0, 1, 0)
    }

    pub(crate) fn is_free(&self) -> bool {
        self.sleep.is_zero() && self.rate.is_none()
    }

    /// Permission to send at this time.
    pub(crate) fn leave(&mut self, now: Instant) -> Leave {
        if self.is_free() {
            return Leave::Send(u64::MAX);
        }
        let start = *self.start.get_or_insert(now + self.delay);
        let due = self.rate.map_or(start, |rate| start + Duration::from_secs_f64(self.sent as f64 / rate));
        let wait = self.awake.unwrap_or(start).max(due);
        if wait > now {
            return Leave::Wait(wait);
        }
        if !self.sleep.is_zero() {
            return Leave::Send(1);
        }
        let elapsed = now.saturating_duration_since(start).as_secs_f64();
        let planned = self.rate.map_or(u64::MAX, |rate| (elapsed * rate) as u64 + 1);
        Leave::Send(planned.saturating_sub(self.sent).max(1))
    }

    /// Counts messages that were sent at this time.
    pub fn sent(&mut self, count: u64, now: Instant) {
        self.sent += count;
        if !self.sleep.is_zero() {
            self.awake = Some(now + self.sleep);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_free_client_sends_as_much_as_it_likes() {
        assert_eq!(Pace::free().leave(Instant::now()), Leave::Send(u64::MAX));
    }

    #[test]
    fn a_sleeping_client_sends_one_at_a_time() {
        let start = Instant::now();
        let mut pace = Pace::new(10 * MS, 0, 1, 0);
        assert_eq!(pace.leave(start), Leave::Send(1));
        pace.sent(1, start);
        assert_eq!(pace.leave(start + 9 * MS), Leave::Wait(start + 10 * MS));
        assert_eq!(pace.leave(start + 10 * MS), Leave::Send(1));
        let mut second = Pace::new(10 * MS, 0, 2, 1);
        assert!(
            matches!(second.leave(start), Leave::Wait(later) if later > start && later < start + 10 * MS)
        );
    }

    #[test]
    fn a_rate_is_caught_up_with_after_a_pause() {
        let start = Instant::now();
        let mut pace = Pace::new(Duration::ZERO, 2000, 2, 0);
        assert_eq!(pace.leave(start), Leave::Send(1));
        pace.sent(1, start);
        assert_eq!(pace.leave(start), Leave::Wait(start + MS));
        assert_eq!(pace.leave(start + 10 * MS), Leave::Send(10));
    }
}
