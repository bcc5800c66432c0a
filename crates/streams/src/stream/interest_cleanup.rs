//! Cleanup of messages that no consumer needs any more, in streams with work-queue or interest
//! retention.
//!
//! Consumers tell of what they settled, and that goes at once, many messages with one entry of the
//! log. What cannot (a full disk, a message that only a thread that waits can look at, too many at
//! once) is kept for the next slice. When there is too much to keep, and when nobody could tell
//! (after a restart, after an update), all messages are looked at, slice by slice: a
//! reconciliation. When a consumer is gone it is those that its filters take; what is said while
//! such a round is under way is one round behind it.

use std::collections::VecDeque;

use myelin_store::{Filter, Purge, ReadError, Seq, StoreError, Stream, Timestamp, Wait};

use super::cleanup_round::{CleanupRound, CleanupScope, CleanupView, LOOKS};
use super::core::StreamCore;
use super::effects::Effects;
use super::next_times::{RETRY, no_later};
use super::upkeep::SLICE;
use myelin_jsapi::config::Retention;

/// Settled messages that are kept; for more, all are looked at.
const KEPT: usize = 100_000;
/// When to look again whether the last messages are released.
const UNRELEASED: i64 = 10_000_000;
/// After a look at all messages that could not find some: how many times as long as it took until
/// the next one, and how long at most.
const RESTS: i64 = 10;
const LONGEST_REST: i64 = 600 * RETRY;

/// Cleanup that is left to be done.
#[derive(Default)]
pub(super) struct InterestCleanup {
    /// Settled and not removed.
    kept: VecDeque<Seq>,
    /// When to go on with them.
    next_removal_at: Option<Timestamp>,
    round: Option<CleanupRound>,
    /// When to go on with it.
    next_round_at: Option<Timestamp>,
    /// Subjects of which messages that this round has passed may have become unneeded since: what
    /// the next one is about.
    next_scope: CleanupScope,
    /// Whether consumers may still be missing that want messages: nothing is removed before a
    /// reconciliation, which comes when all are there.
    awaits_consumers: bool,
}

impl InterestCleanup {
    /// Nothing is left to be done: a leader begins with it, and a follower. What was settled may be
    /// so by acknowledgements that its group never gets; a reconciliation finds what is.
    pub(super) fn of_another_leader() -> Self {
        Self { awaits_consumers: true, ..Self::default() }
    }

    /// Has nothing that was put off wait for longer than that, whatever became of the time of day.
    pub(super) fn follow_clock(&mut self, now: Timestamp) {
        no_later(&mut self.next_removal_at, now.saturating_add(RETRY));
        no_later(&mut self.next_round_at, now.saturating_add(LONGEST_REST));
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.next_removal_at.into_iter().chain(self.next_round_at).min()
    }

    /// Checks the invariants: what is left to be done has a time, and there is not too much of it.
    fn check(&self) {
        debug_assert!(self.kept.len() <= KEPT, "no more settled messages are kept than may be");
        debug_assert!(
            self.kept.is_empty() || self.next_removal_at.is_some(),
            "settled messages that are kept are looked at again"
        );
        debug_assert_eq!(
            self.round.is_some(),
            self.next_round_at.is_some(),
            "a round that is not through goes on, and nothing else does"
        );
        debug_assert!(
            self.next_scope.is_empty() || self.round.is_some(),
            "a round is followed by another one when there is one"
        );
        debug_assert!(
            !self.awaits_consumers || self.next_due().is_none(),
            "nothing is due while consumers are missing"
        );
    }

    fn is_due(at: Option<Timestamp>, now: Timestamp) -> bool {
        at.is_some_and(|at| at <= now)
    }
}

impl StreamCore {
    /// Removes messages that a consumer has settled, unless another one needs them. For shards:
    /// what takes longer is left to [`StreamCore::run_due`].
    pub fn acknowledged(&mut self, seqs: &[Seq], now: Timestamp, effects: &mut Effects) {
        let is_idle = self.cleanup.awaits_consumers || !self.role().leads();
        if self.config.retention == Retention::Limits || seqs.is_empty() || is_idle {
            return;
        }
        let due = self.next_due();
        if self.cleanup.kept.len() + seqs.len() > KEPT {
            self.cleanup.kept.clear();
            self.cleanup.next_removal_at = None;
            self.begin_round(&Filter::All, now);
        } else {
            self.cleanup.kept.extend(seqs);
            // What could not be removed a moment ago waits for its time, and so does what comes
            // behind it.
            if self.cleanup.next_removal_at.is_none_or(|at| at <= now) {
                // A panic on the way must not leave them without a time.
                self.cleanup.next_removal_at = Some(now);
                self.remove_settled(Wait::Forbidden, now);
            }
        }
        self.cleanup.check();
        effects.due_changed |= self.next_due().is_some_and(|at| due.is_none_or(|due| at < due));
        self.charge();
        self.note_failure(effects);
    }

