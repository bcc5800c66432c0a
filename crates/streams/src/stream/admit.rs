//! The checks that a message passes before it is stored, in the reference's order.
//!
//! Most messages have no headers that a stream knows, and join the run at once. A message that asks
//! for something of the stream's state first has the run stored, so that it sees what the messages
//! before it did.

use myelin_store::{Discard, Filter, Seq, Timestamp};
use myelin_wire::message_buf::{MessageBuf, MessageRef};

use super::append_run::{MsgDraft, MsgVerdict};
use super::batch::FlowSubject;
use super::core::StreamCore;
use super::dedupe::KnownId;
use super::effects::Effects;
use super::msg_headers::{Key, MsgHeaders};
use super::traces::MessageTraces;
use myelin_jsapi::ApiError;
use myelin_wire::encode;

/// Headers that make a message depend on those before it.
pub(super) const DEPENDENT: [Key; 7] = [
    Key::ExpectedLastSequence,
    Key::ExpectedLastSubjectSequence,
    Key::ExpectedLastSubjectSequenceSubject,
    Key::ExpectedLastMsgId,
    Key::Rollup,
    Key::Schedule,
    Key::ScheduleNext,
];

/// Header that another account attached to a request.
pub(super) const REQUEST_INFO: &[u8] = b"Nats-Request-Info";

/// One buffer on its way into a stream.
pub(super) struct Ingest<'a> {
    pub(super) msgs: &'a MessageBuf,
    pub(super) now: Timestamp,
    pub(super) effects: &'a mut Effects,
    /// Where to say what became of its messages, if any is traced.
    pub(super) traces: Option<&'a mut dyn MessageTraces>,
    /// If the buffer is an atomic batch.
    pub(super) closing: Option<Closing<'a>>,
    /// Whether the messages come from another stream: nobody waits to hear of them.
    pub(super) is_copy: bool,
}

/// Closing of an atomic batch: who hears of it.
#[derive(Clone, Copy)]
pub(super) struct Closing<'a> {
    pub(super) id: &'a [u8],
    pub(super) reply: &'a [u8],
}

impl StreamCore {
    /// Takes message number `at`: it joins the run, or its answer does.
    pub(super) fn take(&mut self, at: usize, msg: MessageRef<'_>, ingest: &mut Ingest<'_>) {
        let scanned;
        let msg_headers = if msg.headers.is_empty() {
            &MsgHeaders::NONE
        } else {
            scanned = MsgHeaders::scan(msg.headers);
            &scanned
        };
        let original = original_reply(msg.reply, msg_headers);
        if let Some(flow_subject) = FlowSubject::read(original.as_ref().map_or(msg.reply, String::as_bytes)) {
            return self.take_fast(at, msg, flow_subject, msg_headers, ingest);
        }
        if msg_headers.has(Key::BatchId) {
            return self.take_atomic(at, msg, msg_headers, ingest);
        }
        let mut draft = MsgDraft::default();
        let verdict = match self.admit(msg, msg_headers, &mut draft, ingest) {
            Ok(verdict) => verdict,
            Err(error) => MsgVerdict::Refuse(Box::new(error)),
        };
        let is_rollup = draft.rollup.is_some();
        self.run.push(at, draft, verdict);
        if is_rollup {
            self.flush(ingest);
        }
    }

