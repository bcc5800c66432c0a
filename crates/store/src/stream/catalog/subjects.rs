//! The index of a stream's subjects, and those before it whose numbers are still in use.

use crate::index::SubjectIndex;

/// The subjects of a stream.
#[derive(Debug)]
pub(super) struct Subjects {
    pub(super) index: SubjectIndex,
    /// Counts how often the index was replaced; older ones stay while a segment waits to be sealed
    /// with their numbers.
    pub(super) epoch: u64,
    old: Vec<(u64, SubjectIndex)>,
    seed: u64,
}

impl Subjects {
    pub(super) fn new(seed: u64) -> Self {
        Self { index: SubjectIndex::new(seed), epoch: 0, old: Vec::new(), seed }
    }

    /// Seed of its hashes.
    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    /// Forgets all subjects; the index is kept where `is_needed` says that somebody uses its
    /// numbers.
    pub(super) fn replace(&mut self, is_needed: bool) {
        let old = std::mem::replace(&mut self.index, SubjectIndex::new(self.seed));
        debug_assert!(self.old.iter().all(|(at, _)| *at < self.epoch), "older indexes have older numbers");
        if is_needed {
            self.old.push((self.epoch, old));
        }
        self.epoch += 1;
        debug_assert!(self.index.is_empty(), "an index begins without subjects");
    }

    /// The index whose numbers a table used that was closed at `epoch`.
    pub(super) fn at(&self, epoch: u64) -> &SubjectIndex {
        debug_assert!(
            epoch == self.epoch || self.old.iter().any(|(at, _)| *at == epoch),
            "an index stays while a segment needs its numbers"
        );
        self.old.iter().find(|(at, _)| *at == epoch).map_or(&self.index, |(_, index)| index)
    }

    /// Drops the indexes before this one: nobody uses their numbers any more.
    pub(super) fn forget_old(&mut self) {
        self.old.clear();
    }
}
