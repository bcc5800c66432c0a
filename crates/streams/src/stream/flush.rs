//! Runs on their way into the log, and what publishers are told of them.

use std::iter::repeat_n;
use std::ops::Range;

use myelin_store::{Admission, Filter, NewMessage, Purge, RemovalProgress, StoreError, Timestamp};
use myelin_wire::message_buf::{MessageBuf, MessageRef};

use super::admit::Ingest;
use super::admit_batch::Batches;
use super::append_run::{MsgDraft, MsgVerdict};
use super::batch::{FastBatches, FastPlace, FastRefusal, ReplySink};
use super::core::StreamCore;
use super::msg_headers::{Key, MsgHeaders};
use super::next_times::RETRY;
use super::rules::Rollup;
use super::settings::StorageBudget;
use myelin_jsapi::ApiError;

/// Messages that the rollup of a subject removes within the turn; the rest goes in slices.
const ROLLUP_SLICE: usize = 10_000;

impl StreamCore {
    /// Stores the run and says what became of each of its messages.
    pub(super) fn flush(&mut self, ingest: &mut Ingest<'_>) {
        if self.run.is_empty() {
            return;
        }
        debug_assert!(
            self.run.entries().iter().all(|entry| entry.msg < ingest.msgs.len()),
            "entries are of the buffer"
        );
        self.store_drafts(ingest);
        self.answer(ingest);
        self.run.clear();
    }

    /// Stores the drafts and notes what became of each.
    pub(super) fn store_drafts(&mut self, ingest: &mut Ingest<'_>) {
        if self.run.has_drafts() {
            let first = self.time_of_next(ingest.now);
            let failure = self.store_run(first, ingest).err();
            ingest.effects.is_full |= matches!(failure, Some(StoreError::Full));
            self.note_outcome(failure.as_ref(), first, ingest);
            self.roll_up(ingest);
            self.end_schedules(ingest);
            self.update_schedule_index();
            self.charge();
        }
    }

    fn store_run(&mut self, first: Timestamp, ingest: &Ingest<'_>) -> Result<(), StoreError> {
        self.scratch.outcomes.clear();
        if let Some(republish) = &mut self.outgoing.republish {
            republish.note_predecessors(&self.run, ingest.msgs, &self.store)?;
        }
        if self.run.has_rollups() && !self.store.has_headroom() {
            self.make_room_for_rollups(first, ingest)?;
        }
        // The checks of a batch are stricter than the log's, which must not take a part of it.
        let admission = if ingest.closing.is_some() { Admission::Granted } else { Admission::Check };
        if self.run.has_unwanted() {
            return if ingest.closing.is_some() {
                self.store_batch(first, ingest)
            } else {
                self.store_stretches(admission, first, ingest)
            };
        }
        self.append(0..self.run.drafts(), admission, first, ingest)
    }

    /// Sees to it that what rollups take the place of can go: a full disk refuses them rather than
    /// keep both. A removal that it refuses is tried again until the server ends, and no longer.
    fn make_room_for_rollups(&mut self, first: Timestamp, ingest: &Ingest<'_>) -> Result<(), StoreError> {
        let drafts = self.run.entries().iter().filter(|entry| entry.verdict == MsgVerdict::Store);
        let filters: Vec<_> = drafts
            .filter_map(|entry| {
                let msg = ingest.msgs.get(entry.msg)?;
                Some(self.rolled(entry.draft.rollup?, &entry.draft, msg))
            })
            .collect();
        let mut messages = recycle(std::mem::take(&mut self.scratch.spare));
        messages.extend(self.run.messages(ingest.msgs, first));
        let made = self.store.make_room_for_rollups(&messages, &filters, ROLLUP_SLICE as u64, ingest.now);
        self.scratch.spare = recycle(messages);
        made
    }

    /// Messages that a rollup takes the place of; all of them without a filter.
    fn rolled(&self, rollup: Rollup, draft: &MsgDraft, msg: MessageRef<'_>) -> Option<Filter> {
        match rollup {
            Rollup::Subject => Some(Filter::new(self.run.apply(draft, msg).subject)),
            Rollup::All => None,
        }
    }

