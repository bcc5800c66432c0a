//! Publishing with an acknowledgement for each message: a window of 1 is "sync", a larger one
//! "async".
//!
//! Budget per message: six bytes of token written, one comparison of the acknowledgement; no
//! allocation. Owns the proof that every message is acknowledged exactly once: a slot per token,
//! and the sum of all sequences.

use crate::error::BenchError;
use crate::jetstream::answer::Acknowledgement;
use crate::jetstream::drive::{Done, SendBudget, Stopwatch, Work};
use crate::jetstream::encoded_frames::{EncodedFrames, OutgoingMessage};
use crate::jetstream::envelope::Envelope;
use crate::jetstream::window::Window;
use crate::pubsub::script::{self, ScriptSubjects, Sizes};
use crate::token;

/// Bytes of encoded frames that one client needs at least, so that it goes round seldom.
const TAPE_SIZE: usize = 256 * 1024;

/// About what a frame has besides its payload.
const FRAME_SIZE: usize = 64;

/// Messages for one stream: its subjects, and the sizes of the payloads.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    /// Name of the stream, with which subjects begin.
    pub(crate) stream: String,
    /// Subjects in rotation.
    pub(crate) subjects: usize,
    /// Bytes of the payloads.
    pub(crate) sizes: Sizes,
}

impl Content {
    /// One rotation of subjects and payloads.
    pub(crate) fn rotation(&self) -> Vec<(String, Vec<u8>)> {
        let text = script::text(self.sizes.largest());
        let subjects = ScriptSubjects::Rotating { base: self.stream.clone(), first: 0, count: self.subjects };
        script::rotation(&subjects, &self.sizes)
            .map(|(number, subject, size)| (subject, script::payload(&text, number, size).to_vec()))
            .collect()
    }
}

/// Publisher that gets an acknowledgement for each message.
#[derive(Debug)]
pub(crate) struct Publish {
    frames: EncodedFrames,
    /// Payload bytes of each message in `frames`.
    sizes: Vec<u64>,
    /// The next message in `frames`.
    place: usize,
    answer: Acknowledgement,
    /// Unacknowledged messages, each with its payload bytes.
    window: Window,
    payload_bytes: u64,
    sequences: u128,
    stopwatch: Option<Stopwatch>,
    numbers: Option<Numbers>,
}

impl Publish {
    /// Messages of the rotation, of which at most `window` are unacknowledged.
    pub(crate) fn new(content: &Content, inbox: &str, window: usize) -> Self {
        Self::over(content.rotation(), content, inbox, window)
    }

    /// A publisher of `count` messages, each with a subject of its own.
    pub(crate) fn distinct(content: &Content, inbox: &str, window: usize, count: u64) -> Self {
        let subject = Numbers::blank(&content.stream);
        let rotation =
            content.rotation().into_iter().map(|(_, payload)| (subject.clone(), payload)).collect();
        let numbers = Some(Numbers::new(count, &content.stream));
        Self { numbers, ..Self::over(rotation, content, inbox, window) }
    }

    /// A publisher of these messages over and over, all of which go into the stream of `content`.
    pub(crate) fn over(
        rotation: Vec<(String, Vec<u8>)>,
        content: &Content,
        inbox: &str,
        window: usize,
    ) -> Self {
        let mut frames = EncodedFrames::default();
        let reply = format!("{inbox}.{}", token::BLANK);
        let length: usize = rotation.iter().map(|(_, payload)| payload.len() + FRAME_SIZE).sum();
        let turns = TAPE_SIZE.div_ceil(length);
        for (subject, payload) in std::iter::repeat_n(&rotation, turns).flatten() {
            frames.push(OutgoingMessage { subject, reply: Some(&reply), headers: None, payload });
        }
        let sizes = rotation.iter().cycle().take(frames.len()).map(|(_, payload)| payload.len() as u64);
        Self {
            sizes: sizes.collect(),
            frames,
            place: 0,
            answer: Acknowledgement::of(&content.stream),
            window: Window::new(window),
            payload_bytes: 0,
            sequences: 0,
            stopwatch: (window == 1).then(Stopwatch::new),
            numbers: None,
        }
    }

    /// Writes what makes the next message different from all others.
    fn mark(&mut self) {
        let token = self.window.send(self.sizes[self.place]);
        self.frames.mark(self.place, token);
        if let Some(numbers) = self.numbers {
            numbers.write(self.frames.message_mut(self.place), token);
        }
        self.place += 1;
    }
}

