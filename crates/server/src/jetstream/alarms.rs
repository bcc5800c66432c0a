//! Alarms: wakes streams and consumers in which something is due (ends of messages,
//! acknowledgements that are late).

use super::host::{Due, Threads};
use crate::supervise::{self, SupervisedPart};
use myelin_jetstream::{Host, Timer};
use myelin_store::Timestamp;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The longest sleep: the clock may be set meanwhile.
const LONGEST: Duration = Duration::from_secs(1);

/// Alarms up to which none is looked for whose sleeper is gone.
const FEW: usize = 1024;

/// Order to the thread of alarms.
pub(super) enum AlarmOrder {
    /// Wake this one then.
    Ring(Timestamp, Weak<dyn Timer>),
    /// End.
    Stop,
}

/// The earliest is the greatest.
struct Alarm(Timestamp, Weak<dyn Timer>);

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

/// Nanoseconds by which the time of day may seem to be behind between two looks: the thread may
/// sleep within one.
const TOLERANCE: Timestamp = 100_000_000;

/// How soon an alarm goes off again after a panic in it.
const AGAIN: Timestamp = 1_000_000_000;

/// Sleeps until the next alarm or order, for ever. What may wait for a disk goes to another thread:
/// others are not late because of it.
pub(super) fn run(orders: &Receiver<AlarmOrder>, threads: &Threads) {
    let mut alarms = BinaryHeap::new();
    let mut look_at = FEW;
    let mut clock = DayClock(Instant::now(), threads.now());
    loop {
        let wait = alarms.peek().map_or(LONGEST, |Alarm(at, _)| until(*at, threads.now()));
        match orders.recv_timeout(wait) {
            Ok(AlarmOrder::Ring(at, timer)) => {
                alarms.push(Alarm(at, timer));
                forget_needless(&mut alarms, &mut look_at);
            }
            Ok(AlarmOrder::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = threads.now();
        if clock.was_set_back(Instant::now(), now) {
            ring_all(&mut alarms, now);
        }
        while alarms.peek().is_some_and(|Alarm(at, _)| *at <= now) {
            let Some(timer) = alarms.pop().and_then(|Alarm(_, timer)| timer.upgrade()) else {
                continue;
            };
            if timer.may_wait() {
                threads.fire_elsewhere(timer);
            } else if supervise::guard(SupervisedPart::JsAlarms, || timer.fire()).is_none() {
                alarms.push(Alarm(now.saturating_add(AGAIN), Arc::downgrade(&timer)));
            }
        }
    }
}

/// The clock that only goes forward and the time of day, as they were at the last look at which the
/// time of day was not behind: one that stands still is further behind with each look.
struct DayClock(Instant, Timestamp);

impl DayClock {
    /// Whether the time of day was set back since the last look.
    fn was_set_back(&mut self, instant: Instant, day: Timestamp) -> bool {
        let Self(then, before) = *self;
        let passed = Timestamp::try_from(instant.saturating_duration_since(then).as_nanos());
        let expected = before.saturating_add(passed.unwrap_or(Timestamp::MAX));
        let was_set_back = day.saturating_add(TOLERANCE) < expected;
        if was_set_back || day >= expected {
            *self = Self(instant, day);
        }
        was_set_back
    }
}

/// Has all alarms go off: the time of day was set back, and who waits for a moment would wait until
/// it is there again. Who waits for a time of day finds nothing due, and sets another alarm.
fn ring_all(alarms: &mut BinaryHeap<Alarm>, now: Timestamp) {
    let all = std::mem::take(alarms).into_iter();
    *alarms = all.map(|Alarm(at, timer)| Alarm(at.min(now), timer)).collect();
}

/// A sleeper that is gone would keep its memory until its alarm is due, which may be hours:
/// consumers that nobody uses end by an alarm, and most are deleted before. One that is woken often
/// sets its far alarm each time: the first of its alarms is enough, it sets others when it wakes.
/// Looked through when there are twice as many as the last time.
fn forget_needless(alarms: &mut BinaryHeap<Alarm>, look_at: &mut usize) {
    if alarms.len() >= *look_at {
        let mut all = std::mem::take(alarms).into_vec();
        all.sort_by_key(|Alarm(at, _)| *at);
        let mut seen = HashSet::new();
        all.retain(|Alarm(_, timer)| timer.strong_count() > 0 && seen.insert(timer.as_ptr().cast::<()>()));
        all.shrink_to(2 * all.len());
        *alarms = all.into();
        *look_at = FEW.max(2 * alarms.len());
    }
}

/// Works on what is due and may wait. After a panic it is due again: the alarm was all that there
/// was.
pub(super) fn fire_all(queue: &Receiver<Due>, threads: &Threads) {
    while let Ok(Due::Ring(timer)) = queue.recv() {
        threads.due.taken();
        if supervise::guard(SupervisedPart::JsDue, || timer.fire()).is_none() {
            threads.schedule(threads.now().saturating_add(AGAIN), Arc::downgrade(&timer));
        }
    }
}

fn until(at: Timestamp, now: Timestamp) -> Duration {
    let left = u64::try_from(at.saturating_sub(now)).unwrap_or(0);
    Duration::from_nanos(left).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::{Alarm, DayClock, FEW, forget_needless, ring_all};
    use myelin_jetstream::Timer;
    use std::collections::BinaryHeap;
    use std::sync::{Arc, Weak};
    use std::time::{Duration, Instant};

    struct Sleeper;

    impl Timer for Sleeper {
        fn fire(&self) {}
    }

    #[test]
    fn when_the_time_of_day_is_set_back_all_alarms_go_off() {
        let (began, second) = (Instant::now(), 1_000_000_000);
        let after = |seconds| began + Duration::from_secs(seconds);
        let mut clock = DayClock(began, 5000 * second);
        assert!(!clock.was_set_back(after(1), 5001 * second));
        assert!(!clock.was_set_back(after(2), 5002 * second - second / 20), "it was slowed down");
        assert!(!clock.was_set_back(after(3), 9000 * second), "it was set forward");
        assert!(clock.was_set_back(after(4), 5004 * second));
        assert!(!clock.was_set_back(after(5), 5005 * second), "once");
        let soon = |looks: u64| after(5) + Duration::from_millis(60 * looks);
        let stands = [1, 2, 3, 4].map(|looks| clock.was_set_back(soon(looks), 5005 * second));
        assert_eq!(stands, [false, true, false, true], "it stands still");
        let sleeper: Arc<dyn Timer> = Arc::new(Sleeper);
        let mut alarms: BinaryHeap<Alarm> =
            [3, 9000].map(|at| Alarm(at, Arc::downgrade(&sleeper))).into_iter().collect();
        ring_all(&mut alarms, 5004);
        let mut times: Vec<i64> = alarms.iter().map(|Alarm(at, _)| *at).collect();
        times.sort_unstable();
        assert_eq!(times, [3, 5004]);
    }

    #[test]
    fn one_that_is_woken_often_keeps_the_first_of_its_alarms() {
        let sleepers: Vec<Arc<dyn Timer>> = (0..3).map(|_| Arc::new(Sleeper) as Arc<dyn Timer>).collect();
        let (mut alarms, mut look_at) = (BinaryHeap::new(), FEW);
        for at in 0..5 * FEW as i64 {
            let timer = Arc::downgrade(&sleepers[at as usize % 3]);
            alarms.push(Alarm(10_000 - at, timer));
            forget_needless(&mut alarms, &mut look_at);
            assert!(alarms.len() < FEW + 1);
        }
        look_at = 0;
        forget_needless(&mut alarms, &mut look_at);
        let mut left: Vec<i64> = alarms.iter().map(|Alarm(at, _)| *at).collect();
        left.sort_unstable();
        let first = 10_001 - 5 * FEW as i64;
        assert_eq!(left, [first, first + 1, first + 2]);
        let gone: Weak<dyn Timer> = Arc::downgrade(&(Arc::new(Sleeper) as Arc<dyn Timer>));
        alarms.push(Alarm(1, gone));
        look_at = 0;
        forget_needless(&mut alarms, &mut look_at);
        assert_eq!(alarms.len(), 3);
    }
}
