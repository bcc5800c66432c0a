//! The memory that subjects live in: one record for each, its state and its text side by side.
//!
//! A record's id is its place (in units of 8 bytes), so finding a subject costs no second look-up,
//! and neither chunks nor ids ever move. Freed records are kept in lists by size, inside
//! themselves; neighbours grow together again, and a chunk without a live record gives its memory
//! back.

use std::collections::BTreeMap;

use super::subjects::SubjectId;

/// Unit in which places are counted.
const UNIT: usize = 8;
/// Units of a chunk: 128 KiB, twice the longest record.
const CHUNK_UNITS: u32 = 1 << 14;
/// Bytes before the text: count with the size of the last message, first and last (u64 each),
/// length of the text (u16), flags, slack.
const HEADER: usize = 28;
/// Units of the smallest record; less than this cannot be free on its own.
const SMALLEST: u32 = 4;
/// No record: the end of a list.
const NONE: u32 = u32::MAX;

const COUNT: usize = 0;
const FIRST: usize = 8;
const LAST: usize = 16;
const LENGTH: usize = 24;
const FLAGS: usize = 26;
const SLACK: usize = 27;
/// Bits of the count: no disk holds so many messages. The rest is for sizes below 1 MiB.
const COUNT_BITS: u32 = 44;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// Where a free record keeps what it is (its other bytes mean nothing).
const FREE_UNITS: usize = 0;
const FREE_NEXT: usize = 4;
const FREE_BEFORE: usize = 8;

/// Bits of a record's flags. Only `subjects` knows what they say, but for [`flag::FREE`].
pub(super) mod flag {
    /// The first sequence is the first, not a bound.
    pub(crate) const FIRST_EXACT: u8 = 1;
    /// The last sequence is the last, not a bound.
    pub(crate) const LAST_EXACT: u8 = 2;
    /// On the list of touched subjects.
    pub(crate) const TOUCHED: u8 = 4;
    /// On the list of subjects that may be forgotten.
    pub(crate) const LISTED: u8 = 8;
    /// No longer in the table; the order may still name it. One bit for every other collection, so
    /// that those that died before the one under way began are known without a pass through them.
    pub(crate) const DEAD: [u8; 2] = [16, 32];
    /// Not a record: free space.
    pub(crate) const FREE: u8 = 64;
}

#[derive(Debug, Default)]
struct RecordChunk {
    bytes: Vec<u8>,
    /// Free units in lists.
    free: u32,
    /// Units freed since neighbours were last joined.
    unjoined: u32,
}

impl RecordChunk {
    /// Adds zeros. The memory of a first chunk grows with it, so that a stream with few subjects is
    /// small.
    fn extend(&mut self, units: u32, to_full: bool) {
        let full = CHUNK_UNITS as usize * UNIT;
        let length = self.bytes.len() + units as usize * UNIT;
        if length > self.bytes.capacity() {
            let capacity = if to_full { full } else { (2 * self.bytes.capacity()).clamp(length, full) };
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.resize(length, 0);
    }
}

/// All records of one stream.
#[derive(Debug)]
pub(super) struct Records {
    chunks: Vec<RecordChunk>,
    /// The chunk that grows.
    current: usize,
    /// Chunks without memory, to be used again.
    empty: Vec<u32>,
    /// First free record of each size in units.
    free: BTreeMap<u32, u32>,
}

impl Records {
    pub(super) fn new() -> Self {
        Self { chunks: vec![RecordChunk::default()], current: 0, empty: Vec::new(), free: BTreeMap::new() }
    }

