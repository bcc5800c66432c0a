//! Messages that belong to batches: the checks that they pass, which differ in order from those of others, and what their
//! batches make of them.

use myelin_broker::{MessageBuf, MessageRef};
use myelin_store::{Discard, Seq};

use super::admit::{Closing, DEPENDENT, Ingest, REQUEST_INFO, sequence};
use super::append_run::{Draft, Verdict};
use super::batch::{
    Abandoned, Answer, AtomicBatches, AtomicStep, BatchReplies, Commit, FastBatches, FastStep, FlowSubject,
    Malformed, Member, Staged,
};
use super::core::StreamCore;
use super::effects::Effects;
use super::lines;
use super::msg_headers::{Key, MsgHeaders};
use super::rules::Rollup;
use super::settings::Settings;
use crate::ApiError;
use crate::config::StreamConfig;

const API_LEVEL: &[u8] = b"Nats-Required-Api-Level";
const DUPLICATE: u16 = ApiError::ATOMIC_PUBLISH_CONTAINS_DUPLICATE_MESSAGE.err_code;
const EXPECTED_LAST_MSG_ID: &str = "Nats-Expected-Last-Msg-Id";

/// The batches of a stream.
pub(super) struct Batches {
    pub(super) atomic: AtomicBatches,
    pub(super) fast: FastBatches,
    pub(super) voice: BatchReplies,
}

impl Batches {
    pub(super) fn new(config: &StreamConfig, settings: &Settings) -> Self {
        Self {
            atomic: AtomicBatches::new(settings.in_flight.clone(), config.allow_atomic),
            fast: FastBatches::new(settings.in_flight.clone(), config.allow_batched),
            voice: BatchReplies::new(&config.name, &settings.domain, config.no_ack),
        }
    }

    /// Another configuration.
    pub(super) fn update(&mut self, config: &StreamConfig) {
        self.atomic.enable(config.allow_atomic);
        self.fast.enable(config.allow_batched);
        self.voice.no_ack = config.no_ack;
    }
}

impl StreamCore {
    /// Takes message number `at`, which is part of a fast batch.
    pub(super) fn take_fast(
        &mut self,
        at: usize,
        msg: MessageRef<'_>,
        ticket: Result<FlowSubject<'_>, Malformed>,
        marks: &MsgHeaders<'_>,
        intake: &mut Ingest<'_>,
    ) {
        let may_evict = self.rules.allows_counters && self.may_evict_counters();
        let is_dependent = marks.has_any(&DEPENDENT) || self.discards_new() || may_evict;
        if !self.batches.fast.continues(ticket) || is_dependent {
            self.flush(intake);
        }
        let mut draft = Draft::default();
        self.transform(msg.subject, &mut draft);
        self.ask_interest(msg, &mut draft);
        if let Err(error) = self.check_door(msg, &draft, intake) {
            return self.run.push(at, draft, Verdict::Refuse(Box::new(error)));
        }
        let before = self.run.asides().len();
        let mut answer = Answer { reply: msg.reply, voice: &mut self.batches.voice, out: self.run.asides() };
        let level = marks.find(Key::RequiredApiLevel);
        let step = self.batches.fast.take(ticket, level, intake.now, &mut answer);
        self.run.push_asides(at, before);
        let FastStep::Store(place) = step else { return };
        self.clean(msg.headers, marks, &[REQUEST_INFO, API_LEVEL], &mut draft);
        let verdict = match self.admit_fast(msg, marks, &mut draft, intake) {
            Ok(verdict) => verdict,
            Err(error) => Verdict::Refuse(Box::new(error)),
        };
        // Nothing may be known of what comes behind a message that is refused.
        let is_alone = verdict != Verdict::Store || draft.rollup.is_some();
        draft.place = Some(self.run.keep_place(place));
        self.run.push(at, draft, verdict);
        if is_alone {
            self.flush(intake);
        }
    }

