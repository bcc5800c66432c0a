//! Retries: streams of this server that are not as they are assigned, and when that is tried again.

use super::assignment::{Assignment, StreamKey};
use super::changing::Changing;
use myelin_jsapi::ApiError;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Pause before the first attempt. Each further one doubles it, up to [`LONGEST_PAUSE`].
const PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(16);

/// Streams whose removal was proposed as they cannot be made here, and why.
type RefusedCreates = BTreeMap<StreamKey, (Arc<Assignment>, ApiError)>;

/// Assignments that could not be carried out here, or not yet, or not be read.
#[derive(Default)]
pub(super) struct MetaFaults {
    pub(super) retries: Mutex<Retries>,
    pub(super) refused: Mutex<RefusedCreates>,
    pub(super) changing: Changing,
    /// The message of the meta stream that could not be read at the last look.
    pub(super) unread: AtomicU64,
    /// The last message of the meta stream that was here when this life began.
    pub(super) found: AtomicU64,
}

/// Streams that something refuses to make, change or remove here.
#[derive(Default)]
pub(super) struct Retries(BTreeMap<StreamKey, Retry>);

struct Retry {
    /// `None`: it is under way.
    due: Option<Instant>,
    failures: u32,
}

impl Retries {
    /// Notes that an assignment could not be carried out. Answers whether that is news.
    pub(super) fn failed(&mut self, key: &StreamKey, now: Instant) -> bool {
        let retry = self.0.entry(key.clone()).or_insert(Retry { due: None, failures: 0 });
        let pause = (PAUSE * (1 << retry.failures.min(8))).min(LONGEST_PAUSE);
        (retry.due, retry.failures) = (Some(now + pause), retry.failures + 1);
        retry.failures == 1
    }

    /// Has a stream looked at soon that may not be as it is assigned.
    pub(super) fn suspect(&mut self, key: StreamKey, now: Instant) {
        self.0.entry(key).or_insert(Retry { due: Some(now + PAUSE), failures: 0 });
    }

    /// A stream is as it is assigned. Answers whether it was not.
    pub(super) fn succeeded(&mut self, key: &StreamKey) -> bool {
        self.0.remove(key).is_some_and(|retry| retry.failures > 0)
    }

    /// Streams that are to be looked at now.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<StreamKey> {
        let due = |retry: &Retry| retry.due.is_some_and(|due| due <= now);
        let all = self.0.iter_mut().filter(|(_, retry)| due(retry));
        all.map(|(key, retry)| {
            retry.due = None;
            key.clone()
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_failed_is_tried_again_with_pauses_that_grow() {
        let (mut retries, began) = (Retries::default(), Instant::now());
        let key = StreamKey::new("$G", "S");
        let after = |seconds| began + Duration::from_secs(seconds);
        assert!(retries.failed(&key, began), "it is news");
        assert!(retries.take_due(after(1)).is_empty());
        assert_eq!(retries.take_due(after(2)), std::slice::from_ref(&key));
        assert!(retries.take_due(after(100)).is_empty(), "it is under way");
        assert!(!retries.failed(&key, after(2)), "that is known");
        assert!(retries.take_due(after(5)).is_empty());
        assert_eq!(retries.take_due(after(6)), std::slice::from_ref(&key));
        (0..20).for_each(|_| assert!(!retries.failed(&key, after(6))));
        assert!(retries.take_due(after(21)).is_empty());
        assert_eq!(retries.take_due(after(22)), std::slice::from_ref(&key), "the longest pause");
        assert!(retries.succeeded(&key) && !retries.succeeded(&key));
        assert!(retries.failed(&key, began), "it is news again");
    }

    #[test]
    fn what_is_suspected_is_looked_at_and_is_no_failure() {
        let (mut retries, began) = (Retries::default(), Instant::now());
        let key = StreamKey::new("$G", "S");
        retries.suspect(key.clone(), began);
        assert_eq!(retries.take_due(began + PAUSE), std::slice::from_ref(&key));
        assert!(!retries.succeeded(&key));
        retries.suspect(key.clone(), began);
        assert!(retries.failed(&key, began), "it is news");
    }
}
