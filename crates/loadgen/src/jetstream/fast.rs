//! Fast-ingest batches, one after the other, within the flow that the server grants.
//!
//! The reply of every message says where it stands in its batch. The first one waits for the
//! server's word how often it will acknowledge; then at most so many acknowledgements may be
//! outstanding. Budget per message: six bytes of the batch's id written. Owns the proof that each
//! batch is committed with all of its messages.

use crate::error::BenchError;
use crate::jetstream::answer::{Acknowledgement, FastAnswer};
use crate::jetstream::drive::{Done, SendBudget, Work};
use crate::jetstream::encoded_frames::{EncodedFrames, OutgoingMessage};
use crate::jetstream::envelope::Envelope;
use crate::jetstream::publish::Content;
use crate::token;

/// Flow control that a publisher asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The most messages per acknowledgement.
    pub every: u64,
    /// Acknowledgements that may be outstanding.
    pub acks: u64,
}

impl Flow {
    /// Flow control of official clients unless told otherwise.
    pub const DEFAULT: Self = Self { every: 100, acks: 2 };
}

/// Publisher of fast-ingest batches, one after the other.
#[derive(Debug)]
pub(crate) struct FastBatches {
    frames: EncodedFrames,
    answer: Acknowledgement,
    id: String,
    flow: Flow,
    payload_bytes: u64,
    begun: u64,
    committed: u64,
    /// The batch under way.
    open: Option<Open>,
}

#[derive(Clone, Debug)]
struct Open {
    id: String,
    sent: usize,
    acknowledged: u64,
    /// Messages per acknowledgement as the server said last; unknown before its first word.
    every: Option<u64>,
}

impl Open {
    /// How many messages of a batch of this size may be sent by now.
    fn allowed(&self, acks: u64, size: usize) -> usize {
        match self.every {
            None => 1,
            Some(every) => {
                usize::try_from(self.acknowledged + every * acks).map_or(size, |up_to| up_to.min(size))
            }
        }
    }
}

impl FastBatches {
    /// Batches of `size` messages, which is at least 2.
    pub(crate) fn new(content: &Content, inbox: &str, size: usize, flow: Flow) -> Self {
        let id = token::unique(ID - token::TOKEN);
        let prefix = format!("{inbox}.{id}{}.{}.fail", token::BLANK, flow.every);
        let mut frames = EncodedFrames::default();
        let mut payload_bytes = 0;
        for (number, (subject, payload)) in (1..=size).zip(content.rotation().iter().cycle()) {
            let operation = match number {
                1 => START,
                _ if number == size => COMMIT,
                _ => APPEND,
            };
            let reply = format!("{prefix}.{number}.{operation}.$FI");
            payload_bytes += payload.len() as u64;
            frames.push(OutgoingMessage { subject, reply: Some(&reply), headers: None, payload });
        }
        let answer = Acknowledgement::of(&content.stream);
        Self { frames, answer, id, flow, payload_bytes, begun: 0, committed: 0, open: None }
    }

    fn begin(&mut self) {
        self.begun += 1;
        (0..self.frames.len()).for_each(|message| self.frames.mark(message, self.begun));
        let mut token = [0; token::TOKEN];
        token::write(&mut token, self.begun);
        let id = format!("{}{}", self.id, String::from_utf8_lossy(&token));
        self.open = Some(Open { id, sent: 0, acknowledged: 0, every: None });
    }
}

/// Characters of an id, as many as official clients use.
const ID: usize = 22;

const START: u8 = 0;
const APPEND: u8 = 1;
const COMMIT: u8 = 2;

impl Work for FastBatches {
    fn frames(&mut self) -> &mut EncodedFrames {
        &mut self.frames
    }

    fn fill(&mut self, budget: &mut SendBudget) {
        if self.open.is_none() && budget.take_whole(self.frames.len()) {
            self.begin();
        }
        let Some(open) = &mut self.open else { return };
        let allowed = open.allowed(self.flow.acks, self.frames.len());
        if allowed > open.sent {
            self.frames.stage(open.sent..allowed);
            open.sent = allowed;
        }
    }