    /// A new record with this text, all of its state 0.
    ///
    /// # Panics
    /// If the text is longer than 65,535 bytes, or 32 GiB of records exist.
    pub(super) fn allocate(&mut self, text: &[u8]) -> SubjectId {
        let length = u16::try_from(text.len()).expect("a subject has at most 65,535 bytes");
        let units = units_of(text.len());
        let (id, got) = self.take_free(units).unwrap_or_else(|| (self.grow(units), units));
        let record = &mut self.bytes_mut(id)[..got as usize * UNIT];
        debug_assert!(got >= units, "a record has room for its text");
        record[..HEADER].fill(0);
        record[LENGTH..FLAGS].copy_from_slice(&length.to_le_bytes());
        record[SLACK] = u8::try_from(got - units).expect("less than the smallest record");
        record[HEADER..HEADER + text.len()].copy_from_slice(text);
        debug_assert!(self.text(id) == text && self.count(id) == 0, "a record begins without messages");
        debug_assert!(self.units(id) == got, "a record knows what it takes");
        id
    }

    /// Gives a record's space back. The id means nothing from here on.
    pub(super) fn free(&mut self, id: SubjectId) {
        debug_assert_eq!(self.flags(id) & flag::FREE, 0, "freed twice");
        let units = self.units(id);
        self.link(id, units);
        let at = chunk_of(id);
        let chunk = &mut self.chunks[at];
        chunk.unjoined += units;
        if chunk.free as usize * UNIT == chunk.bytes.len() {
            self.release(at);
        } else if chunk.unjoined >= CHUNK_UNITS / 4 {
            self.join(at);
        }
    }

    pub(super) fn text(&self, id: SubjectId) -> &[u8] {
        let record = self.bytes(id);
        let length = usize::from(u16::from_le_bytes([record[LENGTH], record[LENGTH + 1]]));
        &record[HEADER..HEADER + length]
    }

    /// As [`Records::text`], of an id that may be none: any text then.
    pub(super) fn text_or_other(&self, id: SubjectId) -> &[u8] {
        let chunk = self.chunks.get(chunk_of(id)).map_or(&[][..], |chunk| &chunk.bytes);
        let record = chunk.get(offset_of(id)..).unwrap_or_default();
        let length = record.get(LENGTH..FLAGS).map_or(0, |length| u16::from_le_bytes([length[0], length[1]]));
        record.get(HEADER..HEADER + usize::from(length)).unwrap_or_default()
    }

    pub(super) fn flags(&self, id: SubjectId) -> u8 {
        self.bytes(id)[FLAGS]
    }

    pub(super) fn set_flags(&mut self, id: SubjectId, flags: u8) {
        self.bytes_mut(id)[FLAGS] = flags;
    }

    /// Reads a little of each of these records, so that they are near when they are needed: their
    /// misses overlap.
    pub(super) fn warm(&self, ids: impl IntoIterator<Item = SubjectId>) {
        let mut read = 0;
        for id in ids {
            let record = self.bytes(id);
            // Most texts end on the next line of the cache.
            read ^= record[FLAGS] ^ record.get(64).copied().unwrap_or(0);
        }
        std::hint::black_box(read);
    }

    /// Count, first, last and flags.
    pub(super) fn read(&self, id: SubjectId) -> (u64, u64, u64, u8) {
        let header = self.bytes(id).first_chunk::<HEADER>().expect("a record begins with its header");
        (word(header, COUNT) & COUNT_MASK, word(header, FIRST), word(header, LAST), header[FLAGS])
    }

    pub(super) fn count(&self, id: SubjectId) -> u64 {
        let header = self.bytes(id).first_chunk::<HEADER>().expect("a record begins with its header");
        word(header, COUNT) & COUNT_MASK
    }

    /// Size of the last message; 0 if that is not known.
    pub(super) fn last_size(&self, id: SubjectId) -> u32 {
        let header = self.bytes(id).first_chunk::<HEADER>().expect("a record begins with its header");
        (word(header, COUNT) >> COUNT_BITS) as u32
    }

    /// Notes what the last message counts, if that is little enough.
    pub(super) fn set_last_size(&mut self, id: SubjectId, size: u32) {
        let size = if size < 1 << (u64::BITS - COUNT_BITS) { u64::from(size) } else { 0 };
        let header = self.bytes_mut(id).first_chunk_mut::<HEADER>().expect("a record begins with its header");
        let count = word(header, COUNT) & COUNT_MASK;
        header[COUNT..FIRST].copy_from_slice(&(count | size << COUNT_BITS).to_le_bytes());
    }