    /// Looks at one message, and says in `draft` how it is to be stored.
    pub(super) fn admit(
        &mut self,
        msg: MessageRef<'_>,
        msg_headers: &MsgHeaders<'_>,
        draft: &mut MsgDraft,
        ingest: &mut Ingest<'_>,
    ) -> Result<MsgVerdict, ApiError> {
        self.transform(msg.subject, draft);
        self.ask_interest(msg, draft);
        if msg_headers.has_any(&DEPENDENT) && !self.is_apart(msg_headers, self.run.apply(draft, msg).subject)
        {
            self.flush(ingest);
            self.run.track_subjects();
        }
        self.clean(msg.headers, msg_headers, &[REQUEST_INFO], draft);
        self.rules.check_form(&self.run.apply(draft, msg))?;
        if !msg_headers.is_empty() {
            self.rules.check_before_state(msg_headers, !msg.payload.is_empty())?;
            self.rules.check_ttl_allowed(msg_headers)?;
            // Compat: in a group whoever tries once more hears so, whatever is expected.
            let is_known_first = self.store.group().is_some();
            if is_known_first && let Some(seq) = self.known_seq(msg_headers, ingest) {
                return Ok(MsgVerdict::Duplicate(seq));
            }
            self.check_expected(msg_headers, &self.run.apply(draft, msg))?;
            self.check_schedule(msg, msg_headers, draft, ingest)?;
            self.rules.check_source(msg_headers)?;
            if !is_known_first && let Some(seq) = self.known_seq(msg_headers, ingest) {
                return Ok(MsgVerdict::Duplicate(seq));
            }
            self.check_last_id(msg_headers)?;
            draft.rollup = self.rules.check_rollup(msg_headers)?;
            let is_longer = self.roll_up_schedule(msg, msg_headers, draft)?;
            // Compat: in a group nobody looks again.
            if is_longer && !is_known_first {
                let message = self.run.apply(draft, msg);
                self.rules.check_size(&message)?;
                self.rules.check_headers(&message)?;
            }
        }
        self.rules.check_counts(msg_headers)?;
        if self.rules.allows_counters {
            self.count_alone(msg, msg_headers, draft, ingest)?;
        }
        let size = self.rules.size(&self.run.apply(draft, msg));
        self.check_room(size, !draft.is_unwanted, ingest)?;
        self.enter(msg, msg_headers, draft, size, ingest.now)?;
        Ok(MsgVerdict::Store)
    }

    /// Whether what a message asks of the stream has nothing to do with the run.
    ///
    /// Perf: key-value clients say of each message what its subject's last one must be. In a row
    /// they are one run.
    fn is_apart(&self, msg_headers: &MsgHeaders<'_>, subject: &[u8]) -> bool {
        let asks_more = |key: &&Key| **key != Key::ExpectedLastSubjectSequence && msg_headers.has(**key);
        let limits = &self.rules.limits;
        let evicts_others =
            limits.discard == Discard::Old && (limits.messages.is_some() || limits.bytes.is_some());
        !DEPENDENT.iter().any(|key| asks_more(&key))
            && !evicts_others
            && !myelin_subject::has_wildcard(subject)
            && !self.run.may_have(subject)
    }

    /// The last steps of a message that is to be stored.
    pub(super) fn enter(
        &mut self,
        msg: MessageRef<'_>,
        msg_headers: &MsgHeaders<'_>,
        draft: &mut MsgDraft,
        size: u64,
        now: Timestamp,
    ) -> Result<(), ApiError> {
        if msg_headers.has(Key::Ttl) && !draft.is_unwanted {
            self.set_expiry(msg_headers, draft, msg)?;
        }
        if msg_headers.has(Key::MsgId) {
            draft.id = self.ids.begin(msg_headers.get(Key::MsgId), now);
        }
        if !draft.is_unwanted {
            self.run.bytes += size;
        }
        self.run.note_subject(draft, msg);
        Ok(())
    }

    pub(super) fn transform(&mut self, subject: &[u8], draft: &mut MsgDraft) {
        let Some(transform) = &self.rules.transform else { return };
        let random = &mut || self.scratch.rng.next_u64() as u32;
        let text = &mut self.scratch.text;
        if transform.transform(subject, random, text).is_ok() {
            draft.subject = Some(self.run.keep(|kept| kept.extend_from_slice(text)));
        }
    }

    /// Whether some consumer wants a message, under the subject that it is to have. Where nobody
    /// needs to, all are stored.
    pub(super) fn ask_interest(&self, msg: MessageRef<'_>, draft: &mut MsgDraft) {
        draft.is_unwanted =
            self.rules.is_interest && !self.settings.interest.wants(self.run.apply(draft, msg).subject);
    }

