//! Messages that belong to batches: the checks that they pass, which differ in order from those of
//! others, and what their batches make of them.

use myelin_store::{Discard, Seq};
use myelin_wire::message_buf::{MessageBuf, MessageRef};

use super::admit::{Closing, DEPENDENT, Ingest, REQUEST_INFO, sequence};
use super::append_run::{MsgDraft, MsgVerdict};
use super::batch::{
    Abandoned, AtomicBatches, AtomicStep, BatchHeaders, BatchReplies, Commit, FastBatches, FastStep,
    FlowSubject, MalformedFlowSubject, ReplySink, Staged,
};
use super::core::StreamCore;
use super::effects::Effects;
use super::header_edit;
use super::msg_headers::{Key, MsgHeaders};
use super::rules::Rollup;
use super::settings::StreamSettings;
use myelin_jsapi::ApiError;
use myelin_jsapi::config::StreamConfig;

const API_LEVEL: &[u8] = b"Nats-Required-Api-Level";
const DUPLICATE: u16 = ApiError::ATOMIC_PUBLISH_CONTAINS_DUPLICATE_MESSAGE.err_code;
const EXPECTED_LAST_MSG_ID: &str = "Nats-Expected-Last-Msg-Id";

/// The batches of a stream.
pub(super) struct Batches {
    pub(super) atomic: AtomicBatches,
    pub(super) fast: FastBatches,
    pub(super) replies: BatchReplies,
}

impl Batches {
    pub(super) fn new(config: &StreamConfig, settings: &StreamSettings) -> Self {
        Self {
            atomic: AtomicBatches::new(settings.in_flight.clone(), config.allow_atomic),
            fast: FastBatches::new(settings.in_flight.clone(), config.allow_batched),
            replies: BatchReplies::new(&config.name, &settings.domain, config.no_ack),
        }
    }

    /// Another configuration.
    pub(super) fn update(&mut self, config: &StreamConfig) {
        self.atomic.enable(config.allow_atomic);
        self.fast.enable(config.allow_batched);
        self.replies.no_ack = config.no_ack;
    }
}

impl StreamCore {
    /// Takes message number `at`, which is part of a fast batch.
    pub(super) fn take_fast(
        &mut self,
        at: usize,
        msg: MessageRef<'_>,
        flow_subject: Result<FlowSubject<'_>, MalformedFlowSubject>,
        msg_headers: &MsgHeaders<'_>,
        ingest: &mut Ingest<'_>,
    ) {
        let may_evict = self.rules.allows_counters && self.may_evict_counters();
        let is_dependent = msg_headers.has_any(&DEPENDENT) || self.discards_new() || may_evict;
        if !self.batches.fast.continues(flow_subject) || is_dependent {
            self.flush(ingest);
        }
        let mut draft = MsgDraft::default();
        self.transform(msg.subject, &mut draft);
        self.ask_interest(msg, &mut draft);
        if let Err(error) = self.check_before_batch(msg, &draft, ingest) {
            return self.run.push(at, draft, MsgVerdict::Refuse(Box::new(error)));
        }
        let before = self.run.asides().len();
        let mut answer =
            ReplySink { reply: msg.reply, replies: &mut self.batches.replies, out: self.run.asides() };
        let level = msg_headers.find(Key::RequiredApiLevel);
        let step = self.batches.fast.take(flow_subject, level, ingest.now, &mut answer);
        self.run.push_asides(at, before);
        let FastStep::Store(place) = step else { return };
        self.clean(msg.headers, msg_headers, &[REQUEST_INFO, API_LEVEL], &mut draft);
        let verdict = match self.admit_fast(msg, msg_headers, &mut draft, ingest) {
            Ok(verdict) => verdict,
            Err(error) => MsgVerdict::Refuse(Box::new(error)),
        };
        // Nothing may be known of what comes behind a message that is refused.
        let is_alone = verdict != MsgVerdict::Store || draft.rollup.is_some();
        draft.place = Some(self.run.keep_place(place));
        self.run.push(at, draft, verdict);
        if is_alone {
            self.flush(ingest);
        }
    }

    fn admit_fast(
        &mut self,
        msg: MessageRef<'_>,
        msg_headers: &MsgHeaders<'_>,
        draft: &mut MsgDraft,
        ingest: &mut Ingest<'_>,
    ) -> Result<MsgVerdict, ApiError> {
        let known = self.known_seq(msg_headers, ingest);
        if msg_headers.is_empty() && !self.discards_new() {
            // Perf: what the general way does for a message of which nothing is asked.
            let message = self.run.apply(draft, msg);
            self.rules.check_record(&message)?;
            self.rules.check_headers(&message)?;
            self.rules.check_counts(msg_headers)?;
        } else {
            let mut staged = Staged::new(true);
            let checked = self.check_member(msg, (msg_headers, known), draft, &mut staged, ingest);
            match (checked, known) {
                (Err(ApiError { err_code: DUPLICATE, .. }), Some(seq)) => {
                    return Ok(MsgVerdict::Duplicate(seq));
                }
                (checked, _) => checked?,
            }
            self.check_last_id(msg_headers)?;
        }
        let size = self.rules.size(&self.run.apply(draft, msg));
        self.enter(msg, msg_headers, draft, size, ingest.now)?;
        Ok(MsgVerdict::Store)
    }