    fn admit_fast(
        &mut self,
        msg: MessageRef<'_>,
        marks: &MsgHeaders<'_>,
        draft: &mut Draft,
        intake: &mut Ingest<'_>,
    ) -> Result<Verdict, ApiError> {
        let known = self.known_seq(marks, intake);
        if marks.is_empty() && !self.discards_new() {
            // Perf: what the general way does for a message of which nothing is asked.
            let message = self.run.apply(draft, msg);
            self.rules.check_record(&message)?;
            self.rules.check_headers(&message)?;
            self.rules.check_counts(marks)?;
        } else {
            let mut staged = Staged::new(true);
            let checked = self.check_member(msg, (marks, known), draft, &mut staged, intake);
            match (checked, known) {
                (Err(ApiError { err_code: DUPLICATE, .. }), Some(seq)) => return Ok(Verdict::Duplicate(seq)),
                (checked, _) => checked?,
            }
            self.check_last_id(marks)?;
        }
        let size = self.rules.size(&self.run.apply(draft, msg));
        self.enter(msg, marks, draft, size, intake.now)?;
        Ok(Verdict::Store)
    }

    /// Takes message number `at`, which is part of an atomic batch.
    pub(super) fn take_atomic(
        &mut self,
        at: usize,
        msg: MessageRef<'_>,
        marks: &MsgHeaders<'_>,
        intake: &mut Ingest<'_>,
    ) {
        let mut draft = Draft::default();
        self.clean(msg.headers, marks, &[REQUEST_INFO], &mut draft);
        if let Err(error) = self.check_door(msg, &draft, intake) {
            return self.run.push(at, draft, Verdict::Refuse(Box::new(error)));
        }
        let member = Member {
            id: marks.get(Key::BatchId),
            sequence: marks.find(Key::BatchSequence),
            commit: marks.find(Key::BatchCommit),
            api_level: marks.find(Key::RequiredApiLevel),
        };
        let mut said = self.outgoing.msgs();
        let Batches { atomic, voice, .. } = &mut self.batches;
        let message = self.run.apply(&draft, msg);
        let step = atomic.take(&member, message, intake.now, voice, &mut said);
        let before = self.run.asides().len();
        self.run.asides().append(&mut said);
        self.run.push_asides(at, before);
        match step {
            AtomicStep::Held => {}
            AtomicStep::Refused { err_code, reason } => {
                if let Some(reason) = reason {
                    intake.effects.abandoned.push(Abandoned { id: member.id.into(), reason });
                }
                if msg.reply.is_empty() || !self.rules.has_acks {
                    self.losses.count(err_code);
                    intake.effects.lost += 1;
                }
            }
            AtomicStep::Commit(commit) => {
                self.flush(intake);
                self.commit(commit, Closing { id: member.id, reply: msg.reply }, intake);
            }
        }
    }

    /// Stores a complete batch, or refuses it with its first error.
    fn commit(&mut self, commit: Commit, closing: Closing<'_>, intake: &mut Ingest<'_>) {
        let mut whole = Ingest {
            msgs: &commit.messages,
            now: intake.now,
            effects: intake.effects,
            closing: Some(closing),
            is_copy: false,
        };
        match self.admit_all(&commit, &mut whole) {
            Ok(()) => self.flush(&mut whole),
            Err(error) => {
                self.forget_drafts();
                self.run.push(0, Draft::default(), Verdict::Refuse(Box::new(error)));
                self.answer(&mut whole);
                self.run.clear();
            }
        }
        self.batches.atomic.recycle(commit.done());
    }

