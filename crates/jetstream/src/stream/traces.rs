//! Messages that are traced: what the stream did with each, in the reference's words, and what it would do with one that
//! nobody is to get.

use super::admit::Ingest;
use super::append_run::{Draft, Verdict};
use super::core::StreamCore;
use super::effects::Effects;
use super::msg_headers::{Key, MsgHeaders};
use crate::ApiError;
use myelin_broker::{MessageBuf, MessageRef, Traced};
use myelin_wire::error::Quoted;
use std::sync::Arc;

impl StreamCore {
    /// Takes message number `at` of a buffer with traced ones.
    #[cold]
    #[inline(never)]
    pub(super) fn take_traced(&mut self, at: usize, msg: MessageRef<'_>, intake: &mut Ingest<'_>) {
        match intake.msgs.trace(at) {
            Some(trace) if trace.is_only() => self.examine(at, msg, &trace.clone(), intake),
            _ => self.take(at, msg, intake),
        }
    }

    /// Finds out what would become of a message. Its publisher hears of errors, and of nothing else.
    fn examine(&mut self, at: usize, msg: MessageRef<'_>, trace: &Traced, intake: &mut Ingest<'_>) {
        // It is to be judged by what came before it.
        self.flush(intake);
        let marks = MsgHeaders::scan(msg.headers);
        let mut draft = Draft::default();
        let verdict = match self.admit(msg, &marks, &mut draft, intake) {
            Ok(verdict) => verdict,
            Err(error) => Verdict::Refuse(Box::new(error)),
        };
        if let Some(slot) = draft.id.take() {
            self.ids.refused(slot);
        }
        if let Verdict::Store = verdict {
            let message = self.run.apply(&draft, msg);
            let outcome = Ok((message.subject, draft.is_unwanted));
            note(trace, outcome, intake.effects);
            self.run.clear();
            return;
        }
        self.run.clear();
        if msg.reply.is_empty() {
            let outcome = Err(refusal(&verdict, &marks));
            return note(trace, outcome, intake.effects);
        }
        self.run.push(at, Draft::default(), verdict);
        self.flush(intake);
    }

    /// Says what became of the run's messages, as far as they are traced.
    #[cold]
    pub(super) fn tell_traces(&self, intake: &mut Ingest<'_>) {
        for entry in self.run.entries() {
            let Some(trace) = intake.msgs.trace(entry.msg) else { continue };
            let Some(msg) = intake.msgs.get(entry.msg) else { continue };
            let outcome = match &entry.verdict {
                Verdict::Store | Verdict::Aside(_) => continue,
                Verdict::Stored(..) => {
                    Ok((self.run.apply(&entry.draft, msg).subject, entry.draft.is_unwanted))
                }
                refused => Err(refusal(refused, &MsgHeaders::scan(msg.headers))),
            };
            note(trace, outcome, intake.effects);
        }
    }

    /// Of messages of batches nothing more is told than that they came.
    #[cold]
    pub(super) fn end_traces(&self, msgs: &MessageBuf, effects: &mut Effects) {
        for (at, msg) in msgs.iter().enumerate() {
            if let Some(trace) = msgs.trace(at) {
                note(trace, Ok((msg.subject, false)), effects);
            }
        }
    }
}

fn note(traced: &Traced, outcome: Result<(&[u8], bool), String>, effects: &mut Effects) {
    if traced.settled(outcome) {
        effects.traced.push(Arc::clone(traced.trace()));
    }
}

/// Why a message is not taken. Compat: not always what its publisher is told.
fn refusal(verdict: &Verdict, marks: &MsgHeaders<'_>) -> String {
    let Verdict::Refuse(error) = verdict else { return "msgid is duplicate".to_owned() };
    let last = || error.description.rsplit(": ").next().unwrap_or_default();
    let text = |key| String::from_utf8_lossy(marks.get(key));
    match error.err_code {
        10060 => error.description.clone().into_owned(),
        10054 | 10097 => "maximum payload exceeded".to_owned(),
        10166 => "message TTL disabled".to_owned(),
        10070 => {
            let last = error.description.strip_prefix("wrong last msg ID: ").unwrap_or_default();
            let expected = Quoted(marks.get(Key::ExpectedLastMsgId));
            format!("last msgid mismatch: {expected} vs {}", Quoted(last.as_bytes()))
        }
        10071 if marks.has(Key::ExpectedLastSubjectSequence) => {
            let expected = text(Key::ExpectedLastSubjectSequence);
            format!("last sequence by subject mismatch: {expected} vs {}", last())
        }
        10071 => format!("last sequence mismatch: {} vs {}", text(Key::ExpectedLastSequence), last()),
        // The store's own words, and those about rollups.
        10077 | 10111 => error.description.clone().into_owned(),
        _ => ApiError::to_string(error),
    }
}
