//! Where a consumer's messages come from: what it has not seen of its stream.
//!
//! Owns the place in the stream and the count of what is left, which every delivery tells. Reads
//! never take the stream's turn, nor wait for a disk: what is not at hand is the embedder's to
//! fetch.

use myelin_jsapi::consumer::config::{ConsumerConfig, DeliverPolicy};
use myelin_store::{Cursor, Filter, Message, ReadError, Removals, Seq, StreamReader, Timestamp, Wait};
use std::collections::VecDeque;

/// Bytes of a message that a consumer may keep between turns.
const SPARE: usize = 8 << 10;
/// Nanoseconds after which a read that the operating system refused is tried again.
pub(super) const RETRY: i64 = 1_000_000_000;

/// Position of a consumer in its stream, and the count of messages that are left.
pub(super) struct StreamScan {
    reader: StreamReader,
    filter: Filter,
    cursor: Cursor,
    /// Of each subject the last message when the consumer was made: delivered before all else.
    lasts: VecDeque<Seq>,
    /// Whether the message that came last was one of them.
    is_first: bool,
    left: Option<PendingCount>,
    /// When the messages that are left could not be counted.
    uncounted_at: Option<Timestamp>,
    /// Sequences that were looked at to count.
    #[cfg(test)]
    pub(super) counted: u64,
    buffer: Vec<u8>,
}

/// How many messages are left, as of a state of the stream.
///
/// Perf: every delivery tells it. Counted anew only where something was removed that may have been
/// among them; else what was released since is added, and each delivery takes one away.
struct PendingCount {
    count: u64,
    /// Last sequence that was released then.
    through: Seq,
    removals: Removals,
}

/// Where a new consumer begins.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Start {
    /// The first message to look at behind `lasts`.
    pub(super) next: Seq,
    pub(super) lasts: VecDeque<Seq>,
}

/// The filter of a configuration.
#[must_use]
pub fn filter_of(config: &ConsumerConfig) -> Filter {
    Filter::any(config.filters().map(|filter| filter.as_bytes().to_vec()).collect())
}

impl Start {
    /// Where a consumer with this configuration begins in the stream as it is now. `keeps_one`: the
    /// stream has one message of each subject anyway.
    ///
    /// # Errors
    /// The stream cannot be read.
    pub(super) fn select(
        config: &ConsumerConfig,
        reader: &StreamReader,
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
                let through = Some(config.places.lasts_through).filter(|through| *through > 0);
                let behind = through.map_or(behind, |through| through + 1);
                lasts = last_of_each(config, reader, behind - 1)?;
                // Compat: where nothing fits, it begins with the last that does not.
                if lasts.is_empty() { totals.last_seq } else { behind }
            }
            DeliverPolicy::ByStartTime => {
                let at = config.opt_start_time.map_or(Ok(behind), |time| reader.seq_at(time.timestamp()))?;
                // Compat: what lies before the first message at all that it wants counts as
                // delivered, unless that is the very last one.
                let wanted = if filter.is_all() { None } else { reader.next_seq(&filter, first)? };
                wanted.filter(|seq| (at..totals.last_seq).contains(seq)).unwrap_or(at)
            }
        };
        Ok(Self { next: next.clamp(first, behind.max(first)), lasts })
    }

    /// Where one goes on that has delivered up to `delivered`. What comes first comes first as long
    /// as it is not through; where the stream cannot be read, all comes rather than too little.
    pub(super) fn behind(delivered: Seq, config: &ConsumerConfig, reader: &StreamReader) -> Self {
        let through = config.places.lasts_through.min(reader.state().totals.last_seq);
        if delivered >= through {
            return Self::at(delivered + 1);
        }
        match last_of_each(config, reader, through) {
            Ok(mut lasts) => {
                lasts.retain(|seq| *seq > delivered);
                Self { next: through + 1, lasts }
            }
            Err(_) => Self::at(delivered + 1),
        }
    }

    fn at(next: Seq) -> Self {
        Self { next, lasts: VecDeque::new() }
    }

    /// The last message not to deliver, as a new state says it.
    pub(super) fn floor(&self) -> Seq {
        self.lasts.front().unwrap_or(&self.next) - 1
    }
}

