//! Upkeep of a stream besides publishes: messages end, are removed and purged, limits change.
//!
//! All of it works in slices: one call holds the turn for a short time, and says whether to call
//! again.

use std::sync::Arc;

use myelin_store::{
    Done, Filter, Job, Markers, OpenError, Purge, RemovalProgress, ReplayVisitor, Seq, Store, StoreError,
    Stream, StreamReport, Timestamp,
};
use myelin_wire::message_buf::MessageRef;

use super::core::StreamCore;
use super::dedupe::Dedupe;
use super::effects::Effects;
use super::markers::{DeleteMarkers, LeftMarker};
use super::next_times::{JOB_RETRY, RETRY, TIDYING_EVERY};
use super::republish::Republish;
use super::rules::PublishRules;
use super::storage_config::storage_config;
use super::ttl::SECOND;
use myelin_jsapi::ApiError;
use myelin_jsapi::config::StreamConfig;

/// Messages that one slice removes.
pub(super) const SLICE: usize = 1000;
/// Messages that one slice of what ended removes at most, where slices do not keep up with what
/// comes.
const LARGEST_SLICE: usize = 16 * SLICE;
/// Delay after which what has ended is late: whoever calls [`StreamCore::due`] is held up by those
/// who publish.
const EXPIRY_LATE: i64 = SECOND / 4;
/// Slices of what ended while the server was away that nobody sees any more.
const SLICES_AT_ONCE: usize = 500;
/// Message ids that one slice forgets.
const IDS_PER_SLICE: usize = 10_000;
/// Ids that have ended may stay so much longer: they are dropped many at once.
const IDS_GRACE: i64 = SECOND;

