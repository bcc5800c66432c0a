//! Batches to append, as a publisher's read buffer would give them, made before the clock runs.

use myelin_loadgen::error::BenchError;
use myelin_store::record::max_message_len;
use myelin_store::{Admission, AppendResult, NewMessage, Stream, Timestamp};

use crate::store::upkeep::Upkeep;

/// Bytes of a batch in the log.
pub(crate) const BATCH_BYTES: usize = 64 << 10;

/// Subjects and a payload.
#[derive(Debug)]
pub(crate) struct AppendLoad {
    /// Subjects of one length, side by side: so near as they would be in a read buffer.
    texts: Vec<u8>,
    payload: Vec<u8>,
    order: SequenceOrder,
}

/// Which message has which subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SequenceOrder {
    /// One subject after the other.
    InTurn,
    /// Any subject, again and again before others had a turn.
    Random,
}

/// Bytes of a subject.
const SUBJECT: usize = "bench.store.1234567".len();

impl AppendLoad {
    /// `subjects` different subjects.
    pub(crate) fn new(subjects: usize, payload: usize) -> Self {
        Self::of(0..subjects, payload)
    }

    /// A load as of [`AppendLoad::new`], with its subjects in an order without locality.
    pub(crate) fn shuffled(subjects: usize, payload: usize) -> Self {
        let mut numbers: Vec<usize> = (0..subjects).collect();
        shuffle(&mut numbers);
        Self::of(numbers, payload)
    }

    fn of(numbers: impl IntoIterator<Item = usize>, payload: usize) -> Self {
        let texts = numbers.into_iter().flat_map(|n| format!("bench.store.{n:07}").into_bytes()).collect();
        Self {
            texts,
            payload: (0..payload).map(|n| (n * 31 % 251) as u8).collect(),
            order: SequenceOrder::InTurn,
        }
    }

    /// A load as of [`AppendLoad::new`], with a random subject for each message.
    pub(crate) fn random(subjects: usize, payload: usize) -> Self {
        Self { order: SequenceOrder::Random, ..Self::new(subjects, payload) }
    }

    /// All subjects, in the order in which messages have them.
    pub(crate) fn subjects(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.texts.chunks_exact(SUBJECT)
    }

    /// Bytes of a message in the log, at most a few more than it takes.
    pub(crate) fn entry_bytes(&self) -> usize {
        max_message_len(SUBJECT, 0, self.payload.len()) - 24
    }

    /// How many messages make a batch of 64 KiB.
    pub(crate) fn per_batch(&self) -> usize {
        (BATCH_BYTES / self.entry_bytes()).max(1)
    }

    /// The message with this number, accepted at `timestamp`.
    pub(crate) fn message(&self, number: usize, timestamp: Timestamp) -> NewMessage<'_> {
        let number = if self.order == SequenceOrder::Random { scattered(number) } else { number };
        let at = number % (self.texts.len() / SUBJECT) * SUBJECT;
        NewMessage {
            subject: &self.texts[at..at + SUBJECT],
            payload: &self.payload,
            timestamp,
            ..NewMessage::default()
        }
    }

    /// Messages with the numbers from `first` on.
    pub(crate) fn batch(&self, first: usize, count: usize, timestamp: Timestamp) -> Vec<NewMessage<'_>> {
        (first..first + count).map(|number| self.message(number, timestamp)).collect()
    }
}

/// Appends batches to a stream; keeps what an embedder would keep.
#[derive(Debug, Default)]
pub(crate) struct Appender {
    outcomes: Vec<AppendResult>,
    upkeep: Option<Upkeep>,
}

impl Appender {
    /// An appender to a stream in files, whose jobs `upkeep` does.
    pub(crate) fn with(upkeep: Upkeep) -> Self {
        Self { outcomes: Vec::new(), upkeep: Some(upkeep) }
    }

    /// A batch that is taken whole. What is due of the stream's upkeep is ordered behind it.
    pub(crate) fn append(
        &mut self,
        stream: &mut Stream,
        batch: &[NewMessage<'_>],
        now: Timestamp,
    ) -> Result<(), BenchError> {
        let result = stream.append(batch, Admission::Check, now, &mut self.outcomes);
        result.map_err(|error| BenchError::Store(error.to_string()))?;
        match self.outcomes.iter().find_map(|outcome| outcome.as_ref().err()) {
            Some(refusal) => Err(BenchError::Store(format!("a message was refused: {refusal:?}"))),
            None => self.upkeep.as_mut().map_or(Ok(()), |upkeep| upkeep.step(stream, now)),
        }
    }

    /// Finishes the stream's upkeep.
    pub(crate) fn settle(&mut self, stream: &mut Stream, now: Timestamp) -> Result<(), BenchError> {
        self.upkeep.as_mut().map_or(Ok(()), |upkeep| upkeep.settle(stream, now))
    }
}

/// A number without visible order in place of one with it.
fn scattered(number: usize) -> usize {
    let mixed = (number as u64 ^ (number as u64) >> 7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32) as usize
}

/// Puts `items` into an order that is the same in every run.
pub(crate) fn shuffle<T>(items: &mut [T]) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for at in (1..items.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        items.swap(at, ((state >> 33) % (at as u64 + 1)) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_64_kib() {
        let load = AppendLoad::new(64, 128);
        let bytes = load.per_batch() * load.entry_bytes();
        assert!((BATCH_BYTES - load.entry_bytes()..=BATCH_BYTES).contains(&bytes));
        assert_eq!(AppendLoad::new(1, 1 << 20).per_batch(), 1);
    }

    #[test]
    fn shuffled_subjects_are_the_same_subjects() {
        let (sorted, shuffled) = (AppendLoad::new(1000, 1), AppendLoad::shuffled(1000, 1));
        assert!(sorted.subjects().ne(shuffled.subjects()));
        let mut again: Vec<_> = shuffled.subjects().collect();
        again.sort_unstable();
        assert!(sorted.subjects().eq(again));
    }
}
