//! A stream counted from scratch: every message that is there, found by walking entries one after
//! the other.
//!
//! Owns a second, plain version of the rules that `stream::catalog` has, on purpose not shared with
//! it: a twin that borrowed the rules could not find a mistake in them. 16 bytes per message that
//! was ever appended since the start of the walk, and the text of each subject once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use hashbrown::HashMap;

use crate::{Seq, Timestamp};

/// No message: it was removed.
const GONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct CountedRow {
    seq: Seq,
    subject: u32,
    size: u32,
}

/// Messages of one subject, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) count: u64,
    pub(super) first: Seq,
    pub(super) last: Seq,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} messages ({} to {})", self.count, self.first, self.last)
    }
}

/// First and last sequence, messages and bytes of a stream, in words.
pub(super) struct Sum(pub(super) (Seq, Seq, u64, u64));

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last, messages, bytes) = self.0;
        write!(f, "{messages} messages of {bytes} bytes ({first} to {last})")
    }
}

/// Contents of a stream, counted by walking its entries one after the other.
#[derive(Debug)]
pub(super) struct CountedStream {
    pub(super) first_seq: Seq,
    pub(super) last_seq: Seq,
    pub(super) messages: u64,
    pub(super) bytes: u64,
    /// Ascending.
    rows: Vec<CountedRow>,
    numbers: HashMap<Box<[u8]>, u32, foldhash::fast::RandomState>,
    counts: Vec<u64>,
    texts: Vec<Box<[u8]>>,
    /// Subjects that changed since [`CountedStream::begin_segment`].
    pub(super) touched: BTreeSet<u32>,
    /// Messages with a lifetime of their own.
    pub(super) expiries: BTreeMap<Seq, Timestamp>,
}

impl CountedStream {
    /// An empty stream that goes on with `next`.
    pub(super) fn new(next: Seq) -> Self {
        Self {
            first_seq: next,
            last_seq: next.saturating_sub(1),
            messages: 0,
            bytes: 0,
            rows: Vec::new(),
            numbers: HashMap::default(),
            counts: Vec::new(),
            texts: Vec::new(),
            touched: BTreeSet::new(),
            expiries: BTreeMap::new(),
        }
    }

    /// How many rows it remembers.
    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// A segment begins. Sequences that begin again are the sign of a truncation.
    pub(super) fn begin_segment(&mut self, first_seq: Seq) {
        self.touched.clear();
        if first_seq <= self.last_seq {
            self.truncate(first_seq.saturating_sub(1));
        }
    }

    /// A message that is newer than all others; others are passed over.
    pub(super) fn append(&mut self, seq: Seq, subject: &[u8], size: u32, expires: Option<Timestamp>) {
        if seq <= self.last_seq {
            return;
        }
        if self.messages == 0 {
            self.first_seq = seq;
        }
        let number = self.number(subject);
        self.rows.push(CountedRow { seq, subject: number, size });
        self.counts[number as usize] += 1;
        self.touched.insert(number);
        (self.messages, self.bytes, self.last_seq) = (self.messages + 1, self.bytes + u64::from(size), seq);
        if let Some(at) = expires {
            self.expiries.insert(seq, at);
        }
    }

    fn number(&mut self, subject: &[u8]) -> u32 {
        if let Some(number) = self.numbers.get(subject) {
            return *number;
        }
        let number = self.texts.len() as u32;
        self.texts.push(subject.into());
        self.counts.push(0);
        self.numbers.insert(subject.into(), number);
        number
    }

    fn place(&self, seq: Seq) -> Option<usize> {
        let at = self.rows.binary_search_by_key(&seq, |row| row.seq).ok()?;
        (self.rows[at].subject != GONE).then_some(at)
    }

    pub(super) fn contains(&self, seq: Seq) -> bool {
        self.place(seq).is_some()
    }

    /// Whether any message is in `first..=last`.
    pub(super) fn any_in(&self, first: Seq, last: Seq) -> Option<Seq> {
        let at = self.rows.partition_point(|row| row.seq < first);
        let rows = self.rows[at..].iter().take_while(|row| row.seq <= last);
        rows.filter(|row| row.subject != GONE).map(|row| row.seq).next()
    }

