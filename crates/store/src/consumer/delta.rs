//! One change of a consumer's state, and how a row of changes lies in the log.
//!
//! Owns the code of an operation: a tag that says which fields follow. What equals the guess (the
//! message after the one before, the same time) is left out, so the usual delivery or
//! acknowledgement is one byte, and a row of acknowledgements is one operation. Deliveries have a
//! byte each, so that a damaged or hostile file cannot claim more of them than it is long.
//!
//! Perf: [`DeltaWriter::push`] runs once per delivery and acknowledgement: no allocation beside the
//! growth of its buffer.

use myelin_stdx::varint;

use super::bytes::{self, ByteReader, MalformedBytes};
use super::{AckRules, Applied, ConsumerState, DeliverySeq, SequencePair};
use crate::{Seq, Timestamp};

/// A change of a consumer's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delta {
    /// A message was delivered.
    Delivered {
        /// The number of this delivery.
        delivery: DeliverySeq,
        /// Which message.
        seq: Seq,
        /// 1 for its first delivery.
        count: u64,
        /// When.
        timestamp: Timestamp,
    },
    /// A client acknowledged a message, or terminated it.
    Acknowledged {
        /// The delivery that it answered, first or later.
        delivery: DeliverySeq,
        /// Which message.
        seq: Seq,
    },
    /// Begin anew, with the message after `seq`: also where a new consumer starts.
    Reset {
        /// The last message not to deliver.
        seq: Seq,
    },
    /// Go on after `seq`, without delivering what lies before it.
    Skip {
        /// The last message not to deliver.
        seq: Seq,
    },
    /// The stream was trimmed.
    DropBelow {
        /// Its new first sequence.
        seq: Seq,
    },
    /// A message was deleted from the stream.
    Forget {
        /// Which.
        seq: Seq,
    },
    /// The stream was truncated, or lost its end with the power.
    CutAbove {
        /// Its new last sequence.
        seq: Seq,
    },
    /// Forget how often messages were delivered.
    ForgetCountsBelow {
        /// Of messages below this one.
        seq: Seq,
    },
}

impl ConsumerState {
    /// Applies one change.
    pub fn apply(&mut self, rules: AckRules, delta: Delta) -> Applied {
        match delta {
            Delta::Delivered { delivery, seq, count, timestamp } => {
                self.deliver(rules, delivery, seq, count, timestamp)
            }
            Delta::Acknowledged { delivery, seq } => self.acknowledge(rules, delivery, seq),
            Delta::Reset { seq } => self.reset(seq),
            Delta::Skip { seq } => self.skip(rules, seq),
            Delta::DropBelow { seq } => self.drop_below(seq),
            Delta::Forget { seq } => self.forget(seq),
            Delta::CutAbove { seq } => self.cut_above(seq),
            Delta::ForgetCountsBelow { seq } => self.forget_counts_below(seq),
        }
    }
}

/// Tags of an operation: its class in the two lowest bits, above them which fields follow or, for
/// [`tag::RARE`], which operation it is.
mod tag {
    pub(super) const CLASS: u8 = 0b11;
    pub(super) const ACKNOWLEDGED: u8 = 0;
    pub(super) const DELIVERED: u8 = 1;
    pub(super) const RARE: u8 = 2;
    pub(super) const DELIVERY: u8 = 1 << 2;
    pub(super) const SEQ: u8 = 1 << 3;
    /// Of an acknowledgement: how many follow in a row.
    pub(super) const RUN: u8 = 1 << 4;
    pub(super) const TIMESTAMP: u8 = 1 << 4;
    pub(super) const COUNT: u8 = 1 << 5;
    pub(super) const ACKNOWLEDGED_ALL: u8 = DELIVERY | SEQ | RUN;
    pub(super) const DELIVERED_ALL: u8 = DELIVERED | DELIVERY | SEQ | TIMESTAMP | COUNT;
    pub(super) const RESET: u8 = RARE;
    pub(super) const SKIP: u8 = RARE | 1 << 2;
    pub(super) const DROP_BELOW: u8 = RARE | 2 << 2;
    pub(super) const FORGET: u8 = RARE | 3 << 2;
    pub(super) const CUT_ABOVE: u8 = RARE | 4 << 2;
    pub(super) const FORGET_COUNTS_BELOW: u8 = RARE | 5 << 2;
}