    /// Takes message number `at`, which is part of an atomic batch.
    pub(super) fn take_atomic(
        &mut self,
        at: usize,
        msg: MessageRef<'_>,
        msg_headers: &MsgHeaders<'_>,
        ingest: &mut Ingest<'_>,
    ) {
        let mut draft = MsgDraft::default();
        self.clean(msg.headers, msg_headers, &[REQUEST_INFO], &mut draft);
        if let Err(error) = self.check_before_batch(msg, &draft, ingest) {
            return self.run.push(at, draft, MsgVerdict::Refuse(Box::new(error)));
        }
        let batch_headers = BatchHeaders {
            id: msg_headers.get(Key::BatchId),
            sequence: msg_headers.find(Key::BatchSequence),
            commit: msg_headers.find(Key::BatchCommit),
            api_level: msg_headers.find(Key::RequiredApiLevel),
        };
        let mut said = self.outgoing.release_queue.msgs();
        let Batches { atomic, replies, .. } = &mut self.batches;
        let message = self.run.apply(&draft, msg);
        let step = atomic.take(&batch_headers, message, ingest.now, replies, &mut said);
        let before = self.run.asides().len();
        self.run.asides().append(&mut said);
        self.run.push_asides(at, before);
        match step {
            AtomicStep::Held => {}
            AtomicStep::Refused { err_code, reason } => {
                if let Some(reason) = reason {
                    ingest.effects.abandoned.push(Abandoned { id: batch_headers.id.into(), reason });
                }
                if msg.reply.is_empty() || !self.rules.has_acks {
                    self.outgoing.drops.count(err_code);
                    ingest.effects.dropped += 1;
                }
            }
            AtomicStep::Commit(commit) => {
                self.flush(ingest);
                self.commit(commit, Closing { id: batch_headers.id, reply: msg.reply }, ingest);
            }
        }
    }