    /// Replaces the state. What the last message counts is forgotten if it is another one.
    pub(super) fn write(&mut self, id: SubjectId, (count, first, last, flags): (u64, u64, u64, u8)) {
        debug_assert!(self.flags(id) & flag::FREE == 0, "a free record has no state");
        debug_assert!(flags & flag::FREE == 0, "a record is freed in one place");
        let header = self.bytes_mut(id).first_chunk_mut::<HEADER>().expect("a record begins with its header");
        let size = if word(header, LAST) == last { word(header, COUNT) & !COUNT_MASK } else { 0 };
        header[COUNT..FIRST].copy_from_slice(&(count.min(COUNT_MASK) | size).to_le_bytes());
        header[FIRST..LAST].copy_from_slice(&first.to_le_bytes());
        header[LAST..LENGTH].copy_from_slice(&last.to_le_bytes());
        header[FLAGS] = flags;
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.bytes.capacity()).sum::<usize>()
            + self.chunks.capacity() * size_of::<RecordChunk>()
            + self.empty.capacity() * size_of::<u32>()
            + self.free.len() * 2 * size_of::<(u32, u32)>()
    }

    fn bytes(&self, id: SubjectId) -> &[u8] {
        &self.chunks[chunk_of(id)].bytes[offset_of(id)..]
    }

    fn bytes_mut(&mut self, id: SubjectId) -> &mut [u8] {
        &mut self.chunks[chunk_of(id)].bytes[offset_of(id)..]
    }

    /// Units of a record, live or free.
    fn units(&self, id: SubjectId) -> u32 {
        let record = self.bytes(id);
        if record[FLAGS] & flag::FREE != 0 {
            return half(record, FREE_UNITS);
        }
        let length = u16::from_le_bytes([record[LENGTH], record[LENGTH + 1]]);
        units_of(usize::from(length)) + u32::from(record[SLACK])
    }

    /// Space at the end of the current chunk, or in a new one.
    fn grow(&mut self, units: u32) -> SubjectId {
        let used = self.chunks[self.current].bytes.len() / UNIT;
        if used + units as usize <= CHUNK_UNITS as usize {
            self.chunks[self.current].extend(units, false);
            return id_at(self.current, used);
        }
        self.close(used);
        self.current = match self.empty.pop() {
            Some(at) => at as usize,
            None => {
                assert!(self.chunks.len() < (u32::MAX / CHUNK_UNITS) as usize, "32 GiB of subjects");
                self.chunks.push(RecordChunk::default());
                self.chunks.len() - 1
            }
        };
        self.chunks[self.current].extend(units, true);
        id_at(self.current, 0)
    }

    /// Makes what is left of the current chunk a free record.
    fn close(&mut self, used: usize) {
        let left = CHUNK_UNITS - u32::try_from(used).expect("chunks are smaller");
        if left >= SMALLEST {
            self.chunks[self.current].extend(left, true);
            self.link(id_at(self.current, used), left);
        }
    }

    /// A free record of at least `units`, and how many of its units the caller gets.
    fn take_free(&mut self, units: u32) -> Option<(SubjectId, u32)> {
        let (&found, &id) = self.free.range(units..).next()?;
        self.unlink(id);
        if found - units < SMALLEST {
            return Some((id, found));
        }
        self.link(id + units, found - units);
        Some((id, units))
    }

    fn link(&mut self, id: SubjectId, units: u32) {
        debug_assert!(units >= SMALLEST, "a free record has room for what it says");
        let next = self.free.insert(units, id).unwrap_or(NONE);
        let record = self.bytes_mut(id);
        record[FLAGS] = flag::FREE;
        set_half(record, FREE_UNITS, units);
        set_half(record, FREE_NEXT, next);
        set_half(record, FREE_BEFORE, NONE);
        if next != NONE {
            set_half(self.bytes_mut(next), FREE_BEFORE, id);
        }
        self.chunks[chunk_of(id)].free += units;
    }

