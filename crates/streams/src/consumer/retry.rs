//! Pauses of a consumer's own before messages come again, with a part that chance decides.

use super::redelivery::most_deliveries;
use myelin_jsapi::consumer::RetryBackoff;
use myelin_jsapi::consumer::config::ConsumerConfig;
use myelin_stdx::rng::Rng;
use myelin_store::{Seq, Timestamp};

/// Pauses that come after the time for an acknowledgement.
pub(super) struct RetryPauses {
    backoff: RetryBackoff,
    most: Option<u64>,
    /// Two consumers do not draw the same.
    seed: u64,
}

impl RetryPauses {
    pub(super) fn new(backoff: RetryBackoff, config: &ConsumerConfig, created: Timestamp) -> Self {
        Self { backoff, most: most_deliveries(config), seed: created.unsigned_abs() }
    }

    /// Pause before a message comes again that was so often redelivered: always the same for the
    /// same message, so that nobody has to remember it. None where it does not come again.
    pub(super) fn pause(&self, seq: Seq, redelivered: u64) -> i64 {
        if self.most.is_some_and(|most| redelivered.saturating_add(1) >= most) {
            return 0;
        }
        let pause = self.backoff.pause(redelivered);
        let mut rng = Rng::seeded(self.seed ^ seq.rotate_left(24) ^ redelivered.rotate_left(56));
        let jitter = u64::from(self.backoff.jitter);
        let drawn = rng.below(2 * jitter + 1) as i64 - jitter as i64;
        pause.saturating_add(pause / 1000 * drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_spreads_pauses_and_is_the_same_each_time() {
        let backoff = RetryBackoff { min: 1_000_000, max: 8_000_000, factor: 2000, jitter: 200 };
        let config = ConsumerConfig { max_deliver: 5, ..ConsumerConfig::default() };
        let retry = RetryPauses::new(backoff, &config, 1);
        let pauses: Vec<i64> = (1..200).map(|seq| retry.pause(seq, 1)).collect();
        assert!(pauses.iter().all(|pause| (1_600_000..=2_400_000).contains(pause)), "{pauses:?}");
        let (least, most) = (pauses.iter().min(), pauses.iter().max());
        assert!(least < Some(&1_700_000) && most > Some(&2_300_000), "{pauses:?}");
        assert_eq!(pauses, (1..200).map(|seq| retry.pause(seq, 1)).collect::<Vec<_>>());
        assert_eq!(retry.pause(1, 4), 0, "it was delivered as often as it may be");
    }
}
