//! One way of hashing for the whole index, and of keeping its hash tables small.

use std::hash::{BuildHasher, Hasher};

use foldhash::quality::RandomState;
use hashbrown::HashTable;

/// Below this many places a table is not worth shrinking.
const SMALL: usize = 64;

/// Hashes names under a seed that differs per index and run: clients choose the names, and must not
/// be able to choose collisions.
///
/// Every bit of a hash is good, so tables, shards and epochs may each take other bits of one hash.
#[derive(Default)]
pub(super) struct Hashing(RandomState);

impl Hashing {
    pub(super) fn bytes(&self, bytes: &[u8]) -> u64 {
        let mut hasher = self.0.build_hasher();
        hasher.write(bytes);
        hasher.finish()
    }

    pub(super) fn number(&self, number: u64) -> u64 {
        self.0.hash_one(number)
    }
}

/// Which of `shards` (a power of two up to 256) a hash belongs to.
///
/// Hash tables place entries by the lowest bits and tag them by the highest seven: these lie
/// between.
pub(super) fn shard_of(hash: u64, shards: usize) -> usize {
    (hash >> 48) as usize & (shards - 1)
}

/// Tables take their position from the lowest bits and their tag from the highest: half of a hash,
/// which is enough for the table of one shard or node, serves both.
pub(super) fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

/// The first tokens of a subject, and their hash.
pub(super) struct FirstToken<'a> {
    pub(super) text: &'a [u8],
    pub(super) hash: u64,
}

impl<'a> FirstToken<'a> {
    /// The first token of `subject`.
    pub(super) fn first(subject: &'a [u8], hashing: &Hashing) -> Self {
        Self::until(subject, 0, hashing)
    }

    /// This and the token that follows it in `subject`, from which it was made; none at the end.
    pub(super) fn longer(&self, subject: &'a [u8], hashing: &Hashing) -> Option<Self> {
        let after = self.text.len() + 1;
        (after < subject.len()).then(|| Self::until(subject, after, hashing))
    }

    /// Beginning of `subject` up to the first dot at or after `from`.
    fn until(subject: &'a [u8], from: usize, hashing: &Hashing) -> Self {
        let dot = subject[from..].iter().position(|&b| b == b'.');
        let text = dot.map_or(subject, |dot| &subject[..from + dot]);
        Self { text, hash: hashing.bytes(text) }
    }
}

/// Gives memory back once seven eighths of a table are unused, so rarely that it costs nothing per
/// removal.
pub(super) fn shrink<T>(table: &mut HashTable<T>, hash: impl Fn(&T) -> u64) {
    if table.capacity() > SMALL && table.len() < table.capacity() / 8 {
        table.shrink_to(table.len() * 2, hash);
    }
}
