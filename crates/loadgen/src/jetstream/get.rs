//! Direct gets from a stream: by sequence, one at a time or many in flight, and in batches.
//!
//! Budget per message: for single gets one line written, for batches nothing; a look at two header
//! lines of the answer. Owns the proof that every answer is the message that was asked for, and the
//! end of every batch.

use std::fmt;
use std::ops::Range;

use crate::error::BenchError;
use crate::jetstream::drive::{Done, SendBudget, Stopwatch, Work};
use crate::jetstream::encoded_frames::{EncodedFrames, OutgoingMessage};
use crate::jetstream::envelope::{Envelope, number};
use crate::jetstream::window::Window;
use crate::pubsub::script;
use crate::token;

/// A stream that is read: messages 1 to `messages` of `size` bytes each.
#[derive(Clone, Debug)]
pub(crate) struct Filled {
    pub(crate) stream: String,
    pub(crate) messages: u64,
    pub(crate) size: usize,
}

impl Filled {
    /// The sequence of a message in an answer, which must be of the right size and without a
    /// status.
    fn sequence(&self, envelope: &Envelope<'_>) -> Result<u64, BenchError> {
        match sequence(envelope.header) {
            Some(sequence) if envelope.payload.len() == self.size => Ok(sequence),
            _ => Err(unexpected(envelope, format_args!("a message of {} bytes", self.size))),
        }
    }
}

/// The value of Nats-Sequence, which our messages have as their third line, in front of what may
/// follow.
fn sequence(header: &[u8]) -> Option<u64> {
    let rest = header.strip_prefix(b"NATS/1.0\r\n")?;
    let mut lines = rest.split(|&byte| byte == b'\n');
    let mut value = lines.find_map(|line| line.strip_prefix(b"Nats-Sequence: "))?;
    number(&mut value)
}

/// The error for an answer that is not what was waited for.
fn unexpected(envelope: &Envelope<'_>, awaited: impl fmt::Debug) -> BenchError {
    if envelope.header.starts_with(b"NATS/1.0 503") {
        return BenchError::NoResponder;
    }
    let [tail, header] = [envelope.tail, envelope.header].map(String::from_utf8_lossy);
    let size = envelope.payload.len();
    BenchError::Lost(format!("{size} bytes to {tail} with the header {header:?} instead of {awaited:?}"))
}

/// Requests for the messages that begin at these sequences, in this order.
fn requests(filled: &Filled, inbox: &str, sequences: &[u64], batch: Option<u64>) -> EncodedFrames {
    let subject = format!("$JS.API.DIRECT.GET.{}", filled.stream);
    let reply = format!("{inbox}.{}", token::BLANK);
    let mut frames = EncodedFrames::default();
    for sequence in sequences {
        let body = match batch {
            None => format!("{{\"seq\":{sequence}}}"),
            Some(batch) => format!("{{\"batch\":{batch},\"seq\":{sequence}}}"),
        };
        frames.push(OutgoingMessage {
            subject: &subject,
            reply: Some(&reply),
            headers: None,
            payload: body.as_bytes(),
        });
    }
    frames
}

/// Gets of single messages in an order without locality.
#[derive(Debug)]
pub(crate) struct Gets {
    frames: EncodedFrames,
    filled: Filled,
    /// Sequence that each request in `frames` asks for.
    sequences: Vec<u64>,
    place: usize,
    window: Window,
    stopwatch: Option<Stopwatch>,
}

impl Gets {
    /// A client with at most `window` unanswered requests.
    pub(crate) fn new(filled: Filled, inbox: &str, window: usize) -> Self {
        let stride = script::stride(filled.messages as usize) as u64;
        let sequences: Vec<u64> =
            (0..filled.messages).map(|turn| 1 + turn * stride % filled.messages).collect();
        Self {
            frames: requests(&filled, inbox, &sequences, None),
            filled,
            sequences,
            place: 0,
            window: Window::new(window),
            stopwatch: (window == 1).then(Stopwatch::new),
        }
    }
}

impl Work for Gets {
    fn frames(&mut self) -> &mut EncodedFrames {
        &mut self.frames
    }

    fn fill(&mut self, budget: &mut SendBudget) {
        let room = self.window.room(self.frames.len() - self.place);
        let count = if room == 0 { 0 } else { budget.take(room) };
        if count == 0 {
            return;
        }
        let first = self.place;
        for place in first..first + count {
            let token = self.window.send(self.sequences[place]);
            self.frames.mark(place, token);
        }
        self.frames.stage(first..first + count);
        self.place = (first + count) % self.frames.len();
        if let Some(stopwatch) = &mut self.stopwatch {
            stopwatch.start();
        }
    }

    fn take(&mut self, envelope: &Envelope<'_>) -> Result<(), BenchError> {
        if let Some(stopwatch) = &mut self.stopwatch {
            stopwatch.stop();
        }
        let awaited = self.window.answer(envelope.tail)?;
        match self.filled.sequence(envelope)? == awaited {
            true => Ok(()),
            false => Err(unexpected(envelope, awaited)),
        }
    }

    fn is_settled(&self) -> bool {
        self.window.is_settled()
    }

    fn done(&self) -> Done {
        let messages = self.window.answered();
        Done {
            messages,
            payload_bytes: messages * self.filled.size as u64,
            sequences: None,
            latencies: self.stopwatch.as_ref().map(Stopwatch::latencies),
        }
    }
}

/// Gets of batches, one after the other, from the start of the stream to its end and over again.
#[derive(Debug)]
pub(crate) struct BatchGets {
    frames: EncodedFrames,
    filled: Filled,
    batch: u64,
    place: usize,
    /// Requests that were sent.
    begun: u64,
    /// Sequences still to come of the batch under way, behind which its end comes; `None` between
    /// two batches.
    awaited: Option<Range<u64>>,
    received: u64,
}

