//! The seam to a random source: salts of files, keys of streams, nonces of sealed keys.
//!
//! The store has no randomness of its own. The real source lives in `server`; [`SeededEntropy`] makes tests and
//! simulations repeatable, and must never make a key that protects anything.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where unpredictable bytes come from.
pub trait Entropy: Send + Sync + Debug {
    /// Fills `bytes` with bytes that nobody can predict. A source that cannot do that must not return.
    fn fill(&self, bytes: &mut [u8]);
}

/// The same bytes for the same seed: for tests and simulations. Not for keys: whoever knows one output knows the
/// next.
#[derive(Debug)]
pub struct SeededEntropy {
    state: AtomicU64,
}

/// The odd number nearest to 2^64 divided by the golden ratio: its multiples visit every state.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl SeededEntropy {
    /// A source whose outputs follow from `seed` alone.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: AtomicU64::new(seed) }
    }

    /// Splitmix64: a counter whose bits are mixed until they look random.
    fn next(&self) -> u64 {
        let mut word = self.state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(source: &SeededEntropy) -> [u8; 21] {
        let mut bytes = [0; 21];
        source.fill(&mut bytes);
        bytes
    }

    #[test]
    fn equal_seeds_give_equal_bytes_that_go_on() {
        let (one, same, other) = (SeededEntropy::new(7), SeededEntropy::new(7), SeededEntropy::new(8));
        let first = bytes_of(&one);
        assert_eq!(first, bytes_of(&same));
        assert_ne!(first, bytes_of(&one));
        assert_ne!(first, bytes_of(&other));
    }

    /// The published outputs of splitmix64 for seed 0.
    #[test]
    fn is_splitmix64() {
        let source = SeededEntropy::new(0);
        assert_eq!(source.next(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(source.next(), 0x6e78_9e6a_a1b9_65f4);
    }
}