impl Work for Publish {
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
        (0..count).for_each(|_| self.mark());
        self.frames.stage(first..self.place);
        self.place %= self.frames.len();
        if let Some(stopwatch) = &mut self.stopwatch {
            stopwatch.start();
        }
    }

    fn take(&mut self, envelope: &Envelope<'_>) -> Result<(), BenchError> {
        let sequence = self.answer.sequence(envelope)?;
        if let Some(stopwatch) = &mut self.stopwatch {
            stopwatch.stop();
        }
        self.payload_bytes += self.window.answer(envelope.tail)?;
        self.sequences += u128::from(sequence);
        Ok(())
    }

    fn is_settled(&self) -> bool {
        self.window.is_settled()
    }

    fn done(&self) -> Done {
        Done {
            messages: self.window.answered(),
            payload_bytes: self.payload_bytes,
            sequences: Some(self.sequences),
            latencies: self.stopwatch.as_ref().map(Stopwatch::latencies),
        }
    }
}

/// Distinct subjects: seven digits in each, in an order without locality.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    count: u64,
    stride: u64,
    /// Where in a frame the digits are; a dot stands behind the third.
    place: usize,
}

impl Numbers {
    fn new(count: u64, stream: &str) -> Self {
        let stride = script::stride(count as usize) as u64;
        Self { count, stride, place: "PUB ".len() + stream.len() + 1 }
    }

    fn blank(stream: &str) -> String {
        format!("{stream}.###.####")
    }

    /// Writes the subject of the `turn`-th message.
    fn write(self, frame: &mut [u8], turn: u64) {
        let mut number = turn * self.stride % self.count;
        for place in [2, 1, 0, 7, 6, 5, 4] {
            frame[self.place + place] = b'0' + (number % 10) as u8;
            number /= 10;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pubsub::publisher::Until;

    fn content() -> Content {
        Content { stream: "S".into(), subjects: 64, sizes: Sizes::around(128, 1 << 20) }
    }

    fn acknowledges<'a>(token: &'a str, payload: &'a str) -> Envelope<'a> {
        Envelope { tail: token.as_bytes(), header: b"", payload: payload.as_bytes() }
    }

    #[test]
    fn a_window_fills_and_opens_with_acknowledgements() {
        let mut work = Publish::new(&content(), "_INBOX.x", 2);
        let mut budget = SendBudget::new(Until::Messages(3));
        work.fill(&mut budget);
        let text = String::from_utf8_lossy(work.frames.unsent()).into_owned();
        assert!(
            text.starts_with("PUB S.0 _INBOX.x.000000 128\r\n") && text.contains(" _INBOX.x.000001 "),
            "{text}"
        );
        work.frames.advance(text.len());
        work.fill(&mut budget);
        assert!(work.frames.unsent().is_empty());
        work.take(&acknowledges("000001", r#"{"stream":"S","seq":2}"#)).unwrap();
        work.fill(&mut budget);
        assert!(work.frames.unsent().is_empty(), "the slot of the third message is not free yet");
        assert!(work.take(&acknowledges("000001", r#"{"stream":"S","seq":2}"#)).is_err());
        work.take(&acknowledges("000000", r#"{"stream":"S","seq":1}"#)).unwrap();
        work.fill(&mut budget);
        assert!(work.frames.unsent().starts_with(b"PUB S.") && !work.is_settled());
        work.take(&acknowledges("000002", r#"{"stream":"S","seq":3}"#)).unwrap();
        let done = work.done();
        assert!(work.is_settled());
        assert_eq!((done.messages, done.sequences), (3, Some(6)));
    }

    #[test]
    fn distinct_subjects_are_distinct() {
        let mut work = Publish::distinct(&content(), "_INBOX.x", 1000, 1000);
        let mut subjects = std::collections::BTreeSet::new();
        for _ in 0..1000 {
            let place = work.place;
            work.mark();
            let frame = String::from_utf8_lossy(work.frames.message_mut(place)).into_owned();
            subjects.insert(frame.split(' ').nth(1).unwrap().to_owned());
            work.place %= work.frames.len();
        }
        assert_eq!(subjects.len(), 1000);
        assert!(subjects.contains("S.000.0000") && subjects.contains("S.999.0000"));
    }
}
