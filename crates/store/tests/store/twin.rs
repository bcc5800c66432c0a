//! A stream as its promises describe it, in the plainest way: a map from sequence to message.
//!
//! It owns no file, no index and no shortcut: every answer is a walk over all messages. What a
//! stream in memory or in files shows must be what this shows.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use myelin_store::{
    AppendRefusal, AppendResult, Discard, Filter, Limits, Marker, Message, NewMessage, Purge, Removed, Seq,
    Storage, Timestamp,
};

/// A stored message.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) timestamp: Timestamp,
    pub(crate) expires: Option<Timestamp>,
    pub(crate) subject: Vec<u8>,
    pub(crate) headers: Vec<u8>,
    pub(crate) payload: Vec<u8>,
}

impl Kept {
    pub(crate) fn of(message: &Message<'_>) -> Self {
        Self {
            timestamp: message.timestamp,
            expires: message.expires,
            subject: message.subject.to_vec(),
            headers: message.headers.to_vec(),
            payload: message.payload.to_vec(),
        }
    }
}

/// Short: payloads say nothing to who reads them.
impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { timestamp, expires, subject, headers, payload } = self;
        let subject = String::from_utf8_lossy(subject);
        let sum = crc32c::crc32c(payload);
        let (headers, payload) = (headers.len(), payload.len());
        write!(f, "{subject} at {timestamp} until {expires:?}, {headers}+{payload} bytes, sum {sum:08x}")
    }
}

/// Plain stream: a map from sequence to message, with the limits of a real one.
#[derive(Clone, Debug)]
pub(crate) struct Twin {
    storage: Storage,
    pub(crate) limits: Limits,
    pub(crate) messages: BTreeMap<Seq, Kept>,
    pub(crate) last_seq: Seq,
}

impl Twin {
    pub(crate) fn new(storage: Storage, limits: Limits, first_seq: Seq) -> Self {
        Self { storage, limits, messages: BTreeMap::new(), last_seq: first_seq.max(1) - 1 }
    }

    pub(crate) fn first_seq(&self) -> Seq {
        self.messages.first_key_value().map_or(self.last_seq + 1, |(&seq, _)| seq)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.messages.values().map(|kept| self.size(kept)).sum()
    }

    /// The reference's formula.
    fn size(&self, kept: &Kept) -> u64 {
        let (subject, headers, payload) = (kept.subject.len(), kept.headers.len(), kept.payload.len());
        let size = match self.storage {
            Storage::File => 22 + subject + if headers > 0 { 4 + headers } else { 0 } + payload + 8,
            Storage::Memory => subject + headers + payload + 16,
        };
        size as u64
    }

    /// Sequences between first and last without a message.
    pub(crate) fn deleted(&self) -> Vec<RangeInclusive<Seq>> {
        let mut ranges = Vec::new();
        let mut expected = self.first_seq();
        for &seq in self.messages.keys() {
            if seq > expected {
                ranges.push(expected..=seq - 1);
            }
            expected = seq + 1;
        }
        if expected <= self.last_seq {
            ranges.push(expected..=self.last_seq);
        }
        ranges
    }

    pub(crate) fn subjects(&self, pattern: &Filter) -> BTreeMap<Vec<u8>, u64> {
        let mut counts = BTreeMap::new();
        for kept in self.messages.values().filter(|kept| pattern.accepts(&kept.subject)) {
            *counts.entry(kept.subject.clone()).or_default() += 1;
        }
        counts
    }

    pub(crate) fn matching(&self, filter: &Filter) -> impl DoubleEndedIterator<Item = Seq> {
        self.messages.iter().filter(|(_, kept)| filter.accepts(&kept.subject)).map(|(&seq, _)| seq)
    }

    /// The first message accepted at `time` or later; one behind the last if there is none.
    pub(crate) fn seq_at(&self, time: Timestamp) -> Seq {
        let found = self.messages.iter().find(|(_, kept)| kept.timestamp >= time);
        found.map_or(self.last_seq + 1, |(&seq, _)| seq)
    }

    fn count_of(&self, subject: &[u8]) -> u64 {
        self.messages.values().filter(|kept| kept.subject == subject).count() as u64
    }

    fn first_of(&self, subject: &[u8]) -> Option<Seq> {
        self.messages.iter().find(|(_, kept)| kept.subject == subject).map(|(&seq, _)| seq)
    }

    pub(crate) fn append(&mut self, message: &NewMessage<'_>, checked: bool) -> AppendResult {
        let length = message.headers.len() + message.payload.len();
        if self.limits.message_size.is_some_and(|max| length > max as usize) {
            return Err(AppendRefusal::TooLarge);
        }
        if message.seq != 0 && message.seq <= self.last_seq {
            return Err(AppendRefusal::WrongSequence { last: self.last_seq });
        }
        let kept = Kept {
            timestamp: message.timestamp,
            expires: message.expires,
            subject: message.subject.to_vec(),
            headers: message.headers.to_vec(),
            payload: message.payload.to_vec(),
        };
        if checked && self.limits.discard == Discard::New {
            self.admit(&kept, message.is_rollup)?;
        }
        self.skip(message.seq.saturating_sub(1));
        Ok(self.store(kept, message.ends))
    }

