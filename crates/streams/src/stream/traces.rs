//! Messages that are traced: what the stream did with each, in the reference's words, and what it
//! would do with one that nobody is to get.

use super::admit::Ingest;
use super::append_run::{MsgDraft, MsgVerdict};
use super::core::StreamCore;
use super::msg_headers::{Key, MsgHeaders};
use myelin_jsapi::ApiError;
use myelin_store::Seq;
use myelin_wire::error::Quoted;
use myelin_wire::message_buf::MessageRef;

/// Traces of the messages in one buffer, which the stream fills in. Messages are named by their
/// number in the buffer.
pub trait MessageTraces {
    /// Whether the message is traced.
    fn is_traced(&self, at: usize) -> bool;

    /// Whether it is traced and nobody is to get it: the stream judges it and does not store it.
    fn is_only(&self, at: usize) -> bool;

    /// Notes what the stream did with it: took it, or refused it. Only the first outcome of a
    /// message counts; one that is not traced is passed over.
    fn settle(&mut self, at: usize, outcome: Result<TracedOutcome<'_>, String>);
}

/// Outcome of a traced message that the stream has taken.
#[derive(Clone, Copy, Debug)]
pub struct TracedOutcome<'a> {
    /// Subject of the message in the stream.
    pub subject: &'a [u8],
    /// Sequence, if it is stored and the sequence is known.
    pub seq: Option<Seq>,
    /// Whether nobody is interested.
    pub is_unwanted: bool,
}

impl StreamCore {
    /// Takes message number `at` of a buffer with traced ones.
    #[cold]
    #[inline(never)]
    pub(super) fn take_traced(&mut self, at: usize, msg: MessageRef<'_>, ingest: &mut Ingest<'_>) {
        if ingest.traces.as_ref().is_some_and(|traces| traces.is_only(at)) {
            self.examine(at, msg, ingest);
        } else {
            self.take(at, msg, ingest);
        }
    }

    /// Finds out what would become of a message. Its publisher hears of errors, and of nothing
    /// else.
    fn examine(&mut self, at: usize, msg: MessageRef<'_>, ingest: &mut Ingest<'_>) {
        // It is to be judged by what came before it.
        self.flush(ingest);
        let msg_headers = MsgHeaders::scan(msg.headers);
        let mut draft = MsgDraft::default();
        let verdict = match self.admit(msg, &msg_headers, &mut draft, ingest) {
            Ok(verdict) => verdict,
            Err(error) => MsgVerdict::Refuse(Box::new(error)),
        };
        if let Some(slot) = draft.id.take() {
            self.ids.refused(slot);
        }
        if let MsgVerdict::Store = verdict {
            let message = self.run.apply(&draft, msg);
            let (subject, is_unwanted) = (message.subject, draft.is_unwanted);
            let outcome = Ok(TracedOutcome { subject, seq: None, is_unwanted });
            ingest.settle_trace(at, outcome);
            self.run.clear();
            return;
        }
        self.run.clear();
        if msg.reply.is_empty() {
            let outcome = Err(refusal(&verdict, &msg_headers));
            return ingest.settle_trace(at, outcome);
        }
        self.run.push(at, MsgDraft::default(), verdict);
        self.flush(ingest);
    }

    /// Says what became of the run's messages, as far as they are traced.
    #[cold]
    pub(super) fn note_traces(&self, ingest: &mut Ingest<'_>) {
        for entry in self.run.entries() {
            if !ingest.traces.as_ref().is_some_and(|traces| traces.is_traced(entry.msg)) {
                continue;
            }
            let Some(msg) = ingest.msgs.get(entry.msg) else { continue };
            let outcome = match &entry.verdict {
                MsgVerdict::Store | MsgVerdict::Aside(_) => continue,
                MsgVerdict::Stored(seq, _) => {
                    let is_unwanted = entry.draft.is_unwanted;
                    let subject = self.run.apply(&entry.draft, msg).subject;
                    Ok(TracedOutcome { subject, seq: (!is_unwanted).then_some(*seq), is_unwanted })
                }
                refused => Err(refusal(refused, &MsgHeaders::scan(msg.headers))),
            };
            ingest.settle_trace(entry.msg, outcome);
        }
    }
}

impl Ingest<'_> {
    /// Of messages of batches nothing more is told than that they came.
    pub(super) fn end_traces(&mut self) {
        if self.traces.is_none() {
            return;
        }
        let msgs = self.msgs;
        for (at, msg) in msgs.iter().enumerate() {
            let outcome = TracedOutcome { subject: msg.subject, seq: None, is_unwanted: false };
            self.settle_trace(at, Ok(outcome));
        }
    }

    fn settle_trace(&mut self, at: usize, outcome: Result<TracedOutcome<'_>, String>) {
        if let Some(traces) = &mut self.traces {
            traces.settle(at, outcome);
        }
    }
}

/// Why a message is not taken. Compat: not always what its publisher is told.
fn refusal(verdict: &MsgVerdict, msg_headers: &MsgHeaders<'_>) -> String {
    let MsgVerdict::Refuse(error) = verdict else { return "msgid is duplicate".to_owned() };
    let last = || error.description.rsplit(": ").next().unwrap_or_default();
    let text = |key| String::from_utf8_lossy(msg_headers.get(key));
    match error.err_code {
        10060 => error.description.clone().into_owned(),
        10054 | 10097 => "maximum payload exceeded".to_owned(),
        10166 => "message TTL disabled".to_owned(),
        10070 => {
            let last = error.description.strip_prefix("wrong last msg ID: ").unwrap_or_default();
            let expected = Quoted(msg_headers.get(Key::ExpectedLastMsgId));
            format!("last msgid mismatch: {expected} vs {}", Quoted(last.as_bytes()))
        }
        10071 if msg_headers.has(Key::ExpectedLastSubjectSequence) => {
            let expected = text(Key::ExpectedLastSubjectSequence);
            format!("last sequence by subject mismatch: {expected} vs {}", last())
        }
        10071 => format!("last sequence mismatch: {} vs {}", text(Key::ExpectedLastSequence), last()),
        // The store's own words, and those about rollups.
        10077 | 10111 => error.description.clone().into_owned(),
        _ => ApiError::to_string(error),
    }
}
