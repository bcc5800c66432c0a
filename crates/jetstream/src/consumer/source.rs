//! Where a consumer's messages come from: what it has not seen of its stream.
//!
//! Owns the place in the stream and the count of what is left, which every delivery tells. Reads never take the stream's
//! turn, nor wait for a disk: what is not at hand is the embedder's to fetch.

use super::config::{ConsumerConfig, DeliverPolicy};
use myelin_store::{Cursor, Filter, Message, ReadError, Reader, Seq, Ticket, Wait};
use std::collections::VecDeque;

/// See the module.
pub(super) struct Source {
    reader: Reader,
    filter: Filter,
    cursor: Cursor,
    /// Of each subject the last message when the consumer was made: delivered before all else.
    lasts: VecDeque<Seq>,
    left: Left,
    buffer: Vec<u8>,
}

/// How many messages are left, as of a state of the stream.
#[derive(Default)]
struct Left {
    count: u64,
    /// What was released then.
    as_of: Option<Ticket>,
    removed: u64,
}

/// Where a new consumer begins.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Start {
    /// The first message to look at behind `lasts`.
    pub(super) next: Seq,
    pub(super) lasts: VecDeque<Seq>,
}

/// The filter of a configuration.
pub(crate) fn filter_of(config: &ConsumerConfig) -> Filter {
    Filter::any(config.filters().map(|filter| filter.as_bytes().to_vec()).collect())
}

impl Start {
    /// Where a consumer with this configuration begins in the stream as it is now. `keeps_one`: the stream has one message
    /// of each subject anyway.
    ///
    /// # Errors
    /// The stream cannot be read.
    pub(super) fn select(
        config: &ConsumerConfig,
        reader: &Reader,
        keeps_one: bool,
    ) -> Result<Self, ReadError> {
        let totals = reader.state().totals;
        let (first, behind) = (totals.first_seq.max(1), totals.last_seq + 1);
        let filter = filter_of(config);
        let mut lasts = VecDeque::new();
        let next = match config.deliver_policy {
            _ if config.opt_start_seq > 0 => return Ok(Self::at(config.opt_start_seq.max(first))),
            DeliverPolicy::All | DeliverPolicy::ByStartSequence => first,
            DeliverPolicy::LastPerSubject if keeps_one => first,
            DeliverPolicy::Last if filter.is_all() => totals.last_seq,
            // Compat: where nothing fits, all that will come does.
            DeliverPolicy::Last => reader.last_seq(&filter)?.unwrap_or(0),
            DeliverPolicy::New => behind,
            DeliverPolicy::LastPerSubject => {
                lasts = last_of_each(config, reader)?;
                // Compat: where nothing fits, it begins with the last that does not.
                if lasts.is_empty() { totals.last_seq } else { behind }
            }
            DeliverPolicy::ByStartTime => {
                config.opt_start_time.map_or(Ok(behind), |time| reader.seq_at(time.timestamp()))?
            }
        };
        Ok(Self { next: next.clamp(first, behind.max(first)), lasts })
    }

    fn at(next: Seq) -> Self {
        Self { next, lasts: VecDeque::new() }
    }

    /// The last message not to deliver, as a new state says it.
    pub(super) fn floor(&self) -> Seq {
        self.lasts.front().unwrap_or(&self.next) - 1
    }
}

fn last_of_each(config: &ConsumerConfig, reader: &Reader) -> Result<VecDeque<Seq>, ReadError> {
    let mut patterns: Vec<&str> = config.filters().collect();
    if patterns.is_empty() {
        patterns.push(">");
    }
    let found = reader.find_last(&patterns, Seq::MAX, usize::MAX)?.unwrap_or_default();
    Ok(found.iter().map(|found| found.seq()).collect())
}

impl Source {
    pub(super) fn new(reader: Reader, filter: Filter, start: Start) -> Self {
        Self {
            cursor: reader.cursor(filter.clone(), start.next),
            reader,
            filter,
            lasts: start.lasts,
            left: Left::default(),
            buffer: Vec::new(),
        }
    }

    pub(super) fn reader(&self) -> &Reader {
        &self.reader
    }

    pub(super) fn filter(&self) -> &Filter {
        &self.filter
    }

    /// The next message is looked for from here on.
    pub(super) fn position(&self) -> Seq {
        self.lasts.front().copied().unwrap_or_else(|| self.cursor.position())
    }

    /// Goes on elsewhere.
    pub(super) fn seek(&mut self, next: Seq) {
        self.lasts.clear();
        self.cursor = self.reader.cursor(self.filter.clone(), next);
        self.left = Left::default();
    }

    /// Goes on with another filter.
    pub(super) fn set_filter(&mut self, filter: Filter) {
        self.filter = filter;
        let next = self.position();
        self.seek(next);
    }

    /// Reads the stream anew, which was opened anew.
    pub(super) fn set_reader(&mut self, reader: Reader) {
        self.reader = reader;
        let next = self.cursor.position().min(self.reader.state().totals.last_seq + 1);
        self.cursor = self.reader.cursor(self.filter.clone(), next);
        self.left = Left::default();
    }

    /// The next message; `None` at the end of what is released.
    pub(super) fn next(&mut self, wait: Wait) -> Result<Option<Message<'_>>, ReadError> {
        while let Some(&seq) = self.lasts.front() {
            // Looked up twice: a message that was removed meanwhile is passed over.
            if self.reader.get(seq, wait, &mut self.buffer)?.is_some() {
                self.lasts.pop_front();
                return self.reader.get(seq, wait, &mut self.buffer);
            }
            self.lasts.pop_front();
        }
        self.cursor.next(wait)
    }

    /// The message that came last was not delivered: it comes again.
    pub(super) fn put_back(&mut self, seq: Seq) {
        if self.lasts.is_empty() && self.cursor.position() == seq + 1 {
            self.cursor = self.reader.cursor(self.filter.clone(), seq);
        } else {
            self.lasts.push_front(seq);
        }
    }

    /// The next message from `from` on is `next`, unless the place has changed since that was asked.
    pub(super) fn warmed(&mut self, from: Seq, next: Option<Seq>) {
        if let Some(next) = next
            && self.lasts.is_empty()
            && self.cursor.position() == from
        {
            self.cursor.skip_to(next);
        }
    }

    /// What comes next cannot be read.
    pub(super) fn pass_over(&mut self) {
        if self.lasts.pop_front().is_none() {
            self.cursor.skip(self.cursor.position());
        }
    }

    /// The message that came last was delivered.
    pub(super) fn count_down(&mut self) {
        self.left.count = self.left.count.saturating_sub(1);
    }

    /// How many there will be behind the next message.
    pub(super) fn left_behind_next(&self) -> u64 {
        self.left.count.saturating_sub(1)
    }

    /// Whether a message is in the stream.
    pub(super) fn contains(&self, seq: Seq) -> bool {
        self.reader.next_seq(&Filter::All, seq).is_ok_and(|next| next == Some(seq))
    }

    /// How many messages are left, as the stream is now.
    pub(super) fn left(&mut self) -> Result<u64, ReadError> {
        let as_of = self.reader.release().ticket();
        let removed = self.reader.state().totals.messages;
        if self.left.as_of != Some(as_of) || self.left.removed != removed {
            let behind = self.reader.pending(&self.filter, self.cursor.position())?;
            self.left = Left { count: behind + self.lasts.len() as u64, as_of: Some(as_of), removed };
        }
        Ok(self.left.count)
    }
}
