//! Limits of an account and the server for streams, and whether one more fits.

use super::{OtherStreams, Storage, StreamConfig};
use crate::error::ApiError;
use serde::Serialize;
use std::collections::BTreeMap;

/// Limits of an account. Shown as the reference shows them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AccountLimits {
    /// Bytes; -1: no limit.
    pub max_memory: i64,
    /// Bytes; -1: no limit.
    pub max_storage: i64,
    /// -1 and 0: no limit.
    pub max_streams: i64,
    /// For each stream; -1 and 0: no limit.
    pub max_consumers: i64,
    /// For each consumer; -1: no limit.
    pub max_ack_pending: i64,
    /// Bytes of one stream in memory; -1 and 0: no limit.
    pub memory_max_stream_bytes: i64,
    /// Bytes of one stream on disk; -1 and 0: no limit.
    pub storage_max_stream_bytes: i64,
    /// Whether each stream must say `max_bytes`.
    pub max_bytes_required: bool,
    /// Where limits are by tier: those of each. The fields before are those of streams without
    /// copies then, which is all there are here.
    #[serde(skip)]
    pub tiers: BTreeMap<String, Self>,
}

/// The tier of streams without copies.
pub const FIRST_TIER: &str = "R1";

impl AccountLimits {
    /// Limits by tier.
    #[must_use]
    pub fn by_tier(tiers: BTreeMap<String, Self>) -> Self {
        let own = tiers.get(FIRST_TIER).cloned().unwrap_or_else(Self::nothing);
        Self { tiers, ..own }
    }

    /// As they are shown where there are others by tier.
    fn nothing() -> Self {
        Self {
            max_memory: 0,
            max_storage: 0,
            max_streams: 0,
            max_consumers: 0,
            max_ack_pending: 0,
            memory_max_stream_bytes: 0,
            storage_max_stream_bytes: 0,
            max_bytes_required: false,
            tiers: BTreeMap::new(),
        }
    }

    /// Bytes in memory and in files that these limits promise; one that is no limit promises
    /// nothing.
    #[must_use]
    pub fn promised(&self) -> [i64; 2] {
        self.promised_beyond(None)
    }

    /// Bytes in memory and in files that these limits promise beyond others, tier by tier.
    ///
    /// Compat: what one tier gives up does not make up for what another one gets.
    #[must_use]
    pub fn promised_beyond(&self, before: Option<&Self>) -> [i64; 2] {
        let promised = |limits: &Self| [limits.max_memory.max(0), limits.max_storage.max(0)];
        let mut sum = [0_i64; 2];
        for (tier, limits) in self.by_name() {
            let had = before.and_then(|before| before.by_name().find(|(name, _)| *name == tier));
            let had = had.map_or([0; 2], |(_, limits)| promised(limits));
            for (sum, (now, had)) in sum.iter_mut().zip(promised(limits).into_iter().zip(had)) {
                *sum = sum.saturating_add((now - had).max(0));
            }
        }
        sum
    }

    /// Limits of each tier by its name; those of all streams have an empty one.
    fn by_name(&self) -> impl Iterator<Item = (&str, &Self)> {
        let all = self.tiers.is_empty().then_some(("", self));
        all.into_iter().chain(self.tiers.iter().map(|(name, limits)| (name.as_str(), limits)))
    }

    /// As `INFO` shows them before the tiers.
    #[must_use]
    pub fn shown(&self) -> Self {
        if self.tiers.is_empty() { self.clone() } else { Self::nothing() }
    }

    /// Whether they say anything of streams without copies.
    pub(crate) fn check_tier(&self) -> Result<(), ApiError> {
        let applies = self.tiers.is_empty() || self.tiers.contains_key(FIRST_TIER);
        if applies { Ok(()) } else { Err(ApiError::NO_LIMITS) }
    }
}

/// An account that was told nothing.
impl Default for AccountLimits {
    fn default() -> Self {
        Self {
            max_memory: -1,
            max_storage: -1,
            max_streams: -1,
            max_consumers: -1,
            max_ack_pending: -1,
            memory_max_stream_bytes: -1,
            storage_max_stream_bytes: -1,
            max_bytes_required: false,
            tiers: BTreeMap::new(),
        }
    }
}

/// Limits of the server for all accounts, and what of them is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Bytes.
    pub max_memory: i64,
    /// Bytes.
    pub max_storage: i64,
    /// Of `max_memory`, by the `max_bytes` of streams in memory.
    pub memory_reserved: i64,
    /// Of `max_storage`, by the `max_bytes` of streams on disk.
    pub storage_reserved: i64,
    /// The longest window for duplicates, in nanoseconds; 0: any.
    pub duplicate_window: i64,
}

