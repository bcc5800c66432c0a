//! Health of a stream: why it takes no messages, when it was opened anew, and what of it is lost.

use myelin_stdx::sync::lock;
use myelin_store::{Lost, Seq, Timestamp};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Nanoseconds until a repair that did not succeed is tried again, and how often that is: a job may
/// have files in hand.
const RETRY_AFTER: i64 = 200_000_000;
const TRIES: usize = 50;

/// A stream that fails twice within so long is not opened a second time.
const EVERY: Duration = Duration::from_secs(60);

/// Nanoseconds until a replica of a group that fails within that time is opened anew; each further
/// time twice as many, up to eight times: its disk may be well again soon.
const PAUSE: i64 = 2_000_000_000;
const DOUBLINGS: usize = 3;

/// Pass over what a stream has stored, which is read to find damage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) struct ScrubPass {
    /// The sequence that is read next, while it is under way.
    pub(in crate::engine) next: Option<Seq>,
    /// The sequence at which it ended, where it could not be read on from there.
    pub(in crate::engine) stopped_at: Option<Seq>,
    /// Bytes that were read.
    pub(in crate::engine) bytes: u64,
    /// When it began; 0: there was none since the server began.
    pub(in crate::engine) began: Timestamp,
    /// When it ended; 0: it has not.
    pub(in crate::engine) ended: Timestamp,
}

/// Failures and repairs of one stream.
#[derive(Default)]
pub(super) struct StreamHealth {
    /// Why the stream takes no messages; `None`: it does.
    failure: Mutex<Option<String>>,
    /// When it was last opened anew.
    last_repair: Mutex<Option<Instant>>,
    /// When that is to be tried again (0: it is not), and how often it was in vain.
    repair_at: AtomicI64,
    tries: AtomicUsize,
    /// How often a replica of a group was left alone for a while, since it was well for a minute.
    pauses: AtomicUsize,
    /// Whether it is to be opened anew however lately it was.
    is_permitted: AtomicBool,
    /// Messages that were missing when its log was opened.
    lost: Mutex<Vec<Lost>>,
    /// When something was missing, or found damaged, for the first time.
    damaged_since: OnceLock<Instant>,
    /// Whether others of its group have found it another one than they are.
    disagrees: AtomicBool,
    /// Pass over what is stored.
    pub(super) pass: Mutex<ScrubPass>,
}

impl StreamHealth {
    /// Notes why the stream takes no messages. Answers whether that is new.
    pub(super) fn fail(&self, why: &str) -> bool {
        lock(&self.failure).replace(why.to_owned()).is_none()
    }

    /// Why the stream takes no messages, if it does not.
    pub(super) fn failure(&self) -> Option<String> {
        lock(&self.failure).clone()
    }

    /// Takes messages again without a repair of ours.
    pub(super) fn recovered(&self) {
        *lock(&self.failure) = None;
    }

    /// Takes messages again: it was opened anew.
    pub(super) fn repaired(&self, at: Instant) {
        if !self.was_repaired_lately(at) {
            self.pauses.store(0, Relaxed);
        }
        *lock(&self.last_repair) = Some(at);
        self.tries.store(0, Relaxed);
        self.recovered();
    }

    fn was_repaired_lately(&self, now: Instant) -> bool {
        // By the clock that nobody sets.
        lock(&self.last_repair).is_some_and(|last| now.saturating_duration_since(last) < EVERY)
    }

    /// Answers when a repair that was in vain is to be tried again; `None`: it was tried often
    /// enough.
    pub(super) fn retry_at(&self, now: Timestamp) -> Option<Timestamp> {
        if self.tries.fetch_add(1, Relaxed) >= TRIES {
            return None;
        }
        Some(self.retry_behind(now, RETRY_AFTER))
    }

    /// Has a repair tried after a pause, however often it was in vain. Answers when that is.
    pub(super) fn retry_after_a_pause(&self, now: Timestamp) -> Timestamp {
        let doublings = self.pauses.fetch_add(1, Relaxed).min(DOUBLINGS);
        self.retry_behind(now, PAUSE << doublings)
    }

    /// Whether a replica was left alone more than once, and not well for a minute in between: what
    /// ails it may be in its own files.
    pub(super) fn keeps_failing(&self) -> bool {
        self.pauses.load(Relaxed) > 1
    }