    /// Whether a stream that discards new messages takes this one.
    fn admit(&self, kept: &Kept, is_rollup: bool) -> Result<(), AppendRefusal> {
        let max = self.limits.messages_per_subject;
        let is_full = max.is_some_and(|max| self.count_of(&kept.subject) >= max);
        if is_full && self.limits.discard_new_per_subject && !is_rollup {
            return Err(AppendRefusal::MaxMessagesPerSubject);
        }
        let replaced =
            self.first_of(&kept.subject).filter(|_| is_full).map(|seq| self.size(&self.messages[&seq]));
        let messages = self.messages.len() as u64;
        if replaced.is_none() && self.limits.messages.is_some_and(|max| messages >= max) {
            return Err(AppendRefusal::MaxMessages);
        }
        let size = self.size(kept);
        let is_over = self.limits.bytes.is_some_and(|max| self.bytes() + size > max);
        if is_over && replaced.is_none_or(|replaced| replaced < size) {
            return Err(AppendRefusal::MaxBytes);
        }
        Ok(())
    }

    /// Message `ends` goes with it.
    fn store(&mut self, kept: Kept, ends: Seq) -> Seq {
        self.last_seq += 1;
        let subject = kept.subject.clone();
        self.messages.insert(self.last_seq, kept);
        if ends < self.last_seq {
            self.messages.remove(&ends);
        }
        self.evict_of(&subject);
        if self.limits.discard == Discard::Old {
            self.evict_oldest();
        }
        self.last_seq
    }

    fn evict_of(&mut self, subject: &[u8]) {
        let Some(max) = self.limits.messages_per_subject else { return };
        while self.count_of(subject) > max {
            let first = self.first_of(subject).expect("it has messages");
            self.messages.remove(&first);
        }
    }

    fn evict_oldest(&mut self) {
        let messages = self.limits.messages.unwrap_or(u64::MAX);
        let bytes = self.limits.bytes.unwrap_or(u64::MAX);
        while self.messages.len() as u64 > messages || self.bytes() > bytes {
            self.messages.pop_first();
        }
    }

    /// Removes the messages that exceed limits which were made tighter.
    pub(crate) fn enforce(&mut self) {
        for subject in self.subjects(&Filter::All).into_keys() {
            self.evict_of(&subject);
        }
        if self.limits.discard == Discard::Old {
            self.evict_oldest();
        }
    }

    pub(crate) fn remove(&mut self, seqs: &[Seq]) -> Removed {
        let mut removed = Removed::default();
        for seq in seqs {
            let Some(kept) = self.messages.remove(seq) else { continue };
            removed.messages += 1;
            removed.bytes += self.size(&kept);
        }
        removed
    }

    pub(crate) fn purge(&mut self, purge: &Purge) -> Removed {
        let filter = purge.filter.clone().unwrap_or(Filter::All);
        if purge.below == 1 {
            return Removed::default();
        }
        if filter.is_all() && (purge.below > 1 || purge.keep == 0) {
            return self.compact(purge.below);
        }
        let matching: Vec<Seq> = self.matching(&filter).collect();
        let surplus = matching.len().saturating_sub(purge.keep as usize);
        let is_below = |seq: &Seq| purge.below == 0 || *seq < purge.below;
        let doomed: Vec<Seq> = matching[..surplus].iter().copied().filter(is_below).collect();
        self.remove(&doomed)
    }

    /// Removes everything below `first`; everything there is if it is 0.
    pub(crate) fn compact(&mut self, first: Seq) -> Removed {
        let first = if first == 0 { self.last_seq + 1 } else { first };
        let doomed: Vec<Seq> = self.messages.range(..first).map(|(&seq, _)| seq).collect();
        self.last_seq = self.last_seq.max(first - 1);
        self.remove(&doomed)
    }

    pub(crate) fn truncate(&mut self, last: Seq) -> Removed {
        if last >= self.last_seq {
            return Removed::default();
        }
        self.last_seq = last;
        let doomed: Vec<Seq> = self.messages.range(last + 1..).map(|(&seq, _)| seq).collect();
        self.remove(&doomed)
    }

    pub(crate) fn skip(&mut self, last: Seq) {
        self.last_seq = self.last_seq.max(last);
    }

    /// Messages that have ended by `now`.
    pub(crate) fn ended(&self, now: Timestamp) -> Vec<Seq> {
        let age = self.limits.age.map(|age| age.as_nanos() as i64);
        let has_ended = |kept: &Kept| match kept.expires {
            Some(Timestamp::MAX) => false,
            expires => {
                expires.is_some_and(|at| at <= now) || age.is_some_and(|age| kept.timestamp <= now - age)
            }
        };
        self.messages.iter().filter(|(_, kept)| has_ended(kept)).map(|(&seq, _)| seq).collect()
    }

    /// Removes what has ended; a subject that is gone with it leaves the marker that `marker` makes
    /// of its last message.
    pub(crate) fn expire(
        &mut self,
        now: Timestamp,
        marker: impl Fn(&Kept) -> Option<Marker>,
    ) -> (Removed, u64) {
        let ended = self.ended(now);
        let mut markers = Vec::new();
        let mut removed = Removed::default();
        for seq in ended {
            let kept = self.messages[&seq].clone();
            removed.add(self.remove(&[seq]));
            if self.count_of(&kept.subject) == 0
                && let Some(marker) = marker(&kept)
            {
                markers.push((kept.subject, marker));
            }
        }
        let count = markers.len() as u64;
        for (subject, marker) in markers {
            self.last_seq += 1;
            let Marker { headers, expires } = marker;
            let kept = Kept { timestamp: now, expires, subject, headers, payload: Vec::new() };
            self.messages.insert(self.last_seq, kept);
        }
        (removed, count)
    }
}