/// All limits that a configuration is held against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of the stream's account.
    pub account: AccountLimits,
    /// Of everybody.
    pub server: ServerLimits,
    /// Whether streams may have replicas: the server is in a cluster.
    pub has_replicas: bool,
}

impl Limits {
    /// Whether the account may have a stream of this name besides those that it has.
    pub(super) fn check_count(&self, config: &StreamConfig, all: &dyn OtherStreams) -> Result<(), ApiError> {
        self.account.check_tier()?;
        let others = all.count() - usize::from(all.find(&config.name).is_some());
        let others = i64::try_from(others).unwrap_or(i64::MAX);
        let full = self.account.max_streams > 0 && others >= self.account.max_streams;
        if full { Err(ApiError::MAXIMUM_STREAMS_LIMIT) } else { Ok(()) }
    }

    /// Whether a stream must have, and may have, its `max_bytes`.
    pub(super) fn check_stream_bytes(&self, config: &StreamConfig) -> Result<(), ApiError> {
        let limit = match config.storage {
            Storage::Memory => self.account.memory_max_stream_bytes,
            Storage::File => self.account.storage_max_stream_bytes,
        };
        if self.account.max_bytes_required && config.max_bytes <= 0 {
            Err(ApiError::STREAM_MAX_BYTES_REQUIRED)
        } else if limit > 0 && config.max_bytes > limit {
            Err(ApiError::STREAM_MAX_STREAM_BYTES_EXCEEDED)
        } else {
            Ok(())
        }
    }

    /// Whether a stream's consumers are within the account's limit.
    pub(super) fn check_consumers(&self, config: &StreamConfig) -> Result<(), ApiError> {
        let limit = self.account.max_consumers;
        let over = config.max_consumers > 0 && limit > 0 && config.max_consumers > limit;
        if over { Err(ApiError::MAXIMUM_CONSUMERS_LIMIT) } else { Ok(()) }
    }

    /// Whether `more` bytes can be reserved for a stream, where `reserved` are already for its
    /// account. A stream without limit, -1, asks for one byte.
    pub(super) fn check_bytes(
        &self,
        config: &StreamConfig,
        more: i64,
        reserved: i64,
    ) -> Result<(), ApiError> {
        let more = if more < 0 { 1 } else { more };
        let of_account = more.saturating_mul(config.num_replicas.max(1));
        let (account, limit, taken, error) = match config.storage {
            Storage::Memory => (
                self.account.max_memory,
                self.server.max_memory,
                self.server.memory_reserved,
                ApiError::MEMORY_RESOURCES_EXCEEDED,
            ),
            Storage::File => (
                self.account.max_storage,
                self.server.max_storage,
                self.server.storage_reserved,
                ApiError::STORAGE_RESOURCES_EXCEEDED,
            ),
        };
        let exceeds = |more: i64, reserved: i64, limit: i64| reserved > limit || more > limit - reserved;
        let over = (account >= 0 && exceeds(of_account, reserved, account)) || exceeds(more, taken, limit);
        if over { Err(error) } else { Ok(()) }
    }
}

/// Bytes that the account's other streams in this storage have reserved, and replicas of theirs.
pub(super) fn reserved_by_others(config: &StreamConfig, all: &dyn OtherStreams) -> i64 {
    let own = all.find(&config.name).filter(|own| own.storage == config.storage);
    all.reserved(config.storage).saturating_sub(own.map_or(0, |own| own.reserved()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_are_counted_tier_by_tier() {
        let of = |max_memory, max_storage| AccountLimits { max_memory, max_storage, ..Default::default() };
        let tiers = |all: &[(&str, AccountLimits)]| {
            let tiers = all.iter().map(|(name, limits)| ((*name).to_owned(), limits.clone()));
            AccountLimits::by_tier(tiers.collect())
        };
        assert_eq!((of(-1, -1).promised(), of(3, 0).promised()), ([0, 0], [3, 0]));
        let two = tiers(&[("R1", of(1, 2)), ("R3", of(4, -1))]);
        assert_eq!(two.promised(), [5, 2]);
        assert_eq!(of(5, 7).promised_beyond(Some(&of(3, 9))), [2, 0]);
        assert_eq!(of(5, 7).promised_beyond(Some(&of(-1, -1))), [5, 7]);
        // What one tier gives up is not what another one gets.
        let other = tiers(&[("R1", of(0, 5)), ("R3", of(6, 1))]);
        assert_eq!(other.promised_beyond(Some(&two)), [2, 4]);
        assert_eq!(of(9, 9).promised_beyond(Some(&two)), [9, 9]);
    }
}
