//! `jetstream{}`.

use super::{Block, Entry};

pub(super) static JETSTREAM: Block = Block {
    title: "jetstream",
    entries: &[
        Entry::new(&["enabled", "enable"], "boolean", "true", "Whether there is JetStream."),
        Entry::new(&["store_dir", "storedir", "store"], "path", "$TMP/nats/jetstream", "Where it stores."),
        Entry::new(&["strict"], "boolean", "true", "Refuse requests with unknown fields."),
        Entry::new(&["sync_interval", "sync"], "duration or `always`", "2m", "How often files are synced."),
        Entry::new(
            &["max_memory_store", "max_mem_store", "max_mem"],
            "bytes",
            "75 % of memory",
            "Bytes of memory streams.",
        ),
        Entry::new(&["max_file_store", "max_file"], "bytes", "75 % of free disk", "Bytes of file streams."),
        Entry::new(&["domain"], "text", "", "JetStream domain."),
        Entry::new(&["encryption_key", "key", "ek"], "text", "", "Key for stored messages."),
        Entry::new(&["prev_encryption_key", "prev_key", "prev_ek"], "text", "", "The key before."),
        Entry::new(&["cipher"], "`chacha` or `aes`", "chacha", "Cipher for stored messages."),
        Entry::new(&["extension_hint"], "text", "", "Unused."),
        Entry::new(&["limits"], "block", "", "Limits of streams and consumers."),
        Entry::new(&["tpm"], "block", "", "Keys in a TPM."),
        Entry::new(&["unique_tag"], "text", "", "Tag prefix that replicas must not share."),
        Entry::new(&["max_outstanding_catchup"], "bytes", "64MB", "Bytes on their way to lagging replicas."),
        Entry::new(&["max_buffered_size"], "bytes", "128MB", "Bytes that may wait for a stream."),
        Entry::new(&["max_buffered_msgs"], "number", "10000", "Messages that may wait for a stream."),
        Entry::new(&["request_queue_limit"], "number", "10000", "Requests that may wait."),
        Entry::new(&["info_queue_limit"], "number", "", "Info requests that may wait."),
        Entry::new(&["meta_compact"], "number", "", "Entries after which the meta log is compacted."),
        Entry::new(&["meta_compact_size"], "bytes", "", "Bytes after which it is."),
        Entry::new(&["meta_compact_sync"], "boolean", "", "Compact it synchronously."),
        Entry::new(&["max_concurrent_io"], "number", "4096", "File operations at once."),
    ],
};
