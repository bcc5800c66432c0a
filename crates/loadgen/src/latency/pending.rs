//! Which messages are under way, since when, and what their arrivals say.
//!
//! Owns the three histograms of a run, and the proof that each message came once. Both clocks are
//! read for the same arrivals: from the planned time, which charges a system for every message that
//! it held up, and from the time of sending, which is what a driver that waits for answers would
//! have noticed. Reads no clock itself.

use std::collections::VecDeque;

use crate::error::BenchError;
use crate::latency::schedule::Schedule;
use crate::results::Distribution;

/// Messages that are under way, and the latencies of those that have arrived. Times are nanoseconds
/// from the start of the run.
#[derive(Debug)]
pub struct Pending {
    schedule: Schedule,
    /// The first message that has not arrived.
    first: u64,
    /// The messages from there on.
    under_way: VecDeque<SendState>,
    arrived: u64,
    /// Latencies from the planned time of each message.
    pub from_planned: Distribution,
    /// Latencies from when each message was really sent.
    pub from_sent: Distribution,
    /// How long after its planned time a message was sent that nothing held up but the driver.
    pub lateness: Distribution,
    /// Messages that were sent late because their connection had to wait.
    pub(crate) held_up: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendState {
    NotSent,
    Sent(u64),
    Arrived,
}

impl Pending {
    /// Nothing of this schedule was sent yet.
    pub fn new(schedule: Schedule) -> Self {
        Self {
            schedule,
            first: 0,
            under_way: VecDeque::new(),
            arrived: 0,
            from_planned: Distribution::default(),
            from_sent: Distribution::default(),
            lateness: Distribution::default(),
            held_up: 0,
        }
    }

    /// Notes that a message is sent now; `was_held_up` says that it had to wait for others.
    pub fn send(&mut self, number: u64, now: u64, was_held_up: bool) {
        let place = (number - self.first) as usize;
        if place >= self.under_way.len() {
            self.under_way.resize(place + 1, SendState::NotSent);
        }
        self.under_way[place] = SendState::Sent(now);
        match was_held_up {
            _ if !self.schedule.is_counted(number) => {}
            true => self.held_up += 1,
            false => self.lateness.record(now.saturating_sub(self.schedule.planned(number))),
        }
    }

    /// Notes an arrival.
    pub fn arrive(&mut self, number: u64, now: u64) -> Result<(), BenchError> {
        let twice = || BenchError::Lost(format!("message {number} came twice"));
        let place = number.checked_sub(self.first).ok_or_else(twice)?;
        let state = self.under_way.get_mut(place as usize);
        let state = state.filter(|state| **state != SendState::NotSent);
        let state = state.ok_or_else(|| BenchError::Protocol(format!("message {number} was never sent")))?;
        let SendState::Sent(sent) = std::mem::replace(state, SendState::Arrived) else {
            return Err(twice());
        };
        if self.schedule.is_counted(number) {
            self.from_sent.record(now.saturating_sub(sent));
            self.from_planned.record(now.saturating_sub(self.schedule.planned(number)));
        }
        self.arrived += 1;
        while self.under_way.front() == Some(&SendState::Arrived) {
            self.under_way.pop_front();
            self.first += 1;
        }
        Ok(())
    }

    /// Messages that have arrived.
    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Whether every planned message has arrived.
    pub fn is_complete(&self) -> bool {
        self.arrived == self.schedule.count()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn pending(seconds: u64) -> Pending {
        Pending::new(Schedule::new(1000, Duration::ZERO, Duration::from_secs(seconds)))
    }

    /// The model of a driver that has one message under way, on a system that answers within 100 us
    /// and once, at the second second, only after a whole one.
    #[test]
    fn a_stall_is_in_the_corrected_latencies_and_hardly_in_the_others() {
        let mut pending = pending(10);
        let mut free_at = 0;
        for number in 0..10_000 {
            let planned = pending.schedule.planned(number);
            let sent = planned.max(free_at);
            let answered = sent + if number == 2000 { SECOND } else { 100_000 };
            pending.send(number, sent, sent > planned);
            pending.arrive(number, answered).unwrap();
            free_at = answered;
        }
        assert!(pending.is_complete());
        let milliseconds = |distribution: &Distribution, quantile| distribution.microseconds(quantile) / 1e3;
        // Of the messages of the stall and of those that had to queue behind it about 1,100 are
        // late by up to a second.
        let [p95, p99] = [0.95, 0.99].map(|quantile| milliseconds(&pending.from_planned, quantile));
        assert!((500.0..600.0).contains(&p95) && (900.0..920.0).contains(&p99), "{p95} {p99}");
        assert!((0.099..0.101).contains(&milliseconds(&pending.from_sent, 0.999)));
        // It is one sample there, and not gone.
        assert!(milliseconds(&pending.from_sent, 1.0) >= 999.0);
        assert_eq!(pending.from_sent.count(), pending.from_planned.count());
        // Held-up messages say nothing about the driver.
        assert!((1000..1200).contains(&pending.held_up) && pending.lateness.microseconds(1.0) < 1.0);
    }

    #[test]
    fn what_warms_up_is_not_counted() {
        let mut pending =
            Pending::new(Schedule::new(1000, Duration::from_millis(2), Duration::from_millis(3)));
        for number in 0..5 {
            pending.send(number, 10, false);
            pending.arrive(number, 20).unwrap();
        }
        assert!(pending.is_complete());
        assert_eq!((pending.from_sent.count(), pending.lateness.count()), (3, 3));
    }

    #[test]
    fn each_message_comes_once_and_after_it_was_sent() {
        let mut pending = pending(1);
        pending.send(0, 1, false);
        pending.send(3, 1, false);
        pending.arrive(3, 2).unwrap();
        assert!(matches!(pending.arrive(3, 3), Err(BenchError::Lost(_))));
        assert!(matches!(pending.arrive(2, 3), Err(BenchError::Protocol(_))));
        assert!(matches!(pending.arrive(4, 3), Err(BenchError::Protocol(_))));
        pending.arrive(0, 4).unwrap();
        assert!(matches!(pending.arrive(0, 5), Err(BenchError::Lost(_))));
        assert!(!pending.is_complete() && pending.arrived() == 2);
    }
}
