//! A small, fast generator for choices that nobody attacks: queue members, jitter, sampling.
//!
//! It is not for secrets ([`id`](crate::id) is), and it never seeds itself: the caller passes the
//! seed, so that a simulation can replay every choice.

/// SplitMix64: one addition and a mix per number, period 2^64.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// A generator whose numbers are the same for the same seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number, evenly distributed over all of `u64`.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, or 0 when `n` is 0. The bias is below n / 2^64.
    pub fn below(&mut self, n: u64) -> u64 {
        // The high half of the product scales the number into the range without a division.
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The first numbers that the published SplitMix64 gives for this seed.
    #[test]
    fn the_sequence_is_splitmix64() {
        let mut rng = Rng::seeded(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn numbers_below_a_bound_are_even() {
        let mut rng = Rng::seeded(7);
        let mut counts = [0_u32; 10];
        for _ in 0..100_000 {
            counts[rng.below(10) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_600..10_400).contains(count)), "{counts:?}");
        assert_eq!([rng.below(0), rng.below(1)], [0, 0]);
        assert!((0..1000).all(|_| rng.below(u64::MAX) < u64::MAX));
    }
}
