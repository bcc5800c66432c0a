//! `jetstream{}`.

use super::{Block, Class, Entry};

const NO_CLUSTER: Class = Class::NoMeaning("there are no clusters");

pub(super) static JETSTREAM: Block = Block {
    title: "jetstream",
    entries: &[
        Entry::new(&["enabled", "enable"], "boolean", "true", "Whether there is JetStream.").live(),
        Entry::new(&["store_dir", "storedir", "store"], "path", "$TMP/nats/jetstream", "Where it stores."),
        Entry::new(&["strict"], "boolean", "true", "Refuse requests with unknown fields."),
        Entry::new(
            &["sync_interval", "sync"],
            "duration or `always`",
            "2m",
            "`always`: acknowledge after a sync. Else files are synced in the background, within milliseconds and not after this time.",
        ),
        Entry::new(
            &["max_memory_store", "max_mem_store", "max_mem"],
            "bytes",
            "75 % of memory",
            "Bytes of memory streams; a reload may raise it.",
        )
        .live(),
        Entry::new(
            &["max_file_store", "max_file"],
            "bytes",
            "75 % of free disk",
            "Bytes of file streams; a reload may raise it.",
        )
        .live(),
        Entry::new(&["domain"], "text", "", "JetStream domain."),
        Entry::new(&["encryption_key", "key", "ek"], "text", "", "Key for stored messages."),
        Entry::new(&["prev_encryption_key", "prev_key", "prev_ek"], "text", "", "The key before."),
        Entry::new(&["cipher"], "`chacha` or `aes`", "chacha", "Cipher for stored messages."),
        Entry::new(
            &["extension_hint"],
            "`no_extend` or `will_extend`",
            "",
            "Whether this JetStream is part of another one's cluster.",
        )
        .class(NO_CLUSTER),
        Entry::new(&["limits"], "block", "", "Limits of streams and consumers."),
        Entry::new(&["tpm"], "block", "", "Keys in a TPM.").missing("a TPM"),
        Entry::new(&["unique_tag"], "text", "", "Tag prefix that replicas must not share.").class(NO_CLUSTER),
        Entry::new(&["max_outstanding_catchup"], "bytes", "64MB", "Bytes on their way to lagging replicas.")
            .class(NO_CLUSTER),
        Entry::new(&["max_buffered_size"], "bytes", "128MB", "Bytes that may wait for a stream."),
        Entry::new(&["max_buffered_msgs"], "number", "100000", "Messages that may wait for a stream."),
        Entry::new(&["request_queue_limit"], "number", "10000", "Requests that may wait."),
        Entry::new(&["info_queue_limit"], "number", "`request_queue_limit`", "Info requests that may wait.")
            .class(Class::NoMeaning("all requests wait in one queue")),
        Entry::new(&["meta_compact"], "number", "", "Entries after which the meta log is compacted.")
            .class(NO_CLUSTER),
        Entry::new(&["meta_compact_size"], "bytes", "", "Bytes after which it is.").class(NO_CLUSTER),
        Entry::new(&["meta_compact_sync"], "boolean", "false", "Compact it synchronously.").class(NO_CLUSTER),
        Entry::new(&["max_concurrent_io"], "4 to 8192", "4096", "File operations at once.")
            .class(Class::NoMeaning("publishing threads write their own files")),
    ],
};

pub(super) static LIMITS: Block = Block {
    title: "jetstream.limits",
    entries: &[
        Entry::new(&["max_ack_pending"], "number", "", "Highest `max_ack_pending` of a consumer.").live(),
        Entry::new(&["max_ha_assets"], "number", "", "Replicated streams and consumers on one server.")
            .class(NO_CLUSTER),
        Entry::new(&["max_request_batch"], "number", "", "Messages of one pull request.").live(),
        Entry::new(
            &["default_max_consumers"],
            "number",
            "1000",
            "Consumers of a stream that sets no limit; negative is no limit.",
        )
        .live(),
        Entry::new(&["duplicate_window"], "duration", "", "Longest window in which duplicates are found.")
            .live(),
        Entry::new(&["batch"], "block", "", "Limits of batches.").live(),
    ],
};

pub(super) static BATCH: Block = Block {
    title: "jetstream.limits.batch",
    entries: &[
        Entry::new(
            &["max_inflight_per_stream"],
            "number",
            "50, fast ones 1000",
            "Open batches of one stream.",
        )
        .live(),
        Entry::new(&["max_inflight_total"], "number", "1000, fast ones 50000", "Open batches of the server.")
            .live(),
        Entry::new(&["max_msgs"], "number", "1000", "Messages of one batch.").live(),
        Entry::new(&["timeout"], "duration", "10s", "From the first message to the last."),
    ],
};

pub(super) static TPM: Block = Block {
    title: "jetstream.tpm",
    entries: &[
        Entry::new(&["keys_file"], "path", "", "File of the TPM's blobs."),
        Entry::new(&["encryption_password"], "text", "", "Password of the key."),
        Entry::new(&["srk_password"], "text", "", "Password of the storage root."),
        Entry::new(&["pcr"], "number", "22", "Register that the key is bound to."),
        Entry::new(&["cipher"], "`chacha` or `aes`", "chacha", "Cipher for stored messages."),
    ],
};
