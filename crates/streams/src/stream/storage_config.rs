//! The part of a stream's configuration that its storage must know.

use std::time::Duration;

use myelin_store::{Durability, Limits};

use myelin_jsapi::config::{Compression, Discard, PersistMode, Storage, StreamConfig};

/// Configuration of a stream as the store is told it. `always_syncs`: the server acknowledges after
/// a sync.
#[must_use]
pub fn storage_config(config: &StreamConfig, always_syncs: bool) -> myelin_store::StreamConfig {
    myelin_store::StreamConfig {
        storage: match config.storage {
            Storage::File => myelin_store::Storage::File,
            Storage::Memory => myelin_store::Storage::Memory,
        },
        limits: Limits {
            messages: limit(config.max_msgs),
            bytes: limit(config.max_bytes),
            age: limit(config.max_age).map(Duration::from_nanos),
            messages_per_subject: limit(config.max_msgs_per_subject),
            // Checked before it comes here, where the reference counts differently for batches.
            message_size: None,
            discard: match config.discard {
                Discard::Old => myelin_store::Discard::Old,
                Discard::New => myelin_store::Discard::New,
            },
            discard_new_per_subject: config.discard_new_per_subject,
        },
        durability: match config.persist_mode {
            PersistMode::Async => Durability::Memory,
            _ if always_syncs => Durability::Synced,
            _ => Durability::Written,
        },
        compression: match config.compression {
            Compression::None => myelin_store::Compression::None,
            Compression::S2 => myelin_store::Compression::S2,
        },
        first_seq: config.first_seq.max(1),
        is_copy: config.mirror.is_some(),
        segment_bytes: None,
    }
}

/// Zero and less are no limit.
fn limit(value: i64) -> Option<u64> {
    u64::try_from(value).ok().filter(|&value| value > 0)
}
