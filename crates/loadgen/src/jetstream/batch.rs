//! Atomic batches, one after the other, the way official clients send them.
//!
//! The first message asks for an answer and waits for it, all others follow at once, the last one
//! commits. Budget per message: six bytes of the batch's id written. Owns the proof that each batch
//! is committed with all of its messages.

use crate::error::BenchError;
use crate::jetstream::answer::{self, Acknowledgement};
use crate::jetstream::drive::{Done, SendBudget, Work};
use crate::jetstream::encoded_frames::{EncodedFrames, OutgoingMessage};
use crate::jetstream::envelope::Envelope;
use crate::jetstream::publish::Content;
use crate::token;

/// Publisher of atomic batches, one after the other.
#[derive(Debug)]
pub(crate) struct AtomicBatches {
    frames: EncodedFrames,
    answer: Acknowledgement,
    /// The start of every id; a token is its end.
    id: String,
    payload_bytes: u64,
    state: BatchState,
    begun: u64,
    committed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BatchState {
    Idle,
    /// The first message is sent, its answer is not there.
    First,
    /// The server wants the rest.
    Rest,
    /// All is sent, the commit is not there.
    Last,
}

impl AtomicBatches {
    /// Batches of `size` messages, which is at least 2.
    pub(crate) fn new(content: &Content, inbox: &str, size: usize) -> Self {
        let id = token::unique(ID - token::TOKEN);
        let mut frames = EncodedFrames::default();
        let mut payload_bytes = 0;
        for (number, (subject, payload)) in (1..=size).zip(content.rotation().iter().cycle()) {
            let commit = if number == size { "Nats-Batch-Commit: 1\r\n" } else { "" };
            let blank = token::BLANK;
            let headers = format!("Nats-Batch-Id: {id}{blank}\r\nNats-Batch-Sequence: {number}\r\n{commit}");
            let reply = match number {
                1 => Some(format!("{inbox}.{FIRST}")),
                _ if number == size => Some(format!("{inbox}.{COMMIT}")),
                _ => None,
            };
            payload_bytes += payload.len() as u64;
            frames.push(OutgoingMessage {
                subject,
                reply: reply.as_deref(),
                headers: Some(&headers),
                payload,
            });
        }
        let answer = Acknowledgement::of(&content.stream);
        Self { frames, answer, id, payload_bytes, state: BatchState::Idle, begun: 0, committed: 0 }
    }

    fn current_id(&self) -> String {
        let mut token = [0; token::TOKEN];
        token::write(&mut token, self.begun);
        format!("{}{}", self.id, String::from_utf8_lossy(&token))
    }

    fn commit(&mut self, envelope: &Envelope<'_>) -> Result<(), BenchError> {
        let (_, count) = self.answer.committed(envelope, &self.current_id())?;
        if count != self.frames.len() as u64 {
            return Err(BenchError::Lost(format!("{count} messages in a batch of {}", self.frames.len())));
        }
        self.committed += 1;
        Ok(())
    }
}

/// Characters of an id, as many as official clients use.
const ID: usize = 22;

const FIRST: &str = "first";
const COMMIT: &str = "commit";

impl Work for AtomicBatches {
    fn frames(&mut self) -> &mut EncodedFrames {
        &mut self.frames
    }

    fn fill(&mut self, budget: &mut SendBudget) {
        let size = self.frames.len();
        match self.state {
            BatchState::Idle if budget.take_whole(size) => {
                self.begun += 1;
                (0..size).for_each(|message| self.frames.mark(message, self.begun));
                self.frames.stage(0..1);
                self.state = BatchState::First;
            }
            BatchState::Rest => {
                self.frames.stage(1..size);
                self.state = BatchState::Last;
            }
            BatchState::Idle | BatchState::First | BatchState::Last => {}
        }
    }

