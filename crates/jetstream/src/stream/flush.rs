//! Runs on their way into the log, and what publishers are told of them.

use std::ops::Range;

use myelin_broker::MessageBuf;
use myelin_store::{Admission, Filter, NewMessage, Progress, Purge, StoreError, Timestamp};

use super::admit::Ingest;
use super::append_run::Verdict;
use super::batch::{Answer, FastBatches, Place, Refusal};
use super::core::StreamCore;
use super::members::Batches;
use super::msg_headers::{Key, MsgHeaders};
use super::rules::Rollup;
use super::upkeep::RETRY;
use crate::ApiError;

/// Messages that the rollup of a subject removes within the turn; the rest goes in slices.
const ROLLUP_SLICE: usize = 10_000;

impl StreamCore {
    /// Stores the run and says what became of each of its messages.
    pub(super) fn flush(&mut self, intake: &mut Ingest<'_>) {
        if self.run.is_empty() {
            return;
        }
        self.store_drafts(intake);
        self.answer(intake);
        self.run.clear();
    }

    /// Stores the drafts and notes what became of each.
    pub(super) fn store_drafts(&mut self, intake: &mut Ingest<'_>) {
        if self.run.has_drafts() {
            let first = self.time_of_next(intake.now);
            let failure = self.store_run(first, intake).err();
            intake.effects.is_full |= matches!(failure, Some(StoreError::Full));
            self.settle(failure.as_ref(), first, intake);
            self.roll_up(intake);
            self.end_schedules(intake);
            self.keep_schedules();
            self.charge();
        }
    }

    fn store_run(&mut self, first: Timestamp, intake: &Ingest<'_>) -> Result<(), StoreError> {
        self.outcomes.clear();
        if let Some(republish) = &mut self.republish {
            republish.look_back(&self.run, intake.msgs, &self.store)?;
        }
        // The checks of a batch are stricter than the log's, which must not take a part of it.
        let admission = if intake.closing.is_some() { Admission::Granted } else { Admission::Check };
        if self.run.has_unwanted() {
            return self.store_stretches(admission, first, intake);
        }
        self.append(0..self.run.drafts(), admission, first, intake)
    }

    /// Stores some of the drafts as one batch.
    fn append(
        &mut self,
        drafts: Range<usize>,
        admission: Admission,
        first: Timestamp,
        intake: &Ingest<'_>,
    ) -> Result<(), StoreError> {
        let mut messages = recycle(std::mem::take(&mut self.spare));
        messages.extend(self.run.messages(intake.msgs, first).skip(drafts.start).take(drafts.len()));
        let result = self.store.append(&messages, admission, intake.now, &mut self.outcomes);
        self.spare = recycle(messages);
        if result.is_err() {
            self.outcomes.clear();
        }
        result
    }

    /// Stores a run with messages that nobody wants, stretch by stretch. After an error there are outcomes for those that
    /// came before it.
    fn store_stretches(
        &mut self,
        admission: Admission,
        first: Timestamp,
        intake: &Ingest<'_>,
    ) -> Result<(), StoreError> {
        let mut all = Vec::with_capacity(self.run.drafts());
        let mut result = Ok(());
        for (count, is_unwanted) in self.run.stretches() {
            result = if is_unwanted {
                self.pass_over(count, intake.now)
            } else {
                self.append(all.len()..all.len() + count, admission, first, intake)
            };
            if result.is_err() {
                break;
            }
            all.append(&mut self.outcomes);
        }
        self.outcomes = all;
        result
    }

    /// Compat: messages that no consumer wants get sequences and are not stored.
    fn pass_over(&mut self, count: usize, now: Timestamp) -> Result<(), StoreError> {
        let last = self.store.state().totals.last_seq;
        let end = last + count as u64;
        self.outcomes.clear();
        self.store.skip(end, now)?;
        self.outcomes.extend((last + 1..=end).map(Ok));
        Ok(())
    }