    /// Stores some of the drafts as one batch.
    fn append(
        &mut self,
        drafts: Range<usize>,
        admission: Admission,
        first: Timestamp,
        ingest: &Ingest<'_>,
    ) -> Result<(), StoreError> {
        let mut messages = recycle(std::mem::take(&mut self.scratch.spare));
        messages.extend(self.run.messages(ingest.msgs, first).skip(drafts.start).take(drafts.len()));
        let result = self.store.append(&messages, admission, ingest.now, &mut self.scratch.outcomes);
        self.scratch.spare = recycle(messages);
        if result.is_err() {
            self.scratch.outcomes.clear();
        }
        debug_assert!(
            result.is_err() || self.scratch.outcomes.len() == drafts.len(),
            "the log answers for each message that it was given"
        );
        result
    }

    /// Stores a run with messages that nobody wants, stretch by stretch. After an error there are
    /// outcomes for those that came before it.
    fn store_stretches(
        &mut self,
        admission: Admission,
        first: Timestamp,
        ingest: &Ingest<'_>,
    ) -> Result<(), StoreError> {
        let mut all = Vec::with_capacity(self.run.drafts());
        let mut result = Ok(());
        for (count, is_unwanted) in self.run.stretches() {
            result = if is_unwanted {
                self.pass_over(count, ingest.now)
            } else {
                self.append(all.len()..all.len() + count, admission, first, ingest)
            };
            if result.is_err() {
                break;
            }
            all.append(&mut self.scratch.outcomes);
        }
        debug_assert!(
            result.is_err() || all.len() == self.run.drafts(),
            "each draft of a run has an outcome"
        );
        self.scratch.outcomes = all;
        result
    }

    /// Stores an atomic batch with messages that nobody wants: what is stored of it as one batch of
    /// the log, which passes over the sequences of the others.
    fn store_batch(&mut self, first: Timestamp, ingest: &Ingest<'_>) -> Result<(), StoreError> {
        let (before, stretches) = (self.store.totals().last_seq, self.run.stretches());
        let unwanted = stretches.iter().flat_map(|(count, is_unwanted)| repeat_n(*is_unwanted, *count));
        let mut messages = recycle(std::mem::take(&mut self.scratch.spare));
        let numbered = (before + 1..).zip(self.run.messages(ingest.msgs, first)).zip(unwanted);
        messages.extend(
            numbered
                .filter(|(_, is_unwanted)| !is_unwanted)
                .map(|((seq, message), _)| NewMessage { seq, ..message }),
        );
        let mut outcomes = std::mem::take(&mut self.scratch.outcomes);
        let mut result = Ok(());
        if !messages.is_empty() {
            result = self.store.append(&messages, Admission::Granted, ingest.now, &mut outcomes);
        }
        self.scratch.spare = recycle(messages);
        let refusal = outcomes.iter().find_map(|outcome| outcome.err());
        outcomes.clear();
        let end = before + self.run.drafts() as u64;
        if result.is_ok() && self.store.totals().last_seq < end {
            result = self.store.skip(end, ingest.now);
        }
        if result.is_ok() {
            outcomes.extend((before + 1..=end).map(|seq| refusal.map_or(Ok(seq), Err)));
        }
        self.scratch.outcomes = outcomes;
        result
    }

    /// Compat: messages that no consumer wants get sequences and are not stored.
    fn pass_over(&mut self, count: usize, now: Timestamp) -> Result<(), StoreError> {
        let last = self.store.totals().last_seq;
        let end = last + count as u64;
        self.scratch.outcomes.clear();
        self.store.skip(end, now)?;
        self.scratch.outcomes.extend((last + 1..=end).map(Ok));
        debug_assert_eq!(self.store.totals().last_seq, end, "what was passed over has its sequences");
        Ok(())
    }

