//! Limits of an account and the server for streams, and whether one more fits.

use super::{OtherStreams, Storage, StreamConfig};
use crate::error::ApiError;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

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
    /// Where limits are by tier: those of each, by its name. The fields before say nothing then.
    #[serde(skip)]
    pub tiers: BTreeMap<String, Self>,
}

/// Name of the tier of streams with so many replicas.
#[must_use]
pub fn tier_name(replicas: i64) -> String {
    format!("R{}", replicas.max(1))
}

impl AccountLimits {
    /// Limits by tier.
    #[must_use]
    pub fn by_tier(tiers: BTreeMap<String, Self>) -> Self {
        Self { tiers, ..Self::nothing() }
    }

    /// As they are shown of a tier that is not there, and where there are others by tier.
    #[must_use]
    pub fn nothing() -> Self {
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

    /// Limits of streams with so many replicas: those of their tier, where there are tiers.
    ///
    /// # Errors
    /// [`ApiError::NO_LIMITS`]: there are tiers, and not this one.
    pub fn of_tier(&self, replicas: i64) -> Result<&Self, ApiError> {
        if self.tiers.is_empty() {
            return Ok(self);
        }
        self.tiers.get(&tier_name(replicas)).ok_or(ApiError::NO_LIMITS)
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
        let limits = self.account.of_tier(config.num_replicas)?;
        let others = if self.account.tiers.is_empty() {
            all.count() - usize::from(all.find(&config.name).is_some())
        } else {
            others_of_tier(config, all).len()
        };
        let others = i64::try_from(others).unwrap_or(i64::MAX);
        let full = limits.max_streams > 0 && others >= limits.max_streams;
        if full { Err(ApiError::MAXIMUM_STREAMS_LIMIT) } else { Ok(()) }
    }

    /// Whether a stream must have, and may have, its `max_bytes`.
    pub(super) fn check_stream_bytes(&self, config: &StreamConfig) -> Result<(), ApiError> {
        // Compat: whether there are limits is asked later.
        let Ok(limits) = self.account.of_tier(config.num_replicas) else { return Ok(()) };
        let limit = match config.storage {
            Storage::Memory => limits.memory_max_stream_bytes,
            Storage::File => limits.storage_max_stream_bytes,
        };
        if limits.max_bytes_required && config.max_bytes <= 0 {
            Err(ApiError::STREAM_MAX_BYTES_REQUIRED)
        } else if limit > 0 && config.max_bytes > limit {
            Err(ApiError::STREAM_MAX_STREAM_BYTES_EXCEEDED)
        } else {
            Ok(())
        }
    }

    /// Whether a stream's consumers are within the account's limit.
    pub(super) fn check_consumers(&self, config: &StreamConfig) -> Result<(), ApiError> {
        let limit = self.account.of_tier(config.num_replicas)?.max_consumers;
        let over = config.max_consumers > 0 && limit > 0 && config.max_consumers > limit;
        if over { Err(ApiError::MAXIMUM_CONSUMERS_LIMIT) } else { Ok(()) }
    }

    /// Whether `more` bytes can be reserved for a stream, where `reserved` are already for its
    /// account, or for its tier. A stream without limit, -1, asks for one byte.
    ///
    /// Compat: limits by tier are those of the data, others those of its replicas together.
    pub(super) fn check_bytes(
        &self,
        config: &StreamConfig,
        more: i64,
        reserved: i64,
    ) -> Result<(), ApiError> {
        let more = if more < 0 { 1 } else { more };
        let of_account = more.saturating_mul(self.copies(config));
        self.check_room(config, (of_account, more), reserved)
    }

    /// How often a stream's bytes count for its account.
    pub(super) fn copies(&self, config: &StreamConfig) -> i64 {
        if self.account.tiers.is_empty() { config.num_replicas.max(1) } else { 1 }
    }

    /// Whether a stream can reserve so many bytes more of its account, and of each of its servers,
    /// where `reserved` are already for its account, or for its tier.
    pub(super) fn check_room(
        &self,
        config: &StreamConfig,
        (of_account, more): (i64, i64),
        reserved: i64,
    ) -> Result<(), ApiError> {
        let limits = self.account.of_tier(config.num_replicas)?;
        let (account, limit, taken, error) = match config.storage {
            Storage::Memory => (
                limits.max_memory,
                self.server.max_memory,
                self.server.memory_reserved,
                ApiError::MEMORY_RESOURCES_EXCEEDED,
            ),
            Storage::File => (
                limits.max_storage,
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

/// The account's other streams with as many replicas.
fn others_of_tier(config: &StreamConfig, all: &dyn OtherStreams) -> Vec<Arc<StreamConfig>> {
    let is_other =
        |one: &StreamConfig| one.num_replicas.max(1) == config.num_replicas.max(1) && one.name != config.name;
    let mut others = all.list();
    others.retain(|one| is_other(one));
    others
}

/// Bytes that the account's other streams in this storage have reserved, and replicas of theirs; by
/// tier those in the tier of this one, once each.
pub(super) fn reserved_by_others(config: &StreamConfig, all: &dyn OtherStreams, limits: &Limits) -> i64 {
    if !limits.account.tiers.is_empty() {
        let others = others_of_tier(config, all);
        let others = others.iter().filter(|one| one.storage == config.storage);
        return others.fold(0, |sum, one| sum.saturating_add(one.max_bytes.max(0)));
    }
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