/// The last message of each subject up to `through`.
fn last_of_each(
    config: &ConsumerConfig,
    reader: &StreamReader,
    through: Seq,
) -> Result<VecDeque<Seq>, ReadError> {
    let mut patterns: Vec<&str> = config.filters().collect();
    if patterns.is_empty() {
        patterns.push(">");
    }
    let found = reader.find_last(&patterns, through, usize::MAX)?.unwrap_or_default();
    Ok(found.iter().map(|found| found.seq()).collect())
}

impl StreamScan {
    pub(super) fn new(reader: StreamReader, filter: Filter, start: Start) -> Self {
        debug_assert!(start.lasts.iter().is_sorted(), "what comes first comes in the order of the stream");
        Self {
            cursor: reader.cursor(filter.clone(), start.next),
            reader,
            filter,
            lasts: start.lasts,
            is_first: false,
            left: None,
            uncounted_at: None,
            #[cfg(test)]
            counted: 0,
            buffer: Vec::new(),
        }
    }

    pub(super) fn reader(&self) -> &StreamReader {
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
        debug_assert!(next > 0, "sequences begin with 1");
        self.lasts.clear();
        self.restart_cursor(next);
    }

    /// Goes on with another filter, behind what is delivered first.
    pub(super) fn set_filter(&mut self, filter: Filter) {
        self.filter = filter;
        self.restart_cursor(self.cursor.position());
    }

    fn restart_cursor(&mut self, next: Seq) {
        self.cursor = self.reader.cursor(self.filter.clone(), next);
        self.left = None;
    }

    /// Reads the stream anew, which was opened anew.
    pub(super) fn set_reader(&mut self, reader: StreamReader) {
        self.reader = reader;
        let next = self.cursor.position().min(self.reader.state().totals.last_seq + 1);
        self.restart_cursor(next);
        self.uncounted_at = None;
    }

    /// The stream begins at `first`.
    pub(super) fn trimmed(&mut self, first: Seq) {
        while self.lasts.pop_front_if(|seq| *seq < first).is_some() {
            self.count_down();
        }
    }

    /// Messages were removed: those that were to come first do not come any more.
    pub(super) fn forget_removed(&mut self) {
        let mut lasts = std::mem::take(&mut self.lasts);
        lasts.retain(|seq| self.contains(*seq));
        self.lasts = lasts;
        self.restart_cursor(self.cursor.position().max(self.reader.removals().first_seq));
    }

    /// The next message, and how many there are behind it; `None` at the end of what is released.
    pub(super) fn next(&mut self, wait: Wait) -> Result<Option<(Message<'_>, u64)>, ReadError> {
        while let Some(&seq) = self.lasts.front() {
            // Looked up twice: a message that was removed meanwhile is passed over.
            if self.reader.get(seq, wait, &mut self.buffer)?.is_some() {
                self.lasts.pop_front();
                self.is_first = true;
                let left = self.left_behind_next();
                let found = self.reader.get(seq, wait, &mut self.buffer)?;
                return Ok(found.map(|message| (message, left)));
            }
            self.lasts.pop_front();
            self.count_down();
        }
        self.is_first = false;
        let left = self.left_behind_next();
        let found = self.cursor.next(wait)?;
        if found.is_none() {
            // Messages that the stream has lost count until they are passed, and are not seen then.
            self.left = None;
        }
        Ok(found.map(|message| (message, left)))
    }

