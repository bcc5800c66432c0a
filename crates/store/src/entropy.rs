//! The seam to a random source: salts of files, keys of streams, nonces of sealed keys.
//!
//! The store has no randomness of its own. The real source lives in `server`; [`SeededEntropy`] makes tests and
//! simulations repeatable, and must never make a key that protects anything.

use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

use myelin_stdx::rng::Rng;

/// Where unpredictable bytes come from.
pub trait Entropy: Send + Sync + Debug {
    /// Fills `bytes` with bytes that nobody can predict. A source that cannot do that must not return.
    fn fill(&self, bytes: &mut [u8]);
}

/// The same bytes for the same seed: for tests and simulations. Not for keys: whoever knows one output knows the
/// next.
#[derive(Debug)]
pub struct SeededEntropy {
    rng: Mutex<Rng>,
}

impl SeededEntropy {
    /// A source whose outputs follow from `seed` alone.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { rng: Mutex::new(Rng::seeded(seed)) }
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        for chunk in bytes.chunks_mut(8) {
            let word = rng.next_u64().to_le_bytes();
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
}
