//! Tables of sealed segments in memory: as many as a budget allows, the longest unused go first.
//!
//! One cache for all streams of a store, so that memory is bounded by one number and not by how
//! many streams are read. Tables that were just made and that nobody has asked for yet have a
//! small part of it: whoever follows a stream finds them, and a stream that is only written to
//! holds few.

use std::sync::{Arc, Mutex, MutexGuard};

use hashbrown::HashMap;
use myelin_stdx::sync::lock;

use crate::StreamId;
use crate::segment::{Sizes, Slots};

use super::ReadError;
use super::segment_view::Segment;
use super::tables::{read_sizes, read_slots};

/// Part of the budget for tables that were made and that nobody has asked for; the newest stays.
///
/// Perf: a stream of a million subjects that is only written to held 45 bytes for each (row
/// `js-subjects-file`).
const UNASKED_PART: usize = 32;

/// A segment file as it is now.
type Name = (StreamId, u64, u64);

/// Cache of the tables of sealed segments, within one budget for all streams of a store.
#[derive(Debug)]
pub(crate) struct TableCache {
    budget: usize,
    inner: Mutex<CachedTables>,
}

#[derive(Debug, Default)]
struct CachedTables {
    kept: HashMap<(Name, What), Kept, foldhash::fast::FixedState>,
    bytes: usize,
    /// Of those, in tables that nobody has asked for.
    unasked: usize,
    clock: u64,
}

/// How much of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    Whole,
    Sizes,
}

#[derive(Debug)]
struct Kept {
    item: CachedTable,
    used: u64,
    /// Whether somebody wanted it.
    is_asked: bool,
}

#[derive(Debug)]
enum CachedTable {
    Whole(Arc<Slots>),
    Sizes(Sizes),
}

impl TableCache {
    /// A cache of at most `budget` bytes, or one table if that is larger.
    pub(crate) fn new(budget: usize) -> Self {
        Self { budget, inner: Mutex::default() }
    }

    /// The table of a sealed segment, read from its footer if it is not at hand. Reads without
    /// holding the lock: two threads may both read a table that neither has found.
    pub(crate) fn load(&self, segment: &Segment) -> Result<Arc<Slots>, ReadError> {
        if let Some(found) = self.at_hand(segment) {
            return Ok(found);
        }
        let slots = Arc::new(read_slots(segment)?);
        let item = CachedTable::Whole(Arc::clone(&slots));
        self.lock().keep((name(segment), What::Whole), item, true, self.budget);
        Ok(slots)
    }

    /// The table of a sealed segment, if it is in memory.
    pub(crate) fn at_hand(&self, segment: &Segment) -> Option<Arc<Slots>> {
        match self.lock().find((name(segment), What::Whole)) {
            Some(CachedTable::Whole(found)) => Some(Arc::clone(found)),
            _ => None,
        }
    }

    /// Size of the message with this delta, if the segment has it. For whoever asks about messages
    /// here and there.
    pub(crate) fn size_of(&self, segment: &Segment, delta: u32) -> Result<Option<u32>, ReadError> {
        let mut inner = self.lock();
        if let Some(CachedTable::Sizes(sizes)) = inner.find((name(segment), What::Sizes)) {
            return Ok(sizes.find(delta));
        }
        if let Some(CachedTable::Whole(slots)) = inner.find((name(segment), What::Whole)) {
            return Ok(slots.find(delta).map(|row| slots.size(row)));
        }
        drop(inner);
        let sizes = match read_sizes(segment) {
            // The whole table can be made of the entries.
            Err(ReadError::Damaged(_)) => {
                let slots = self.load(segment)?;
                return Ok(slots.find(delta).map(|row| slots.size(row)));
            }
            sizes => sizes?,
        };
        let found = sizes.find(delta);
        self.lock().keep((name(segment), What::Sizes), CachedTable::Sizes(sizes), true, self.budget);
        Ok(found)
    }