    /// Has all messages looked at, slice by slice, for those that nobody needs any more. To be
    /// called only when all consumers of the stream are known.
    pub fn reconcile(&mut self, now: Timestamp, effects: &mut Effects) {
        self.cleanup.awaits_consumers &= !self.role().leads();
        self.consumer_left(&Filter::All, true, now, effects);
    }

    /// Has the messages that pass a filter looked at, slice by slice, for those that nobody needs
    /// any more: a consumer that wanted them is gone, or wants others. What is looked at already is
    /// looked at to the end, and then once for all that was said meanwhile.
    ///
    /// `is_awaited`: somebody asks next what is left, and gets to see it if it is one slice's work.
    /// Else what others say until the first slice is looked at with it.
    pub fn consumer_left(
        &mut self,
        filter: &Filter,
        is_awaited: bool,
        now: Timestamp,
        effects: &mut Effects,
    ) {
        self.begin_round(filter, now);
        if is_awaited {
            self.run_due_cleanup(now);
        }
        effects.due_changed |= self.cleanup.next_round_at.is_some();
        self.charge();
        self.released(effects);
    }

    pub(super) fn begin_round(&mut self, filter: &Filter, now: Timestamp) {
        self.begin_round_of(CleanupScope::of(filter), now);
    }

    fn begin_round_of(&mut self, scope: CleanupScope, now: Timestamp) {
        let cleanup = &mut self.cleanup;
        if !self.settings.role.leads() || cleanup.awaits_consumers {
            *cleanup = InterestCleanup::of_another_leader();
            return;
        }
        if self.config.retention == Retention::Limits {
            *cleanup = InterestCleanup::default();
            return;
        }
        let through = self.store.totals().last_seq;
        match &mut cleanup.round {
            // It goes on, so that it ends however often this is called.
            Some(round) if round.has_begun => cleanup.next_scope.add_all(&scope),
            Some(round) => {
                round.scope.add_all(&scope);
                round.through = through;
            }
            None => {
                cleanup.round = Some(CleanupRound::new(scope, through, now));
                cleanup.next_round_at = Some(now);
            }
        }
    }

    /// The log was opened anew: what was removed may be there again. What was settled and not
    /// removed is still settled, also where the consumer is gone that has done so; but not in a
    /// group, which may not have what has settled it.
    pub(super) fn restart_cleanup(&mut self, now: Timestamp) {
        let InterestCleanup { mut kept, awaits_consumers, .. } = std::mem::take(&mut self.cleanup);
        if self.outgoing.group.is_some() {
            kept.clear();
        }
        let next_removal_at = (!kept.is_empty()).then_some(now);
        self.cleanup =
            InterestCleanup { kept, next_removal_at, awaits_consumers, ..InterestCleanup::default() };
        self.begin_round(&Filter::All, now);
    }

    /// Removes a slice of what consumers of a work queue have settled, before one of them goes:
    /// nobody else knows of it after the next start. Answers whether there is more. Only for
    /// threads that may wait.
    ///
    /// # Errors
    /// Words for what keeps it from being removed now: that is tried again at its time.
    pub fn remove_some_settled(&mut self, now: Timestamp, effects: &mut Effects) -> Result<bool, String> {
        if self.config.retention != Retention::WorkQueue || !self.role().leads() {
            return Ok(false);
        }
        let is_more = self.advance_cleanup(now);
        self.cleanup.check();
        effects.due_changed |= self.cleanup.next_due().is_some();
        self.charge();
        self.note_failure(effects);
        is_more
    }

    fn advance_cleanup(&mut self, now: Timestamp) -> Result<bool, String> {
        // What is not released was delivered to nobody.
        let released = self.store.released();
        if self.store.failure().is_none() && !self.cleanup.kept.is_empty() {
            self.remove_settled(Wait::Allowed, now);
        } else if self.store.failure().is_none() && self.cleanup.round.is_some() {
            self.cleanup.round.iter_mut().for_each(|round| round.through = round.through.min(released));
            self.cleanup.next_round_at = self.run_round(now).unwrap_or(Some(now.saturating_add(RETRY)));
        }
        if let Some(why) = self.store.failure() {
            return Err(why.to_owned());
        }
        let cleanup = &self.cleanup;
        if cleanup.kept.is_empty() && cleanup.round.is_none() {
            return Ok(false);
        }
        let is_later = |at: Option<Timestamp>| at.is_some_and(|at| at > now);
        if is_later(cleanup.next_removal_at) || is_later(cleanup.next_round_at) {
            return Err("what was acknowledged cannot be removed now".to_owned());
        }
        Ok(true)
    }