    fn take(&mut self, envelope: &Envelope<'_>) -> Result<(), BenchError> {
        self.state = match (self.state, envelope.tail) {
            (BatchState::First, tail) if tail == FIRST.as_bytes() => match envelope.payload {
                b"" if envelope.header.is_empty() => BatchState::Rest,
                _ => {
                    let answer = answer::json(envelope)?;
                    return Err(BenchError::Protocol(format!(
                        "the answer to a batch's first message: {answer}"
                    )));
                }
            },
            (BatchState::Last, tail) if tail == COMMIT.as_bytes() => {
                self.commit(envelope)?;
                BatchState::Idle
            }
            (_, tail) => {
                let tail = String::from_utf8_lossy(tail);
                return Err(BenchError::Protocol(format!("an answer to {tail:?} out of turn")));
            }
        };
        Ok(())
    }

    fn is_settled(&self) -> bool {
        self.state == BatchState::Idle
    }

    fn done(&self) -> Done {
        Done {
            messages: self.committed * self.frames.len() as u64,
            payload_bytes: self.committed * self.payload_bytes,
            ..Done::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pubsub::publisher::Until;
    use crate::pubsub::script::Sizes;

    fn says<'a>(tail: &'a str, payload: &'a str) -> Envelope<'a> {
        Envelope { tail: tail.as_bytes(), header: b"", payload: payload.as_bytes() }
    }

    /// Text of the next staged frames, which then count as sent.
    fn sent(work: &mut AtomicBatches, budget: &mut SendBudget) -> String {
        work.fill(budget);
        let text = String::from_utf8_lossy(work.frames.unsent()).into_owned();
        work.frames.advance(text.len());
        text
    }

    #[test]
    fn a_batch_waits_for_the_first_answer_and_ends_with_a_commit() {
        let content = Content { stream: "S".into(), subjects: 2, sizes: Sizes::exactly(1) };
        let mut work = AtomicBatches::new(&content, "_INBOX.x", 3);
        let mut budget = SendBudget::new(Until::Messages(4));
        let first = sent(&mut work, &mut budget);
        let id = work.current_id();
        assert_eq!(id.len(), 22);
        let header = format!("NATS/1.0\r\nNats-Batch-Id: {id}\r\nNats-Batch-Sequence: 1\r\n\r\n");
        assert!(first.starts_with("HPUB S.0 _INBOX.x.first 75 76\r\n") && first.contains(&header), "{first}");
        assert_eq!(sent(&mut work, &mut budget), "");
        work.take(&says("first", "")).unwrap();
        let rest = sent(&mut work, &mut budget);
        assert!(rest.starts_with("HPUB S.1 75 76\r\n"), "{rest}");
        assert!(rest.contains("HPUB S.0 _INBOX.x.commit 97 98\r\n"), "{rest}");
        assert!(rest.contains("Nats-Batch-Sequence: 3\r\nNats-Batch-Commit: 1\r\n\r\n"), "{rest}");
        assert!(!work.is_settled() && work.take(&says("first", "")).is_err());
        let commit = format!(r#"{{"stream":"S","seq":3,"batch":"{id}","count":3}}"#);
        work.take(&says("commit", &commit)).unwrap();
        assert!(work.is_settled());
        assert_eq!(work.done().messages, 3);
        assert_ne!(sent(&mut work, &mut budget), first, "another id");
        work.state = BatchState::Last;
        assert!(work.take(&says("commit", &commit)).is_err(), "the commit of the batch before");
    }

    #[test]
    fn a_refused_batch_fails_the_run() {
        let content = Content { stream: "S".into(), subjects: 1, sizes: Sizes::exactly(1) };
        let mut work = AtomicBatches::new(&content, "_INBOX.x", 2);
        sent(&mut work, &mut SendBudget::new(Until::Messages(2)));
        let refused = work.take(&says("first", r#"{"error":{"err_code":10174}}"#));
        assert!(matches!(refused, Err(BenchError::Refused(text)) if text.contains("10174")));
    }
}