    /// Notes what became of the drafts.
    fn note_outcome(&mut self, failure: Option<&StoreError>, first: Timestamp, ingest: &Ingest<'_>) {
        // Messages of a mirror have times of their own.
        let stamps = self.run.take_stamps();
        let times = (first..).enumerate().map(|(at, time)| stamps.get(at).map_or(time, |stamp| stamp.1));
        let first = stamps.first().map_or(first, |stamp| stamp.1.min(first));
        let mut outcomes = self.scratch.outcomes.iter().zip(times);
        let drafts = self.run.entries_mut().iter_mut().filter(|entry| entry.verdict == MsgVerdict::Store);
        let (mut last, mut ends) = (None, None);
        for entry in drafts {
            let outcome = match outcomes.next() {
                Some((outcome, time)) => {
                    outcome.map(|seq| (seq, time)).map_err(ApiError::stream_store_failed)
                }
                None => {
                    let failure = failure.expect("the store answers for each message");
                    Err(fault_of(failure, (&self.settings.server, ingest.now)))
                }
            };
            entry.verdict = match outcome {
                Ok((seq, time)) => {
                    last = Some((entry.msg, time));
                    ends = entry.draft.expires.into_iter().map(|expiry| expiry.at(time)).chain(ends).min();
                    if let Some(slot) = entry.draft.id {
                        self.ids.stored(slot, seq, time);
                    }
                    MsgVerdict::Stored(seq, time)
                }
                Err(error) => {
                    if let Some(slot) = entry.draft.id {
                        self.ids.refused(slot);
                    }
                    MsgVerdict::Refuse(Box::new(error))
                }
            };
            if let Some(special) = entry.draft.special.as_deref().filter(|special| special.is_of_schedules())
            {
                let stored = match entry.verdict {
                    MsgVerdict::Stored(seq, _) => {
                        Some(seq).filter(|_| !entry.draft.is_unwanted || special.due.is_none())
                    }
                    _ => None,
                };
                self.schedules.note_outcome(special, stored, failure, ingest.now);
            }
        }
        debug_assert!(outcomes.next().is_none(), "the log answers for no message that it was not given");
        debug_assert!(
            self.run.entries().iter().all(|entry| entry.verdict != MsgVerdict::Store),
            "it is known of each draft what became of it"
        );
        debug_assert!(self.has_ordered_sequences(), "messages of a run are stored in their order");
        if let Some((msg, time)) = last {
            self.last.time = time;
            self.note_end(first, ends);
            let headers = ingest.msgs.get(msg).map_or(&b""[..], |msg| msg.headers);
            self.last.set_id(MsgHeaders::scan(headers).get(Key::MsgId));
        }
    }

    /// Whether the stored messages of the run have sequences that grow and are the stream's: an
    /// invariant, for assertions.
    fn has_ordered_sequences(&self) -> bool {
        let mut seqs = self.run.entries().iter().filter_map(|entry| match entry.verdict {
            MsgVerdict::Stored(seq, _) => Some(seq),
            _ => None,
        });
        seqs.clone().is_sorted_by(|one, next| one < next)
            && seqs.next_back().is_none_or(|last| last <= self.store.totals().last_seq)
    }

    /// The messages that end first may be new.
    fn note_end(&mut self, first: Timestamp, ends: Option<Timestamp>) {
        let by_age = (self.config.max_age > 0).then(|| first.saturating_add(self.config.max_age));
        self.next.expiry = self.next.expiry.into_iter().chain(by_age).chain(ends).min();
    }