    fn take(&mut self, envelope: &Envelope<'_>) -> Result<(), BenchError> {
        let out_of_turn = || {
            let tail = String::from_utf8_lossy(envelope.tail);
            BenchError::Protocol(format!("an answer to {tail:?} out of turn"))
        };
        let open = self.open.as_mut().ok_or_else(out_of_turn)?;
        if !envelope.tail.starts_with(open.id.as_bytes()) {
            return Err(out_of_turn());
        }
        match self.answer.fast(envelope, &open.id)? {
            FastAnswer::Flow { sequence, every } => {
                let is_plausible = sequence >= open.acknowledged && sequence <= open.sent as u64;
                if every == 0 || every > self.flow.every || !is_plausible {
                    return Err(out_of_turn());
                }
                (open.acknowledged, open.every) = (sequence, Some(every));
            }
            FastAnswer::Committed { count, .. } => {
                if open.sent != self.frames.len() || count != self.frames.len() as u64 {
                    return Err(BenchError::Lost(format!(
                        "{count} messages in a batch of {}",
                        self.frames.len()
                    )));
                }
                self.open = None;
                self.committed += 1;
            }
        }
        Ok(())
    }

    fn is_settled(&self) -> bool {
        self.open.is_none()
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

    const FLOW: Flow = Flow { every: 4, acks: 2 };

    fn work(size: usize) -> FastBatches {
        let content = Content { stream: "S".into(), subjects: 2, sizes: Sizes::exactly(1) };
        FastBatches::new(&content, "_INBOX.x", size, FLOW)
    }

    /// Text of the next staged frames, which then count as sent.
    fn sent(work: &mut FastBatches) -> String {
        work.fill(&mut SendBudget::new(Until::Messages(1)));
        let text = String::from_utf8_lossy(work.frames.unsent()).into_owned();
        work.frames.advance(text.len());
        text
    }

    fn answer(work: &mut FastBatches, payload: &str) -> Result<(), BenchError> {
        let tail = format!("{}.4.fail.1.0.$FI", work.open.as_ref().unwrap().id);
        work.take(&Envelope { tail: tail.as_bytes(), header: b"", payload: payload.as_bytes() })
    }

    #[test]
    fn a_batch_keeps_to_the_flow_of_the_server() {
        let mut work = work(13);
        let first = sent(&mut work);
        let id = work.open.as_ref().unwrap().id.clone();
        assert!(first.starts_with(&format!("PUB S.0 _INBOX.x.{id}.4.fail.1.0.$FI 1\r\n")), "{first}");
        assert_eq!(sent(&mut work), "");
        answer(&mut work, r#"{"type":"ack","seq":0,"msgs":2}"#).unwrap();
        let next = sent(&mut work);
        assert_eq!(next.matches("PUB ").count(), 3, "{next}");
        assert!(next.contains(&format!("PUB S.1 _INBOX.x.{id}.4.fail.4.1.$FI 1\r\n")), "{next}");
        answer(&mut work, r#"{"type":"ack","seq":2,"msgs":4}"#).unwrap();
        assert_eq!(sent(&mut work).matches("PUB ").count(), 6);
        assert!(answer(&mut work, r#"{"type":"ack","seq":11,"msgs":4}"#).is_err(), "beyond what was sent");
        assert!(
            answer(&mut work, r#"{"type":"ack","seq":6,"msgs":5}"#).is_err(),
            "beyond what was asked for"
        );
        answer(&mut work, r#"{"type":"ack","seq":6,"msgs":4}"#).unwrap();
        let last = sent(&mut work);
        assert!(last.contains(&format!("{id}.4.fail.13.2.$FI")), "{last}");
        let commit = |count| format!(r#"{{"stream":"S","seq":13,"batch":"{id}","count":{count}}}"#);
        assert!(answer(&mut work, &commit(12)).is_err());
        answer(&mut work, &commit(13)).unwrap();
        assert!(work.is_settled());
        assert_eq!(work.done().messages, 13);
    }

    #[test]
    fn errors_and_gaps_fail_the_run() {
        let mut work = work(3);
        sent(&mut work);
        assert!(answer(&mut work, r#"{"error":{"err_code":10205}}"#).is_err());
        assert!(answer(&mut work, r#"{"type":"gap","last_seq":1,"seq":3}"#).is_err());
        let other = Envelope { tail: b"other.4.fail.1.0.$FI", header: b"", payload: b"{}" };
        assert!(work.take(&other).is_err());
    }
}
