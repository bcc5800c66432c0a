//! A consumer's configuration as the store keeps it: one JSON object with everything, and when the
//! consumer was made.

use super::{ConsumerConfig, StreamPlaces};
use crate::json::{self, object};
use myelin_stdx::time::Timestamp;
use myelin_wire::json::compact;
use serde::Serialize;

/// Record of a consumer that is kept besides its state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stored {
    /// When the consumer was made, in nanoseconds.
    pub created: Timestamp,
    /// After defaults, without what only answers carry.
    pub config: ConsumerConfig,
    /// As [`ConsumerConfig::is_unnamed`] says.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unnamed: bool,
    /// As [`ConsumerConfig::is_own`] says.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    own: bool,
    /// As [`StreamPlaces::passed`] says.
    #[serde(skip_serializing_if = "is_zero")]
    passed: u64,
    /// As [`StreamPlaces::lasts_through`] says.
    #[serde(skip_serializing_if = "is_zero")]
    lasts_through: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

object! { Stored, "Stored":
    "created" created "int64",
    "config" config "ConsumerConfig",
    "unnamed" unnamed "bool",
    "own" own "bool",
    "passed" passed "uint64",
    "lasts_through" lasts_through "uint64",
}

impl Stored {
    /// Of a consumer with this configuration.
    #[must_use]
    pub fn new(created: Timestamp, config: &ConsumerConfig) -> Self {
        let (unnamed, own) = (config.is_unnamed, config.is_own);
        let StreamPlaces { passed, lasts_through } = config.places;
        Self { created, config: config.clone(), unnamed, own, passed, lasts_through }
    }

    /// The bytes to keep.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        compact(self)
    }

    /// Reads what [`encode`](Self::encode) has written. What a later version has added is ignored:
    /// [`is_supported`](super::is_supported) says whether that is safe.
    ///
    /// # Errors
    /// When the bytes are damaged.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let mut stored = Self::default();
        json::lenient(bytes, "Stored", &mut stored)?;
        stored.config.is_unnamed = stored.unnamed;
        stored.config.is_own = stored.own;
        stored.config.places = StreamPlaces { passed: stored.passed, lasts_through: stored.lasts_through };
        Ok(stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consumer::config::{AckPolicy, DeliverPolicy, PriorityPolicy, ReplayPolicy};
    use crate::json::Moment;

    #[test]
    fn everything_comes_back() {
        let config = ConsumerConfig {
            durable_name: "D".into(),
            name: "D".into(),
            description: "<>".into(),
            deliver_policy: DeliverPolicy::ByStartTime,
            opt_start_seq: u64::MAX,
            opt_start_time: Some(Moment::from(5)),
            ack_policy: AckPolicy::FlowControl,
            ack_wait: 1,
            max_deliver: -1,
            backoff: vec![1, 2],
            filter_subject: "a.>".into(),
            filter_subjects: vec!["b".into(), "c.*".into()],
            replay_policy: ReplayPolicy::Original,
            rate_limit_bps: 3,
            sample_freq: "30%".into(),
            max_waiting: 4,
            max_ack_pending: -1,
            flow_control: true,
            headers_only: true,
            max_batch: 5,
            max_expires: 6,
            max_bytes: 7,
            deliver_subject: "d".into(),
            deliver_group: "g".into(),
            idle_heartbeat: 8,
            inactive_threshold: 9,
            num_replicas: 1,
            mem_storage: true,
            direct: true,
            sourcing: true,
            metadata: [("k".into(), "v".into())].into(),
            pause_until: Some(Moment::from(-5)),
            priority_groups: vec!["A".into()],
            priority_policy: PriorityPolicy::PinnedClient,
            priority_timeout: 10,
            is_unnamed: true,
            is_own: true,
            places: StreamPlaces { passed: 11, lasts_through: 12 },
        };
        let stored = Stored::new(-7, &config);
        assert_eq!(Stored::decode(&stored.encode()).unwrap(), stored);
        assert!(Stored::decode(b"{\"created\":1").is_err());
    }
}
