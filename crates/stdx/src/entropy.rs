//! The seam to a random source: nonces, keys, salts, names that nobody can guess.
//!
//! Only `server` and the programs use [`OsEntropy`]; everything below is given a source, so that a
//! simulation with a [`SeededEntropy`] draws the same bytes each time. For choices that nobody
//! attacks there is [`rng`](crate::rng).

use crate::rng::Rng;
use crate::sync::{Mutex, lock};
use std::fmt::Debug;

/// Where unpredictable bytes come from.
pub trait Entropy: Send + Sync + Debug {
    /// Fills `bytes` with bytes that nobody can predict. A source that cannot do that must not
    /// return.
    fn fill(&self, bytes: &mut [u8]);
}

/// The operating system's random source. Panics if that fails, which leaves a server without
/// secrets to keep: there is nothing to go on with.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the operating system has a random source");
    }
}

/// A source that repeats itself: equal seeds give equal bytes. For tests and simulations, never for
/// keys that protect anything, since whoever knows one output knows the next.
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
        let mut rng = lock(&self.rng);
        for chunk in bytes.chunks_mut(8) {
            let word = rng.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn bytes_of(source: &dyn Entropy) -> [u8; 21] {
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

    #[test]
    fn the_operating_system_does_not_repeat_itself() {
        assert_ne!(bytes_of(&OsEntropy), bytes_of(&OsEntropy));
    }
}
