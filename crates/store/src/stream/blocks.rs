//! Blocks of sealed segment files that are read again and again, in memory.
//!
//! Owns copies of the file's bytes, as many as a budget allows, for reads of single messages: the
//! system call that such a read is otherwise costs more than all the rest of it. A block is kept
//! when it was read for the second time, with no more between the two than there is room for,
//! roughly: a cold message stays one exact read and drives out nothing. What was not asked for the
//! longest, roughly, makes room (a clock: one bit per block).
//!
//! Nothing here gets stale: a sealed file does not change, and one that is written anew has another
//! generation; blocks of the old one make room in time. Only erasing writes to an old file, and has
//! it forgotten (whoever reads it at that moment may bring a block back, until it makes room).
//! Blocks are as in the file, so whoever reads them decrypts them and checks their checksums. Never
//! reads a file itself.

use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use myelin_stdx::sync::lock;

use crate::StreamId;

use super::segment_view::Segment;

/// Length of a block; the last one of a file may be shorter.
pub(super) const BLOCK_BYTES: u64 = 4096;

/// Readers on different threads seldom wait for each other.
const SHARDS: usize = 16;
/// A shard with fewer blocks would throw out what is in use.
const SHARD_BLOCKS: usize = 64;

/// Cache of blocks of sealed segment files, within a budget of bytes for all streams.
#[derive(Debug)]
pub(crate) struct Blocks {
    /// None if there is no room for a block.
    shards: Box<[Mutex<CacheShard>]>,
    /// Hasher without a seed: nobody from outside chooses what is hashed, and what is kept is to be
    /// the same in equal runs.
    hasher: FixedState,
}

/// Result of looking some bytes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CacheLookup {
    /// All of them.
    Whole,
    /// Not all, and what is missing was read before: it is worth keeping.
    Wanted,
    /// Not all.
    Missing,
}

/// A sealed file: stream, segment, generation, and with what its checksums begin. The last tells it
/// from one that had the same place in the stream before the stream was opened anew.
type Name = (StreamId, u64, u64, u32);

/// A file and the number of a block in it.
type Key = (Name, u64);

#[derive(Debug)]
struct CacheShard {
    capacity: usize,
    /// Indices of `slots`.
    slot_of: HashTable<usize>,
    slots: Vec<CachedBlock>,
    hand: usize,
    /// Of blocks that were read once: a part of their hash, at a place that another part says. 0 is
    /// none. Empty until the first is read.
    seen: Box<[u32]>,
    bytes: usize,
}

#[derive(Debug)]
struct CachedBlock {
    key: Key,
    hash: u64,
    bytes: Box<[u8]>,
    /// Asked for since the hand last came by.
    used: bool,
}

impl Blocks {
    /// Blocks of at most `budget` bytes; none if that is less than one.
    pub(crate) fn new(budget: usize) -> Self {
        let capacity = budget / BLOCK_BYTES as usize;
        let shards = (capacity / SHARD_BLOCKS).clamp(usize::from(capacity > 0), SHARDS);
        let shard = |_| Mutex::new(CacheShard::new(capacity / shards));
        Self { shards: (0..shards).map(shard).collect(), hasher: FixedState::default() }
    }

    /// Copies what is at hand of the segment's bytes from `offset` on into `buffer`.
    pub(super) fn read(&self, segment: &Segment, buffer: &mut [u8], offset: u64) -> CacheLookup {
        if self.shards.is_empty() {
            return CacheLookup::Missing;
        }
        let (name, end) = (name(segment), offset + buffer.len() as u64);
        let mut look = CacheLookup::Whole;
        for block in numbers(offset..end) {
            let begin = block * BLOCK_BYTES;
            let part = begin.max(offset)..(begin + BLOCK_BYTES).min(end);
            let target = &mut buffer[(part.start - offset) as usize..(part.end - offset) as usize];
            let (hash, mut shard) = self.shard(&(name, block));
            if shard.copy(hash, &(name, block), target, (part.start - begin) as usize) {
                continue;
            }
            if !shard.was_seen(hash) {
                return CacheLookup::Missing;
            }
            look = CacheLookup::Wanted;
        }
        look
    }

    /// Remembers that bytes were read: the next time they are worth keeping.
    pub(super) fn note(&self, segment: &Segment, range: Range<u64>) {
        if self.shards.is_empty() {
            return;
        }
        let name = name(segment);
        for block in numbers(range) {
            let (hash, mut shard) = self.shard(&(name, block));
            shard.see(hash);
        }
    }

    /// Keeps a block that was read from the segment's file.
    pub(super) fn keep(&self, segment: &Segment, block: u64, bytes: &[u8]) {
        if self.shards.is_empty() {
            return;
        }
        let (key, bytes) = ((name(segment), block), Box::from(bytes));
        let (hash, mut shard) = self.shard(&key);
        let evicted = shard.keep(CachedBlock { key, hash, bytes, used: false });
        drop(shard);
        // Memory is given back without the lock.
        drop(evicted);
    }

