//! Retries: streams of this server that are not as they are assigned, and when that is tried again.

use super::assignment::{Assignment, StreamKey};
use super::changing::Changing;
use myelin_jsapi::ApiError;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Pause before the first attempt. Each further one doubles it, up to [`LONGEST_PAUSE`].
const PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(16);

/// Streams whose removal was proposed as they cannot be made here, and why.
type RefusedCreates = BTreeMap<StreamKey, (Arc<Assignment>, ApiError)>;

/// Looks at what is committed, one at a time: two that begin at the same assignment would both
/// carry it out.
#[derive(Default)]
pub(super) struct Looks {
    /// Whether one waits for the thread of the API.
    pub(super) is_queued: AtomicBool,
    /// Held by the one that goes on.
    pub(super) turn: Mutex<()>,
}

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

#[derive(Default)]
struct Retry {
    /// `None`: it is under way.
    due: Option<Instant>,
    failures: u32,
    /// Why, at the last attempt.
    why: String,
}

impl Retries {
    /// Notes that an assignment could not be carried out, and why. Answers whether that is news.
    pub(super) fn failed(&mut self, key: &StreamKey, now: Instant, why: String) -> bool {
        let retry = self.0.entry(key.clone()).or_default();
        let pause = (PAUSE * (1 << retry.failures.min(8))).min(LONGEST_PAUSE);
        (retry.due, retry.failures) = (Some(now + pause), retry.failures + 1);
        std::mem::replace(&mut retry.why, why) != retry.why || retry.failures == 1
    }

    /// Why an assignment could not be carried out at the last attempt; `None`: it was, or nobody
    /// has tried yet.
    pub(super) fn why(&self, key: &StreamKey) -> Option<&str> {
        self.0.get(key).filter(|retry| retry.failures > 0).map(|retry| &*retry.why)
    }

    /// Has a stream looked at soon that may not be as it is assigned.
    pub(super) fn suspect(&mut self, key: StreamKey, now: Instant) {
        self.0.entry(key).or_insert(Retry { due: Some(now + PAUSE), ..Retry::default() });
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
        assert!(retries.why(&key).is_none());
        assert!(retries.failed(&key, began, "a".into()), "it is news");
        assert_eq!(retries.why(&key), Some("a"));
        assert!(retries.take_due(after(1)).is_empty());
        assert_eq!(retries.take_due(after(2)), std::slice::from_ref(&key));
        assert!(retries.take_due(after(100)).is_empty(), "it is under way");
        assert!(!retries.failed(&key, after(2), "a".into()), "that is known");
        assert!(retries.take_due(after(5)).is_empty());
        assert_eq!(retries.take_due(after(6)), std::slice::from_ref(&key));
        assert!(retries.failed(&key, after(6), "b".into()), "another reason is news");
        (0..20).for_each(|_| assert!(!retries.failed(&key, after(6), "b".into())));
        assert!(retries.take_due(after(21)).is_empty());
        assert_eq!(retries.take_due(after(22)), std::slice::from_ref(&key), "the longest pause");
        assert!(retries.succeeded(&key) && !retries.succeeded(&key));
        assert!(retries.failed(&key, began, "b".into()), "it is news again");
    }

    #[test]
    fn what_is_suspected_is_looked_at_and_is_no_failure() {
        let (mut retries, began) = (Retries::default(), Instant::now());
        let key = StreamKey::new("$G", "S");
        retries.suspect(key.clone(), began);
        assert_eq!(retries.take_due(began + PAUSE), std::slice::from_ref(&key));
        assert!(!retries.succeeded(&key));
        retries.suspect(key.clone(), began);
        assert!(retries.failed(&key, began, "a".into()), "it is news");
    }
}