    /// Takes away what is not to be stored: a status, and lines with these keys.
    pub(super) fn clean(
        &mut self,
        headers: &[u8],
        msg_headers: &MsgHeaders<'_>,
        keys: &[&[u8]],
        draft: &mut MsgDraft,
    ) {
        const FIRST: &[u8] = b"NATS/1.0";
        let has_status = headers.strip_prefix(FIRST).is_some_and(|rest| rest.first() != Some(&b'\r'));
        if !has_status && !msg_headers.has_any(&[Key::RequestInfo, Key::RequiredApiLevel]) {
            return;
        }
        let Some(end) = headers.iter().position(|&byte| byte == b'\r') else { return };
        let lines = if has_status { &headers[end..] } else { &headers[FIRST.len().min(end)..] };
        draft.headers = Some(self.run.keep(|kept| write_without(FIRST, lines, keys, kept)));
    }

    /// Checks what the message expects of the stream.
    fn check_expected(&self, msg_headers: &MsgHeaders<'_>, message: &MessageRef<'_>) -> Result<(), ApiError> {
        if msg_headers.has(Key::ExpectedLastSubjectSequence) {
            self.check_subject_sequence(msg_headers, message.subject)?;
        } else if msg_headers.has(Key::ExpectedLastSubjectSequenceSubject) {
            return Err(ApiError::STREAM_EXPECTED_LAST_SEQ_PER_SUBJECT_INVALID);
        }
        if msg_headers.has(Key::ExpectedLastSequence) {
            let last = self.store.totals().last_seq;
            if sequence(msg_headers.get(Key::ExpectedLastSequence)) != last {
                return Err(ApiError::stream_wrong_last_sequence(last));
            }
        }
        Ok(())
    }

    fn check_subject_sequence(&self, msg_headers: &MsgHeaders<'_>, subject: &[u8]) -> Result<(), ApiError> {
        let last = self.last_of_expected(msg_headers, subject)?;
        if sequence(msg_headers.get(Key::ExpectedLastSubjectSequence)) == last
            || myelin_stdx::planted::bug(17)
        {
            Ok(())
        } else {
            Err(ApiError::stream_wrong_last_sequence(last))
        }
    }

    /// The last sequence of the subject that an expectation is about; 0 for none.
    pub(super) fn last_of_expected(
        &self,
        msg_headers: &MsgHeaders<'_>,
        subject: &[u8],
    ) -> Result<u64, ApiError> {
        let other = msg_headers.get(Key::ExpectedLastSubjectSequenceSubject);
        let subject = if other.is_empty() { subject } else { other };
        let last = if myelin_subject::has_wildcard(subject) {
            self.store.last_matching(&Filter::new(subject))
        } else {
            self.store.last_of(subject)
        };
        Ok(last.map_err(ApiError::stream_store_failed)?.unwrap_or(0))
    }

    /// The sequence of the message, if it came before.
    pub(super) fn known_seq(&mut self, msg_headers: &MsgHeaders<'_>, ingest: &mut Ingest<'_>) -> Option<Seq> {
        let id = msg_headers.get(Key::MsgId);
        if id.is_empty() || self.rules.is_mirror {
            return None;
        }
        let mut known = self.ids.find(id, ingest.now);
        if known == KnownId::Pending {
            // It is in this run: only storing that tells whether it was taken.
            self.flush(ingest);
            known = self.ids.find(id, ingest.now);
        }
        match known {
            KnownId::Stored(seq) => Some(seq),
            KnownId::No | KnownId::Pending => None,
        }
    }

    /// Checks what the last message's id is expected to be.
    pub(super) fn check_last_id(&self, msg_headers: &MsgHeaders<'_>) -> Result<(), ApiError> {
        let expected = msg_headers.get(Key::ExpectedLastMsgId);
        if !expected.is_empty() && expected != self.last.id {
            let last = String::from_utf8_lossy(&self.last.id);
            return Err(ApiError::stream_wrong_last_msg_id(last));
        }
        Ok(())
    }

    /// Whether the server and the account may keep so much more.
    ///
    /// Compat: the server's limit refuses what comes when it is exceeded already. What is not
    /// stored counts for nothing, except in a batch.
    pub(super) fn check_room(
        &mut self,
        size: u64,
        counts: bool,
        ingest: &mut Ingest<'_>,
    ) -> Result<(), ApiError> {
        loop {
            let found = self.find_room(size, counts);
            if found.is_ok() || !self.run.has_drafts() {
                return found;
            }
            // What waits may evict as much as it brings.
            self.flush(ingest);
        }
    }