/// Guess of the next operation: writer and reader make one and the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Guess {
    delivered: SequencePair,
    acknowledged: SequencePair,
    timestamp: Timestamp,
}

impl Guess {
    fn after(base: SequencePair) -> Self {
        Self { delivered: after(base, 1), acknowledged: after(base, 1), timestamp: 0 }
    }
}

fn after(pair: SequencePair, count: u64) -> SequencePair {
    let consumer = DeliverySeq(pair.consumer.0.wrapping_add(count));
    SequencePair { consumer, stream: pair.stream.wrapping_add(count) }
}

/// Collects the operations of one entry.
#[derive(Debug, Default)]
pub(super) struct DeltaWriter {
    bytes: Vec<u8>,
    guess: Guess,
    run: Option<AckRun>,
}

/// The row of acknowledgements at the end of what was written.
#[derive(Debug)]
struct AckRun {
    tag_at: usize,
    more: u64,
}

impl DeltaWriter {
    /// Begins an entry for a consumer whose floor is `base`.
    pub(super) fn begin(&mut self, base: SequencePair) {
        self.bytes.clear();
        self.guess = Guess::after(base);
        self.run = None;
    }

    /// Bytes so far, without the length of a row at the end.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Everything since [`DeltaWriter::begin`].
    pub(super) fn finish(&mut self) -> &[u8] {
        self.end_run();
        &self.bytes
    }

    /// Lets go of memory that a burst needed.
    pub(super) fn shrink(&mut self, capacity: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(capacity);
    }

    pub(super) fn push(&mut self, delta: Delta) {
        match delta {
            Delta::Acknowledged { delivery, seq } => {
                self.push_acknowledged(SequencePair { consumer: delivery, stream: seq });
            }
            Delta::Delivered { delivery, seq, count, timestamp } => {
                let pair = SequencePair { consumer: delivery, stream: seq };
                self.push_delivered(pair, count, timestamp);
            }
            Delta::Reset { seq } => self.push_rare(tag::RESET, seq),
            Delta::Skip { seq } => self.push_rare(tag::SKIP, seq),
            Delta::DropBelow { seq } => self.push_rare(tag::DROP_BELOW, seq),
            Delta::Forget { seq } => self.push_rare(tag::FORGET, seq),
            Delta::CutAbove { seq } => self.push_rare(tag::CUT_ABOVE, seq),
            Delta::ForgetCountsBelow { seq } => self.push_rare(tag::FORGET_COUNTS_BELOW, seq),
        }
    }

    fn push_acknowledged(&mut self, pair: SequencePair) {
        let as_guessed = pair == self.guess.acknowledged;
        match &mut self.run {
            Some(run) if as_guessed => run.more += 1,
            _ => {
                self.end_run();
                let guess = self.guess.acknowledged;
                self.run = Some(AckRun { tag_at: self.bytes.len(), more: 0 });
                self.push_pair(tag::ACKNOWLEDGED, pair, guess);
            }
        }
        self.guess.acknowledged = after(pair, 1);
    }

    fn push_delivered(&mut self, pair: SequencePair, count: u64, timestamp: Timestamp) {
        self.end_run();
        let guess = self.guess;
        self.guess.delivered = after(pair, 1);
        self.guess.timestamp = timestamp;
        let timed = if timestamp == guess.timestamp { 0 } else { tag::TIMESTAMP };
        let counted = if count == 1 { 0 } else { tag::COUNT };
        self.push_pair(tag::DELIVERED | timed | counted, pair, guess.delivered);
        if timed != 0 {
            bytes::put_near(&mut self.bytes, timestamp as u64, guess.timestamp as u64);
        }
        if counted != 0 {
            varint::put(count, &mut self.bytes);
        }
    }

