//! From parsed options to JetStream's own configuration.

use super::capacity::{Capacity, headroom, store_directory};
use myelin_auth::jwt::JetStreamLimits;
use myelin_auth::operator::TrustedAccount;
use myelin_conf::options::{AccountJetStreamOptions, JetStreamOptions, Options, StoreCipher, SyncInterval};
use myelin_jetstream::{Backlog, JetStreamSettings, ServerLimits};
use myelin_jsapi::ApiError;
use myelin_jsapi::config::AccountLimits;
use myelin_jsapi::consumer::config::ServerConsumerLimits;
use myelin_store::StoreOptions;
use myelin_store::cipher::CipherKind;
use myelin_store::journal;
use myelin_store::keys::{Keys, MasterKey};
use myelin_streams::stream::batch::BatchLimits;
use myelin_wire::info::Info;
use std::collections::BTreeMap;

/// The account of whoever is in no other.
const GLOBAL_ACCOUNT: &str = "$G";

/// How the store is opened.
///
/// # Errors
/// What it needs is not there.
pub(super) fn store(options: &Options) -> Result<StoreOptions, String> {
    let from = &options.jetstream;
    let mut store = StoreOptions::new(store_directory(from));
    store.interval = match from.sync_interval {
        // Nobody waits for what is synced in the background, and milliseconds cost little: the
        // interval of the configuration is the longest that may be lost, not the shortest.
        SyncInterval::Always | SyncInterval::Every(_) => journal::SyncInterval::Background,
    };
    store.headroom_bytes = headroom(from, store.headroom_bytes);
    let derive = |key: &myelin_conf::Secret| MasterKey::derive(key.reveal().as_bytes());
    store.keys = from.encryption_key.as_ref().map(|key| Keys {
        kind: match from.cipher {
            StoreCipher::ChaCha => CipherKind::ChaCha20Poly1305,
            StoreCipher::Aes => CipherKind::Aes256Gcm,
        },
        current: derive(key),
        previous: from.prev_encryption_key.as_ref().map(derive),
    });
    Ok(store)
}

/// Settings of JetStream from the options.
pub(super) fn settings(options: &Options, capacity: Capacity, info: &Info) -> JetStreamSettings {
    let from = &options.jetstream;
    JetStreamSettings {
        domain: from.domain.clone().unwrap_or_default(),
        strict: from.strict,
        server_name: info.server_name.clone(),
        server_id: info.server_id.clone(),
        sync_always: from.sync_interval == SyncInterval::Always,
        limits: server_limits(from, capacity),
        backlog: Backlog {
            messages: from.max_buffered_msgs as usize,
            bytes: from.max_buffered_size as usize,
        },
        max_pending: options.limits.max_pending as i64,
        max_payload: options.limits.max_payload as i64,
        request_queue_limit: from.request_queue_limit as usize,
    }
}

/// Limits of all accounts together.
pub(super) fn server_limits(from: &JetStreamOptions, capacity: Capacity) -> ServerLimits {
    ServerLimits {
        max_memory: capacity.memory,
        max_store: capacity.disk,
        is_store_of_disk: from.max_file_store.is_none(),
        duplicate_window: from.limits.duplicate_window,
        batches: batches(from),
        consumers: consumers(from),
    }
}

fn consumers(from: &JetStreamOptions) -> ServerConsumerLimits {
    let number = |n: Option<u32>| i64::from(n.unwrap_or(0));
    ServerConsumerLimits {
        max_ack_pending: number(from.limits.max_ack_pending),
        max_request_batch: number(from.limits.max_request_batch),
        default_max_consumers: number(from.limits.default_max_consumers),
    }
}

fn batches(from: &JetStreamOptions) -> BatchLimits {
    let batch = &from.limits.batch;
    let number = |n: Option<u32>| i64::from(n.unwrap_or(0));
    let timeout = batch.timeout.map_or(0, |timeout| i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX));
    BatchLimits::configured(
        number(batch.max_inflight_per_stream),
        number(batch.max_inflight_total),
        number(batch.max_msgs),
        timeout,
    )
}

