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
use myelin_store::{Seq, Timestamp};
use std::cell::Cell;
use std::sync::Weak;
use std::sync::atomic::Ordering::{AcqRel, Release};
use std::time::Duration;

/// A doubt that lasts for so long is none of a moment. Whoever has asked waits longer than that,
/// and not much longer: clients ask with 5 s by default.
const PATIENCE: Duration = Duration::from_secs(4);
/// Another server that leads now, and has heard the request as its leader, answers sooner.
const SETTLING: Duration = Duration::from_secs(1);
/// Nanoseconds between two looks: nothing tells that a leader is sure again.
const PAUSE: Timestamp = 50_000_000;

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
