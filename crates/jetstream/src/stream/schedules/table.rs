//! When which message is due.
//!
//! Two words for each schedule: a heap of times and sequences. What a schedule is called and whether it is still there is the
//! store's to say when its time comes, so one that was replaced or removed stays here until then, or until there are twice
//! as many as were found to be there: then all are looked at, a slice at a time, from one heap into another.

use myelin_store::{Seq, Timestamp};

use super::ledger::Change;

/// Messages that say nothing of schedules, before the ledger is told that they need not be looked at.
const LAG: Seq = if cfg!(test) { 1 << 8 } else { 1 << 16 };
/// Changes that may wait in memory when nothing of them is urgent: a start finds them in the messages.
const MOST_WAITING: usize = if cfg!(test) { 1 } else { 4096 };
/// So many may be gone without anybody caring.
const FEW: usize = 1024;

/// See the module.
#[derive(Debug, Default)]
pub(in crate::stream) struct Table {
    heap: Heap,
    /// Those that are still to be looked at.
    rest: Heap,
    /// How many were there when all were looked at.
    found: usize,
    /// What the ledger is to be told, and whether at once.
    changes: Vec<Change>,
    is_urgent: bool,
    /// The ledger knows of messages up to here.
    through: Seq,
}

impl Table {
    /// The message is due then, for all that one knows: so it is written down.
    pub(in crate::stream) fn admit(&mut self, due: Timestamp, seq: Seq) {
        self.push(due, seq);
        self.changes.push(Change::Due(seq, due));
    }

    /// It has not fired, other than the ledger says.
    pub(in crate::stream) fn correct(&mut self, due: Timestamp, seq: Seq) {
        self.changes.push(Change::Due(seq, due));
        self.is_urgent = true;
    }

    /// It is no schedule any more.
    pub(in crate::stream) fn forget(&mut self, seq: Seq) {
        self.changes.push(Change::Gone(seq));
    }

    /// Whether the ledger is to be told something now, if messages go up to `last`.
    pub(in crate::stream) fn wants_ledger(&self, last: Seq) -> bool {
        self.is_urgent || self.changes.len() >= MOST_WAITING || last.saturating_sub(self.through) >= LAG
    }

    /// What the ledger is to be told of messages up to `last`.
    pub(in crate::stream) fn take_changes(&mut self, last: Seq) -> Vec<Change> {
        (self.through, self.is_urgent) = (last, false);
        // A long list is a rare one: its memory goes.
        std::mem::take(&mut self.changes)
    }

    /// The ledger has to be told soon.
    pub(in crate::stream) fn urge(&mut self) {
        self.is_urgent = true;
    }

    /// So many come now, and the ledger knows of messages up to `through`.
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
        let next = |heap: &Heap| heap.peek().map(|(due, _)| due);
        next(&self.heap).into_iter().chain(next(&self.rest)).min()
    }

    /// Takes one that is due.
    pub(in crate::stream) fn pop(&mut self, now: Timestamp) -> Option<(Timestamp, Seq)> {
        let is_in_rest = match (self.heap.peek(), self.rest.peek()) {
            (Some(one), Some(other)) => other < one,
            (one, _) => one.is_none(),
        };
        let heap = if is_in_rest { &mut self.rest } else { &mut self.heap };
        heap.peek().filter(|(due, _)| *due <= now)?;
        heap.pop()
    }

    /// Whether it is time to look which of them are still there.
    pub(in crate::stream) fn wants_sweep(&self) -> bool {
        !self.rest.is_empty() || self.heap.len() > 2 * self.found + FEW
    }

    pub(in crate::stream) fn is_empty(&self) -> bool {
        self.heap.is_empty() && self.rest.is_empty()
    }

    /// Looks at some.
    pub(in crate::stream) fn sweep(&mut self, some: usize, is_there: impl Fn(Seq) -> bool) {
        if self.rest.is_empty() {
            self.rest = std::mem::take(&mut self.heap);
        }
        for _ in 0..some {
            let Some(entry) = self.rest.take_any() else { break };
            if is_there(entry.1) {
                self.heap.push(entry);
            } else {
                self.forget(entry.1);
            }
        }
        self.found = self.heap.len();
    }

    #[cfg(test)]
    pub(in crate::stream) fn len(&self) -> usize {
        self.heap.len() + self.rest.len()
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
        let mut at = self.0.len();
        self.0.push(entry);
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.0[parent] <= self.0[at] {
                return;
            }
            self.0.swap(parent, at);
            at = parent;
        }
    }

    fn pop(&mut self) -> Option<(Timestamp, Seq)> {
        let last = self.take_any()?;
        let Some(top) = self.0.first_mut() else { return Some(last) };
        let top = std::mem::replace(top, last);
        let mut at = 0;
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let Some(child) = (left..self.0.len().min(right + 1)).min_by_key(|&at| self.0[at]) else { break };
            if self.0[at] <= self.0[child] {
                break;
            }
            self.0.swap(at, child);
            at = child;
        }
        Some(top)
    }

    /// Takes the one that is easiest to take.
    fn take_any(&mut self) -> Option<(Timestamp, Seq)> {
        let last = self.0.pop();
        if self.0.capacity() > 64 && self.0.len() < self.0.capacity() / 4 {
            self.0.shrink_to(self.0.len() * 2);
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn they_come_in_the_order_of_their_times(steps in prop::collection::vec((0_i64..50, 0_u8..4), 0..400)) {
            let (mut table, mut twin) = (Table::default(), BTreeSet::new());
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
                        table.sweep(3, |_| true);
                    }
                }
                prop_assert_eq!(table.next_due(), twin.first().map(|(due, _)| *due));
                prop_assert_eq!(table.len(), twin.len());
            }
        }
    }

    #[test]
    fn a_million_take_a_few_words_each() {
        let mut table = Table::default();
        for seq in 0..1_000_000_u64 {
            table.push((seq.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1) as i64, seq);
            if table.wants_sweep() {
                table.sweep(1000, |_| true);
            }
        }
        assert_eq!(table.len(), 1_000_000);
        let words = table.heap.0.capacity() + table.rest.0.capacity();
        assert!(words * size_of::<(Timestamp, Seq)>() <= 64_000_000, "{words}");
    }

    #[test]
    fn what_is_gone_takes_no_memory_for_long() {
        let mut table = Table::default();
        for seq in 0..100_000 {
            table.push(seq as i64, seq);
            if table.wants_sweep() {
                table.sweep(100, |other| other + 10 > seq);
            }
        }
        assert!(table.len() < 4 * 1024, "{}", table.len());
        assert!(table.heap.0.capacity() + table.rest.0.capacity() < 16 * 1024);
    }
}