    /// Notes what became of the drafts.
    fn settle(&mut self, failure: Option<&StoreError>, first: Timestamp, intake: &Ingest<'_>) {
        // Messages of a mirror have times of their own.
        let stamps = self.run.take_stamps();
        let times = (first..).enumerate().map(|(at, time)| stamps.get(at).map_or(time, |stamp| stamp.1));
        let first = stamps.first().map_or(first, |stamp| stamp.1.min(first));
        let mut outcomes = self.outcomes.iter().zip(times);
        let drafts = self.run.entries_mut().iter_mut().filter(|entry| entry.verdict == Verdict::Store);
        let (mut last, mut ends) = (None, None);
        for entry in drafts {
            let outcome = match outcomes.next() {
                Some((outcome, time)) => {
                    outcome.map(|seq| (seq, time)).map_err(ApiError::stream_store_failed)
                }
                None => Err(fault_of(failure.expect("the store answers for each message"))),
            };
            entry.verdict = match outcome {
                Ok((seq, time)) => {
                    last = Some((entry.msg, time));
                    ends = entry.draft.expires.into_iter().map(|expiry| expiry.at(time)).chain(ends).min();
                    if let Some(slot) = entry.draft.id {
                        self.ids.stored(slot, seq, time);
                    }
                    Verdict::Stored(seq, time)
                }
                Err(error) => {
                    if let Some(slot) = entry.draft.id {
                        self.ids.refused(slot);
                    }
                    Verdict::Refuse(Box::new(error))
                }
            };
            if let Some(special) = entry.draft.special.as_deref().filter(|special| special.is_of_schedules())
            {
                let stored = match entry.verdict {
                    Verdict::Stored(seq, _) => {
                        Some(seq).filter(|_| !entry.draft.is_unwanted || special.due.is_none())
                    }
                    _ => None,
                };
                self.schedules.settle(special, stored, failure, intake.now);
            }
        }
        if let Some((msg, time)) = last {
            self.last_time = time;
            self.note_end(first, ends);
            let headers = intake.msgs.get(msg).map_or(&b""[..], |msg| msg.headers);
            self.last_msg_id.clear();
            self.last_msg_id.extend_from_slice(MsgHeaders::scan(headers).get(Key::MsgId));
        }
    }

    /// The messages that end first may be new.
    fn note_end(&mut self, first: Timestamp, ends: Option<Timestamp>) {
        let by_age = (self.config.max_age > 0).then(|| first.saturating_add(self.config.max_age));
        self.next_expiry = self.next_expiry.into_iter().chain(by_age).chain(ends).min();
    }

    /// Removes what rollups take the place of, and that alone, whatever becomes of the message: one by itself, or some of a
    /// batch. What is not removed at once is soon, unless the stream is opened anew before: then it stays, until the next
    /// rollup. That of all messages is through at once.
    ///
    /// Compat: of messages that no consumer wants, all go. A subject that reads as a pattern is one: who purges `k.*` of a
    /// key-value bucket purges all such keys.
    fn roll_up(&mut self, intake: &mut Ingest<'_>) {
        if !self.run.has_rollups() {
            return;
        }
        let mut purges = Vec::new();
        for entry in self.run.entries() {
            let (Some(rollup), Verdict::Stored(seq, _)) = (entry.draft.rollup, &entry.verdict) else {
                continue;
            };
            let Some(msg) = intake.msgs.get(entry.msg) else { continue };
            let filter = match rollup {
                Rollup::Subject => Some(Filter::new(self.run.apply(&entry.draft, msg).subject)),
                Rollup::All => None,
            };
            let slice = if filter.is_some() { ROLLUP_SLICE } else { usize::MAX };
            // Nothing is older than the first one, and 0 would stand for the last.
            let Some(through) = seq.checked_sub(1).filter(|&seq| seq > 0) else { continue };
            purges.push((Purge { filter, through, ..Purge::default() }, slice));
        }
        purges.into_iter().for_each(|(purge, slice)| self.begin_purge(purge, slice, intake.now));
    }

    /// Removes a slice; what is left over goes soon.
    fn begin_purge(&mut self, mut purge: Purge, slice: usize, now: Timestamp) {
        let progress = self.store.purge(&mut purge, slice, now);
        let again = when_again(&progress, now);
        if again.is_some() {
            self.leftovers.push_back(purge);
            self.next_slice = self.next_slice.into_iter().chain(again).min();
        }
    }

    /// Removes schedules that end with a message that was stored, where they did not go with it.
    fn end_schedules(&mut self, intake: &Ingest<'_>) {
        if !self.run.retires() {
            return;
        }
        let mut purges = Vec::new();
        for entry in self.run.entries() {
            let retired = entry.draft.special.as_ref().and_then(|special| special.retires.as_ref());
            if let (Some(subject), Verdict::Stored(seq, _)) = (retired, &entry.verdict)
                && let Some(through) = seq.checked_sub(1).filter(|&seq| seq > 0)
            {
                let filter = Some(Filter::new(self.run.kept(subject)));
                purges.push(Purge { filter, through, ..Purge::default() });
            }
        }
        purges.into_iter().for_each(|purge| self.begin_purge(purge, ROLLUP_SLICE, intake.now));
    }

