//! Message ids of the last minutes, so that a message that comes twice is stored once.
//!
//! Ids stand behind each other in chunks, entries in the order of their times: what has ended
//! leaves at the front and no timer looks at each. Memory is bounded: beyond it the oldest ids are
//! forgotten before their time, and counted.
//!
//! Perf: an id costs its bytes, an entry of 40 bytes and about 7 bytes of hash table; no allocation
//! of its own.

use std::collections::VecDeque;
use std::hash::BuildHasher;

use foldhash::quality::FixedState;
use hashbrown::HashTable;
use myelin_store::{Seq, Timestamp};

use super::decided_ids::DecidedIds;

/// Sizes of chunks: small streams stay small, and no id is larger than the header block it came in.
const CHUNK_MIN: usize = 1 << 10;
const CHUNK_MAX: usize = 64 << 10;

/// Message ids within the window of duplicates.
pub(super) struct Dedupe {
    /// Nanoseconds; 0: nothing is remembered.
    window: i64,
    max_bytes: usize,
    hasher: FixedState,
    /// The numbers of entries by the hash of their ids.
    table: HashTable<u64>,
    entries: VecDeque<IdEntry>,
    /// The number of the first entry.
    first: u64,
    chunks: VecDeque<Vec<u8>>,
    /// The number of the first chunk.
    first_chunk: u64,
    chunk_bytes: usize,
    forgotten: u64,
    /// Ids that come into the table when their entry is committed.
    pub(super) decided: DecidedIds,
}

/// Resources that the message ids of a stream take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownIds {
    /// Ids that are remembered.
    pub count: usize,
    /// Memory in use, and reserved for more.
    pub bytes: usize,
    /// Ids that were forgotten before their time, because of the limit of memory.
    pub forgotten: u64,
}

struct IdEntry {
    hash: u64,
    /// 0: the message is on its way, or was not stored.
    seq: Seq,
    time: Timestamp,
    chunk: u64,
    at: u32,
    len: u32,
}

/// Names an entry, to say later what became of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IdSlot(u64);

/// State of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KnownId {
    /// Nothing.
    No,
    /// Its message is on its way.
    Pending,
    /// Its message is stored.
    Stored(Seq),
}

impl Dedupe {
    pub(super) fn new(window: i64, max_bytes: usize, seed: u64) -> Self {
        Self {
            window,
            max_bytes,
            hasher: FixedState::with_seed(seed),
            table: HashTable::new(),
            entries: VecDeque::new(),
            first: 0,
            chunks: VecDeque::new(),
            first_chunk: 0,
            chunk_bytes: 0,
            forgotten: 0,
            decided: DecidedIds::default(),
        }
    }

    pub(super) fn set_window(&mut self, window: i64) {
        self.window = window;
    }

    /// State of `id` now.
    pub(super) fn find(&self, id: &[u8], now: Timestamp) -> KnownId {
        if self.entries.is_empty() {
            return KnownId::No;
        }
        let Some(number) = self.position(self.hasher.hash_one(id), id) else { return KnownId::No };
        let entry = &self.entries[(number - self.first) as usize];
        match entry.seq {
            _ if self.has_ended(entry, now) => KnownId::No,
            0 => KnownId::Pending,
            seq => KnownId::Stored(seq),
        }
    }

    /// Remembers that a message with this id is on its way. `None` if nothing is remembered.
    pub(super) fn begin(&mut self, id: &[u8], now: Timestamp) -> Option<IdSlot> {
        if self.window <= 0 {
            return None;
        }
        let hash = self.hasher.hash_one(id);
        let number = self.first + self.entries.len() as u64;
        match self.position(hash, id) {
            // What was known has ended: its entry leaves with its time.
            Some(old) => {
                let found = self.table.find_mut(hash, |&other| other == old);
                *found.expect("its position was just found") = number;
            }
            None => {
                let (entries, first) = (&self.entries, self.first);
                let hash_of = |&number: &u64| entries[(number - first) as usize].hash;
                // The new entry is not there yet, and a table that grows asks for those that are.
                self.table.insert_unique(hash, number, hash_of);
            }
        }
        let (chunk, at) = self.keep(id);
        self.entries.push_back(IdEntry { hash, seq: 0, time: now, chunk, at, len: id.len() as u32 });
        debug_assert_eq!(self.position(hash, id), Some(number), "an id is found with its newest entry");
        self.check();
        Some(IdSlot(number))
    }

    /// The message of an entry is stored.
    pub(super) fn stored(&mut self, slot: IdSlot, seq: Seq, time: Timestamp) {
        if let Some(entry) = self.entry_mut(slot) {
            debug_assert!(seq > 0, "a message that is stored has a sequence");
            debug_assert_eq!(entry.seq, 0, "a message id is stored once");
            (entry.seq, entry.time) = (seq, time);
        }
    }