    fn take(&mut self, at: usize) {
        let row = &mut self.rows[at];
        let subject = std::mem::replace(&mut row.subject, GONE);
        self.messages -= 1;
        self.bytes -= u64::from(row.size);
        self.counts[subject as usize] -= 1;
        self.touched.insert(subject);
        self.expiries.remove(&row.seq);
    }

    pub(super) fn remove(&mut self, seq: Seq) {
        let Some(at) = self.place(seq) else { return };
        self.take(at);
        if seq == self.first_seq {
            self.advance(at + 1);
        }
    }

    /// The first message is the first one there is from row `at` on.
    fn advance(&mut self, at: usize) {
        let next = self.rows[at..].iter().find(|row| row.subject != GONE).map(|row| row.seq);
        self.first_seq = next.unwrap_or(self.last_seq + 1);
    }

    /// Removes everything in these sequences, which may be many more than there are messages.
    pub(super) fn remove_range(&mut self, first: Seq, last: Seq) {
        let at = self.rows.partition_point(|row| row.seq < first);
        let end = self.rows.partition_point(|row| row.seq <= last);
        for at in at..end {
            if self.rows[at].subject != GONE {
                self.remove(self.rows[at].seq);
            }
        }
    }

    /// Everything before `first` goes; a `first` behind the end moves the stream on.
    pub(super) fn trim(&mut self, first: Seq) {
        if first > self.last_seq {
            self.clear(first);
            return;
        }
        let end = self.rows.partition_point(|row| row.seq < first);
        for at in 0..end {
            if self.rows[at].subject != GONE {
                self.take(at);
            }
        }
        if self.first_seq < first {
            self.advance(end);
        }
        self.rows.drain(..end);
    }

    fn clear(&mut self, first: Seq) {
        self.rows.clear();
        self.counts.fill(0);
        self.touched.clear();
        self.expiries.clear();
        (self.messages, self.bytes) = (0, 0);
        self.first_seq = first.max(self.last_seq + 1);
        self.last_seq = self.first_seq - 1;
    }

    /// Everything behind `last` goes, and sequences go on with the one behind it.
    pub(super) fn truncate(&mut self, last: Seq) {
        let begin = self.rows.partition_point(|row| row.seq <= last);
        for at in begin..self.rows.len() {
            if self.rows[at].subject != GONE {
                self.take(at);
            }
        }
        self.rows.truncate(begin);
        self.last_seq = self.last_seq.min(last);
        if self.messages == 0 {
            self.first_seq = self.last_seq + 1;
        }
    }

    /// Sequences up to `last` are used and hold nothing.
    pub(super) fn skip(&mut self, last: Seq) {
        if last <= self.last_seq {
            return;
        }
        if self.messages == 0 {
            self.first_seq = last + 1;
        }
        self.last_seq = last;
    }

    /// The stream's ends, where a manifest says them.
    pub(super) fn set_ends(&mut self, first_seq: Seq, last_seq: Seq) {
        (self.first_seq, self.last_seq) = (first_seq, last_seq);
    }

    /// Messages in `first..=last`, and their bytes.
    pub(super) fn count_in(&self, first: Seq, last: Seq) -> (u64, u64) {
        let at = self.rows.partition_point(|row| row.seq < first);
        let rows = self.rows[at..].iter().take_while(|row| row.seq <= last).filter(|row| row.subject != GONE);
        rows.fold((0, 0), |(messages, bytes), row| (messages + 1, bytes + u64::from(row.size)))
    }

    /// How many messages a subject has.
    pub(super) fn count(&self, subject: &[u8]) -> u64 {
        self.numbers.get(subject).map_or(0, |number| self.counts[*number as usize])
    }

    pub(super) fn text(&self, number: u32) -> &[u8] {
        &self.texts[number as usize]
    }

    /// All subjects with a message, in no order.
    pub(super) fn tallies(&self) -> HashMap<&[u8], Tally, foldhash::fast::RandomState> {
        let mut tallies = vec![Tally::default(); self.texts.len()];
        for row in self.rows.iter().filter(|row| row.subject != GONE) {
            let tally = &mut tallies[row.subject as usize];
            if tally.count == 0 {
                tally.first = row.seq;
            }
            tally.count += 1;
            tally.last = row.seq;
        }
        let named = self.texts.iter().map(|text| &**text).zip(tallies);
        named.filter(|(_, tally)| tally.count > 0).collect()
    }
}