    /// Removes what rollups take the place of, and that alone, whatever becomes of the message: one
    /// by itself, or some of a batch. What is not removed at once is soon, and the publisher hears
    /// nothing before; if the stream is opened anew before, or led by another replica, the rest
    /// stays until the next rollup, and the publisher does not hear. A rollup of all messages is
    /// through at once.
    ///
    /// Compat: of messages that no consumer wants, all go. A subject that reads as a pattern is
    /// one: who purges `k.*` of a key-value bucket purges all such keys.
    fn roll_up(&mut self, ingest: &mut Ingest<'_>) {
        if !self.run.has_rollups() || myelin_stdx::planted::bug(24) {
            return;
        }
        let mut purges = Vec::new();
        for entry in self.run.entries() {
            let (Some(rollup), MsgVerdict::Stored(seq, _)) = (entry.draft.rollup, &entry.verdict) else {
                continue;
            };
            let Some(msg) = ingest.msgs.get(entry.msg) else { continue };
            let filter = self.rolled(rollup, &entry.draft, msg);
            let slice = if filter.is_some() { ROLLUP_SLICE } else { usize::MAX };
            // Nothing is older than the first one, and 0 would stand for the last.
            let Some(through) = seq.checked_sub(1).filter(|&seq| seq > 0) else { continue };
            purges.push((Purge { filter, through, ..Purge::default() }, slice));
        }
        purges.into_iter().for_each(|(purge, slice)| self.begin_purge(purge, slice, ingest.now));
    }

    /// Removes a slice; what is left over goes soon.
    fn begin_purge(&mut self, mut purge: Purge, slice: usize, now: Timestamp) {
        debug_assert!(purge.through > 0, "a purge through 0 would take the last message with it");
        debug_assert!(
            purge.through < self.store.totals().last_seq,
            "what takes the place of others stays itself"
        );
        let progress = self.store.purge(&mut purge, slice, now);
        let recurrence = retry_at(&progress, now);
        if recurrence.is_some() {
            self.pending_purges.push_back(purge);
            self.next.maintenance = self.next.maintenance.into_iter().chain(recurrence).min();
        }
    }

    /// Removes schedules that end with a message that was stored, where they did not go with it.
    fn end_schedules(&mut self, ingest: &Ingest<'_>) {
        if !self.run.retires() {
            return;
        }
        let mut purges = Vec::new();
        for entry in self.run.entries() {
            let retired = entry.draft.special.as_ref().and_then(|special| special.retires.as_ref());
            if let (Some(subject), MsgVerdict::Stored(seq, _)) = (retired, &entry.verdict)
                && let Some(through) = seq.checked_sub(1).filter(|&seq| seq > 0)
            {
                let filter = Some(Filter::new(self.run.kept(subject)));
                purges.push(Purge { filter, through, ..Purge::default() });
            }
        }
        purges.into_iter().for_each(|purge| self.begin_purge(purge, ROLLUP_SLICE, ingest.now));
    }

    /// Tells each publisher what became of its message, now or when it is released.
    pub(super) fn answer(&mut self, ingest: &mut Ingest<'_>) {
        if ingest.traces.is_some() {
            self.note_traces(ingest);
        }
        // What was released meanwhile comes before what follows.
        self.outgoing.release_queue.release(self.store.release(), &mut ingest.effects.out);
        let ticket = self.store.ticket();
        let awaits_rollup = self.run.has_rollups() && !self.pending_purges.is_empty();
        if !awaits_rollup
            && self.outgoing.release_queue.is_empty()
            && self.store.release().is_released(ticket)
        {
            debug_assert!(
                self.outgoing.release_queue.is_empty(),
                "nothing is said before what was to be said before it"
            );
            let mut out = std::mem::take(&mut ingest.effects.out);
            self.push_replies(ingest, &mut out);
            ingest.effects.out = out;
        } else {
            let mut held = self.outgoing.release_queue.msgs();
            self.push_replies(ingest, &mut held);
            if awaits_rollup {
                self.outgoing.release_queue.await_rollup(ticket, held);
            } else {
                self.outgoing.release_queue.wait(ticket, held);
            }
        }
    }