    /// Lets go of what is kept of a segment's file.
    pub(crate) fn forget(&self, segment: &Segment) {
        let name = name(segment);
        for shard in &self.shards {
            lock(shard).forget_if(|other| *other == name);
        }
    }

    /// Lets go of what is kept of a stream that is gone.
    pub(crate) fn forget_stream(&self, stream: StreamId) {
        for shard in &self.shards {
            lock(shard).forget_if(|name| name.0 == stream);
        }
    }

    /// Bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).bytes).sum()
    }

    fn shard(&self, key: &Key) -> (u64, MutexGuard<'_, CacheShard>) {
        let hash = self.hasher.hash_one(key);
        // The table goes by the lowest and the highest bits.
        let shard = (hash >> 40) as usize % self.shards.len();
        (hash, lock(&self.shards[shard]))
    }
}

fn name(segment: &Segment) -> Name {
    (segment.stream, segment.no.0, segment.generation, segment.context.seed)
}

/// The blocks in which these bytes lie.
pub(super) fn numbers(bytes: Range<u64>) -> Range<u64> {
    bytes.start / BLOCK_BYTES..bytes.end.div_ceil(BLOCK_BYTES)
}

impl CacheShard {
    fn new(capacity: usize) -> Self {
        Self {
            capacity,
            slot_of: HashTable::new(),
            slots: Vec::new(),
            hand: 0,
            seen: Box::default(),
            bytes: 0,
        }
    }

    /// Copies bytes of a block from `from` on into `target`, if it is here and has them.
    fn copy(&mut self, hash: u64, key: &Key, target: &mut [u8], from: usize) -> bool {
        let Some(&index) = self.slot_of.find(hash, |&index| self.slots[index].key == *key) else {
            return false;
        };
        let slot = &mut self.slots[index];
        let Some(bytes) = slot.bytes.get(from..from + target.len()) else { return false };
        target.copy_from_slice(bytes);
        slot.used = true;
        true
    }

    fn was_seen(&self, hash: u64) -> bool {
        self.seen.get(self.trace(hash)) == Some(&mark(hash))
    }

    fn see(&mut self, hash: u64) {
        if self.seen.is_empty() {
            self.seen = vec![0; self.capacity.next_power_of_two()].into();
        }
        let at = self.trace(hash);
        self.seen[at] = mark(hash);
    }

    /// Where it stands that a block was seen.
    fn trace(&self, hash: u64) -> usize {
        (hash >> 16) as usize & (self.capacity.next_power_of_two() - 1)
    }

    /// Gives back the slot that had to go.
    fn keep(&mut self, slot: CachedBlock) -> Option<CachedBlock> {
        let hash = slot.hash;
        if self.was_seen(hash) {
            let at = self.trace(hash);
            self.seen[at] = 0;
        }
        self.bytes += slot.bytes.len();
        let same = self.slot_of.find(hash, |&index| self.slots[index].key == slot.key);
        if let Some(&index) = same {
            // Another thread was faster.
            return Some(self.replace(index, slot));
        }
        if self.slots.len() < self.capacity {
            self.slots.push(slot);
            self.enter(hash, self.slots.len() - 1);
            return None;
        }
        let index = self.victim();
        self.leave(index);
        let evicted = self.replace(index, slot);
        self.enter(hash, index);
        Some(evicted)
    }

    fn replace(&mut self, index: usize, slot: CachedBlock) -> CachedBlock {
        let before = std::mem::replace(&mut self.slots[index], slot);
        self.bytes -= before.bytes.len();
        before
    }

    /// The next slot that nobody asked for in a whole round. Ends after two rounds at most.
    fn victim(&mut self) -> usize {
        loop {
            let index = self.hand % self.slots.len();
            self.hand = index + 1;
            if !std::mem::take(&mut self.slots[index].used) {
                return index;
            }
        }
    }

    fn forget_if(&mut self, is_gone: impl Fn(&Name) -> bool) {
        for index in (0..self.slots.len()).rev() {
            if is_gone(&self.slots[index].key.0) {
                self.remove(index);
            }
        }
    }

    fn remove(&mut self, index: usize) {
        self.leave(index);
        let last = self.slots.len() - 1;
        if index < last {
            self.leave(last);
        }
        self.bytes -= self.slots.swap_remove(index).bytes.len();
        if index < last {
            self.enter(self.slots[index].hash, index);
        }
    }

    fn enter(&mut self, hash: u64, index: usize) {
        let slots = &self.slots;
        self.slot_of.insert_unique(hash, index, |&index| slots[index].hash);
    }

    fn leave(&mut self, index: usize) {
        if let Ok(place) = self.slot_of.find_entry(self.slots[index].hash, |&at| at == index) {
            place.remove();
        }
    }
}

/// Mark of a block that was seen; never 0.
fn mark(hash: u64) -> u32 {
    (hash >> 32) as u32 | 1
}

#[cfg(test)]
mod tests;
