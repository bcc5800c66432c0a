//! Numbers that follow from a counter and a secret: different for each count, and predictable for
//! nobody else; and the names that are made of them.

use highway::{HighwayHash, HighwayHasher, Key};
use myelin_stdx::entropy::Entropy;
use myelin_stdx::id::{self, BASE62};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A keyed function of numbers (HighwayHash): for names that clients must not be able to guess, and
/// that cost too much if each were drawn from the operating system.
#[derive(Clone)]
pub(crate) struct Unguessable(Key);

impl Unguessable {
    /// A function with a key of its own.
    pub(crate) fn new(entropy: &dyn Entropy) -> Self {
        let word = || u64::from_le_bytes(id::random(entropy));
        Self(Key([word(), word(), word(), word()]))
    }

    /// The number for `count`; each `lane` has others.
    pub(crate) fn number(&self, count: u64, lane: u64) -> u64 {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&count.to_le_bytes());
        bytes[8..].copy_from_slice(&lane.to_le_bytes());
        HighwayHasher::new(self.0).hash64(&bytes)
    }
}

/// Names that no other has, and the source of everything that nobody can guess.
pub(crate) struct UniqueNames {
    entropy: Arc<dyn Entropy>,
    ids: Unguessable,
    next: AtomicU64,
}

impl UniqueNames {
    pub(crate) fn new(entropy: Arc<dyn Entropy>) -> Self {
        Self { ids: Unguessable::new(&*entropy), entropy, next: AtomicU64::new(0) }
    }

    /// Where nonces and keys come from.
    pub(crate) fn entropy(&self) -> &dyn Entropy {
        &*self.entropy
    }

    /// A name of 22 characters that no other has, for what is published once.
    pub(crate) fn unique(&self) -> String {
        let number = self.next.fetch_add(1, Relaxed);
        let hashes = [self.ids.number(number, 0), self.ids.number(number, 1)];
        let digits = |hash: u64| {
            std::iter::successors(Some(hash), |rest| Some(rest / 62))
                .take(11)
                .map(|rest| BASE62[(rest % 62) as usize])
        };
        hashes.into_iter().flat_map(digits).map(char::from).collect()
    }
}

/// Without the key.
impl fmt::Debug for Unguessable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unguessable")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use myelin_stdx::entropy::SeededEntropy;

    #[test]
    fn numbers_follow_from_key_count_and_lane() {
        let drawn = |seed| {
            let function = Unguessable::new(&SeededEntropy::new(seed));
            [(0, 0), (0, 1), (1, 0)].map(|(count, lane)| function.number(count, lane))
        };
        let first = drawn(1);
        assert_eq!(first, drawn(1));
        assert!(first[0] != first[1] && first[0] != first[2] && first[1] != first[2]);
        assert!(drawn(2).iter().all(|number| !first.contains(number)));
    }
}
