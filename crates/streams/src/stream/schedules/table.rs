//! When which message is due.
//!
//! Two words for each schedule: a heap of times and sequences. What a schedule is called and
//! whether it is still there is the store's to say when its time comes, so one that was replaced or
//! removed stays here until then, or until there are twice as many as were found to be there: then
//! all are looked at, a slice at a time, where they are.

use myelin_store::{Seq, Timestamp};

use super::index::ScheduleChange;

/// Messages that say nothing of schedules, before the index is told that they need not be looked
/// at.
const LAG: Seq = if cfg!(test) { 1 << 8 } else { 1 << 16 };
/// Changes that may wait in memory when nothing of them is urgent: a start finds them in the
/// messages.
const MOST_WAITING: usize = if cfg!(test) { 1 } else { 4096 };
/// Entries that may be gone without anybody caring.
const FEW: usize = 1024;

/// Schedules of one stream by the time at which they are due.
#[derive(Debug, Default)]
pub(in crate::stream) struct ScheduleTable {
    heap: Heap,
    /// How many, from the first one on, are still to be looked at.
    rest: usize,
    /// How many were there when all were looked at.
    found: usize,
    /// Changes of which the index is to be told, and whether at once.
    changes: Vec<ScheduleChange>,
    is_urgent: bool,
    /// The index knows of messages up to here.
    through: Seq,
}

impl ScheduleTable {
    /// The message is due then, for all that one knows: so it is written down.
    pub(in crate::stream) fn admit(&mut self, due: Timestamp, seq: Seq) {
        self.push(due, seq);
        self.changes.push(ScheduleChange::Due(seq, due));
    }

    /// Corrects a schedule that has not fired, other than the index says.
    pub(in crate::stream) fn correct(&mut self, due: Timestamp, seq: Seq) {
        self.changes.push(ScheduleChange::Due(seq, due));
        self.is_urgent = true;
    }

    /// Forgets a message that is no schedule any more.
    pub(in crate::stream) fn forget(&mut self, seq: Seq) {
        self.changes.push(ScheduleChange::Gone(seq));
    }

    /// Whether the index is to be told something now, if messages go up to `last`.
    pub(in crate::stream) fn wants_index_write(&self, last: Seq) -> bool {
        self.is_urgent || self.changes.len() >= MOST_WAITING || last.saturating_sub(self.through) >= LAG
    }

    /// Takes the changes of which the index is to be told, of messages up to `last`.
    pub(in crate::stream) fn take_changes(&mut self, last: Seq) -> Vec<ScheduleChange> {
        (self.through, self.is_urgent) = (last, false);
        // A long list is a rare one: its memory goes.
        std::mem::take(&mut self.changes)
    }

    /// The index has to be told soon.
    pub(in crate::stream) fn mark_urgent(&mut self) {
        self.is_urgent = true;
    }

    /// Makes room for `many` entries; the index knows of messages up to `through`. A table that
    /// grew while a million come would leave half of itself to the allocator, which keeps that.
    pub(in crate::stream) fn begin(&mut self, many: usize, through: Seq) {
        self.heap.0.reserve_exact(many);
        self.through = through;
    }

    /// The message is looked at then.
    pub(in crate::stream) fn push(&mut self, due: Timestamp, seq: Seq) {
        self.heap.push((due, seq));
    }

    /// When the next one is due.
    pub(in crate::stream) fn next_due(&self) -> Option<Timestamp> {
        self.heap.peek().map(|(due, _)| due)
    }

    /// Takes one that is due.
    pub(in crate::stream) fn pop(&mut self, now: Timestamp) -> Option<(Timestamp, Seq)> {
        self.heap.peek().filter(|(due, _)| *due <= now)?;
        self.heap.take(0)
    }

    /// Whether it is time to look which of them are still there.
    pub(in crate::stream) fn wants_sweep(&self) -> bool {
        self.rest > 0 || self.heap.len() > 2 * self.found + FEW
    }

    pub(in crate::stream) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Looks at some, the last ones first. One that changes its place meanwhile may be passed over,
    /// until the next time.
    pub(in crate::stream) fn sweep(&mut self, some: usize, is_there: impl Fn(Seq) -> bool) {
        if self.rest == 0 {
            self.rest = self.heap.len();
        }
        for _ in 0..some {
            let Some(at) = self.rest.min(self.heap.len()).checked_sub(1) else {
                // The last that were to be looked at have been taken since.
                self.rest = 0;
                break;
            };
            self.rest = at;
            let seq = self.heap.0[at].1;
            if !is_there(seq) {
                self.heap.take(at);
                self.forget(seq);
            }
        }
        self.found = self.heap.len();
        debug_assert!(self.rest <= self.found, "what is still to be looked at is there");
    }