    /// Has it opened anew next time however lately it was.
    pub(super) fn permit(&self) {
        self.is_permitted.store(true, Relaxed);
    }

    /// Whether it is to be left alone: it was opened anew so lately that another failure is for an
    /// operator, or for another time.
    pub(super) fn rests(&self, now: Instant) -> bool {
        !self.is_permitted.swap(false, Relaxed) && self.was_repaired_lately(now)
    }

    fn retry_behind(&self, now: Timestamp, pause: i64) -> Timestamp {
        let at = now.saturating_add(pause);
        self.repair_at.store(at, Relaxed);
        at
    }

    /// Takes the order to try a repair again, if its time has come.
    pub(super) fn take_retry(&self, now: impl FnOnce() -> Timestamp) -> bool {
        let at = self.repair_at.load(Relaxed);
        at != 0 && at <= now() && self.repair_at.compare_exchange(at, 0, Relaxed, Relaxed).is_ok()
    }

    /// Messages that were missing when the log was opened.
    pub(super) fn lost(&self) -> Vec<Lost> {
        lock(&self.lost).clone()
    }

    /// Keeps what was missing when the log was opened.
    pub(super) fn set_lost(&self, lost: &[Lost]) {
        lost.clone_into(&mut lock(&self.lost));
    }

    /// Notes that something is missing, or was found damaged. Answers whether it is the first.
    pub(super) fn note_damage(&self, now: Instant) -> bool {
        self.damaged_since.set(now).is_ok()
    }

    /// Notes that most of its group are not as it is.
    pub(super) fn note_disagreement(&self) {
        self.disagrees.store(true, Relaxed);
    }

    /// Whether most of its group are not as it is.
    pub(super) fn disagrees(&self) -> bool {
        self.disagrees.load(Relaxed)
    }

    /// Whether something has been missing, or known to be damaged, for so long.
    pub(super) fn is_damaged_for(&self, time: Duration, now: Instant) -> bool {
        self.damaged_since.get().is_some_and(|since| now.saturating_duration_since(*since) >= time)
    }

    /// Whether something is missing, or was found damaged.
    pub(super) fn is_damaged(&self) -> bool {
        self.damaged_since.get().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repair_is_tried_again_when_it_is_time_and_not_for_ever() {
        let health = StreamHealth::default();
        assert!(!health.take_retry(|| i64::MAX), "nothing was in vain yet");
        let at = health.retry_at(7).expect("it was in vain once");
        assert!(!health.take_retry(|| at - 1), "it is too early");
        assert!(health.take_retry(|| at), "it is time");
        assert!(!health.take_retry(|| at), "once is enough");
        let more = (0..TRIES).filter(|_| health.retry_at(7).is_some()).count();
        assert_eq!(more, TRIES - 1);
        let at = health.retry_after_a_pause(7);
        assert!(!health.take_retry(|| at - 1) && health.take_retry(|| at), "for who asks all the same");
        health.repaired(Instant::now());
        assert!(health.retry_at(7).is_some(), "another failure is tried as often");
    }

    #[test]
    fn a_replica_is_left_alone_for_longer_and_longer_until_it_was_well_for_a_minute() {
        let (health, now) = (StreamHealth::default(), Instant::now());
        health.repaired(now);
        let pauses = || [(); 5].map(|()| health.retry_after_a_pause(0) / 1_000_000_000);
        assert_eq!(pauses(), [2, 4, 8, 16, 16]);
        assert!(health.rests(now + EVERY / 2));
        health.permit();
        assert!(!health.rests(now + EVERY / 2) && health.rests(now + EVERY / 2), "for one time");
        health.repaired(now + EVERY / 2);
        assert_eq!(health.retry_after_a_pause(0), 16_000_000_000);
        health.repaired(now + 2 * EVERY);
        assert_eq!(health.retry_after_a_pause(0), 2_000_000_000);
    }

    #[test]
    fn the_second_failure_within_a_minute_is_for_an_operator() {
        let (health, now) = (StreamHealth::default(), Instant::now());
        assert!(health.fail("the disk") && !health.fail("the disk once more"));
        assert!(!health.was_repaired_lately(now));
        health.repaired(now);
        assert_eq!(health.failure(), None);
        assert!(health.was_repaired_lately(now + EVERY / 2));
        assert!(!health.was_repaired_lately(now + EVERY));
    }
}
