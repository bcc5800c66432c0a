//! What accounts let each other have, and what they do with their own messages: exports, imports,
//! mappings, traces, JetStream.

use super::{Block, Entry};

pub(super) static EXPORT: Block = Block {
    title: "accounts.NAME.exports[]",
    entries: &[
        Entry::new(&["stream"], "subject", "", "Messages that others may listen to.").live(),
        Entry::new(&["service"], "subject", "", "Requests that this account answers.").live(),
        Entry::new(&["accounts"], "list", "", "Who may import it; absent means everybody.").live(),
        Entry::new(
            &["response_type", "response"],
            "`single`, `stream` or `chunked`",
            "single",
            "What answers one request.",
        )
        .live(),
        Entry::new(
            &["response_threshold", "threshold", "response_max_time", "response_time"],
            "duration",
            "2m",
            "How long a response may take.",
        )
        .live(),
        Entry::new(&["latency"], "subject or block", "", "Where times of responses are reported.").live(),
        Entry::new(
            &["account_token_position"],
            "number",
            "",
            "The token of the subject that must be the importer's name.",
        )
        .live(),
        Entry::new(&["allow_trace"], "boolean", "false", "Traces may follow requests into this account.")
            .live(),
    ],
};

pub(super) static LATENCY: Block = Block {
    title: "accounts.NAME.exports[].latency",
    entries: &[
        Entry::new(&["subject"], "subject", "", "Where reports go; required.").live(),
        Entry::new(&["sampling"], "percentage or `headers`", "100", "Which requests are measured.").live(),
    ],
};

pub(super) static IMPORT: Block = Block {
    title: "accounts.NAME.imports[]",
    entries: &[
        Entry::new(&["stream"], "block", "", "Messages of another account.").live(),
        Entry::new(&["service"], "block", "", "Requests that another account answers.").live(),
        Entry::new(&["prefix"], "text", "", "What a stream's subjects begin with here.").live(),
        Entry::new(&["to"], "subject", "", "The name here.").live(),
        Entry::new(&["share"], "boolean", "false", "The service's account learns who asks.").live(),
        Entry::new(&["allow_trace"], "boolean", "false", "Traces may come along with the stream.").live(),
    ],
};

pub(super) static IMPORT_SOURCE: Block = Block {
    title: "accounts.NAME.imports[].stream, accounts.NAME.imports[].service",
    entries: &[
        Entry::new(&["account"], "text", "", "The account that exports it.").live(),
        Entry::new(&["subject"], "subject", "", "The name there.").live(),
    ],
};

pub(super) static MAPPING_DESTINATION: Block = Block {
    title: "mappings.SUBJECT[]",
    entries: &[
        Entry::new(&["destination", "dest"], "subject", "", "Where messages go; may use `$1`, `{{…}}`.")
            .live(),
        Entry::new(&["weight"], "percentage", "", "How many of a hundred go there; required.").live(),
        Entry::new(&["cluster"], "text", "", "Only in servers of this cluster.").live(),
    ],
};

pub(super) static MESSAGE_TRACE: Block = Block {
    title: "accounts.NAME.msg_trace",
    entries: &[
        Entry::new(&["dest"], "subject", "", "Where traces go.").live(),
        Entry::new(&["sampling"], "percentage", "100", "How many messages are traced.").live(),
    ],
};

pub(super) static JETSTREAM: Block = Block {
    title: "accounts.NAME.jetstream",
    entries: &[
        Entry::new(&["max_memory", "max_mem", "mem", "memory"], "bytes", "-1", "Bytes of memory streams."),
        Entry::new(
            &["max_store", "max_file", "max_disk", "store", "disk"],
            "bytes",
            "-1",
            "Bytes of file streams.",
        ),
        Entry::new(&["max_streams", "streams"], "number", "-1", "Streams."),
        Entry::new(&["max_consumers", "consumers"], "number", "-1", "Consumers of one stream."),
        Entry::new(
            &["max_bytes_required", "max_stream_bytes", "max_bytes"],
            "boolean",
            "false",
            "Each stream must have a limit of bytes.",
        ),
        Entry::new(
            &["memory_max_stream_bytes", "mem_max_stream_bytes"],
            "bytes",
            "-1",
            "Bytes of one memory stream.",
        ),
        Entry::new(
            &["store_max_stream_bytes", "disk_max_stream_bytes"],
            "bytes",
            "-1",
            "Bytes of one file stream.",
        ),
        Entry::new(&["max_ack_pending"], "number", "-1", "Unacknowledged deliveries of one consumer."),
        Entry::new(
            &["cluster_traffic"],
            "`system` or `owner`",
            "system",
            "Whose account carries the traffic between replicas.",
        ),
    ],
};