    /// Whether there is room for so much more than what waits, if that evicts nothing.
    pub(super) fn find_room(&self, size: u64, counts: bool) -> Result<(), ApiError> {
        let waiting = i64::try_from(self.run.bytes).unwrap_or(i64::MAX);
        let more = waiting.saturating_add_unsigned(size);
        if self.settings.is_group_full || !self.settings.server.admits(waiting) {
            return Err(ApiError::INSUFFICIENT_RESOURCES);
        }
        let with_copies = more.saturating_mul(1 + self.copies_elsewhere());
        if counts && !self.settings.account.admits(with_copies) {
            return Err(self.settings.account.refusal());
        }
        Ok(())
    }

    /// When the message ends, with a header that says so.
    fn set_expiry(
        &mut self,
        msg_headers: &MsgHeaders<'_>,
        draft: &mut MsgDraft,
        msg: MessageRef<'_>,
    ) -> Result<(), ApiError> {
        let (expiry, told) = self.rules.expiry(msg_headers)?;
        draft.expires = expiry;
        if let Some(seconds) = told {
            let mut headers = std::mem::take(&mut self.scratch.text);
            headers.clear();
            headers.extend_from_slice(self.run.apply(draft, msg).headers);
            draft.headers = Some(self.run.keep(|kept| write_ttl(&headers, seconds, kept)));
            self.scratch.text = headers;
        }
        Ok(())
    }
}

/// The reply subject as the publisher wrote it, where another account has put its own in its place.
fn original_reply(reply: &[u8], msg_headers: &MsgHeaders<'_>) -> Option<String> {
    /// Request information of the other account.
    #[derive(serde::Deserialize)]
    struct RequestInfo {
        reply: Option<String>,
    }
    if !reply.starts_with(b"_R_.") || !msg_headers.has(Key::RequestInfo) {
        return None;
    }
    serde_json::from_slice::<RequestInfo>(msg_headers.get(Key::RequestInfo)).ok()?.reply
}

/// Compat: what is no number stands for one that no stream has.
pub(super) fn sequence(text: &[u8]) -> u64 {
    let mut sum = 0_i64;
    for byte in text {
        if !byte.is_ascii_digit() {
            return u64::MAX;
        }
        sum = sum.wrapping_mul(10).wrapping_add(i64::from(byte - b'0'));
    }
    sum as u64
}

/// Writes `first` and `lines` (from the CRLF behind the first line on) without the lines of `keys`.
/// Nothing, if that leaves no line.
fn write_without(first: &[u8], lines: &[u8], keys: &[&[u8]], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(first);
    let mut rest = lines;
    while !rest.is_empty() {
        let end = rest.windows(2).skip(2).position(|pair| pair == b"\r\n").map_or(rest.len(), |at| at + 2);
        let (line, behind) = rest.split_at(end);
        let is_of = |key: &&[u8]| {
            line.strip_prefix(b"\r\n")
                .and_then(|line| line.strip_prefix(*key))
                .is_some_and(|line| line.starts_with(b":"))
        };
        if !keys.iter().any(is_of) {
            out.extend_from_slice(line);
        }
        rest = behind;
    }
    if out.len() - start <= first.len() + 4 {
        out.truncate(start);
    }
}

/// Writes a header block with another time to live, which stands at its end.
fn write_ttl(headers: &[u8], seconds: i64, out: &mut Vec<u8>) {
    let end = headers.iter().position(|&byte| byte == b'\r').unwrap_or(headers.len());
    let (first, lines) = headers.split_at(end);
    let start = out.len();
    write_without(first, lines, &[b"Nats-TTL"], out);
    if out[start..].ends_with(b"\r\n\r\n") {
        out.truncate(out.len() - 2);
    } else {
        out.extend_from_slice(b"NATS/1.0\r\n");
    }
    out.extend_from_slice(b"Nats-TTL: ");
    encode::number(out, seconds.unsigned_abs());
    out.extend_from_slice(b"\r\n\r\n");
}
