//! Stored messages that are published again elsewhere, with headers that say where they are stored.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use myelin_stdx::rfc3339;
use myelin_store::{Seq, StoreError, Stream, Timestamp};
use myelin_subject::Transform;
use myelin_wire::message_buf::{MessageBuf, MessageRef};

use super::append_run::{AppendRun, MsgVerdict};
use myelin_jsapi::config;
use myelin_wire::encode;

/// The rule of a stream, and the buffers for it.
pub(super) struct Republish {
    stream: String,
    transform: Transform,
    headers_only: bool,
    hasher: FixedState,
    /// Message that each one of the run follows on its subject.
    before: Vec<Before>,
    subject: Vec<u8>,
    headers: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Before {
    /// A stored message; 0 for none.
    Stored(Seq),
    /// An entry of the same run.
    InRun(usize),
}

impl Republish {
    /// `None` if there is no such rule, or none that works: the API admits no invalid one. `seed`
    /// is for hashes.
    pub(super) fn new(config: &config::StreamConfig, seed: u64) -> Option<Self> {
        let rule = config.republish.as_ref()?;
        let source = if rule.source.is_empty() { ">" } else { &rule.source };
        Some(Self {
            stream: config.name.clone(),
            transform: Transform::new(source, &rule.destination).ok()?,
            headers_only: rule.headers_only,
            hasher: FixedState::with_seed(seed),
            before: Vec::new(),
            subject: Vec::new(),
            headers: Vec::new(),
        })
    }

    /// Notes what each message of a run will follow. Before it is stored.
    pub(super) fn note_predecessors(
        &mut self,
        run: &AppendRun,
        msgs: &MessageBuf,
        store: &Stream,
    ) -> Result<(), StoreError> {
        self.before.clear();
        let mut newest = HashTable::<usize>::with_capacity(run.drafts());
        let subject_of = |at: usize| {
            let entry = &run.entries()[at];
            msgs.get(entry.msg).map(|msg| run.apply(&entry.draft, msg).subject)
        };
        let hash_of = |at: &usize| self.hasher.hash_one(subject_of(*at).unwrap_or_default());
        for at in 0..run.entries().len() {
            let subject = subject_of(at).unwrap_or_default();
            let is_same = |other: &usize| subject_of(*other) == Some(subject);
            let entry = &run.entries()[at];
            if entry.verdict != MsgVerdict::Store || entry.draft.is_unwanted {
                self.before.push(Before::Stored(0));
                continue;
            }
            match newest.find_mut(hash_of(&at), is_same) {
                Some(other) => self.before.push(Before::InRun(std::mem::replace(other, at))),
                None => {
                    self.before.push(Before::Stored(store.last_of(subject)?.unwrap_or(0)));
                    newest.insert_unique(hash_of(&at), at, hash_of);
                }
            }
        }
        Ok(())
    }

    /// Publishes entry `at` of the run, which is stored as `message`.
    pub(super) fn publish_entry(
        &mut self,
        run: &AppendRun,
        at: usize,
        stored: (Seq, Timestamp),
        message: &MessageRef<'_>,
        random: &mut impl FnMut() -> u32,
        out: &mut MessageBuf,
    ) {
        let mut before = self.before.get(at).copied().unwrap_or(Before::Stored(0));
        let last = loop {
            match before {
                Before::Stored(seq) => break seq,
                Before::InRun(other) => match run.entries()[other].verdict {
                    MsgVerdict::Stored(seq, _) => break seq,
                    // It was refused: what it would have followed counts.
                    _ => before = self.before[other],
                },
            }
        };
        self.publish(stored, last, message, random, out);
    }

    /// Publishes a message that is stored, behind message `last` of its subject.
    pub(super) fn publish(
        &mut self,
        (seq, time): (Seq, Timestamp),
        last: Seq,
        message: &MessageRef<'_>,
        random: &mut impl FnMut() -> u32,
        out: &mut MessageBuf,
    ) {
        if self.transform.transform(message.subject, random, &mut self.subject).is_err()
            // Compat: nothing is published on a subject that is none.
            || !myelin_subject::is_literal(&self.subject)
        {
            return;
        }
        self.write_headers(seq, time, last, message);
        let payload = if self.headers_only { &[] } else { message.payload };
        out.push(MessageRef {
            subject: &self.subject,
            headers: &self.headers,
            payload,
            ..MessageRef::default()
        });
    }

    fn write_headers(&mut self, seq: Seq, time: Timestamp, last: Seq, message: &MessageRef<'_>) {
        let headers = &mut self.headers;
        headers.clear();
        let own = message.headers.strip_suffix(b"\r\n").unwrap_or(b"NATS/1.0\r\n");
        headers.extend_from_slice(own);
        let mut line = |key: &str, write: &mut dyn FnMut(&mut Vec<u8>)| {
            headers.extend_from_slice(key.as_bytes());
            headers.extend_from_slice(b": ");
            write(headers);
            headers.extend_from_slice(b"\r\n");
        };
        line("Nats-Stream", &mut |out| out.extend_from_slice(self.stream.as_bytes()));
        line("Nats-Subject", &mut |out| out.extend_from_slice(message.subject));
        line("Nats-Sequence", &mut |out| encode::number(out, seq));
        line("Nats-Time-Stamp", &mut |out| rfc3339::write(out, time));
        line("Nats-Last-Sequence", &mut |out| encode::number(out, last));
        if self.headers_only {
            line("Nats-Msg-Size", &mut |out| encode::number(out, message.payload.len() as u64));
        }
        headers.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_can_tell_which_subjects_collide() {
        let rule = config::Republish { source: ">".into(), destination: "r.>".into(), headers_only: false };
        let config = config::StreamConfig { republish: Some(rule), ..config::StreamConfig::default() };
        let hash = |seed| Republish::new(&config, seed).expect("the rule works").hasher.hash_one(b"a");
        assert_ne!(hash(1), hash(2));
    }
}