    /// Keeps a table that was just made.
    pub(crate) fn insert(&self, segment: &Segment, slots: Arc<Slots>) {
        self.lock().keep((name(segment), What::Whole), CachedTable::Whole(slots), false, self.budget);
    }

    /// Lets go of the table of a segment that is gone.
    pub(crate) fn forget(&self, segment: &Segment) {
        let mut inner = self.lock();
        for what in [What::Whole, What::Sizes] {
            inner.remove(&(name(segment), what));
        }
    }

    /// Lets go of the tables of a stream that is gone.
    #[expect(clippy::disallowed_methods, reason = "all of a stream go, in whatever order")]
    pub(crate) fn forget_stream(&self, stream: StreamId) {
        let CachedTables { kept, bytes, unasked, .. } = &mut *self.lock();
        for (_, gone) in kept.extract_if(|(name, _), _| name.0 == stream) {
            *bytes -= gone.item.memory();
            *unasked -= gone.unasked();
        }
        debug_assert!(!kept.is_empty() || *bytes == 0, "without tables there are no bytes");
    }

    /// Bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, CachedTables> {
        // Nothing under the lock panics half-way through a change.
        lock(&self.inner)
    }
}

fn name(segment: &Segment) -> Name {
    (segment.stream, segment.no.0, segment.generation)
}

impl CachedTables {
    fn find(&mut self, key: (Name, What)) -> Option<&CachedTable> {
        self.clock += 1;
        let kept = self.kept.get_mut(&key)?;
        self.unasked -= kept.unasked();
        kept.used = self.clock;
        kept.is_asked = true;
        Some(&kept.item)
    }

    fn keep(&mut self, key: (Name, What), item: CachedTable, is_asked: bool, budget: usize) {
        self.remove(&key);
        // Of two that nobody has asked for the older one goes first.
        self.clock += u64::from(!is_asked);
        let kept = Kept { item, used: self.clock, is_asked };
        self.bytes += kept.item.memory();
        self.unasked += kept.unasked();
        self.kept.insert(key, kept);
        let newest = self.clock;
        let may_go = |kept: &Kept| !kept.is_asked && kept.used != newest;
        while self.unasked > budget / UNASKED_PART && self.drop_oldest(may_go) {}
        while self.bytes > budget && self.kept.len() > 1 && self.drop_oldest(|_| true) {}
        debug_assert!(self.bytes <= budget || self.kept.len() == 1, "tables stay within their budget");
        debug_assert!(
            self.kept.len() > 64 || self.bytes == self.sum(),
            "the bytes of all tables are counted"
        );
    }

    #[expect(clippy::disallowed_methods, reason = "a sum")]
    fn sum(&self) -> usize {
        self.kept.values().map(|kept| kept.item.memory()).sum()
    }

    /// Lets go of the longest unused of those that `may_go`. Answers whether there was one.
    #[expect(clippy::disallowed_methods, reason = "no two were used at one tick")]
    fn drop_oldest(&mut self, may_go: impl Fn(&Kept) -> bool) -> bool {
        let those = self.kept.iter().filter(|(_, kept)| may_go(kept));
        let oldest = those.min_by_key(|(_, kept)| kept.used).map(|(key, _)| *key);
        oldest.is_some_and(|key| self.remove(&key))
    }

    fn remove(&mut self, key: &(Name, What)) -> bool {
        let Some(gone) = self.kept.remove(key) else { return false };
        self.bytes -= gone.item.memory();
        self.unasked -= gone.unasked();
        true
    }
}

impl Kept {
    /// Bytes that it adds to those that nobody has asked for.
    fn unasked(&self) -> usize {
        if self.is_asked { 0 } else { self.item.memory() }
    }
}

impl CachedTable {
    fn memory(&self) -> usize {
        match self {
            Self::Whole(slots) => slots.memory(),
            Self::Sizes(sizes) => sizes.memory(),
        }
    }
}
