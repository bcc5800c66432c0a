//! Contents of a stream as they were read: the number of each message by its sequence.

use std::cell::Cell;
use std::fmt;

/// Messages by their sequences, in the order in which they were read, which is that of these.
#[derive(Default)]
pub(crate) struct Held {
    messages: Vec<(u64, u64)>,
    /// Where the next sequence is looked for first: checks ask for most of them in their order.
    next: Cell<usize>,
}

impl Held {
    pub(crate) fn add(&mut self, seq: u64, id: u64) {
        assert!(self.messages.last().is_none_or(|(last, _)| *last < seq), "a stream is read in order");
        self.messages.push((seq, id));
    }

    pub(crate) fn contains_key(&self, seq: &u64) -> bool {
        let seq_at = |at: usize| self.messages.get(at).map(|(seq, _)| *seq);
        let next = self.next.get();
        if seq_at(next) == Some(*seq) {
            self.next.set(next + 1);
            return true;
        }
        let before = next.checked_sub(1).and_then(seq_at);
        if before.is_none_or(|before| before < *seq) && seq_at(next).is_none_or(|after| *seq < after) {
            return false;
        }
        let found = self.messages.binary_search_by_key(seq, |(seq, _)| *seq);
        self.next.set(found.map_or_else(|at| at, |at| at + 1));
        found.is_ok()
    }

    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Messages up to a sequence.
    pub(crate) fn count_through(&self, seq: u64) -> u64 {
        self.messages.partition_point(|(of, _)| *of <= seq) as u64
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&u64, &u64)> {
        self.messages.iter().map(|(seq, id)| (seq, id))
    }

    pub(crate) fn keys(&self) -> impl DoubleEndedIterator<Item = &u64> {
        self.iter().map(|(seq, _)| seq)
    }

    pub(crate) fn values(&self) -> impl DoubleEndedIterator<Item = &u64> {
        self.iter().map(|(_, id)| id)
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_whatever_order_it_knows_what_it_holds() {
        let mut held = Held::default();
        let all = [2, 3, 5, 8, 9, 13];
        all.iter().for_each(|seq| held.add(*seq, seq * 10));
        for first in 0..15 {
            for second in 0..15 {
                for third in 0..15 {
                    for seq in [first, second, third] {
                        assert_eq!(held.contains_key(&seq), all.contains(&seq), "{first} {second} {third}");
                    }
                }
            }
        }
        assert_eq!(
            format!("{:?}", Held { messages: vec![(1, 2), (3, 4)], ..Held::default() }),
            "{1: 2, 3: 4}"
        );
    }
}