    /// Enters the id of a message that is stored since `time`. Answers whether it did: not where
    /// there is none, or it is known.
    pub(super) fn enter_stored(&mut self, id: &[u8], seq: Seq, time: Timestamp) -> bool {
        let slot = if id.is_empty() { None } else { self.begin(id, time) };
        slot.map(|slot| self.stored(slot, seq, time)).is_some()
    }

    /// The message of an entry was not stored.
    pub(super) fn refused(&mut self, slot: IdSlot) {
        let Some(entry) = self.entry_mut(slot) else { return };
        let hash = entry.hash;
        self.leave_table(slot.0, hash);
    }

    /// The messages behind `last` are not stored any more, nor those on their way.
    pub(super) fn take_back(&mut self, last: Seq) {
        let gone = |entry: &IdEntry| entry.seq == 0 || entry.seq > last;
        let newest = (0..self.entries.len()).rev().take_while(|&at| gone(&self.entries[at]));
        let slots: Vec<IdSlot> = newest.map(|at| IdSlot(self.first + at as u64)).collect();
        slots.into_iter().for_each(|slot| self.refused(slot));
    }

    /// Drops up to `limit` entries that have ended, and those for which there is no memory.
    pub(super) fn tidy(&mut self, now: Timestamp, limit: usize) {
        for _ in 0..limit {
            let Some(front) = self.entries.front() else { break };
            let has_ended = self.has_ended(front, now);
            if !has_ended && self.memory_bytes() <= self.max_bytes {
                return;
            }
            self.forgotten += u64::from(!has_ended);
            self.drop_front();
            self.shrink();
        }
    }

    /// When the next entry ends.
    pub(super) fn next_end(&self) -> Option<Timestamp> {
        self.entries.front().map(|entry| entry.time.saturating_add(self.window))
    }

    pub(super) fn usage(&self) -> KnownIds {
        KnownIds { count: self.table.len(), bytes: self.memory_bytes(), forgotten: self.forgotten }
    }

    fn memory_bytes(&self) -> usize {
        self.chunk_bytes + self.entries.capacity() * size_of::<IdEntry>() + self.table.allocation_size()
    }

    fn has_ended(&self, entry: &IdEntry, now: Timestamp) -> bool {
        now.saturating_sub(entry.time) >= self.window
    }

    fn position(&self, hash: u64, id: &[u8]) -> Option<u64> {
        let is_same = |&number: &u64| {
            let entry = &self.entries[(number - self.first) as usize];
            entry.hash == hash && self.text(entry) == id
        };
        self.table.find(hash, is_same).copied()
    }

    fn text(&self, entry: &IdEntry) -> &[u8] {
        let chunk = &self.chunks[(entry.chunk - self.first_chunk) as usize];
        &chunk[entry.at as usize..][..entry.len as usize]
    }

    fn entry_mut(&mut self, slot: IdSlot) -> Option<&mut IdEntry> {
        let at = slot.0.checked_sub(self.first)?;
        self.entries.get_mut(at as usize)
    }

    /// Copies an id; answers its chunk and its place there.
    fn keep(&mut self, id: &[u8]) -> (u64, u32) {
        let has_room = self.chunks.back().is_some_and(|chunk| chunk.capacity() - chunk.len() >= id.len());
        if !has_room {
            let double = self.chunks.back().map_or(CHUNK_MIN, |chunk| chunk.capacity() * 2);
            let chunk = Vec::with_capacity(double.min(CHUNK_MAX).max(id.len()));
            self.chunk_bytes += chunk.capacity();
            self.chunks.push_back(chunk);
        }
        let number = self.first_chunk + self.chunks.len() as u64 - 1;
        let chunk = self.chunks.back_mut().expect("it was just added if it was not there");
        let at = chunk.len() as u32;
        chunk.extend_from_slice(id);
        (number, at)
    }

    fn drop_front(&mut self) {
        let Some(front) = self.entries.front() else { return };
        let hash = front.hash;
        self.leave_table(self.first, hash);
        self.entries.pop_front();
        self.first += 1;
        debug_assert!(
            self.table.find(hash, |&number| number < self.first).is_none(),
            "the table names no entry that has left"
        );
        let next = self.first_chunk + self.chunks.len() as u64;
        let needed = self.entries.front().map_or(next, |entry| entry.chunk);
        while self.first_chunk < needed {
            let chunk = self.chunks.pop_front().expect("chunks up to the next one are there");
            self.chunk_bytes -= chunk.capacity();
            self.first_chunk += 1;
        }
        self.check();
    }

    /// Checks what is cheap to see of the invariants: counts, and that memory lies where entries
    /// look for it.
    fn check(&self) {
        debug_assert!(self.table.len() <= self.entries.len(), "each id that is known has an entry");
        debug_assert_eq!(self.entries.is_empty(), self.chunks.is_empty(), "memory is kept for entries alone");
        debug_assert!(!self.chunks.is_empty() || self.chunk_bytes == 0, "no chunk counts that has left");
        debug_assert!(
            self.entries.front().is_none_or(|front| front.chunk == self.first_chunk),
            "the first chunk is that of the first entry"
        );
        debug_assert!(
            self.entries
                .back()
                .is_none_or(|back| back.chunk + 1 == self.first_chunk + self.chunks.len() as u64),
            "the last chunk is that of the last entry"
        );
    }

