//! Streams that have failed are opened anew from their files, once; then they are left to an
//! operator. Replicas of a group are opened anew again and again, after pauses: others go on
//! meanwhile, and one that is gone for ever is one that the group misses for ever.

use super::LiveStream;
use super::sourcing::FoundEnd;
use crate::engine::host::Timer;
use crate::engine::sourcing::SeenPositions;
use myelin_broker::Level;
use myelin_stdx::sync::lock;
use myelin_store::{Store, Timestamp};
use myelin_streams::ReplicaRole;
use std::sync::atomic::Ordering::Release;
use std::sync::{Arc, Weak};

impl LiveStream {
    /// Notes that the stream takes no messages, and has it opened anew.
    pub(super) fn note_failure(&self, why: String) {
        if !self.health.fail(&why) {
            return;
        }
        let (account, name) = (self.scope.account.name(), &self.scope.name);
        self.scope
            .host
            .log(Level::Error, format_args!("JetStream stream '{account} > {name}' has failed: {why}"));
        self.scope.host.repair(account, name);
    }

    /// Has a repair that did not succeed tried again, when it is time.
    pub(super) fn repair_if_due(&self) {
        if self.health.take_retry(|| self.scope.host.now()) {
            if self.consumers.is_of_group() {
                self.health.permit();
            }
            self.scope.host.repair(self.scope.account.name(), &self.scope.name);
        }
    }

    /// Opens the stream anew: what was released is there, what was not has been answered with an
    /// error. Waits; only for threads that may.
    ///
    /// In a group it follows from then on: what it had decided is not what its log has now.
    pub(in crate::engine) fn repair(self: &Arc<Self>, store: &Store) {
        let is_of_group = self.consumers.is_of_group();
        if is_of_group && self.health.failure().is_some() {
            self.take_role(ReplicaRole::Follower);
        }
        if is_of_group && !self.is_stored() {
            return self.begin_anew();
        }
        if !self.reopen(store) {
            return;
        }
        if !is_of_group {
            // What the disk has refused, too, while it failed: the end of a consumer has nobody who
            // would write it otherwise.
            self.consumers.write_restored();
            self.sourcing.connect();
        }
        // They have read the log that is no more, that of a follower, too.
        self.downstreams.reconnect_all();
    }

    /// Has an empty replica take its place, which counts as a repair.
    fn begin_anew(&self) {
        if self.health.rests(self.scope.host.instant()) {
            self.leave_alone(self.scope.host.now(), format_args!("it has failed again"));
        } else if let Some(place) = self.membership.place.get() {
            place.begin_anew();
        }
    }

    /// Counts as one that was opened anew just now, and has lost everything.
    pub(in crate::engine) fn note_begun_anew(&self) {
        self.membership.begins_anew.store(true, Release);
        self.health.repaired(self.scope.host.instant());
    }

    /// Leaves a stream to an operator, and a replica of a group for a while.
    fn leave_alone(&self, now: Timestamp, why: std::fmt::Arguments<'_>) {
        let (account, name) = (self.scope.account.name(), &self.scope.name);
        let until = if self.consumers.is_of_group() {
            let at = self.health.retry_after_a_pause(now);
            self.scope.host.schedule(at, Weak::clone(&self.me) as Weak<dyn Timer>);
            if self.is_stored() && self.health.keeps_failing() && !self.is_full() && self.has_other_voters() {
                // Others have what its files may not give any more.
                self.note_damage();
            }
            format!("is opened anew in {} s", (at - now) / 1_000_000_000)
        } else {
            "takes no messages until the server starts anew".to_owned()
        };
        let line = format_args!("JetStream stream '{account} > {name}' {until}: {why}");
        self.scope.host.log(Level::Error, line);
    }

    /// Whether others vote in its group, who may have what it lacks.
    fn has_other_voters(&self) -> bool {
        lock(&self.membership.member).as_ref().is_some_and(|joined| joined.has_other_voters())
    }

    /// Answers whether the log is another one now.
    fn reopen(&self, store: &Store) -> bool {
        let Some(mut guard) = self.lock_core() else { return false };
        let (core, effects) = guard.parts();
        if core.store().failure().is_none() {
            // Somebody was late to say so: it was repaired meanwhile.
            self.health.recovered();
            return false;
        }
        let (now, (account, name)) = (self.scope.host.now(), (self.scope.account.name(), &self.scope.name));
        let log = |level, what: std::fmt::Arguments<'_>| {
            self.scope.host.log(level, format_args!("JetStream stream '{account} > {name}' {what}"));
        };
        let instant = self.scope.host.instant();
        if self.health.rests(instant) {
            self.leave_alone(now, format_args!("it has failed again"));
            return false;
        }
        let mut seen = SeenPositions::default();
        match core.reopen(store, now, &mut |seq, headers| seen.see(seq, headers)) {
            Ok(report) => {
                effects.due_changed = true;
                self.health.repaired(instant);
                report.notices.iter().for_each(|notice| log(Level::Warn, format_args!("{notice}")));
                log(Level::Warn, format_args!("was opened anew"));
                self.consumers.set_reader(&core.reader());
                // Mirrors and sources start again twice. Before the core goes back: a reader that
                // waits for the core must not go on from a position in the old log. After it: a
                // reader that has started in between may still have read the old log.
                self.sourcing.reset();
                let last = core.state().totals.last_seq;
                let end = FoundEnd { found: report.found_end(last), last };
                self.sourcing.opened(&self.consumers, core.config(), end, seen);
                self.view.set_reader(core.reader());
                self.reopen_member(core, effects);
                self.note_lost(core.store().id(), &report);
                self.sourcing.reset();
                return true;
            }
            Err(error) => match self.health.retry_at(now) {
                Some(at) => self.scope.host.schedule(at, Weak::clone(&self.me) as Weak<dyn Timer>),
                None => self.leave_alone(now, format_args!("it could not be opened: {error}")),
            },
        }
        false
    }
}
