//! Limits of an account and the server for consumers.

use super::{ConsumerConfig, OtherConsumers};
use crate::config::{AccountLimits, StreamConfig};
use crate::error::ApiError;

/// Limits of the server for consumers of all accounts (`jetstream { limits { ... } }`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerConsumerLimits {
    /// Messages of one consumer that wait for their acknowledgement; 0: any.
    pub max_ack_pending: i64,
    /// Messages that one pull request may ask for; 0: any.
    pub max_request_batch: i64,
    /// Consumers of a stream for which neither it nor its account says how many; 0: any.
    pub default_max_consumers: i64,
}

/// A server that was told nothing.
impl Default for ServerConsumerLimits {
    fn default() -> Self {
        Self { max_ack_pending: 0, max_request_batch: 0, default_max_consumers: 1_000 }
    }
}

/// All limits that the configuration of a consumer is held against, besides its stream's.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ConsumerConfigLimits {
    /// Of the stream's account.
    pub account: AccountLimits,
    /// Of everybody.
    pub server: ServerConsumerLimits,
}

impl ConsumerConfigLimits {
    /// Limits of the account for a consumer with as many replicas as this one is to have.
    fn of_account(&self, config: &ConsumerConfig, stream: &StreamConfig) -> Result<&AccountLimits, ApiError> {
        self.account.of_tier(config.replicas(stream))
    }

    /// How many messages may wait for their acknowledgement where nobody says.
    pub(super) fn default_ack_pending(
        &self,
        config: &ConsumerConfig,
        stream: &StreamConfig,
        default: i64,
    ) -> i64 {
        let of_account = self.of_account(config, stream).map_or(0, |limits| limits.max_ack_pending);
        let limits = [self.server.max_ack_pending, of_account];
        limits.into_iter().filter(|limit| *limit > 0).fold(default, i64::min)
    }

    /// Whether `config` is within all limits for messages that wait for their acknowledgement.
    pub(super) fn check_ack_pending(
        &self,
        config: &ConsumerConfig,
        stream: &StreamConfig,
    ) -> Result<(), ApiError> {
        let of_stream = stream.consumer_limits.max_ack_pending;
        let of_account = self.of_account(config, stream).map_or(0, |limits| limits.max_ack_pending);
        let limits = [self.server.max_ack_pending, of_account, of_stream];
        let exceeded = limits.into_iter().find(|limit| *limit > 0 && config.max_ack_pending > *limit);
        exceeded.map_or(Ok(()), |limit| Err(ApiError::consumer_max_pending_ack_excess(limit)))
    }

    /// Whether the stream may have one more consumer: of all that it has, and where limits are by
    /// tier, of those with as many replicas.
    pub(super) fn check_count(
        &self,
        config: &ConsumerConfig,
        stream: &StreamConfig,
        consumers: &dyn OtherConsumers,
    ) -> Result<(), ApiError> {
        let of_tier = self.of_account(config, stream)?.max_consumers;
        let of_stream = match stream.max_consumers {
            ..=0 if of_tier <= 0 => self.server.default_max_consumers,
            limit => limit,
        };
        let replicas = config.replicas(stream);
        let is_of_tier =
            |other: &ConsumerConfig| self.account.tiers.is_empty() || other.replicas(stream) == replicas;
        let is_full = |limit: i64, count: i64| limit > 0 && count >= limit;
        let full = is_full(of_stream, public(consumers, |_| true))
            || is_full(of_tier, public(consumers, is_of_tier));
        if full { Err(ApiError::MAXIMUM_CONSUMERS_LIMIT) } else { Ok(()) }
    }
}

/// How many of `consumers` count, of those that are looked for.
pub(super) fn public(consumers: &dyn OtherConsumers, is_one: impl Fn(&ConsumerConfig) -> bool) -> i64 {
    let mut count = 0;
    consumers.each(&mut |config| {
        count += i64::from(!config.is_internal() && is_one(config));
        true
    });
    count
}

/// All that a decision about a consumer looks at.
#[derive(Clone, Copy)]
pub struct CheckContext<'a> {
    /// The stream.
    pub stream: &'a StreamConfig,
    /// Its consumers.
    pub consumers: &'a dyn OtherConsumers,
    /// Limits of the account and the server.
    pub limits: &'a ConsumerConfigLimits,
    /// Whether somebody in the account listens to a subject: a consumer that pushes to one where
    /// somebody does can not be sent elsewhere.
    pub has_interest: &'a dyn Fn(&str) -> bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    #[test]
    fn the_lowest_limit_is_the_default_and_zero_is_none() {
        let mut limits = ConsumerConfigLimits::default();
        let (config, stream) = (ConsumerConfig::default(), StreamConfig::default());
        let of = |limits: &ConsumerConfigLimits, most| limits.default_ack_pending(&config, &stream, most);
        assert_eq!(of(&limits, 1_000), 1_000);
        limits.server.max_ack_pending = 20;
        limits.account.max_ack_pending = 10;
        assert_eq!(of(&limits, 1_000), 10);
        assert_eq!(of(&limits, 5), 5);
    }

    fn consumer(name: &str, num_replicas: i64) -> ConsumerConfig {
        ConsumerConfig { durable_name: name.to_owned(), num_replicas, ..ConsumerConfig::default() }
    }

    #[test]
    fn consumers_count_in_their_own_tier_and_for_their_stream() {
        let tier = |max_consumers| AccountLimits { max_consumers, ..AccountLimits::default() };
        let tiers = [("R1".to_owned(), tier(2)), ("R3".to_owned(), tier(3))];
        let limits = ConsumerConfigLimits {
            account: AccountLimits::by_tier(tiers.into()),
            ..ConsumerConfigLimits::default()
        };
        let all: BTreeMap<_, _> = [("a", 3), ("b", 0), ("c", 3), ("d", 1)]
            .map(|(name, replicas)| (name.to_owned(), Arc::new(consumer(name, replicas))))
            .into();
        let stream = |max_consumers| StreamConfig { num_replicas: 3, max_consumers, ..Default::default() };
        let may = |replicas, most| limits.check_count(&consumer("x", replicas), &stream(most), &all).is_ok();
        assert_eq!((may(1, -1), may(3, -1), may(0, -1)), (true, false, false));
        assert_eq!((may(1, 5), may(1, 4)), (true, false), "all of the stream count for its own limit");
    }

    #[test]
    fn a_consumer_is_held_against_its_own_tier() {
        let tier = |max_ack_pending| AccountLimits { max_ack_pending, ..AccountLimits::default() };
        let tiers = [("R1".to_owned(), tier(7)), ("R3".to_owned(), tier(9))];
        let limits = ConsumerConfigLimits {
            account: AccountLimits::by_tier(tiers.into()),
            ..ConsumerConfigLimits::default()
        };
        let stream = StreamConfig { num_replicas: 3, ..StreamConfig::default() };
        let of = |replicas| limits.default_ack_pending(&consumer("C", replicas), &stream, 1_000);
        assert_eq!((of(0), of(1), of(3)), (9, 7, 9));
        let short_lived = ConsumerConfig::default();
        assert_eq!(limits.default_ack_pending(&short_lived, &stream, 1_000), 7, "it has no replicas");
        let config = consumer("C", 0);
        let other = StreamConfig { num_replicas: 5, ..StreamConfig::default() };
        assert_eq!(limits.of_account(&config, &other), Err(ApiError::NO_LIMITS));
    }
}
