//! Counts of how often something was how large, which many threads add to.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Upper bounds in nanoseconds of how long something of a disk or of a network takes.
pub const LATENCIES: [u64; 12] = [
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    500_000_000,
    2_500_000_000,
];

/// Upper bounds of sizes in bytes, from a page to 64 MiB.
pub const SIZES: [u64; 8] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20];

/// Histogram with `N` bounds.
#[derive(Debug)]
pub struct Histogram<const N: usize> {
    bounds: &'static [u64; N],
    counts: [AtomicU64; N],
    above: AtomicU64,
    sum: AtomicU64,
}

/// Histogram of [`LATENCIES`].
pub type Latencies = Histogram<{ LATENCIES.len() }>;

/// Histogram at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistogramCounts {
    /// Upper bounds of the buckets, each inclusive; the last bucket has none.
    pub bounds: &'static [u64],
    /// How often something fell into each bucket: one more than there are bounds.
    pub counts: Vec<u64>,
    /// Sum of all that was counted.
    pub sum: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new(&LATENCIES)
    }
}

impl<const N: usize> Histogram<N> {
    /// An empty one with these bounds, which grow.
    #[must_use]
    pub fn new(bounds: &'static [u64; N]) -> Self {
        debug_assert!(bounds.is_sorted(), "buckets are in order");
        let counts = std::array::from_fn(|_| AtomicU64::new(0));
        Self { bounds, counts, above: AtomicU64::new(0), sum: AtomicU64::new(0) }
    }

    /// Counts a value.
    pub fn add(&self, value: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts.get(bucket).unwrap_or(&self.above).fetch_add(1, Relaxed);
        self.sum.fetch_add(value, Relaxed);
    }

    /// All that was counted until now, as good as it can be known while others go on counting.
    #[must_use]
    pub fn counts(&self) -> HistogramCounts {
        let counts = self.counts.iter().chain([&self.above]).map(|count| count.load(Relaxed));
        HistogramCounts { bounds: self.bounds, counts: counts.collect(), sum: self.sum.load(Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_falls_into_the_first_bucket_whose_bound_it_does_not_pass() {
        let histogram = Histogram::new(&[10, 20]);
        [0, 10, 11, 20, 21, 1000].into_iter().for_each(|value| histogram.add(value));
        let counts = histogram.counts();
        assert_eq!((counts.bounds, &*counts.counts, counts.sum), (&[10, 20][..], &[2, 2, 2][..], 1062));
    }

    #[test]
    fn bounds_are_in_order() {
        assert!(LATENCIES.is_sorted() && SIZES.is_sorted());
    }
}
