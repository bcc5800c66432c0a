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
    /// Limits of the account for a consumer with so many replicas, or with those of its stream.
    fn of_account(&self, config: &ConsumerConfig, stream: &StreamConfig) -> Result<&AccountLimits, ApiError> {
        let own = config.num_replicas;
        self.account.of_tier(if own > 0 { own } else { stream.num_replicas })
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

    /// Whether the stream may have one more consumer.
    pub(super) fn check_count(
        &self,
        config: &ConsumerConfig,
        stream: &StreamConfig,
        consumers: &dyn OtherConsumers,
    ) -> Result<(), ApiError> {
        let of_account = self.of_account(config, stream)?.max_consumers;
        let mut limit = stream.max_consumers;
        if limit <= 0 || (of_account > 0 && of_account < limit) {
            limit = of_account;
        }
        if limit <= 0 {
            limit = self.server.default_max_consumers;
        }
        let full = limit > 0 && public(consumers) >= limit;
        if full { Err(ApiError::MAXIMUM_CONSUMERS_LIMIT) } else { Ok(()) }
    }
}

/// How many of `consumers` count.
pub(super) fn public(consumers: &dyn OtherConsumers) -> i64 {
    let mut count = 0;
    consumers.each(&mut |config| {
        count += i64::from(!config.is_internal());
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

    #[test]
    fn a_consumer_is_held_against_its_own_tier() {
        let tier = |max_ack_pending| AccountLimits { max_ack_pending, ..AccountLimits::default() };
        let tiers = [("R1".to_owned(), tier(7)), ("R3".to_owned(), tier(9))];
        let limits = ConsumerConfigLimits {
            account: AccountLimits::by_tier(tiers.into()),
            ..ConsumerConfigLimits::default()
        };
        let stream = StreamConfig { num_replicas: 3, ..StreamConfig::default() };
        let of = |replicas| {
            let config = ConsumerConfig { num_replicas: replicas, ..ConsumerConfig::default() };
            limits.default_ack_pending(&config, &stream, 1_000)
        };
        assert_eq!((of(0), of(1), of(3)), (9, 7, 9));
        let config = ConsumerConfig::default();
        let other = StreamConfig { num_replicas: 5, ..StreamConfig::default() };
        assert_eq!(limits.of_account(&config, &other), Err(ApiError::NO_LIMITS));
    }
}