    fn admit_all(&mut self, commit: &Commit, whole: &mut Ingest<'_>) -> Result<(), ApiError> {
        // A schedule is a rollup.
        const ABOUT_SUBJECTS: [Key; 3] = [Key::ExpectedLastSubjectSequence, Key::Rollup, Key::Schedule];
        let asks = |msg: MessageRef<'_>| MsgHeaders::scan(msg.headers).has_any(&ABOUT_SUBJECTS);
        let refuses_by_subject = self.discards_new() && self.rules.limits.discard_new_per_subject;
        let mut staged = Staged::new(refuses_by_subject || commit.messages.iter().any(asks));
        let last = commit.messages.len().saturating_sub(1);
        for (at, msg) in commit.messages.iter().enumerate() {
            let marks = MsgHeaders::scan(msg.headers);
            let mut draft = Draft::default();
            self.transform(msg.subject, &mut draft);
            self.ask_interest(msg, &mut draft);
            if marks.has(Key::ExpectedLastMsgId) {
                return Err(ApiError::atomic_publish_unsupported_header_batch(EXPECTED_LAST_MSG_ID));
            }
            let known = self.known_stored(&marks, whole);
            self.check_member(msg, (&marks, known), &mut draft, &mut staged, whole)?;
            if commit.mark_last && at == last {
                self.mark(msg, &mut draft);
            }
            let size = self.rules.size(&self.run.apply(&draft, msg));
            // They fitted one by one when they came, and must all together.
            self.find_room(size, !draft.is_unwanted)?;
            self.enter(msg, &marks, &mut draft, size, whole.now)?;
            self.run.push(at, draft, Verdict::Store);
        }
        Ok(())
    }

    /// Gives the last message of a batch the mark of its end.
    fn mark(&mut self, msg: MessageRef<'_>, draft: &mut Draft) {
        let mut headers = std::mem::take(&mut self.text);
        headers.clear();
        headers.extend_from_slice(self.run.apply(draft, msg).headers);
        let (key, value) = Commit::MARK;
        let write = |kept: &mut Vec<u8>| lines::write_with(&headers, key.as_bytes(), value.as_bytes(), kept);
        draft.headers = Some(self.run.keep(write));
        self.text = headers;
    }

    /// The sequence of a message whose id is known. Those of its own batch are not stored yet.
    fn known_stored(&self, marks: &MsgHeaders<'_>, whole: &Ingest<'_>) -> Option<Seq> {
        match self.ids.find(marks.get(Key::MsgId), whole.now) {
            super::dedupe::Known::Stored(seq) if !self.rules.is_mirror => Some(seq),
            _ => None,
        }
    }

    /// The run is refused: its ids are free.
    pub(super) fn forget_drafts(&mut self) {
        for slot in self.run.entries().iter().filter_map(|entry| entry.draft.id) {
            self.ids.refused(slot);
        }
        self.run.clear();
    }

    fn discards_new(&self) -> bool {
        self.rules.limits.discard == Discard::New
    }

    /// What is checked before the batch is asked.
    fn check_door(
        &mut self,
        msg: MessageRef<'_>,
        draft: &Draft,
        intake: &mut Ingest<'_>,
    ) -> Result<(), ApiError> {
        self.rules.check_sealed()?;
        let size = self.rules.size(&self.run.apply(draft, msg));
        self.check_room(size, true, intake)?;
        self.rules.check_size(&self.run.apply(draft, msg))
    }