    fn push_pair(&mut self, tag: u8, pair: SequencePair, guess: SequencePair) {
        let delivery = if pair.consumer == guess.consumer { 0 } else { tag::DELIVERY };
        let seq = if pair.stream == guess.stream { 0 } else { tag::SEQ };
        self.bytes.push(tag | delivery | seq);
        if delivery != 0 {
            bytes::put_near(&mut self.bytes, pair.consumer.0, guess.consumer.0);
        }
        if seq != 0 {
            bytes::put_near(&mut self.bytes, pair.stream, guess.stream);
        }
    }

    fn push_rare(&mut self, tag: u8, seq: Seq) {
        self.end_run();
        self.bytes.push(tag);
        varint::put(seq, &mut self.bytes);
    }

    fn end_run(&mut self) {
        let Some(run) = self.run.take().filter(|run| run.more > 0) else { return };
        self.bytes[run.tag_at] |= tag::RUN;
        varint::put(run.more, &mut self.bytes);
    }
}

/// An operation that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadDelta {
    One(Delta),
    /// The acknowledgements of `first` and of the `more` messages and deliveries after it.
    Row {
        first: SequencePair,
        more: u64,
    },
}

/// Reads what a [`DeltaWriter`] wrote for the same base.
#[derive(Debug)]
pub(super) struct Operations<'a> {
    reader: ByteReader<'a>,
    guess: Guess,
}

impl<'a> Operations<'a> {
    pub(super) fn new(reader: ByteReader<'a>, base: SequencePair) -> Self {
        Self { reader, guess: Guess::after(base) }
    }

    /// The next operation; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<ReadDelta>, MalformedBytes> {
        if self.reader.is_empty() {
            return Ok(None);
        }
        let tag = self.reader.byte()?;
        match tag & tag::CLASS {
            tag::ACKNOWLEDGED if tag & !tag::ACKNOWLEDGED_ALL == 0 => self.acknowledged(tag).map(Some),
            tag::DELIVERED if tag & !tag::DELIVERED_ALL == 0 => self.delivered(tag).map(Some),
            tag::RARE => self.rare(tag).map(Some),
            _ => Err(MalformedBytes),
        }
    }

    fn acknowledged(&mut self, tag: u8) -> Result<ReadDelta, MalformedBytes> {
        let first = self.pair(tag, self.guess.acknowledged)?;
        let more = if tag & tag::RUN == 0 { 0 } else { self.reader.number()? };
        self.guess.acknowledged = after(first, more.wrapping_add(1));
        Ok(match more {
            0 => ReadDelta::One(Delta::Acknowledged { delivery: first.consumer, seq: first.stream }),
            _ => ReadDelta::Row { first, more },
        })
    }

    fn delivered(&mut self, tag: u8) -> Result<ReadDelta, MalformedBytes> {
        let pair = self.pair(tag, self.guess.delivered)?;
        if tag & tag::TIMESTAMP != 0 {
            self.guess.timestamp = self.reader.near(self.guess.timestamp as u64)? as Timestamp;
        }
        let count = if tag & tag::COUNT == 0 { 1 } else { self.reader.number()? };
        self.guess.delivered = after(pair, 1);
        let timestamp = self.guess.timestamp;
        Ok(ReadDelta::One(Delta::Delivered { delivery: pair.consumer, seq: pair.stream, count, timestamp }))
    }

    fn pair(&mut self, tag: u8, guess: SequencePair) -> Result<SequencePair, MalformedBytes> {
        let mut pair = guess;
        if tag & tag::DELIVERY != 0 {
            pair.consumer = DeliverySeq(self.reader.near(guess.consumer.0)?);
        }
        if tag & tag::SEQ != 0 {
            pair.stream = self.reader.near(guess.stream)?;
        }
        Ok(pair)
    }

    fn rare(&mut self, tag: u8) -> Result<ReadDelta, MalformedBytes> {
        let seq = self.reader.number()?;
        let delta = match tag {
            tag::RESET => Delta::Reset { seq },
            tag::SKIP => Delta::Skip { seq },
            tag::DROP_BELOW => Delta::DropBelow { seq },
            tag::FORGET => Delta::Forget { seq },
            tag::CUT_ABOVE => Delta::CutAbove { seq },
            tag::FORGET_COUNTS_BELOW => Delta::ForgetCountsBelow { seq },
            _ => return Err(MalformedBytes),
        };
        Ok(ReadDelta::One(delta))
    }
}
