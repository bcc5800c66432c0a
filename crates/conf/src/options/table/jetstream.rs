//! `jetstream{}`.

use super::{BlockTable, Class, OptionEntry};

/// Compat: the reference compacts the log of its meta group as these say.
const OWN_LOG: Class = Class::NoMeaning("its logs are compacted by rules of their own");

pub(super) static JETSTREAM: BlockTable = BlockTable {
    title: "jetstream",
    entries: &[
        OptionEntry::new(&["enabled", "enable"], "boolean", "true", "Whether there is JetStream.").live(),
        OptionEntry::new(
            &["store_dir", "storedir", "store"],
            "path",
            "$TMP/nats/jetstream",
            "Where it stores.",
        ),
        OptionEntry::new(&["strict"], "boolean", "true", "Refuse requests with unknown fields."),
        OptionEntry::new(
            &["sync_interval", "sync"],
            "duration or `always`",
            "2m",
            "`always`: acknowledge after a sync. Else files are synced in the background, within milliseconds and not after this time.",
        ),
        OptionEntry::new(
            &["max_memory_store", "max_mem_store", "max_mem"],
            "bytes",
            "75 % of memory",
            "Bytes of memory streams; a reload may raise it.",
        )
        .live(),
        OptionEntry::new(
            &["max_file_store", "max_file"],
            "bytes",
            "75 % of free disk",
            "Bytes of file streams; a reload may raise it.",
        )
        .live(),
        OptionEntry::new(&["domain"], "text", "", "JetStream domain."),
        OptionEntry::new(&["encryption_key", "key", "ek"], "text", "", "Key for stored messages."),
        OptionEntry::new(&["prev_encryption_key", "prev_key", "prev_ek"], "text", "", "The key before."),
        OptionEntry::new(&["cipher"], "`chacha` or `aes`", "chacha", "Cipher for stored messages."),
        OptionEntry::new(
            &["extension_hint"],
            "`no_extend` or `will_extend`",
            "",
            "Part of its hub's JetStream? Refused: `will_extend` beside a remote of the system account.",
        ),
        OptionEntry::new(&["limits"], "block", "", "Limits of streams and consumers."),
        OptionEntry::new(&["tpm"], "block", "", "Keys in a TPM.").missing("a TPM"),
        OptionEntry::new(&["unique_tag"], "text", "", "Tag prefix that replicas must not share."),
        OptionEntry::new(
            &["max_outstanding_catchup"],
            "bytes",
            "64MB",
            "Bytes on their way to lagging replicas.",
        )
        .class(Class::NoMeaning("what is on its way to a replica has a limit of its own")),
        OptionEntry::new(&["max_buffered_size"], "bytes", "128MB", "Bytes that may wait for a stream."),
        OptionEntry::new(&["max_buffered_msgs"], "number", "100000", "Messages that may wait for a stream."),
        OptionEntry::new(&["request_queue_limit"], "number", "10000", "Requests that may wait."),
        OptionEntry::new(
            &["info_queue_limit"],
            "number",
            "`request_queue_limit`",
            "Info requests that may wait.",
        )
        .class(Class::NoMeaning("all requests wait in one queue")),
        OptionEntry::new(&["meta_compact"], "number", "", "Entries after which the meta log is compacted.")
            .class(OWN_LOG),
        OptionEntry::new(&["meta_compact_size"], "bytes", "", "Bytes after which it is.").class(OWN_LOG),
        OptionEntry::new(&["meta_compact_sync"], "boolean", "false", "Compact it synchronously.")
            .class(OWN_LOG),
        OptionEntry::new(&["max_concurrent_io"], "4 to 8192", "4096", "File operations at once.")
            .class(Class::NoMeaning("publishing threads write their own files")),
    ],
};

pub(super) static LIMITS: BlockTable = BlockTable {
    title: "jetstream.limits",
    entries: &[
        OptionEntry::new(&["max_ack_pending"], "number", "", "Highest `max_ack_pending` of a consumer.")
            .live(),
        OptionEntry::new(&["max_ha_assets"], "number", "", "Replicated streams and consumers on one server."),
        OptionEntry::new(&["max_request_batch"], "number", "", "Messages of one pull request.").live(),
        OptionEntry::new(
            &["default_max_consumers"],
            "number",
            "1000",
            "Consumers of a stream that sets no limit; negative is no limit.",
        )
        .live(),
        OptionEntry::new(
            &["duplicate_window"],
            "duration",
            "",
            "Longest window in which duplicates are found.",
        )
        .live(),
        OptionEntry::new(&["batch"], "block", "", "Limits of batches.").live(),
    ],
};

pub(super) static BATCH: BlockTable = BlockTable {
    title: "jetstream.limits.batch",
    entries: &[
        OptionEntry::new(
            &["max_inflight_per_stream"],
            "number",
            "50, fast ones 1000",
            "Open batches of one stream.",
        )
        .live(),
        OptionEntry::new(
            &["max_inflight_total"],
            "number",
            "1000, fast ones 50000",
            "Open batches of the server.",
        )
        .live(),
        OptionEntry::new(&["max_msgs"], "number", "1000", "Messages of one batch.").live(),
        OptionEntry::new(&["timeout"], "duration", "10s", "From the first message to the last."),
    ],
};

pub(super) static TPM: BlockTable = BlockTable {
    title: "jetstream.tpm",
    entries: &[
        OptionEntry::new(&["keys_file"], "path", "", "File of the TPM's blobs."),
        OptionEntry::new(&["encryption_password"], "text", "", "Password of the key."),
        OptionEntry::new(&["srk_password"], "text", "", "Password of the storage root."),
        OptionEntry::new(&["pcr"], "number", "22", "Register that the key is bound to."),
        OptionEntry::new(&["cipher"], "`chacha` or `aes`", "chacha", "Cipher for stored messages."),
    ],
};