    /// The checks of a message on top of those before it in its batch, in the reference's order. `known` is where it is
    /// stored already.
    fn check_member(
        &mut self,
        msg: MessageRef<'_>,
        (marks, known): (&MsgHeaders<'_>, Option<Seq>),
        draft: &mut Draft,
        staged: &mut Staged,
        intake: &Ingest<'_>,
    ) -> Result<(), ApiError> {
        let message = self.run.apply(draft, msg);
        self.rules.check_record(&message)?;
        self.rules.check_headers(&message)?;
        self.rules.check_before_state(marks, !message.payload.is_empty())?;
        self.rules.check_batch_ttl(marks)?;
        if marks.has(Key::MsgId) {
            staged.expect_new_id(marks.get(Key::MsgId))?;
        }
        if known.is_some() {
            return Err(ApiError::ATOMIC_PUBLISH_CONTAINS_DUPLICATE_MESSAGE);
        }
        self.rules.check_source(marks)?;
        self.rules.check_counts(marks)?;
        self.count(msg, marks, draft)?;
        self.check_expectations(marks, self.run.apply(draft, msg).subject, staged)?;
        self.check_schedule(msg, marks, draft, intake)?;
        draft.rollup = self.rules.check_rollup(marks)?;
        self.roll_up_schedule(msg, marks, draft)?;
        let message = self.run.apply(draft, msg);
        match draft.rollup {
            Some(Rollup::Subject) => staged.expect_rollup_of(message.subject)?,
            Some(Rollup::All) => staged.expect_rollup_of_all()?,
            None => {}
        }
        staged.add(message.subject, self.rules.size(&message));
        self.check_limits(message.subject, draft.rollup.is_some(), staged)
    }

    fn check_expectations(
        &self,
        marks: &MsgHeaders<'_>,
        subject: &[u8],
        staged: &mut Staged,
    ) -> Result<(), ApiError> {
        if marks.has(Key::ExpectedLastSequence) {
            let last = self.store.state().totals.last_seq;
            staged.expect_last(sequence(marks.get(Key::ExpectedLastSequence)), last)?;
        }
        let other = marks.get(Key::ExpectedLastSubjectSequenceSubject);
        if marks.has(Key::ExpectedLastSubjectSequence) {
            let last = self.last_of_expected(marks, subject)?;
            let about = if other.is_empty() { subject } else { other };
            staged.expect_last_of(about, sequence(marks.get(Key::ExpectedLastSubjectSequence)), || last)?;
        } else if !other.is_empty() {
            return Err(ApiError::STREAM_EXPECTED_LAST_SEQ_PER_SUBJECT_INVALID);
        }
        Ok(())
    }

    /// Whether a stream that discards new messages has room.
    ///
    /// Compat: in a batch, nothing is said for messages that would make room on their subject.
    fn check_limits(&self, subject: &[u8], is_rollup: bool, staged: &Staged) -> Result<(), ApiError> {
        if !self.discards_new() {
            return Ok(());
        }
        let (limits, totals) = (&self.rules.limits, self.store.state().totals);
        let failed = |why| Err(ApiError::stream_store_failed(why));
        if limits.messages.is_some_and(|max| totals.messages + staged.messages() > max) {
            return failed(myelin_store::Refusal::MaxMessages);
        }
        if limits.bytes.is_some_and(|max| totals.bytes + staged.bytes() > max) {
            return failed(myelin_store::Refusal::MaxBytes);
        }
        if let Some(max) = limits.messages_per_subject
            && limits.discard_new_per_subject
            && !is_rollup
            && self.store.count_of(subject) + staged.of(subject) > max
        {
            return failed(myelin_store::Refusal::MaxMessagesPerSubject);
        }
        Ok(())
    }

    /// Says what became of an atomic batch.
    pub(super) fn close(&mut self, closing: Closing<'_>, effects: &mut Effects, out: &mut MessageBuf) {
        let entries = self.run.entries();
        let refused = entries.iter().find_map(|entry| match &entry.verdict {
            Verdict::Refuse(error) => Some(error),
            _ => None,
        });
        let is_answered = self.rules.has_acks && !closing.reply.is_empty();
        match (refused, entries.last().map(|entry| &entry.verdict)) {
            (Some(error), _) if is_answered => self.replies.refused(closing.reply, error, out),
            (Some(error), _) => {
                self.losses.count(error.err_code);
                effects.lost += 1;
            }
            (None, Some(Verdict::Stored(seq, _))) if is_answered => {
                let count = entries.len() as u64;
                self.batches.voice.committed(closing.reply, *seq, closing.id, count, out);
            }
            _ => {}
        }
    }
}