    #[cfg(test)]
    pub(in crate::stream) fn room(&self) -> usize {
        self.heap.0.capacity()
    }

    #[cfg(test)]
    pub(in crate::stream) fn len(&self) -> usize {
        self.heap.len()
    }
}

/// The least is on top. The standard library's gives nothing away from its end.
#[derive(Debug, Default)]
struct Heap(Vec<(Timestamp, Seq)>);

impl Heap {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn peek(&self) -> Option<(Timestamp, Seq)> {
        self.0.first().copied()
    }

    fn push(&mut self, entry: (Timestamp, Seq)) {
        self.0.push(entry);
        self.rise(self.0.len() - 1);
    }

    /// Takes the one at this place.
    fn take(&mut self, at: usize) -> Option<(Timestamp, Seq)> {
        let taken = (at < self.0.len()).then(|| self.0.swap_remove(at))?;
        if at < self.0.len() {
            self.sink(at);
            self.rise(at);
        }
        debug_assert!(at > 0 || self.0.first().is_none_or(|first| taken <= *first), "the least is on top");
        if self.0.capacity() > 64 && self.0.len() < self.0.capacity() / 4 {
            self.0.shrink_to(self.0.len() * 2);
        }
        Some(taken)
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.0[parent] <= self.0[at] {
                return;
            }
            self.0.swap(parent, at);
            at = parent;
        }
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let Some(child) = (left..self.0.len().min(right + 1)).min_by_key(|&at| self.0[at]) else {
                return;
            };
            if self.0[at] <= self.0[child] {
                return;
            }
            self.0.swap(at, child);
            at = child;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_look_that_finds_nothing_left_is_over() {
        let mut table = ScheduleTable::default();
        (1..=4).for_each(|seq| table.push(0, seq));
        table.sweep(1, |_| true);
        while table.pop(0).is_some() {}
        assert!(table.wants_sweep(), "there was more to be looked at");
        table.sweep(1, |_| true);
        assert!(!table.wants_sweep(), "nothing is there any more");
    }

    proptest! {
        #[test]
        fn they_come_in_the_order_of_their_times(steps in prop::collection::vec((0_i64..50, 0_u8..4), 0..400)) {
            let (mut table, mut twin) = (ScheduleTable::default(), BTreeSet::new());
            for (seq, (time, step)) in (1..).zip(steps) {
                match step {
                    0 | 1 => {
                        table.push(time, seq);
                        twin.insert((time, seq));
                    }
                    2 => {
                        let first = twin.first().copied().filter(|(due, _)| *due <= time);
                        prop_assert_eq!(table.pop(time), first);
                        first.map(|first| twin.remove(&first));
                    }
                    _ => {
                        let is_there = |seq: u64| !seq.is_multiple_of(3);
                        table.sweep(3, is_there);
                        for change in table.take_changes(0) {
                            if let ScheduleChange::Gone(seq) = change {
                                prop_assert!(!is_there(seq));
                                twin.retain(|(_, other)| *other != seq);
                            }
                        }
                    }
                }
                prop_assert_eq!(table.next_due(), twin.first().map(|(due, _)| *due));
                prop_assert_eq!(table.len(), twin.len());
            }
        }
    }

    #[test]
    fn a_million_take_a_few_words_each() {
        let mut table = ScheduleTable::default();
        for seq in 0..1_000_000_u64 {
            table.push((seq.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1) as i64, seq);
            if table.wants_sweep() {
                table.sweep(1000, |_| true);
            }
        }
        assert_eq!(table.len(), 1_000_000);
        let words = table.heap.0.capacity();
        assert!(words * size_of::<(Timestamp, Seq)>() <= 32_000_000, "{words}");
    }

    #[test]
    fn what_is_gone_takes_no_memory_for_long() {
        let mut table = ScheduleTable::default();
        for seq in 0..100_000 {
            table.push(seq as i64, seq);
            if table.wants_sweep() {
                table.sweep(100, |other| other + 10 > seq);
            }
        }
        assert!(table.len() < 4 * 1024, "{}", table.len());
        assert!(table.heap.0.capacity() < 16 * 1024);
    }
}
