//! Alarms: wakes streams and consumers in which something is due (ends of messages, acknowledgements that are late).

use super::host::now;
use myelin_jetstream::Alarmed;
use myelin_store::Timestamp;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Weak;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// The longest sleep: the clock may be set meanwhile.
const LONGEST: Duration = Duration::from_secs(1);

/// What the thread is asked.
pub(super) enum Order {
    /// Wake this one then.
    Ring(Timestamp, Weak<dyn Alarmed>),
    /// End.
    Stop,
}

/// The earliest is the greatest.
struct Alarm(Timestamp, Weak<dyn Alarmed>);

impl PartialEq for Alarm {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Alarm {}

impl PartialOrd for Alarm {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Alarm {
    fn cmp(&self, other: &Self) -> Ordering {
        other.0.cmp(&self.0)
    }
}

/// Sleeps until the next alarm or order, for ever.
pub(super) fn run(orders: &Receiver<Order>) {
    let mut alarms = BinaryHeap::new();
    loop {
        let wait = alarms.peek().map_or(LONGEST, |Alarm(at, _)| until(*at));
        match orders.recv_timeout(wait) {
            Ok(Order::Ring(at, sleeper)) => alarms.push(Alarm(at, sleeper)),
            Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = now();
        while alarms.peek().is_some_and(|Alarm(at, _)| *at <= now) {
            if let Some(sleeper) = alarms.pop().and_then(|Alarm(_, sleeper)| sleeper.upgrade()) {
                sleeper.ring();
            }
        }
    }
}

fn until(at: Timestamp) -> Duration {
    let left = u64::try_from(at.saturating_sub(now())).unwrap_or(0);
    Duration::from_nanos(left).min(LONGEST)
}