    /// Does a slice of what is left.
    pub(super) fn run_due_cleanup(&mut self, now: Timestamp) {
        if InterestCleanup::is_due(self.cleanup.next_removal_at, now) {
            self.remove_settled(Wait::Allowed, now);
        }
        if InterestCleanup::is_due(self.cleanup.next_round_at, now) {
            self.cleanup.next_round_at = match self.run_round(now) {
                Ok(next) => next,
                Err(_) => Some(now.saturating_add(RETRY)),
            };
        }
        self.cleanup.check();
    }

    /// Removes a slice of what is kept.
    fn remove_settled(&mut self, wait: Wait, now: Timestamp) {
        let count = self.cleanup.kept.len().min(SLICE);
        let (mut unneeded, mut unread) = (Vec::with_capacity(count), Vec::new());
        let (mut looked_at, mut looks, mut buffer) = (0, 0, Vec::new());
        while looked_at < count && looks < LOOKS {
            let seq = self.cleanup.kept[looked_at];
            match self.is_needed_though_settled(seq, wait, (&mut buffer, &mut looks)) {
                Ok(true) => {}
                Ok(false) => unneeded.push(seq),
                // Somebody who may wait goes on here.
                Err(ReadError::WouldWait) => break,
                // Nothing is removed that cannot be looked at.
                Err(ReadError::Damaged(_)) => {}
                Err(_) => unread.push(seq),
            }
            looked_at += 1;
        }
        debug_assert!(
            looked_at <= count && unneeded.len() + unread.len() <= looked_at,
            "what goes or stays was looked at"
        );
        // What consumers have decided, that these may go, goes before.
        let proposed = self.propose_consumers(now);
        let removed = proposed.and_then(|()| remove(&mut self.store, &unneeded, now));
        let cleanup = &mut self.cleanup;
        cleanup.next_removal_at = match removed {
            Ok(()) => {
                cleanup.kept.drain(..looked_at);
                let is_read = unread.is_empty();
                cleanup.kept.extend(unread);
                let next = if is_read { now } else { now.saturating_add(RETRY) };
                (!cleanup.kept.is_empty()).then_some(next)
            }
            Err(_) => Some(now.saturating_add(RETRY)),
        };
    }

    /// Whether a message that one consumer has settled is needed by another. There is nothing to
    /// remove where there is none.
    fn is_needed_though_settled(
        &self,
        seq: Seq,
        wait: Wait,
        (buffer, looks): (&mut Vec<u8>, &mut usize),
    ) -> Result<bool, ReadError> {
        let interest = &self.settings.interest;
        let message = self.reader.get(seq, wait, buffer)?;
        Ok(message.is_none_or(|message| match self.config.retention {
            Retention::WorkQueue => interest.is_to_be_copied(message.subject, seq),
            _ => interest.needs(message.subject, seq, looks),
        }))
    }

    /// Does a slice of the round. Answers when to go on.
    fn run_round(&mut self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        let Some(round) = &mut self.cleanup.round else { return Ok(None) };
        round.check(self.store.totals().last_seq);
        round.has_begun = true;
        let through = round.through;
        let takes_unwanted = self.config.retention == Retention::Interest;
        if takes_unwanted && !self.settings.interest.has_consumers() {
            let mut purge = Purge { through, ..Purge::default() };
            self.propose_consumers(now)?;
            // Nothing is there yet, and 0 would stand for the last.
            if through > 0 && self.store.purge(&mut purge, SLICE, now)?.more {
                return Ok(Some(now));
            }
            return Ok(self.end_round(now));
        }
        if self.store.released() < through && self.store.failure().is_none() {
            return Ok(Some(now.saturating_add(UNRELEASED)));
        }
        let interest = &*self.settings.interest;
        let slice = round.look(&CleanupView { reader: &self.reader, interest, takes_unwanted });
        self.propose_consumers(now)?;
        remove(&mut self.store, &slice.unneeded, now)?;
        let round = self.cleanup.round.as_mut();
        if round.is_some_and(|round| round.advance(slice)) {
            return Ok(Some(now));
        }
        Ok(self.end_round(now))
    }

    /// Ends a round. Answers when the next one begins, if there is one.
    fn end_round(&mut self, now: Timestamp) -> Option<Timestamp> {
        let CleanupRound { since, unfound, .. } = self.cleanup.round.take()?;
        let mut scope = std::mem::take(&mut self.cleanup.next_scope);
        let must_restart = !scope.is_empty();
        scope.add_all(&unfound);
        if scope.is_empty() {
            return None;
        }
        self.begin_round_of(scope, now);
        let rest = now.saturating_sub(since).saturating_mul(RESTS).clamp(RETRY, LONGEST_REST);
        self.cleanup.round.as_ref().map(|_| if must_restart { now } else { now.saturating_add(rest) })
    }
}