    /// Shows the next message to `show` if it can be read without waiting, and stays where it is;
    /// `None` at the end of what is released. An error says of which message.
    pub(super) fn peek<R>(
        &self,
        show: impl FnOnce(&Message<'_>) -> R,
    ) -> Result<Option<R>, (Seq, ReadError)> {
        let mut buffer = Vec::new();
        for &seq in &self.lasts {
            match self.reader.get(seq, Wait::Forbidden, &mut buffer) {
                Ok(Some(message)) => return Ok(Some(show(&message))),
                Ok(None) | Err(ReadError::Damaged(_)) => {}
                Err(error) => return Err((seq, error)),
            }
        }
        let mut cursor = self.reader.cursor(self.filter.clone(), self.cursor.position());
        loop {
            match cursor.next(Wait::Forbidden) {
                Ok(found) => return Ok(found.map(|message| show(&message))),
                // A slice of a long search.
                Err(ReadError::More) => {}
                Err(ReadError::Damaged(_)) => cursor.skip(cursor.position()),
                Err(error) => return Err((cursor.position(), error)),
            }
        }
    }

    /// Nobody reads for now: the stream's files are let go of, and most of the memory.
    pub(super) fn pause(&mut self) {
        self.cursor.pause();
        self.cursor.shrink();
        give_back(&mut self.buffer);
    }

    /// The message that came last was not delivered: it comes again.
    pub(super) fn put_back(&mut self, seq: Seq) {
        // One of those that come first comes again whatever the filter says now.
        if self.is_first {
            self.lasts.push_front(seq);
            debug_assert!(self.lasts.iter().is_sorted(), "what comes first comes in the order of the stream");
        } else {
            debug_assert!(seq < self.cursor.position(), "what is put back was just passed");
            self.cursor = self.reader.cursor(self.filter.clone(), seq);
        }
    }

    /// The next message from `from` on is `next`, unless the place has changed since that was
    /// asked.
    pub(super) fn warmed(&mut self, from: Seq, next: Option<Seq>) {
        if let Some(next) = next
            && self.lasts.is_empty()
            && self.cursor.position() == from
        {
            self.cursor.skip_to(next);
        }
    }

    /// Passes over the next message, which cannot be read.
    pub(super) fn pass_over(&mut self) {
        if self.lasts.pop_front().is_none() {
            self.cursor.skip(self.cursor.position());
        }
        self.left = None;
    }

    /// The message that came last was delivered.
    pub(super) fn count_down(&mut self) {
        if let Some(left) = &mut self.left {
            left.count = left.count.saturating_sub(1);
        }
    }

    /// How many there will be behind the next message.
    fn left_behind_next(&self) -> u64 {
        self.left.as_ref().map_or(0, |left| left.count.saturating_sub(1))
    }

    /// Whether a message is in the stream.
    pub(super) fn contains(&self, seq: Seq) -> bool {
        contains(&self.reader, seq)
    }

    /// How many messages are left, as the stream is now. Where that cannot be read: as it was, and
    /// for a while nobody tries again. It may be a look through all tables, of which not all fit
    /// into memory: what is brought there to be delivered would be gone each time.
    pub(super) fn left(&mut self, now: Timestamp) -> u64 {
        // In this order: what is removed or released from here on is noticed the next time.
        let removals = self.reader.removals();
        let released = self.reader.release().seq();
        let known = self.left.as_ref().filter(|left| left.holds(removals, self.cursor.position(), released));
        let (counted, from) = match known {
            Some(left) if left.through == released => return left.count,
            Some(left) => (left.count, left.through + 1),
            None => (self.lasts.len() as u64, self.cursor.position()),
        };
        // Also a clock that was set back ends the while.
        if self.uncounted_at.is_some_and(|at| (at..at.saturating_add(RETRY)).contains(&now)) {
            return self.left.as_ref().map_or(0, |left| left.count);
        }
        #[cfg(test)]
        {
            self.counted += (released + 1).saturating_sub(from);
        }
        let more = if from > released { Ok(0) } else { self.reader.count(&self.filter, from, released) };
        self.uncounted_at = more.is_err().then_some(now);
        if let Ok(more) = more {
            self.left = Some(PendingCount { count: counted + more, through: released, removals });
        }
        let left = self.left.as_ref().map_or(0, |left| left.count);
        debug_assert!(
            self.left.is_none() || left >= self.lasts.len() as u64,
            "what comes first is among what is left"
        );
        left
    }
}

impl PendingCount {
    /// Whether the count is right up to `through`, for one who looks at nothing before `position`.
    fn holds(&self, removals: Removals, position: Seq, released: Seq) -> bool {
        // What goes at the front was not counted any more.
        let is_whole = removals.interior == self.removals.interior
            && (removals.first_seq == self.removals.first_seq || removals.first_seq <= position);
        // Who has passed what was counted has only the rest to count.
        is_whole && (position - 1..=released).contains(&self.through)
    }
}

/// Lets go of a buffer that had a large message: there may be thousands of consumers.
pub(super) fn give_back(buffer: &mut Vec<u8>) {
    if buffer.capacity() > SPARE {
        *buffer = Vec::new();
    }
}

/// Whether a message is in a stream.
pub(super) fn contains(reader: &StreamReader, seq: Seq) -> bool {
    reader.next_seq(&Filter::All, seq).is_ok_and(|next| next == Some(seq))
}