    /// Stores a complete batch, or refuses it with its first error.
    fn commit(&mut self, commit: Commit, closing: Closing<'_>, ingest: &mut Ingest<'_>) {
        let mut whole = Ingest {
            msgs: &commit.messages,
            now: ingest.now,
            effects: ingest.effects,
            traces: None,
            closing: Some(closing),
            is_copy: false,
        };
        match self.admit_all(&commit, &mut whole) {
            Ok(()) => self.flush(&mut whole),
            Err(error) => {
                self.forget_drafts();
                self.run.push(0, MsgDraft::default(), MsgVerdict::Refuse(Box::new(error)));
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
            let msg_headers = MsgHeaders::scan(msg.headers);
            let mut draft = MsgDraft::default();
            self.transform(msg.subject, &mut draft);
            self.ask_interest(msg, &mut draft);
            if msg_headers.has(Key::ExpectedLastMsgId) {
                return Err(ApiError::atomic_publish_unsupported_header_batch(EXPECTED_LAST_MSG_ID));
            }
            let known = self.known_stored(&msg_headers, whole);
            self.check_member(msg, (&msg_headers, known), &mut draft, &mut staged, whole)?;
            if commit.mark_last && at == last {
                self.mark(msg, &mut draft);
            }
            let size = self.rules.size(&self.run.apply(&draft, msg));
            // They fitted one by one when they came, and must all together.
            self.find_room(size, !draft.is_unwanted)?;
            self.enter(msg, &msg_headers, &mut draft, size, whole.now)?;
            self.run.push(at, draft, MsgVerdict::Store);
        }
        Ok(())
    }

    /// Gives the last message of a batch the mark of its end.
    fn mark(&mut self, msg: MessageRef<'_>, draft: &mut MsgDraft) {
        let mut headers = std::mem::take(&mut self.scratch.text);
        headers.clear();
        headers.extend_from_slice(self.run.apply(draft, msg).headers);
        let (key, value) = Commit::MARK;
        let write =
            |kept: &mut Vec<u8>| header_edit::write_with(&headers, key.as_bytes(), value.as_bytes(), kept);
        draft.headers = Some(self.run.keep(write));
        self.scratch.text = headers;
    }

    /// The sequence of a message whose id is known. Those of its own batch are not stored yet.
    fn known_stored(&self, msg_headers: &MsgHeaders<'_>, whole: &Ingest<'_>) -> Option<Seq> {
        match self.ids.find(msg_headers.get(Key::MsgId), whole.now) {
            super::dedupe::KnownId::Stored(seq) if !self.rules.is_mirror => Some(seq),
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

    /// Checks what is checked before the batch is asked.
    fn check_before_batch(
        &mut self,
        msg: MessageRef<'_>,
        draft: &MsgDraft,
        ingest: &mut Ingest<'_>,
    ) -> Result<(), ApiError> {
        self.rules.check_sealed()?;
        let size = self.rules.size(&self.run.apply(draft, msg));
        self.check_room(size, true, ingest)?;
        self.rules.check_size(&self.run.apply(draft, msg))
    }

    /// The checks of a message on top of those before it in its batch, in the reference's order.
    /// `known` is where it is stored already.
    fn check_member(
        &mut self,
        msg: MessageRef<'_>,
        (msg_headers, known): (&MsgHeaders<'_>, Option<Seq>),
        draft: &mut MsgDraft,
        staged: &mut Staged,
        ingest: &Ingest<'_>,
    ) -> Result<(), ApiError> {
        let message = self.run.apply(draft, msg);
        self.rules.check_record(&message)?;
        self.rules.check_headers(&message)?;
        self.rules.check_before_state(msg_headers, !message.payload.is_empty())?;
        self.rules.check_batch_ttl(msg_headers)?;
        if msg_headers.has(Key::MsgId) {
            staged.expect_new_id(msg_headers.get(Key::MsgId))?;
        }
        if known.is_some() {
            return Err(ApiError::ATOMIC_PUBLISH_CONTAINS_DUPLICATE_MESSAGE);
        }
        self.rules.check_source(msg_headers)?;
        self.rules.check_counts(msg_headers)?;
        self.count(msg, msg_headers, draft)?;
        self.check_expectations(msg_headers, self.run.apply(draft, msg).subject, staged)?;
        self.check_schedule(msg, msg_headers, draft, ingest)?;
        draft.rollup = self.rules.check_rollup(msg_headers)?;
        self.roll_up_schedule(msg, msg_headers, draft)?;
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
        msg_headers: &MsgHeaders<'_>,
        subject: &[u8],
        staged: &mut Staged,
    ) -> Result<(), ApiError> {
        if msg_headers.has(Key::ExpectedLastSequence) {
            let last = self.store.totals().last_seq;
            staged.expect_last(sequence(msg_headers.get(Key::ExpectedLastSequence)), last)?;
        }
        let other = msg_headers.get(Key::ExpectedLastSubjectSequenceSubject);
        if msg_headers.has(Key::ExpectedLastSubjectSequence) {
            let last = self.last_of_expected(msg_headers, subject)?;
            let about = if other.is_empty() { subject } else { other };
            staged.expect_last_of(
                about,
                sequence(msg_headers.get(Key::ExpectedLastSubjectSequence)),
                || last,
            )?;
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
        let (limits, totals) = (&self.rules.limits, self.store.totals());
        let failed = |why| Err(ApiError::stream_store_failed(why));
        if limits.messages.is_some_and(|max| totals.messages + staged.messages() > max) {
            return failed(myelin_store::AppendRefusal::MaxMessages);
        }
        if limits.bytes.is_some_and(|max| totals.bytes + staged.bytes() > max) {
            return failed(myelin_store::AppendRefusal::MaxBytes);
        }
        if let Some(max) = limits.messages_per_subject
            && limits.discard_new_per_subject
            && !is_rollup
            && self.store.count_of(subject) + staged.of(subject) > max
        {
            return failed(myelin_store::AppendRefusal::MaxMessagesPerSubject);
        }
        Ok(())
    }

    /// Says what became of an atomic batch.
    pub(super) fn close(&mut self, closing: Closing<'_>, effects: &mut Effects, out: &mut MessageBuf) {
        let entries = self.run.entries();
        let refused = entries.iter().find_map(|entry| match &entry.verdict {
            MsgVerdict::Refuse(error) => Some(error),
            _ => None,
        });
        let is_answered = self.rules.has_acks && !closing.reply.is_empty();
        match (refused, entries.last().map(|entry| &entry.verdict)) {
            (Some(error), _) if is_answered => self.outgoing.replies.refused(closing.reply, error, out),
            (Some(error), _) => {
                self.outgoing.drops.count(error.err_code);
                effects.dropped += 1;
            }
            (None, Some(MsgVerdict::Stored(seq, _))) if is_answered => {
                let count = entries.len() as u64;
                self.batches.replies.committed(closing.reply, *seq, closing.id, count, out);
            }
            _ => {}
        }
    }
}