impl BatchGets {
    /// Batches of this many messages, which the stream must hold a whole number of.
    pub(crate) fn new(filled: Filled, inbox: &str, batch: u64) -> Self {
        let starts: Vec<u64> = (0..filled.messages / batch).map(|turn| 1 + turn * batch).collect();
        let frames = requests(&filled, inbox, &starts, Some(batch));
        Self { frames, filled, batch, place: 0, begun: 0, awaited: None, received: 0 }
    }

    fn is_the_end(header: &[u8]) -> bool {
        header.starts_with(b"NATS/1.0 204 EOB\r\n")
    }
}

impl Work for BatchGets {
    fn frames(&mut self) -> &mut EncodedFrames {
        &mut self.frames
    }

    fn fill(&mut self, budget: &mut SendBudget) {
        if self.awaited.is_some() || !budget.take_whole(self.batch as usize) {
            return;
        }
        self.begun += 1;
        self.frames.mark(self.place, self.begun);
        self.frames.stage(self.place..self.place + 1);
        let first = 1 + self.place as u64 * self.batch;
        self.awaited = Some(first..first + self.batch);
        self.place = (self.place + 1) % self.frames.len();
    }

    fn take(&mut self, envelope: &Envelope<'_>) -> Result<(), BenchError> {
        let is_ours = token::read(envelope.tail) == Some(self.begun % token::TOKENS);
        let Some(awaited) = self.awaited.as_mut().filter(|_| is_ours) else {
            return Err(unexpected(envelope, "nothing"));
        };
        if awaited.is_empty() && Self::is_the_end(envelope.header) {
            self.awaited = None;
            return Ok(());
        }
        if awaited.is_empty() || awaited.start != self.filled.sequence(envelope)? {
            return Err(unexpected(envelope, awaited));
        }
        awaited.start += 1;
        self.received += 1;
        Ok(())
    }

    fn is_settled(&self) -> bool {
        self.awaited.is_none()
    }

    fn done(&self) -> Done {
        let payload_bytes = self.received * self.filled.size as u64;
        Done { messages: self.received, payload_bytes, ..Done::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pubsub::publisher::Until;

    const FILLED: u64 = 4;

    fn filled() -> Filled {
        Filled { stream: "S".into(), messages: FILLED, size: 2 }
    }

    fn header(sequence: u64) -> String {
        format!(
            "NATS/1.0\r\nNats-Stream: S\r\nNats-Subject: S.1\r\nNats-Sequence: {sequence}\r\nNats-Time-Stamp: x\r\n\r\n"
        )
    }

    fn answer(work: &mut impl Work, tail: &str, header: &str, payload: &str) -> Result<(), BenchError> {
        let [tail, header, payload] = [tail, header, payload].map(str::as_bytes);
        work.take(&Envelope { tail, header, payload })
    }

    #[test]
    fn every_get_wants_its_own_message() {
        let mut work = Gets::new(filled(), "_INBOX.x", 2);
        work.fill(&mut SendBudget::new(Until::Messages(9)));
        let text = String::from_utf8_lossy(work.frames.unsent()).into_owned();
        let second = work.sequences[1];
        assert!(text.starts_with("PUB $JS.API.DIRECT.GET.S _INBOX.x.000000 9\r\n{\"seq\":1}\r\n"), "{text}");
        assert!(
            second != 1 && text.contains(&format!("_INBOX.x.000001 9\r\n{{\"seq\":{second}}}")),
            "{text}"
        );
        answer(&mut work, "000001", &header(second), "ab").unwrap();
        assert!(answer(&mut work, "000000", &header(second), "ab").is_err());
        for (header, payload) in [(header(1), "abc"), ("NATS/1.0 404 Message Not Found\r\n\r\n".into(), "")] {
            let mut work = Gets::new(filled(), "_INBOX.x", 1);
            work.fill(&mut SendBudget::new(Until::Messages(9)));
            work.frames.advance(work.frames.unsent().len());
            assert!(answer(&mut work, "000000", &header, payload).is_err());
        }
    }

    #[test]
    fn a_batch_is_complete_and_in_order() {
        let mut work = BatchGets::new(filled(), "_INBOX.x", 2);
        let mut budget = SendBudget::new(Until::Messages(4));
        let end = "NATS/1.0 204 EOB\r\nNats-Num-Pending: 2\r\n\r\n";
        for first in [1, 3] {
            work.fill(&mut budget);
            let text = String::from_utf8_lossy(work.frames.unsent()).into_owned();
            assert!(text.contains(&format!("{{\"batch\":2,\"seq\":{first}}}")), "{text}");
            work.frames.advance(text.len());
            let token = format!("00000{}", work.begun);
            assert!(answer(&mut work, "000009", &header(first), "ab").is_err(), "another batch");
            answer(&mut work, &token, &header(first), "ab").unwrap();
            answer(&mut work, &token, &header(first + 1), "ab").unwrap();
            answer(&mut work, &token, end, "").unwrap();
        }
        assert!(work.is_settled());
        assert_eq!(work.done().messages, 4);
    }

    #[test]
    fn a_batch_with_a_hole_or_an_early_end_fails_the_run() {
        let end = "NATS/1.0 204 EOB\r\n\r\n".to_owned();
        for (header, payload) in [(header(2), "ab"), (end, "")] {
            let mut work = BatchGets::new(filled(), "_INBOX.x", 2);
            work.fill(&mut SendBudget::new(Until::Messages(2)));
            assert!(answer(&mut work, "000001", &header, payload).is_err());
        }
    }
}