    /// Tells each publisher what became of its message, now or when it is released.
    pub(super) fn answer(&mut self, intake: &mut Ingest<'_>) {
        if intake.msgs.is_traced() {
            self.tell_traces(intake);
        }
        // What was released meanwhile comes before what follows.
        self.outgoing.release(self.store.release(), &mut intake.effects.out);
        let ticket = self.store.ticket();
        if self.outgoing.is_empty() && self.store.release().is_released(ticket) {
            let mut out = std::mem::take(&mut intake.effects.out);
            self.say(intake, &mut out);
            intake.effects.out = out;
        } else {
            let mut held = self.outgoing.msgs();
            self.say(intake, &mut held);
            self.outgoing.wait(ticket, held);
        }
    }

    fn say(&mut self, intake: &mut Ingest<'_>, out: &mut MessageBuf) {
        let random = &mut || self.rng.next_u64() as u32;
        for (at, entry) in self.run.entries().iter().enumerate() {
            let Some(msg) = intake.msgs.get(entry.msg) else { continue };
            let is_answered = self.rules.has_acks && !msg.reply.is_empty();
            // Compat: a message is published again before its publisher hears of it.
            if let (Verdict::Stored(seq, time), Some(republish)) = (&entry.verdict, &mut self.republish)
                && !entry.draft.is_unwanted
            {
                let message = self.run.apply(&entry.draft, msg);
                republish.publish_entry(&self.run, at, (*seq, *time), &message, random, out);
            }
            if let Some(place) = self.run.place(&entry.draft) {
                let Batches { fast, voice, .. } = &mut self.batches;
                let mut answer = Answer { reply: msg.reply, voice, out };
                tell_batch(fast, place, &entry.verdict, &mut answer);
                continue;
            }
            match &entry.verdict {
                Verdict::Stored(seq, _) if is_answered && self.rules.allows_counters => {
                    let payload = self.run.apply(&entry.draft, msg).payload;
                    self.replies.counted(msg.reply, *seq, payload, out);
                }
                Verdict::Stored(seq, _) if is_answered => self.replies.stored(msg.reply, *seq, out),
                Verdict::Duplicate(seq) if is_answered => self.replies.duplicate(msg.reply, *seq, out),
                Verdict::Refuse(error) if is_answered => self.replies.refused(msg.reply, error, out),
                Verdict::Refuse(error) if intake.closing.is_none() && !intake.is_copy => {
                    self.losses.count(error.err_code);
                    intake.effects.lost += 1;
                }
                Verdict::Aside(range) => self.run.said_aside(range).for_each(|msg| out.push(msg)),
                _ => {}
            }
        }
        if let Some(closing) = intake.closing {
            self.close(closing, intake.effects, out);
        }
    }
}

/// When to go on with a rollup, if it is not through. A full disk may have room later.
fn when_again(progress: &Result<Progress, StoreError>, now: Timestamp) -> Option<Timestamp> {
    match progress {
        Ok(progress) => progress.more.then_some(now),
        Err(_) => Some(now.saturating_add(RETRY)),
    }
}

/// Tells a fast batch, which tells its publisher, what became of a message.
fn tell_batch(fast: &mut FastBatches, place: Place, verdict: &Verdict, answer: &mut Answer<'_>) {
    match verdict {
        Verdict::Stored(seq, _) => fast.stored(place, *seq, answer),
        Verdict::Duplicate(seq) => fast.refused(place, &Refusal::Duplicate(*seq), answer),
        Verdict::Refuse(error) => fast.refused(place, &Refusal::Error((**error).clone()), answer),
        Verdict::Store | Verdict::Aside(_) => {}
    }
}

/// What publishers are told when nothing of a run was stored.
fn fault_of(error: &StoreError) -> ApiError {
    match error {
        StoreError::Full => ApiError::INSUFFICIENT_RESOURCES,
        other => ApiError::stream_store_failed(other),
    }
}

/// The memory of a list for messages of another buffer. Perf: the standard library collects in place.
fn recycle<'a>(mut messages: Vec<NewMessage<'_>>) -> Vec<NewMessage<'a>> {
    messages.clear();
    messages.into_iter().map(|_| NewMessage::default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollup_that_fails_is_tried_again_a_little_later() {
        let progress = |more| Ok(Progress { more, ..Progress::default() });
        assert_eq!(when_again(&progress(false), 5), None);
        assert_eq!(when_again(&progress(true), 5), Some(5));
        assert_eq!(when_again(&Err(StoreError::Full), 5), Some(5 + RETRY));
    }
}
