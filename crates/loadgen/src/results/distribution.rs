//! A latency histogram that can be written to a file without losing a sample.
//!
//! Owns resolution and range (three digits, one nanosecond to an hour) and the rule when a
//! percentile is worth its name. In JSON it is the list of values that occurred, each with how
//! often: readable by anything, and equal buckets on both sides make reading it back exact.

use hdrhistogram::Histogram;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Nanoseconds: an hour. An open loop on a system that cannot follow waits for as long as it runs.
const LONGEST: u64 = 3_600_000_000_000;

const DIGITS: u8 = 3;

/// A percentile with fewer samples beyond it is hardly more than the maximum.
const ENOUGH: f64 = 10.0;

/// Latencies in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    histogram: Histogram<u64>,
}

/// A latency that a part of the samples do not exceed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percentile {
    /// Between 0 and 1.
    pub quantile: f64,
    /// The latency.
    pub nanoseconds: u64,
    /// How many samples are beyond it, by its rank.
    pub beyond: f64,
}

impl Default for Distribution {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST, DIGITS)
            .expect("the bounds are ordered and the digits are allowed");
        Self { histogram }
    }
}

impl Distribution {
    /// Notes a latency; one beyond the range counts as the longest.
    pub fn record(&mut self, nanoseconds: u64) {
        self.histogram.saturating_record(nanoseconds.max(1));
    }

    /// The samples of a histogram of nanoseconds with a range of its own.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let mut all = Self::default();
        for value in histogram.iter_recorded() {
            all.histogram.saturating_record_n(value.value_iterated_to(), value.count_at_value());
        }
        all
    }

    /// Adds all samples of another distribution.
    pub fn add(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("all have the same range");
    }

    /// Number of samples.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Samples in the form that `hdrhistogram` computes with.
    pub(crate) fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }

    /// `quantile` between 0 and 1; of no samples at all everything is 0.
    pub fn percentile(&self, quantile: f64) -> Percentile {
        let beyond = (1.0 - quantile) * self.count() as f64;
        Percentile { quantile, nanoseconds: self.histogram.value_at_quantile(quantile), beyond }
    }

    /// Percentile in microseconds; `quantile` between 0 and 1.
    pub fn microseconds(&self, quantile: f64) -> f64 {
        self.percentile(quantile).nanoseconds as f64 / 1e3
    }
}

impl Percentile {
    /// Whether too few samples lie beyond it for the number to mean much. The maximum claims no
    /// more than it is.
    pub fn is_thin(&self) -> bool {
        // A whole number of samples that comes out of floating point must not fall short by a
        // rounding error.
        self.quantile < 1.0 && self.beyond < ENOUGH - 1e-6
    }
}

#[derive(Serialize, Deserialize)]
struct WrittenDistribution {
    unit: String,
    digits: u8,
    /// Values with how often they occurred, ascending.
    counts: Vec<(u64, u64)>,
}

impl Serialize for Distribution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let recorded = self.histogram.iter_recorded();
        let counts = recorded.map(|value| (value.value_iterated_to(), value.count_at_value())).collect();
        WrittenDistribution { unit: "ns".into(), digits: DIGITS, counts }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Distribution {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = WrittenDistribution::deserialize(deserializer)?;
        if (written.unit.as_str(), written.digits) != ("ns", DIGITS) {
            let WrittenDistribution { unit, digits, .. } = written;
            return Err(D::Error::custom(format!("latencies in {unit:?} with {digits} digits")));
        }
        let mut distribution = Self::default();
        for (value, count) in written.counts {
            distribution.histogram.record_n(value, count).map_err(D::Error::custom)?;
        }
        Ok(distribution)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Distribution {
        let mut distribution = Distribution::default();
        values.into_iter().for_each(|value| distribution.record(value));
        distribution
    }

    #[test]
    fn percentiles_of_known_data() {
        let distribution = of((1..=1000).map(|microseconds| microseconds * 1000));
        for (quantile, expected) in [(0.5, 500.0), (0.9, 900.0), (0.99, 990.0), (0.999, 999.0), (1.0, 1000.0)]
        {
            let measured = distribution.microseconds(quantile);
            assert!((measured - expected).abs() <= expected / 1000.0, "{quantile}: {measured}");
        }
        assert_eq!(distribution.count(), 1000);
        assert_eq!(Distribution::default().microseconds(0.99), 0.0);
    }

    #[test]
    fn a_percentile_with_fewer_than_ten_samples_beyond_it_is_thin() {
        let distribution = of(1..=1000);
        let thin =
            [0.5, 0.9, 0.99, 0.9901, 0.999, 1.0].map(|quantile| distribution.percentile(quantile).is_thin());
        assert_eq!(thin, [false, false, false, true, true, false]);
        // 50 messages per second for half a minute, the least of the studies: six nines are only
        // the maximum.
        let study = of(1..=1500);
        assert!(!study.percentile(0.99).is_thin() && study.percentile(0.999_999).is_thin());
    }

    #[test]
    fn values_beyond_the_range_are_kept_at_its_ends() {
        let distribution = of([0, u64::MAX]);
        assert_eq!(distribution.count(), 2);
        assert!(distribution.percentile(1.0).nanoseconds >= LONGEST);
        assert_eq!(distribution.percentile(0.0).nanoseconds, 1);
    }

    proptest! {
        #[test]
        fn writing_and_reading_loses_nothing(values in proptest::collection::vec(0_u64..LONGEST * 2, 0..200)) {
            let distribution = of(values);
            let text = serde_json::to_string(&distribution).unwrap();
            let read: Distribution = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&read, &distribution);
            let mut twice = read;
            twice.add(&distribution);
            prop_assert_eq!(twice.count(), 2 * distribution.count());
        }
    }
}
