//! Requests that come while it is in doubt who is to answer them.
//!
//! All servers hear a request, and only the leader answers. One that comes between two leaders, or
//! to a leader that has not been heard by the others for a moment, would be answered by nobody if
//! each server looked once. So a server that may be the one that answers waits until that is known.
//! One that has led then, and leads no more, says that nobody could answer: its client may ask the
//! next leader.

use super::{LiveStream, Meta, Route};
use crate::engine::JetStream;
use crate::engine::host::Timer;
use myelin_stdx::sync::lock;
use myelin_store::{Seq, Timestamp};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{AcqRel, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Mutex, Weak};
use std::time::{Duration, Instant};

/// A doubt that lasts for so long is none of a moment. Whoever has asked waits longer than that, and
/// not much longer: clients ask with 5 s by default.
const PATIENCE: Duration = Duration::from_secs(4);
/// Another server that leads now, and has heard the request as its leader, answers sooner.
const SETTLING: Duration = Duration::from_secs(1);
/// Nanoseconds between two looks: nothing tells that a leader is sure again.
const PAUSE: Timestamp = 50_000_000;
/// Requests at most that wait. Each look at one may be a turn of its stream.
const MOST: usize = 256;
/// Groups of which is noted since when their leaders are in doubt: of more nobody asks.
const MOST_GROUPS: usize = 4096;

/// Requests that wait until it is known whose they are.
#[derive(Default)]
pub(super) struct Doubts {
    waiting: AtomicUsize,
    /// Whether a look at them is to come.
    is_look_due: AtomicBool,
    /// Since when it is in doubt who leads a group, by the names of its account and stream. Requests
    /// that come behind others wait no longer than these.
    since: Mutex<BTreeMap<(Box<str>, Box<str>), Instant>>,
}

/// Place of a request among those that wait.
struct Place<'a>(&'a Doubts);

impl Doubts {
    fn enter(&self) -> Option<Place<'_>> {
        let place = Place(self);
        (self.waiting.fetch_add(1, AcqRel) < MOST).then_some(place)
    }

    /// When the doubt about a group began.
    fn began(&self, group: &LiveStream, now: Instant) -> Instant {
        let mut since = lock(&self.since);
        if since.len() >= MOST_GROUPS {
            since.clear();
        }
        *since.entry((group.account_name().into(), group.name().into())).or_insert(now)
    }

    /// There is none about a group.
    fn end(&self, group: &LiveStream) {
        let mut since = lock(&self.since);
        if !since.is_empty() {
            since.remove(&(group.account_name().into(), group.name().into()));
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, AcqRel);
    }
}

impl Meta {
    /// Whether a request is for this server, as `route` says, which is asked again as long as that
    /// is in doubt. `group`: whose leader is to answer. The second answer, where it has waited: the
    /// last message about streams that this server had seen when it came.
    pub(in crate::engine) async fn certain(
        &self,
        group: &LiveStream,
        route: impl Fn() -> Route,
    ) -> (Route, Option<Seq>) {
        let (first, doubts) = (route(), &self.leader_seen.doubts);
        if first != Route::InDoubt {
            doubts.end(group);
            return (first, None);
        }
        let seen = Some(self.view().seen());
        let (Some(jetstream), Some(_place)) = (self.jetstream.upgrade(), doubts.enter()) else {
            return (Route::Silent, seen);
        };
        let term = || group.group_vote().map(|(vote, _)| vote.term);
        let led = group.role().leads().then(term);
        let leader = group.group_status().and_then(|status| status.leader);
        let was_leader = led.is_some() || leader == Some(self.groups.me);
        let deadline = doubts.began(group, jetstream.host.instant()) + PATIENCE;
        let lost_at = Cell::new(None);
        let outcome = || {
            let now = jetstream.host.instant();
            let since = lost_at.get().unwrap_or(now);
            match route() {
                Route::InDoubt if now >= deadline => return Some(Route::Silent),
                Route::InDoubt => {}
                // The next leader took this one for the leader when the request came.
                Route::Silent if was_leader && now < since + SETTLING => lost_at.set(Some(since)),
                Route::Silent if was_leader => return Some(Route::Unavailable),
                // Another server has led in between, and may have answered.
                Route::Here if led.is_some_and(|led| led != term()) => return Some(Route::Silent),
                certain => return Some(certain),
            }
            self.look_again(&jetstream);
            None
        };
        loop {
            // That this server leads the meta group no more is not the end.
            if let Some(found) = self.waits.until(&outcome).await {
                if route() != Route::InDoubt {
                    doubts.end(group);
                }
                return (found, seen);
            }
        }
    }

    fn look_again(&self, jetstream: &JetStream) {
        if !self.leader_seen.doubts.is_look_due.swap(true, AcqRel) {
            let timer = Weak::clone(&self.me) as Weak<dyn Timer>;
            jetstream.host.schedule(jetstream.host.now() + PAUSE, timer);
        }
    }
}

impl Timer for Meta {
    fn fire(&self) {
        self.leader_seen.doubts.is_look_due.store(false, Release);
        self.waits.wake();
    }
}