    fn push_replies(&mut self, ingest: &mut Ingest<'_>, out: &mut MessageBuf) {
        debug_assert!(
            self.run.entries().iter().all(|entry| entry.verdict != MsgVerdict::Store),
            "no publisher is answered before it is known what became of its message"
        );
        let random = &mut || self.scratch.rng.next_u64() as u32;
        for (at, entry) in self.run.entries().iter().enumerate() {
            let Some(msg) = ingest.msgs.get(entry.msg) else { continue };
            let is_answered = self.rules.has_acks && !msg.reply.is_empty();
            // Compat: a message is published again before its publisher hears of it.
            if let (MsgVerdict::Stored(seq, time), Some(republish)) =
                (&entry.verdict, &mut self.outgoing.republish)
                && !entry.draft.is_unwanted
            {
                let message = self.run.apply(&entry.draft, msg);
                republish.publish_entry(&self.run, at, (*seq, *time), &message, random, out);
            }
            if let Some(place) = self.run.place(&entry.draft) {
                let Batches { fast, replies, .. } = &mut self.batches;
                let mut answer = ReplySink { reply: msg.reply, replies, out };
                note_in_batch(fast, place, &entry.verdict, &mut answer);
                continue;
            }
            match &entry.verdict {
                MsgVerdict::Stored(seq, _) if is_answered && self.rules.allows_counters => {
                    let payload = self.run.apply(&entry.draft, msg).payload;
                    self.outgoing.replies.counted(msg.reply, *seq, payload, out);
                }
                MsgVerdict::Stored(seq, _) if is_answered => {
                    self.outgoing.replies.stored(msg.reply, *seq, out)
                }
                MsgVerdict::Duplicate(seq) if is_answered => {
                    self.outgoing.replies.duplicate(msg.reply, *seq, out)
                }
                MsgVerdict::Refuse(error) if is_answered => {
                    self.outgoing.replies.refused(msg.reply, error, out)
                }
                MsgVerdict::Refuse(error) if ingest.closing.is_none() && !ingest.is_copy => {
                    self.outgoing.drops.count(error.err_code);
                    ingest.effects.dropped += 1;
                }
                MsgVerdict::Aside(range) => self.run.aside_replies(range).for_each(|msg| out.push(msg)),
                _ => {}
            }
        }
        if let Some(closing) = ingest.closing {
            self.close(closing, ingest.effects, out);
        }
    }
}

/// When to go on with a rollup, if it is not through. A full disk may have room later.
fn retry_at(progress: &Result<RemovalProgress, StoreError>, now: Timestamp) -> Option<Timestamp> {
    match progress {
        Ok(progress) => progress.more.then_some(now),
        Err(_) => Some(now.saturating_add(RETRY)),
    }
}

/// Tells a fast batch, which tells its publisher, what became of a message.
fn note_in_batch(fast: &mut FastBatches, place: FastPlace, verdict: &MsgVerdict, answer: &mut ReplySink<'_>) {
    match verdict {
        MsgVerdict::Stored(seq, _) => fast.stored(place, *seq, answer),
        MsgVerdict::Duplicate(seq) => fast.refused(place, &FastRefusal::Duplicate(*seq), answer),
        MsgVerdict::Refuse(error) => fast.refused(place, &FastRefusal::Error((**error).clone()), answer),
        MsgVerdict::Store | MsgVerdict::Aside(_) => {}
    }
}

/// Error for publishers when nothing of a run was stored. A disk without room is noted.
#[cold]
fn fault_of(error: &StoreError, (server, now): (&StorageBudget, Timestamp)) -> ApiError {
    match error {
        StoreError::Full => {
            server.note_full(now);
            ApiError::INSUFFICIENT_RESOURCES
        }
        other => ApiError::stream_store_failed(other),
    }
}

/// The memory of a list for messages of another buffer. Perf: the standard library collects in
/// place.
fn recycle<'a>(mut messages: Vec<NewMessage<'_>>) -> Vec<NewMessage<'a>> {
    messages.clear();
    messages.into_iter().map(|_| NewMessage::default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollup_that_fails_is_tried_again_a_little_later() {
        let progress = |more| Ok(RemovalProgress { more, ..RemovalProgress::default() });
        assert_eq!(retry_at(&progress(false), 5), None);
        assert_eq!(retry_at(&progress(true), 5), Some(5));
        assert_eq!(retry_at(&Err(StoreError::Full), 5), Some(5 + RETRY));
    }
}
