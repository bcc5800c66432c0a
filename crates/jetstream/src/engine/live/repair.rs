//! Streams that have failed are opened anew from their files, once; then they are left to an operator.

use super::{LiveStream, lock};
use crate::engine::host::Alarmed;
use crate::engine::sourcing::Witnessed;
use myelin_broker::Level;
use myelin_store::Store;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Nanoseconds until a repair that did not succeed is tried again, and how often that is: a job may have files in hand.
const AGAIN: i64 = 200_000_000;
const TRIES: usize = 50;

/// A stream that fails twice within so long is not opened a second time.
const EVERY: Duration = Duration::from_secs(60);

impl LiveStream {
    /// Notes that the stream takes no messages, and has it opened anew.
    pub(super) fn note_failure(&self, why: String) {
        if lock(&self.failure).replace(why.clone()).is_some() {
            return;
        }
        let (account, name) = (self.account.name(), &self.name);
        self.host.log(Level::Error, format_args!("JetStream stream '{account} > {name}' has failed: {why}"));
        if let Some(me) = self.me.upgrade() {
            self.host.repair(me);
        }
    }

    /// Has a repair that did not succeed tried again, when it is time.
    pub(super) fn repair_if_due(&self) {
        let at = self.repair_at.load(Relaxed);
        if at != 0
            && at <= self.host.now()
            && self.repair_at.compare_exchange(at, 0, Relaxed, Relaxed).is_ok()
            && let Some(me) = self.me.upgrade()
        {
            self.host.repair(me);
        }
    }

    /// Opens the stream anew: what was released is there, what was not has been answered with an error. Waits; only for
    /// threads that may.
    pub(in crate::engine) fn repair(&self, store: &Store) {
        if self.reopen(store) {
            self.origins.connect();
            self.followers.scatter();
        }
    }

    /// Answers whether the log is another one now.
    fn reopen(&self, store: &Store) -> bool {
        let Some(mut loan) = self.borrow() else { return false };
        let (core, effects) = loan.parts();
        if core.store().failure().is_none() {
            // Somebody was late to say so: it was repaired meanwhile.
            *lock(&self.failure) = None;
            return false;
        }
        let (now, (account, name)) = (self.host.now(), (self.account.name(), &self.name));
        let log = |level, what: std::fmt::Arguments<'_>| {
            self.host.log(level, format_args!("JetStream stream '{account} > {name}' {what}"));
        };
        let instant = self.host.instant();
        // By the clock that nobody sets.
        let is_recent = |last| instant.saturating_duration_since(last) < EVERY;
        if lock(&self.last_repair).is_some_and(is_recent) {
            log(Level::Error, format_args!("has failed again and takes no messages"));
            return false;
        }
        let mut seen = Witnessed::default();
        match core.reopen(store, now, &mut |seq, headers| seen.see(seq, headers)) {
            Ok(report) => {
                effects.due_changed = true;
                *lock(&self.last_repair) = Some(instant);
                self.tries.store(0, Relaxed);
                *lock(&self.failure) = None;
                report.notices.iter().for_each(|notice| log(Level::Warn, format_args!("{notice}")));
                self.note_lost(core.store().id(), &report);
                log(Level::Warn, format_args!("was opened anew"));
                self.consumers.set_reader(&core.reader());
                // Before the core goes back: runs that wait for it must not go on where they were in the old log. Twice, for
                // what was of the old log must not meet the new one, and what was begun in between has seen the old one.
                self.origins.begin_anew();
                let last = core.state().totals.last_seq;
                self.origins.opened(&self.consumers, core.config(), last, seen);
                *lock(&self.reader) = core.reader();
                self.origins.begin_anew();
                return true;
            }
            Err(_) if self.tries.fetch_add(1, Relaxed) < TRIES => {
                self.repair_at.store(now + AGAIN, Relaxed);
                self.host.schedule(now + AGAIN, Weak::clone(&self.me) as Weak<dyn Alarmed>);
            }
            Err(error) => log(Level::Error, format_args!("could not be opened anew: {error}")),
        }
        false
    }

    /// Whether it is still this stream that an account knows by its name.
    pub(in crate::engine) fn is(&self, other: &Arc<Self>) -> bool {
        std::ptr::eq(self, Arc::as_ptr(other))
    }
}
