//! A set of sequences as nats-server writes it: bits, 64 of them together.
//!
//! Kept as it was written, sorted: a stranger's set takes as much memory as its bytes did, and
//! asking takes one search, however many sequences are named. Nobody walks through them.

/// Set of sequences, kept in the sorted words of 64 bits in which nats-server wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sequences {
    /// Where a word begins, divided by 64, and its bits, of which there are some.
    words: Vec<(u64, u64)>,
}

impl Sequences {
    /// Adds the sequences from `base` on whose bits are set. `None`: sets have no word there.
    pub(super) fn push(&mut self, base: u64, bits: u64) -> Option<()> {
        if !base.is_multiple_of(64) {
            return None;
        }
        if bits != 0 {
            if self.words.len() == self.words.capacity() {
                // Not twice as much: what is large came from a stranger.
                self.words.reserve_exact(64 + self.words.len() / 8);
            }
            self.words.push((base / 64, bits));
        }
        Some(())
    }

    /// To be called when all are there.
    pub(super) fn sort(&mut self) {
        self.words.sort_unstable();
        self.words.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1 |= next.1;
            }
            is_same
        });
    }

    /// Whether the set has this sequence.
    #[must_use]
    pub fn contains(&self, seq: u64) -> bool {
        let found = self.words.binary_search_by_key(&(seq / 64), |word| word.0);
        found.is_ok_and(|at| self.words[at].1 >> (seq % 64) & 1 != 0)
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Memory that the set takes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.words.capacity() * size_of::<(u64, u64)>()
    }
}
