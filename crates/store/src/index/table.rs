//! Finds a subject's id by the hash of its text.
//!
//! Open addressing with linear probing over slots that hold a part of the hash beside the id.
//! Growing (by half, so that even a table that has just grown is half full) needs no subject's
//! text, and one of 64 parts grows at a time. It never looks at a subject itself: the caller
//! compares.

use super::subjects::SubjectId;

/// Parts of a table that is not small.
const PARTS: usize = 64;
/// Ids up to which one part is enough.
const SMALL: usize = 4096;

/// Ids by hash.
#[derive(Debug)]
pub(super) struct IdTable {
    parts: Vec<TablePart>,
    len: usize,
}

/// Slots: the hash in the upper half, the id plus 1 in the lower half; 0 is an empty slot.
#[derive(Debug, Default)]
struct TablePart {
    slots: Vec<u64>,
    len: usize,
}

impl IdTable {
    pub(super) fn new() -> Self {
        Self { parts: vec![TablePart::default()], len: 0 }
    }

    /// The id with this hash for which `is` says yes.
    pub(super) fn find(&self, hash: u32, is: impl FnMut(SubjectId) -> bool) -> Option<SubjectId> {
        self.parts[self.part(hash)].find(hash, is)
    }

    /// Reads the slot where a search for this hash begins, which brings its cache line near.
    pub(super) fn peek(&self, hash: u32) -> u64 {
        let part = &self.parts[self.part(hash)];
        if part.slots.is_empty() { 0 } else { part.slots[part.home(hash)] }
    }

    /// Adds an id that is not in the table.
    pub(super) fn insert(&mut self, hash: u32, id: SubjectId) {
        if self.parts.len() == 1 && self.len == SMALL {
            self.spread();
        }
        let part = self.part(hash);
        debug_assert!(self.find(hash, |other| other == id).is_none(), "an id is in the table once");
        self.parts[part].insert(slot_of(hash, id));
        self.len += 1;
        debug_assert!(self.find(hash, |other| other == id).is_some(), "what was entered is found");
    }

    /// Takes an id out; nothing happens if it is not there.
    pub(super) fn remove(&mut self, hash: u32, id: SubjectId) {
        let part = self.part(hash);
        if self.parts[part].remove(slot_of(hash, id)) {
            debug_assert!(self.len > 0, "what was found is counted");
            self.len -= 1;
        }
        debug_assert!(self.find(hash, |other| other == id).is_none(), "what was taken out is not found");
    }

    /// Makes room for so many ids at once.
    pub(super) fn reserve(&mut self, ids: usize) {
        if ids > SMALL && self.parts.len() == 1 {
            self.spread();
        }
        // Hashes spread ids over the parts almost evenly; a part that gets more grows once.
        let each = ids / self.parts.len();
        for part in &mut self.parts {
            if slots_for(each) > part.slots.len() {
                part.resize(slots_for(each + each / 16));
            }
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.parts.capacity() * size_of::<TablePart>()
            + self.parts.iter().map(|part| part.slots.capacity() * size_of::<u64>()).sum::<usize>()
    }

    fn part(&self, hash: u32) -> usize {
        if self.parts.len() == 1 { 0 } else { (hash >> 26) as usize }
    }

    /// From one part to 64.
    fn spread(&mut self) {
        let small = std::mem::take(&mut self.parts[0]);
        self.parts = (0..PARTS).map(|_| TablePart::default()).collect();
        for slot in small.slots.into_iter().filter(|&slot| slot != 0) {
            let part = self.part(hash_of(slot));
            self.parts[part].insert(slot);
        }
        let spread: usize = self.parts.iter().map(|part| part.len).sum();
        assert_eq!(spread, self.len, "all ids are in a part");
    }
}

impl TablePart {
    fn find(&self, hash: u32, mut is: impl FnMut(SubjectId) -> bool) -> Option<SubjectId> {
        if self.slots.is_empty() {
            return None;
        }
        let mut at = self.home(hash);
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return None;
            }
            if hash_of(slot) == hash {
                let id = id_of(slot);
                if is(id) {
                    return Some(id);
                }
            }
            at = self.next(at);
        }
    }

    fn insert(&mut self, slot: u64) {
        if (self.len + 1) * 4 > self.slots.len() * 3 {
            self.resize((self.slots.len() + self.slots.len() / 2).max(8));
        }
        debug_assert!(self.len < self.slots.len(), "a search ends at an empty slot");
        self.place(slot);
        self.len += 1;
    }

    fn place(&mut self, slot: u64) {
        let mut at = self.home(hash_of(slot));
        while self.slots[at] != 0 {
            at = self.next(at);
        }
        self.slots[at] = slot;
    }

    fn resize(&mut self, slots: usize) {
        assert!(slots > self.len, "a table has an empty slot");
        let before = std::mem::replace(&mut self.slots, vec![0; slots]);
        for slot in before.into_iter().filter(|&slot| slot != 0) {
            self.place(slot);
        }
    }

    fn remove(&mut self, slot: u64) -> bool {
        if self.slots.is_empty() {
            return false;
        }
        let mut hole = self.home(hash_of(slot));
        while self.slots[hole] != slot {
            if self.slots[hole] == 0 {
                return false;
            }
            hole = self.next(hole);
        }
        self.close(hole);
        debug_assert!(self.len > 0, "what was found is counted");
        self.len -= 1;
        if self.slots.len() > 64 && self.len * 8 < self.slots.len() {
            self.resize(slots_for(self.len));
        }
        true
    }

    /// Moves what stands behind a hole forward, so that no search ends too early.
    fn close(&mut self, mut hole: usize) {
        let mut at = self.next(hole);
        while self.slots[at] != 0 {
            let home = self.home(hash_of(self.slots[at]));
            if self.distance(home, at) >= self.distance(hole, at) {
                self.slots[hole] = self.slots[at];
                hole = at;
            }
            at = self.next(at);
        }
        self.slots[hole] = 0;
    }

    /// Where a search begins: the hash (without the bits that chose the part) scaled to the number
    /// of slots.
    fn home(&self, hash: u32) -> usize {
        ((u64::from(hash << 6) * self.slots.len() as u64) >> 32) as usize
    }

    fn next(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() { 0 } else { at + 1 }
    }

    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.slots.len() - from }
    }
}

/// Slots at which `ids` fill less than three quarters, with room for some more.
fn slots_for(ids: usize) -> usize {
    ids + ids / 2 + 8
}

fn slot_of(hash: u32, id: SubjectId) -> u64 {
    debug_assert!(id < SubjectId::MAX, "an id and one more fit into 32 bits");
    u64::from(hash) << 32 | (u64::from(id) + 1)
}

fn hash_of(slot: u64) -> u32 {
    (slot >> 32) as u32
}

fn id_of(slot: u64) -> SubjectId {
    debug_assert!(slot != 0, "an empty slot has no id");
    (slot as u32) - 1
}

#[cfg(test)]
mod tests;