/// Limits of an account in JetStream; `None` is nothing.
///
/// Compat: where no account but the global one and the system's is configured, the global one may
/// use everything.
pub(crate) fn account_limits(options: &Options, name: &str) -> Option<AccountLimits> {
    let mut list = options.accounts.list.iter();
    if let Some(configured) =
        list.clone().find(|account| account.name == name).and_then(|account| account.jetstream)
    {
        return Some(limits_of(&configured));
    }
    let is_ours = |other: &str| other == GLOBAL_ACCOUNT || options.accounts.system_account() == Some(other);
    // Compat: nobody is in the global account where operators are trusted.
    let trusts = !options.operators.list.is_empty() || !options.operators.trusted_keys.is_empty();
    let is_alone = !trusts && list.all(|account| is_ours(&account.name));
    (name == GLOBAL_ACCOUNT && is_alone).then(AccountLimits::default)
}

/// Checks that the server has what it promises to the configured accounts together.
///
/// # Errors
/// It has not.
pub(crate) fn check_promises(options: &Options, server: &ServerLimits) -> Result<(), ApiError> {
    let accounts = options.accounts.list.iter().filter_map(|account| account.jetstream);
    let promised = accounts.map(|limits| limits_of(&limits).promised());
    let [memory, files] =
        promised.fold([0_i64; 2], |sum, more| [0, 1].map(|at| sum[at].saturating_add(more[at])));
    let exceeds = |bytes: i64, most: u64| u64::try_from(bytes).is_ok_and(|bytes| bytes > most);
    if exceeds(memory, server.max_memory) {
        return Err(ApiError::MEMORY_RESOURCES_EXCEEDED);
    }
    if exceeds(files, server.max_store) { Err(ApiError::STORAGE_RESOURCES_EXCEEDED) } else { Ok(()) }
}

/// Limits of an account that comes from a token; `None` if it may not use JetStream.
///
/// Compat: of what JetStream stores 0 is nothing and -1 is no limit; of single streams, both are no
/// limit.
pub(crate) fn limits_of_claims(account: &TrustedAccount) -> Option<AccountLimits> {
    if let Some(tiers) = account.jetstream_tiers() {
        let tiers = tiers.iter().map(|(name, limits)| (name.clone(), of_tier(limits)));
        return Some(AccountLimits::by_tier(tiers.collect()));
    }
    account.jetstream().as_ref().map(of_tier)
}

fn of_tier(limits: &JetStreamLimits) -> AccountLimits {
    let unlimited = |limit: i64| if limit > 0 { limit } else { -1 };
    AccountLimits {
        max_memory: limits.mem_storage,
        max_storage: limits.disk_storage,
        max_streams: limits.streams,
        max_consumers: limits.consumer,
        max_ack_pending: unlimited(limits.max_ack_pending),
        memory_max_stream_bytes: unlimited(limits.mem_max_stream_bytes),
        storage_max_stream_bytes: unlimited(limits.disk_max_stream_bytes),
        max_bytes_required: limits.max_bytes_required,
        tiers: BTreeMap::new(),
    }
}

fn limits_of(from: &AccountJetStreamOptions) -> AccountLimits {
    let limit = |n: Option<u64>| n.map_or(-1, |n| i64::try_from(n).unwrap_or(i64::MAX));
    AccountLimits {
        max_memory: limit(from.max_memory),
        max_storage: limit(from.max_store),
        max_streams: limit(from.max_streams),
        max_consumers: limit(from.max_consumers),
        max_ack_pending: limit(from.max_ack_pending),
        memory_max_stream_bytes: limit(from.memory_max_stream_bytes),
        storage_max_stream_bytes: limit(from.store_max_stream_bytes),
        max_bytes_required: from.max_bytes_required,
        tiers: BTreeMap::new(),
    }
}
