//! Messages that are traced: what the stream did with each, in the reference's words, and what it would do with one that
//! nobody is to get.

use super::admit::Intake;
use super::core::StreamCore;
use super::effects::Effects;
use super::marks::{Key, Marks};
use super::run::{Draft, Verdict};
use crate::ApiError;
use myelin_broker::{Letter, Parcel, Traced};
use myelin_wire::error::Quoted;
use std::sync::Arc;

impl StreamCore {
    /// Takes message number `at` of a parcel with traced ones.
    #[cold]
    #[inline(never)]
    pub(super) fn take_traced(&mut self, at: usize, letter: Letter<'_>, intake: &mut Intake<'_>) {
        match intake.parcel.trace(at) {
            Some(trace) if trace.is_only() => self.examine(at, letter, &trace.clone(), intake),
            _ => self.take(at, letter, intake),
        }
    }

    /// Finds out what would become of a message. Its publisher hears of errors, and of nothing else.
    fn examine(&mut self, at: usize, letter: Letter<'_>, trace: &Traced, intake: &mut Intake<'_>) {
        // It is to be judged by what came before it.
        self.flush(intake);
        let marks = Marks::scan(letter.headers);
        let mut draft = Draft::default();
        let verdict = match self.admit(letter, &marks, &mut draft, intake) {
            Ok(verdict) => verdict,
            Err(error) => Verdict::Refuse(Box::new(error)),
        };
        if let Some(slot) = draft.id.take() {
            self.ids.refused(slot);
        }
        if let Verdict::Store = verdict {
            let message = self.run.apply(&draft, letter);
            let outcome = Ok((message.subject, draft.is_unwanted));
            note(trace, outcome, intake.effects);
            self.run.clear();
            return;
        }
        self.run.clear();
        if letter.reply.is_empty() {
            let outcome = Err(refusal(&verdict, &marks));
            return note(trace, outcome, intake.effects);
        }
        self.run.push(at, Draft::default(), verdict);
        self.flush(intake);
    }

    /// Says what became of the run's messages, as far as they are traced.
    #[cold]
    pub(super) fn tell_traces(&self, intake: &mut Intake<'_>) {
        for entry in self.run.entries() {
            let Some(trace) = intake.parcel.trace(entry.letter) else { continue };
            let Some(letter) = intake.parcel.get(entry.letter) else { continue };
            let outcome = match &entry.verdict {
                Verdict::Store | Verdict::Aside(_) => continue,
                Verdict::Stored(..) => {
                    Ok((self.run.apply(&entry.draft, letter).subject, entry.draft.is_unwanted))
                }
                refused => Err(refusal(refused, &Marks::scan(letter.headers))),
            };
            note(trace, outcome, intake.effects);
        }
    }

    /// Of messages of batches nothing more is told than that they came.
    #[cold]
    pub(super) fn end_traces(&self, parcel: &Parcel, effects: &mut Effects) {
        for (at, letter) in parcel.iter().enumerate() {
            if let Some(trace) = parcel.trace(at) {
                note(trace, Ok((letter.subject, false)), effects);
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
fn refusal(verdict: &Verdict, marks: &Marks<'_>) -> String {
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
