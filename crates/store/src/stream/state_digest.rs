//! Digest of a stream as of an entry of its group's log, by which replicas see whether they are
//! still the same.
//!
//! That the entries are the same is for the chain to show; this is about what has followed from
//! them. Looks at the totals always, and at a part of what may be large: removed sequences and
//! consumers from a point on that the index of the entry draws. So a digest takes about as long for
//! any stream, and all of it is looked at in the course of time. Must never look at what differs
//! between replicas that are well: segments, places in files, and the time of day.

use highway::{HighwayHash, HighwayHasher, Key};

use crate::consumer::GroupConsumers;

use super::Stream;

/// Ranges of removed sequences that one digest looks at, at most.
const RANGES: usize = 4096;
/// Bytes of consumers' states that one digest looks at, and the rest of one consumer.
const CONSUMER_BYTES: usize = 64 << 10;
const KEY: Key =
    Key([0x6d79_656c_696e_2d73, 0x7461_7465_2d64_6967, 0x6573_742d_6869_6768, 0x7761_7968_6173_6831]);

/// Digest of a stream as of an entry: equal on all replicas of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateDigest {
    /// The entry, behind which nothing is released.
    pub index: u64,
    /// Digest of which messages there are.
    pub messages: u64,
    /// Digest of consumers, notes and the configuration.
    pub others: u64,
}

impl Stream {
    /// Digest of all that is released, if that is everything up to the last entry that is known to
    /// be committed, with its group's `consumers`. `None` without a group.
    #[must_use]
    pub fn state_digest(&self, consumers: &GroupConsumers) -> Option<StateDigest> {
        let group = self.group.as_ref()?;
        let index = group.position().commit;
        let draw = index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
        let mut messages = HighwayHasher::new(KEY);
        let catalog = self.shared.catalog();
        let totals = catalog.totals();
        let subjects = catalog.index().len() as u64;
        let numbers = [totals.first_seq, totals.last_seq, totals.messages, totals.bytes, subjects];
        numbers.iter().for_each(|number| messages.append(&number.to_le_bytes()));
        let from = totals.first_seq + draw % (totals.last_seq + 1 - totals.first_seq).max(1);
        for range in catalog.deleted().ranges_from(from).take(RANGES) {
            messages.append(&range.start().max(&from).to_le_bytes());
            messages.append(&range.end().to_le_bytes());
        }
        drop(catalog);
        let mut others = HighwayHasher::new(KEY);
        if let Some((index, blob)) = group.notes.config() {
            others.append(&index.to_le_bytes());
            others.append(blob);
        }
        for part in group.notes.iter().flat_map(|(key, value)| [key, value]) {
            others.append(&(part.len() as u64).to_le_bytes());
            others.append(part);
        }
        others.append(&consumers.sample(draw, CONSUMER_BYTES));
        Some(StateDigest { index, messages: messages.finalize64(), others: others.finalize64() })
    }
}
