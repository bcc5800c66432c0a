//! A cache of open files, so that 60,000 segments do not need 60,000 descriptors.
//!
//! Owns what it opened until the place is needed: then the file that was not asked for the longest,
//! roughly, makes room (a clock: one bit per file). Whoever still holds an evicted file can go on
//! using it. Who renames or removes a file must `forget` its path afterwards, or later callers get
//! the old file.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use hashbrown::HashMap;
use myelin_stdx::sync::lock;

use super::{Disk, File};

/// How many files stay open unless the caller says otherwise.
pub const DEFAULT_CAPACITY: usize = 512;

/// Open files by path.
#[derive(Debug)]
pub struct Handles {
    disk: Arc<dyn Disk>,
    capacity: usize,
    clock: Mutex<ClockCache>,
}

#[derive(Debug, Default)]
struct ClockCache {
    /// Perf: by the text of a path. A `Path` is hashed part by part, which costs more than all else
    /// that is done to find an open file.
    slot_of: HashMap<Arc<OsStr>, usize, foldhash::fast::RandomState>,
    slots: Vec<OpenHandle>,
    hand: usize,
    /// Counts calls of `forget`: a file that was being opened meanwhile may be the one to forget.
    forgotten: u64,
}

#[derive(Debug)]
struct OpenHandle {
    path: Arc<OsStr>,
    file: Arc<dyn File>,
    /// Asked for since the hand last came by.
    used: bool,
}

impl Handles {
    /// A cache of at most `capacity` files (at least one) of `disk`.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, capacity: usize) -> Self {
        Self { disk, capacity: capacity.max(1), clock: Mutex::default() }
    }

    /// The file at `path`, opened if it is not open yet. Errors are those of [`Disk::open`] and are
    /// not remembered.
    pub fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let forgotten = {
            let mut clock = self.clock();
            if let Some(file) = clock.get(path) {
                return Ok(file);
            }
            clock.forgotten
        };
        // Without the lock: a slow device must not stop those who read what is open.
        let file = self.disk.open(path)?;
        let mut clock = self.clock();
        if clock.forgotten != forgotten {
            return Ok(file);
        }
        if let Some(other) = clock.get(path) {
            return Ok(other);
        }
        let evicted = clock.insert(path.as_os_str().into(), Arc::clone(&file), self.capacity);
        drop(clock);
        // Closing is a system call, too.
        drop(evicted);
        Ok(file)
    }

    /// Gives up the file at `path`: it was removed, renamed or replaced.
    pub fn forget(&self, path: &Path) {
        let forgotten = self.clock().remove(path);
        drop(forgotten);
    }

    /// How many files are open in the cache.
    #[must_use]
    pub fn len(&self) -> usize {
        self.clock().slots.len()
    }

    /// Whether nothing is open in the cache.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn clock(&self) -> MutexGuard<'_, ClockCache> {
        // No step between two fields can panic, so a poisoned clock is whole.
        lock(&self.clock)
    }
}

impl ClockCache {
    fn get(&mut self, path: &Path) -> Option<Arc<dyn File>> {
        let slot = &mut self.slots[*self.slot_of.get(path.as_os_str())?];
        slot.used = true;
        Some(Arc::clone(&slot.file))
    }

    /// Gives back the slot that had to go.
    fn insert(&mut self, path: Arc<OsStr>, file: Arc<dyn File>, capacity: usize) -> Option<OpenHandle> {
        let slot = OpenHandle { path: Arc::clone(&path), file, used: false };
        if self.slots.len() < capacity {
            self.slot_of.insert(path, self.slots.len());
            self.slots.push(slot);
            return None;
        }
        let index = self.victim();
        self.slot_of.insert(path, index);
        let evicted = std::mem::replace(&mut self.slots[index], slot);
        self.slot_of.remove(&evicted.path);
        Some(evicted)
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

    fn remove(&mut self, path: &Path) -> Option<OpenHandle> {
        self.forgotten += 1;
        let index = self.slot_of.remove(path.as_os_str())?;
        let slot = self.slots.swap_remove(index);
        if let Some(moved) = self.slots.get(index) {
            self.slot_of.insert(Arc::clone(&moved.path), index);
        }
        Some(slot)
    }
}

#[cfg(test)]
mod tests;
