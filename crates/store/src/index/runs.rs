//! A sorted run of ids, in chunks, so that it grows and shrinks without moving.

use std::collections::VecDeque;

use super::records::Records;
use super::subjects::SubjectId;

/// Ids in a chunk. Small in tests.
const CHUNK: usize = if cfg!(test) { 4 } else { 1024 };

/// Ids whose subjects are brought near together.
const AHEAD: usize = 16;

/// Ids sorted by the text of their subjects.
#[derive(Debug, Default)]
pub(super) struct SortedRun {
    chunks: VecDeque<Vec<SubjectId>>,
    /// Ids of the first chunk that were taken.
    taken: usize,
    len: usize,
}

impl SortedRun {
    /// A run of ids that are sorted already.
    pub(super) fn from_sorted(ids: &[SubjectId]) -> Self {
        let chunks = ids.chunks(CHUNK).map(<[SubjectId]>::to_vec).collect();
        Self { chunks, taken: 0, len: ids.len() }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn first(&self) -> Option<SubjectId> {
        self.chunks.front().and_then(|chunk| chunk.get(self.taken)).copied()
    }

    pub(super) fn last(&self) -> Option<SubjectId> {
        self.chunks.back().and_then(|chunk| chunk.last()).copied()
    }

    /// Takes the first id out.
    pub(super) fn take_first(&mut self) {
        self.taken += 1;
        self.len -= 1;
        if self.taken == self.chunks[0].len() {
            self.chunks.pop_front();
            self.taken = 0;
        }
    }

    /// Brings the subjects of the next ids near, now and then: whoever takes one after the other
    /// calls it each time.
    pub(super) fn warm(&self, records: &Records) {
        warm_ahead(self.chunks.front(), self.taken, records);
    }

    /// Adds an id that sorts behind all others.
    pub(super) fn push(&mut self, id: SubjectId) {
        self.len += 1;
        match self.chunks.back_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(id),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(id);
                self.chunks.push_back(chunk);
            }
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<Vec<SubjectId>>()
            + self.chunks.iter().map(|chunk| chunk.capacity() * size_of::<SubjectId>()).sum::<usize>()
    }

    pub(super) fn cursor(&self) -> RunCursor<'_> {
        RunCursor { run: self, chunk: 0, place: self.taken }
    }
}

/// A place in a run. It moves forward only.
#[derive(Debug)]
pub(super) struct RunCursor<'a> {
    run: &'a SortedRun,
    chunk: usize,
    place: usize,
}

impl RunCursor<'_> {
    pub(super) fn id(&self) -> Option<SubjectId> {
        self.run.chunks.get(self.chunk)?.get(self.place).copied()
    }

    pub(super) fn advance(&mut self, records: &Records) {
        self.place += 1;
        if self.run.chunks.get(self.chunk).is_some_and(|chunk| self.place == chunk.len()) {
            self.chunk += 1;
            self.place = 0;
        }
        warm_ahead(self.run.chunks.get(self.chunk), self.place, records);
    }

    /// Goes to the first id, from here on, whose text is not less than `target`.
    pub(super) fn seek(&mut self, target: &[u8], records: &Records) {
        let less = |id: SubjectId| records.text(id) < target;
        let Some(here) = self.run.chunks.get(self.chunk) else { return };
        if here.last().is_some_and(|&id| less(id)) {
            self.chunk = self.chunk_for(less);
            self.place = 0;
        }
        let Some(here) = self.run.chunks.get(self.chunk) else { return };
        self.place += here[self.place..].partition_point(|&id| less(id));
    }

    /// The first chunk after this one whose last id is not less.
    fn chunk_for(&self, less: impl Fn(SubjectId) -> bool) -> usize {
        let (mut from, mut to) = (self.chunk + 1, self.run.chunks.len());
        while from < to {
            let middle = from + (to - from) / 2;
            if self.run.chunks[middle].last().is_some_and(|&id| less(id)) {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from
    }
}

/// Perf: sorted ids lie anywhere in memory; their misses overlap when some are read ahead
/// (`benches/index.rs`).
fn warm_ahead(chunk: Option<&Vec<SubjectId>>, place: usize, records: &Records) {
    if place.is_multiple_of(AHEAD)
        && let Some(chunk) = chunk
    {
        records.warm(chunk.iter().skip(place).take(AHEAD).copied());
    }
}