    fn unlink(&mut self, id: SubjectId) {
        let record = self.bytes(id);
        let (units, next, before) =
            (half(record, FREE_UNITS), half(record, FREE_NEXT), half(record, FREE_BEFORE));
        debug_assert!(record[FLAGS] == flag::FREE, "only free records are in lists");
        debug_assert!(
            next == NONE || half(self.bytes(next), FREE_BEFORE) == id,
            "a list is the same from both ends"
        );
        debug_assert!(
            (before == NONE) == (self.free.get(&units) == Some(&id)),
            "the first of a list is known by its size"
        );
        if next != NONE {
            set_half(self.bytes_mut(next), FREE_BEFORE, before);
        }
        if before != NONE {
            set_half(self.bytes_mut(before), FREE_NEXT, next);
        } else if next != NONE {
            self.free.insert(units, next);
        } else {
            self.free.remove(&units);
        }
        debug_assert!(self.chunks[chunk_of(id)].free >= units, "free units are counted");
        self.chunks[chunk_of(id)].free -= units;
    }

    /// Joins free neighbours of a chunk.
    fn join(&mut self, at: usize) {
        self.chunks[at].unjoined = 0;
        let end = self.chunks[at].bytes.len() / UNIT;
        let (mut place, mut free_from) = (0, None);
        while place < end {
            let id = id_at(at, place);
            let next = place + self.units(id) as usize;
            if self.flags(id) & flag::FREE != 0 {
                free_from.get_or_insert(place);
            } else if let Some(first) = free_from.take() {
                self.join_pieces(at, first, place);
            }
            place = next;
        }
        if let Some(first) = free_from {
            self.join_pieces(at, first, end);
        }
    }

    /// Makes one free record of all those from `first` to `end`.
    fn join_pieces(&mut self, at: usize, first: usize, end: usize) {
        let mut place = first;
        while place < end {
            let id = id_at(at, place);
            place += self.units(id) as usize;
            self.unlink(id);
        }
        self.link(id_at(at, first), u32::try_from(end - first).expect("chunks are smaller"));
    }

    /// Gives up the memory of a chunk that has free records only.
    fn release(&mut self, at: usize) {
        let mut place = 0;
        while place * UNIT < self.chunks[at].bytes.len() {
            let id = id_at(at, place);
            place += self.units(id) as usize;
            self.unlink(id);
        }
        debug_assert!(self.chunks[at].free == 0, "a chunk that is given up has no free records");
        debug_assert!(!self.empty.contains(&(at as u32)), "a chunk is given up once");
        if at == self.current {
            self.chunks[at].bytes.clear();
            self.chunks[at].unjoined = 0;
        } else {
            self.chunks[at] = RecordChunk::default();
            self.empty.push(u32::try_from(at).expect("ids have 32 bits"));
        }
    }
}

fn units_of(text: usize) -> u32 {
    let units = (HEADER + text).div_ceil(UNIT);
    u32::try_from(units).expect("a record is smaller than a chunk").max(SMALLEST)
}

fn chunk_of(id: SubjectId) -> usize {
    (id / CHUNK_UNITS) as usize
}

fn offset_of(id: SubjectId) -> usize {
    (id % CHUNK_UNITS) as usize * UNIT
}

fn id_at(chunk: usize, unit: usize) -> SubjectId {
    u32::try_from(chunk * CHUNK_UNITS as usize + unit).expect("ids have 32 bits")
}

fn word(header: &[u8; HEADER], at: usize) -> u64 {
    u64::from_le_bytes(*header[at..].first_chunk().expect("within the header"))
}

fn half(record: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*record[at..].first_chunk().expect("within the record"))
}

fn set_half(record: &mut [u8], at: usize, value: u32) {
    record[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests;