    /// Not if another entry has taken over its id.
    fn leave_table(&mut self, number: u64, hash: u64) {
        if let Ok(found) = self.table.find_entry(hash, |&other| other == number) {
            found.remove();
        }
    }

    /// Gives memory back when little of it is in use.
    fn shrink(&mut self) {
        let few = self.entries.len() * 4;
        if self.entries.capacity() > few.max(64) {
            self.entries.shrink_to(self.entries.len() * 2);
        }
        if self.table.capacity() > few.max(64) {
            let (entries, first) = (&self.entries, self.first);
            self.table.shrink_to(entries.len() * 2, |&number| entries[(number - first) as usize].hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: i64 = 1000;

    fn table() -> Dedupe {
        Dedupe::new(WINDOW, 1 << 20, 7)
    }

    fn store(ids: &mut Dedupe, id: &[u8], seq: Seq, now: Timestamp) {
        let slot = ids.begin(id, now).expect("there is a window");
        ids.stored(slot, seq, now);
    }

    #[test]
    fn an_id_is_known_for_as_long_as_the_window() {
        let mut ids = table();
        store(&mut ids, b"a", 5, 100);
        assert_eq!(ids.find(b"a", 100 + WINDOW - 1), KnownId::Stored(5));
        assert_eq!(ids.find(b"a", 100 + WINDOW), KnownId::No);
        assert_eq!((ids.find(b"b", 100), ids.next_end()), (KnownId::No, Some(100 + WINDOW)));
        ids.tidy(100 + WINDOW, 10);
        assert_eq!((ids.usage().count, ids.next_end()), (0, None));
    }

    #[test]
    fn what_is_on_its_way_is_known_and_what_was_refused_is_not() {
        let mut ids = table();
        let slot = ids.begin(b"a", 0).unwrap();
        assert_eq!(ids.find(b"a", 0), KnownId::Pending);
        ids.refused(slot);
        assert_eq!((ids.find(b"a", 0), ids.usage().count), (KnownId::No, 0));
    }

    #[test]
    fn an_id_that_comes_again_after_its_window_outlives_its_old_entry() {
        let mut ids = table();
        store(&mut ids, b"a", 1, 0);
        store(&mut ids, b"a", 2, WINDOW);
        ids.tidy(WINDOW, 1);
        assert_eq!(ids.find(b"a", WINDOW), KnownId::Stored(2));
    }

    #[test]
    fn without_a_window_nothing_is_remembered() {
        let mut ids = Dedupe::new(0, 1 << 20, 7);
        assert_eq!(ids.begin(b"a", 0), None);
        assert_eq!(ids.find(b"a", 0), KnownId::No);
    }

    #[test]
    fn memory_is_bounded_and_comes_back() {
        let mut ids = Dedupe::new(WINDOW, 256 << 10, 7);
        for n in 0..100_000_u64 {
            store(&mut ids, format!("message-{n}").as_bytes(), n + 1, 0);
            ids.tidy(0, 4);
        }
        // One more doubling may be on its way when the limit is reached.
        assert!(ids.memory_bytes() <= 512 << 10, "{} bytes", ids.memory_bytes());
        assert!(ids.usage().forgotten > 90_000 && ids.usage().count > 1000, "{:?}", ids.usage());
        assert_eq!(ids.find(b"message-99999", 0), KnownId::Stored(100_000));
        ids.tidy(WINDOW, usize::MAX);
        assert!(ids.memory_bytes() < 8 << 10, "{} bytes", ids.memory_bytes());
    }

    proptest::proptest! {
        /// The plain twin: a list of all ids with their times.
        #[test]
        fn it_knows_what_a_list_knows(steps in proptest::collection::vec((0..20_u8, 0..300_i64, proptest::bool::ANY), 1..200)) {
            let (mut ids, mut plain, mut now) = (table(), Vec::<(u8, i64, u64)>::new(), 0);
            for (seq, (id, pause, is_taken)) in (1..).zip(steps) {
                now += pause;
                ids.tidy(now, 2);
                let expected = plain.iter().rev().find(|(other, time, _)| *other == id && now - time < WINDOW);
                let expected = expected.map_or(KnownId::No, |(_, _, seq)| KnownId::Stored(*seq));
                proptest::prop_assert_eq!(ids.find(&[id], now), expected);
                if expected == KnownId::No {
                    let slot = ids.begin(&[id], now).unwrap();
                    if is_taken {
                        ids.stored(slot, seq, now);
                        plain.push((id, now, seq));
                    } else {
                        ids.refused(slot);
                    }
                }
            }
        }
    }
}
