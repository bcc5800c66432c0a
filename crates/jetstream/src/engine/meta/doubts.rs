//! Places of requests that wait until it is known who is to answer them, and since when that is so.

use super::assignment::StreamKey;
use crate::engine::live::LiveStream;
use myelin_stdx::sync::lock;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::Ordering::AcqRel;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Instant;

/// Requests at most that wait. Each look at one may be a turn of its stream.
const MOST: usize = 256;
/// Groups of which is noted since when their leaders are in doubt: of more nobody asks.
const MOST_GROUPS: usize = 4096;

/// Requests that wait until it is known whose they are.
#[derive(Default)]
pub(super) struct Doubts {
    waiting: AtomicUsize,
    /// Whether a look at them is to come.
    pub(super) is_look_due: AtomicBool,
    /// Since when it is in doubt who leads a group, by the names of its account and stream.
    /// Requests that come behind others wait no longer than these.
    since: Mutex<BTreeMap<StreamKey, Instant>>,
}

/// Place of a request among those that wait.
pub(super) struct WaitingPlace<'a>(&'a Doubts);

impl Doubts {
    pub(super) fn enter(&self) -> Option<WaitingPlace<'_>> {
        let place = WaitingPlace(self);
        (self.waiting.fetch_add(1, AcqRel) < MOST).then_some(place)
    }

    /// When the doubt about a group began.
    pub(super) fn began(&self, group: &LiveStream, now: Instant) -> Instant {
        let mut since = lock(&self.since);
        if since.len() >= MOST_GROUPS {
            since.clear();
        }
        *since.entry(StreamKey::new(group.account_name(), group.name())).or_insert(now)
    }

    /// There is none about a group.
    pub(super) fn end(&self, group: &LiveStream) {
        let mut since = lock(&self.since);
        if !since.is_empty() {
            since.remove(&StreamKey::new(group.account_name(), group.name()));
        }
    }
}

impl Drop for WaitingPlace<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, AcqRel);
    }
}