/// Removes messages with one entry of the log. Those that are not there, and those that cannot be
/// found, are passed over.
fn remove(store: &mut Stream, seqs: &[Seq], now: Timestamp) -> Result<(), StoreError> {
    if seqs.is_empty() {
        return Ok(());
    }
    match store.delete_all(seqs, now) {
        Err(StoreError::Read(_)) if seqs.len() > 1 => {
            seqs.iter().try_for_each(|&seq| remove(store, &[seq], now))
        }
        Err(StoreError::Read(_)) | Ok(_) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Bench, config, msg};
    use super::*;
    use crate::ReplicaRole;
    use myelin_jsapi::config::StreamConfig;

    /// No consumer is needed: they are all settled.
    fn work_queue() -> Bench {
        let mut bench = Bench::new(StreamConfig { retention: Retention::WorkQueue, ..config() });
        bench.msgs(&[msg("a", ""); 3]);
        bench.core.run_due(bench.now, &mut bench.effects);
        bench.effects.clear();
        bench
    }

    #[test]
    fn instead_of_too_many_that_are_kept_all_are_looked_at() {
        let mut bench = work_queue();
        // As after a removal that failed.
        bench.core.cleanup.next_removal_at = Some(bench.now + RETRY);
        let most: Vec<_> = (1..=KEPT as Seq).collect();
        bench.core.acknowledged(&most, bench.now, &mut bench.effects);
        assert_eq!((bench.core.cleanup.kept.len(), bench.core.state().totals.messages), (KEPT, 3));
        assert!(bench.core.cleanup.round.is_none());
        bench.core.acknowledged(&[1], bench.now, &mut bench.effects);
        assert!(bench.core.cleanup.kept.is_empty() && bench.core.cleanup.round.is_some());
        assert!(bench.effects.due_changed);
    }

    #[test]
    fn a_stream_that_keeps_everything_forgets_what_was_settled() {
        let mut bench = work_queue();
        bench.core.cleanup.next_removal_at = Some(bench.now + RETRY);
        bench.core.acknowledged(&[1], bench.now, &mut bench.effects);
        let limits = std::sync::Arc::new(config());
        bench.core.update(limits, bench.now, &mut bench.effects).expect("it is in memory");
        assert!(bench.core.cleanup.kept.is_empty() && bench.core.cleanup.next_due().is_none());
    }

    #[test]
    fn what_is_settled_goes_with_an_acknowledgement_that_is_lost() {
        let mut bench = work_queue();
        // As after a removal that failed. Then the group loses the acknowledgement.
        bench.core.cleanup.next_removal_at = Some(bench.now + RETRY);
        bench.core.acknowledged(&[1], bench.now, &mut bench.effects);
        assert_eq!(bench.core.cleanup.kept, [1]);
        bench.core.set_role(ReplicaRole::Follower, bench.now, &mut bench.effects);
        assert!(bench.core.cleanup.kept.is_empty() && bench.core.cleanup.next_due().is_none());
        bench.core.set_role(ReplicaRole::Leader, bench.now, &mut bench.effects);
        bench.core.reconcile(bench.now, &mut bench.effects);
        bench.now += 2 * RETRY;
        bench.core.run_due(bench.now, &mut bench.effects);
        assert_eq!(bench.core.state().totals.messages, 3, "nobody has settled it");
    }

    #[test]
    fn a_round_waits_for_messages_that_are_not_released() {
        let (mut bench, store) = super::super::tests::release::on_synced_disk(Retention::WorkQueue);
        bench.msgs(&[msg("a", "")]);
        bench.core.reconcile(bench.now, &mut bench.effects);
        bench.core.run_due(bench.now, &mut bench.effects);
        assert!(bench.core.cleanup.round.is_some());
        assert_eq!(bench.core.cleanup.next_round_at, Some(bench.now + UNRELEASED));
        store.journal().round_now(&|| 1).expect("the disk works");
        bench.core.run_due(bench.now + UNRELEASED, &mut bench.effects);
        assert!(bench.core.cleanup.round.is_none());
    }

    #[test]
    fn what_was_settled_goes_slice_by_slice_before_a_consumer_goes() {
        let mut bench = work_queue();
        bench.msgs(&vec![msg("a", ""); 2497]);
        bench.core.cleanup.next_removal_at = Some(bench.now + RETRY);
        let all: Vec<_> = (1..=2500).collect();
        bench.core.acknowledged(&all, bench.now, &mut bench.effects);
        for (is_more, left) in [(true, 1500), (true, 500), (false, 0), (false, 0)] {
            let removed = bench.core.remove_some_settled(bench.now, &mut bench.effects);
            assert_eq!((removed, bench.core.state().totals.messages), (Ok(is_more), left));
        }
    }
}