impl StreamCore {
    /// When to call [`StreamCore::due`]: never too late, perhaps too early.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        if !self.role().leads() {
            return self.next_due_of_follower();
        }
        let ids = self.ids.next_end().map(|end| end.saturating_add(IDS_GRACE));
        let (atomic, fast) = (self.batches.atomic.next_due(), self.batches.fast.next_due());
        let cleanup = self.cleanup.next_due();
        let (schedules, proposal) = (self.next_schedule(), self.next_proposal());
        [self.next.first(), cleanup, ids, atomic, fast, schedules, proposal].into_iter().flatten().min()
    }

    /// Does a slice of what is due. To be called again while [`StreamCore::next_due`] is not behind
    /// `now`.
    pub fn due(&mut self, now: Timestamp, effects: &mut Effects) {
        self.give_up_batches(now, effects);
        self.run_due(now, effects);
    }

    /// Gives up batches that were left: what is due and needs no file.
    pub fn give_up_batches(&mut self, now: Timestamp, effects: &mut Effects) {
        if !self.role().leads() {
            return;
        }
        effects.abandoned.extend(self.batches.atomic.due(now));
        self.batches.fast.due(now);
    }

    /// Does a slice of what else is due, and may read from the disk for it: messages end, limits
    /// that were made tighter are enforced, ids are forgotten, what nobody needs goes.
    pub fn run_due(&mut self, now: Timestamp, effects: &mut Effects) {
        if !self.role().leads() {
            return self.run_due_of_follower(now, effects);
        }
        self.next.follow_clock(now);
        self.cleanup.follow_clock(now);
        self.ids.tidy(now, IDS_PER_SLICE);
        if self.next.expiry.is_some_and(|at| at <= now) {
            self.expire(now, effects);
        }
        if self.next.maintenance.is_some_and(|at| at <= now) {
            self.run_maintenance(now);
        }
        self.run_due_proposal(now, effects);
        self.run_due_cleanup(now);
        self.run_due_schedules(now, effects);
        self.give_memory_back(now);
        self.charge();
        self.released(effects);
    }

    pub(super) fn give_memory_back(&mut self, now: Timestamp) {
        if self.next.tidying.is_some_and(|at| at <= now) {
            self.tidy(now);
        }
        // Whoever calls this asks for a job next.
        self.next.job.take_if(|at| *at <= now);
    }

    fn tidy(&mut self, now: Timestamp) {
        let more = self.store.tidy(now);
        let later = || self.store.is_untidy().then(|| now.saturating_add(TIDYING_EVERY));
        self.next.tidying = if more { Some(now) } else { later() };
    }

    /// Sees to it that memory is given back some time after the last message came or went, too.
    pub fn plan_tidying(&mut self, now: Timestamp, effects: &mut Effects) {
        if self.next.tidying.is_none() && self.store.is_untidy() {
            self.next.tidying = Some(now.saturating_add(TIDYING_EVERY));
            effects.due_changed = true;
        }
    }

    /// Removes what ended while nobody served the stream, before anybody sees it, unless that takes
    /// long: then the rest goes slice by slice, as ever. Where markers are left, somebody must be
    /// there to hear of them.
    /// `lifetimes_until`: as [`lifetimes_until`](Self::lifetimes_until) said before the start.
    pub fn catch_up(&mut self, lifetimes_until: Seq, now: Timestamp) {
        self.seek_lifetimes(lifetimes_until, now);
        if self.config.subject_delete_marker_ttl > 0 || !self.role().leads() {
            return;
        }
        let mut effects = Effects::default();
        for _ in 0..SLICES_AT_ONCE {
            if self.run_lifetimes(now) == Some(now) {
                continue;
            }
            if self.next.expiry.is_none_or(|at| at > now) {
                break;
            }
            self.expire(now, &mut effects);
        }
        self.charge();
    }

    fn expire(&mut self, now: Timestamp, effects: &mut Effects) {
        let limit = match self.config.subject_delete_marker_ttl {
            0 => expiry_slice(self.came_since_expiry()),
            _ => SLICE,
        };
        self.expire_some(limit, now, effects);
    }

    /// Messages that came since a slice of what ended has left some behind; 0 where none did.
    fn came_since_expiry(&self) -> u64 {
        let left_at = self.next.expiry_left_at;
        left_at.map_or(0, |left_at| self.store.totals().last_seq.saturating_sub(left_at))
    }

    /// Where slices of what ended do not keep up with what comes, those who bring it remove twice
    /// as much: a stream cannot hold more than came while it was late. Like what a limit evicts,
    /// that may look into tables of old segments.
    ///
    /// Perf: two comparisons where nothing is late.
    pub(super) fn keep_up_expiry(&mut self, now: Timestamp, effects: &mut Effects) {
        let Some(at) = self.next.expiry.filter(|_| self.role().leads()) else { return };
        let came = self.came_since_expiry();
        if came < SLICE as u64 && at.saturating_add(EXPIRY_LATE) > now {
            return;
        }
        // A buffer may bring more than a slice removes.
        let mut left = came.max(1);
        while left > 0 && self.next.expiry.is_some_and(|at| at <= now) {
            let limit = expiry_slice(left);
            self.expire_some(limit, now, effects);
            left = left.saturating_sub(limit as u64 / 2);
        }
        self.charge();
    }

    fn expire_some(&mut self, limit: usize, now: Timestamp, effects: &mut Effects) {
        let time = self.time_of_next(now);
        let markers = DeleteMarkers::new(self.config.subject_delete_marker_ttl, time);
        let before = self.store.totals().last_seq;
        let chooser = markers.as_ref().map(|markers| markers as &dyn Markers);
        debug_assert!(
            (1..=LARGEST_SLICE).contains(&limit),
            "a slice removes something, and holds the turn not for long"
        );
        match self.store.expire(time, limit, chooser) {
            Ok(expired) => {
                self.next.expiry_left_at = expired.more.then_some(before);
                self.next.expiry = if expired.more { Some(now) } else { expired.next };
                if let Some(markers) = markers.filter(|_| expired.markers > 0) {
                    self.last.time = time;
                    self.last.id.clear();
                    self.republish_markers(before, time, &markers, effects);
                }
            }
            Err(_) => self.next.expiry = Some(now.saturating_add(RETRY)),
        }
    }

    fn republish_markers(
        &mut self,
        before: Seq,
        time: Timestamp,
        markers: &DeleteMarkers,
        effects: &mut Effects,
    ) {
        let Some(republish) = &mut self.outgoing.republish else { return };
        let random = &mut || self.scratch.rng.next_u64() as u32;
        let mut held = self.outgoing.release_queue.msgs();
        for (seq, LeftMarker { subject, last }) in (before + 1..).zip(markers.take()) {
            let message =
                MessageRef { subject: &subject, headers: markers.headers(), ..MessageRef::default() };
            republish.publish((seq, time), last, &message, random, &mut held);
        }
        self.outgoing.release_queue.wait(self.store.ticket(), held);
        self.released(effects);
    }

    /// Goes on with what rollups and tighter limits left over, and with the search for lifetimes.
    /// Where a removal fails (a full disk, say), publishers do not wait for it: others would wait
    /// behind them.
    fn run_maintenance(&mut self, now: Timestamp) {
        let lifetimes = self.run_lifetimes(now);
        let progress = match self.pending_purges.front_mut() {
            Some(purge) => self.store.purge(purge, SLICE, now).map(|progress| progress.more),
            None if myelin_stdx::planted::bug(15) => Ok(false),
            None => self.store.enforce(SLICE, now),
        };
        match progress {
            Ok(true) => self.next.maintenance = Some(now),
            Ok(false) if self.pending_purges.pop_front().is_some() => self.next.maintenance = Some(now),
            Ok(false) => self.next.maintenance = None,
            Err(_) => self.next.maintenance = Some(now.saturating_add(RETRY)),
        }
        if self.pending_purges.is_empty() || progress.is_err() {
            self.outgoing.release_queue.rollups_are_through(self.store.ticket());
        }
        self.next.maintenance = self.next.maintenance.into_iter().chain(lifetimes).min();
    }

    /// Removes a slice of messages: to be called with the same `purge` while there is more.
    ///
    /// # Errors
    /// What earlier slices removed stays removed.
    pub fn purge(
        &mut self,
        purge: &mut Purge,
        now: Timestamp,
        effects: &mut Effects,
    ) -> Result<RemovalProgress, StoreError> {
        let progress = self.store.purge(purge, SLICE, now);
        self.charge();
        self.note_failure(effects);
        progress
    }

    /// Removes one message. Answers whether it was there.
    ///
    /// # Errors
    /// It is still there, unless the stream has failed.
    pub fn delete(&mut self, seq: Seq, now: Timestamp, effects: &mut Effects) -> Result<bool, StoreError> {
        let removed = self.store.delete(seq, now);
        self.charge();
        self.note_failure(effects);
        Ok(removed?.messages > 0)
    }

    /// Removes one message and has its bytes overwritten. Answers whether it was there.
    ///
    /// # Errors
    /// It is still there, unless the stream has failed.
    pub fn erase(&mut self, seq: Seq, now: Timestamp, effects: &mut Effects) -> Result<bool, StoreError> {
        let removed = self.store.erase(seq, now);
        self.charge();
        self.note_failure(effects);
        Ok(removed?.messages > 0)
    }

    /// Goes on with another configuration, which the API has checked. What exceeds new limits goes
    /// in slices.
    ///
    /// # Errors
    /// The stream goes on as before.
    pub fn update(
        &mut self,
        config: Arc<StreamConfig>,
        now: Timestamp,
        effects: &mut Effects,
    ) -> Result<(), StoreError> {
        self.store.set_config(storage_config(&config, self.settings.always_syncs), now)?;
        self.rules = PublishRules::new(&config);
        self.outgoing.republish = Republish::new(&config, self.settings.seed);
        self.ids.set_window(config.duplicate_window);
        self.batches.update(&config);
        let (had_schedules, had_ttl) = (self.config.allow_msg_schedules, self.config.allow_msg_ttl);
        let was = std::mem::replace(&mut self.config, config).retention;
        if self.config.allow_msg_schedules && !had_schedules && self.role().leads() {
            // A stream that was a mirror may have some.
            self.load_schedules();
        }
        if self.config.allow_msg_ttl && !had_ttl {
            self.seek_lifetimes(Seq::MAX, now);
        }
        if self.config.retention != was {
            self.begin_round(&Filter::All, now);
        }
        self.next.maintenance = Some(now);
        // To be found out in the next slice.
        self.next.expiry = Some(now);
        effects.due_changed = true;
        self.released(effects);
        Ok(())
    }

    /// The log itself.
    #[must_use]
    pub fn store(&self) -> &Stream {
        &self.store
    }

    /// The log itself, to delete it or to open it anew.
    pub fn store_mut(&mut self) -> &mut Stream {
        &mut self.store
    }

    /// Opens the log anew from its files after it has failed. Who waited was told so, or is with
    /// the next call.
    ///
    /// Rollups that were not through are not gone on with: sequences may be given out again. What
    /// they had left stays until the next rollup, as after a restart.
    ///
    /// # Errors
    /// It is still the old one and has failed.
    pub fn reopen(
        &mut self,
        store: &Store,
        now: Timestamp,
        visitor: &mut ReplayVisitor<'_>,
    ) -> Result<StreamReport, OpenError> {
        let why = self.store.failure().unwrap_or("it is opened anew");
        let error = ApiError::stream_store_failed(why);
        let report = store.reopen_stream_before(&mut self.store, now, visitor)?;
        self.drop_run();
        self.scratch.spare = Vec::new();
        self.pending_purges.clear();
        let mut told = self.outgoing.release_queue.msgs();
        self.refuse_waiting(&error, &mut told);
        self.outgoing.release_queue.wait(self.store.ticket(), told);
        self.reader = self.store.reader();
        self.ids = Dedupe::new(self.config.duplicate_window, self.settings.dedupe_bytes, self.settings.seed);
        self.last.id.clear();
        self.load_ids(now);
        self.find_ids();
        self.charge();
        self.settings.found_end = Some(report.found_end(self.store.totals().last_seq));
        self.load_schedules();
        self.seek_lifetimes_again(now);
        self.restart_cleanup(now);
        (self.next.expiry, self.next.maintenance) = (Some(now), Some(now));
        Ok(report)
    }

    /// Whether publishers should pause: the log cannot seal as fast as they fill it.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.store.is_behind()
    }

    /// The next piece of work for a disk thread, if there is any. Costs little if there is none.
    pub fn next_job(&mut self, now: Timestamp) -> Option<Job> {
        self.store.next_job(now)
    }

    /// Takes over what a job did.
    pub fn finish(&mut self, done: Done, now: Timestamp, effects: &mut Effects) {
        // A job that failed is tried again, even if nobody publishes meanwhile: on a full disk it
        // may be what makes room. A stream that failed says so.
        if self.store.finish(done, now).is_err() {
            self.next.job = Some(now.saturating_add(JOB_RETRY));
            effects.due_changed = true;
        }
        self.released(effects);
    }
}

/// How many messages to remove at once that have ended: a slice, or where the last one left some
/// behind, twice as many as `came` since. Else messages that come faster than slices do would pile
/// up without a bound.
fn expiry_slice(came: u64) -> usize {
    usize::try_from(2 * came).unwrap_or(LARGEST_SLICE).clamp(SLICE, LARGEST_SLICE)
}
