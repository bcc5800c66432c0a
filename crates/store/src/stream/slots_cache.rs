//! Tables of sealed segments in memory: as many as a budget allows, the longest unused go first.
//!
//! One cache for all streams of a store, so that memory is bounded by one number and not by how many streams are read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;

use crate::StreamId;
use crate::segment::Slots;

use super::ReadError;
use super::place::Segment;
use super::tables::read_slots;

type Key = (StreamId, u64, u64);

/// See the module.
#[derive(Debug)]
pub(crate) struct SlotsCache {
    budget: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    tables: HashMap<Key, Cached, foldhash::fast::FixedState>,
    bytes: usize,
    clock: u64,
}

#[derive(Debug)]
struct Cached {
    slots: Arc<Slots>,
    used: u64,
}

impl SlotsCache {
    /// A cache of at most `budget` bytes, or one table if that is larger.
    pub(crate) fn new(budget: usize) -> Self {
        Self { budget, inner: Mutex::default() }
    }

    /// The table of a sealed segment, read from its footer if it is not at hand. Reads without holding the lock: two
    /// threads may both read a table that neither has found.
    pub(crate) fn load(&self, segment: &Segment) -> Result<Arc<Slots>, ReadError> {
        let key = (segment.stream, segment.no.0, segment.generation);
        if let Some(found) = self.lock().find(&key) {
            return Ok(found);
        }
        let slots = Arc::new(read_slots(segment)?);
        self.lock().keep(key, Arc::clone(&slots), self.budget);
        Ok(slots)
    }

    /// Keeps a table that was just made.
    pub(crate) fn insert(&self, segment: &Segment, slots: Arc<Slots>) {
        let key = (segment.stream, segment.no.0, segment.generation);
        self.lock().keep(key, slots, self.budget);
    }

    /// Bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing under the lock panics half-way through a change.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn find(&mut self, key: &Key) -> Option<Arc<Slots>> {
        self.clock += 1;
        let cached = self.tables.get_mut(key)?;
        cached.used = self.clock;
        Some(Arc::clone(&cached.slots))
    }

    fn keep(&mut self, key: Key, slots: Arc<Slots>, budget: usize) {
        self.bytes += slots.memory();
        let cached = Cached { slots, used: self.clock };
        if let Some(before) = self.tables.insert(key, cached) {
            self.bytes -= before.slots.memory();
        }
        while self.bytes > budget && self.tables.len() > 1 {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        let oldest = self.tables.iter().min_by_key(|(_, cached)| cached.used).map(|(key, _)| *key);
        if let Some(gone) = oldest.and_then(|key| self.tables.remove(&key)) {
            self.bytes -= gone.slots.memory();
        }
    }
}
