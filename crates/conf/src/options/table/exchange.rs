//! Options of what accounts let each other have, and what they do with their own messages: exports,
//! imports, mappings, traces, JetStream.

use super::{BlockTable, OptionEntry};

pub(super) static EXPORT: BlockTable = BlockTable {
    title: "accounts.NAME.exports[]",
    entries: &[
        OptionEntry::new(&["stream"], "subject", "", "Messages that others may listen to.").live(),
        OptionEntry::new(&["service"], "subject", "", "Requests that this account answers.").live(),
        OptionEntry::new(&["accounts"], "list", "", "Who may import it; absent means everybody.").live(),
        OptionEntry::new(
            &["response_type", "response"],
            "`single`, `stream` or `chunked`",
            "single",
            "What answers one request.",
        )
        .live(),
        OptionEntry::new(
            &["response_threshold", "threshold", "response_max_time", "response_time"],
            "duration",
            "2m",
            "How long a response may take.",
        )
        .live(),
        OptionEntry::new(&["latency"], "subject or block", "", "Where times of responses are reported.")
            .live(),
        OptionEntry::new(
            &["account_token_position"],
            "number",
            "",
            "The token of the subject that must be the importer's name.",
        )
        .live(),
        OptionEntry::new(
            &["allow_trace"],
            "boolean",
            "false",
            "Traces may follow requests into this account.",
        )
        .live(),
    ],
};

pub(super) static LATENCY: BlockTable = BlockTable {
    title: "accounts.NAME.exports[].latency",
    entries: &[
        OptionEntry::new(&["subject"], "subject", "", "Where reports go; required.").live(),
        OptionEntry::new(&["sampling"], "percentage or `headers`", "100", "Which requests are measured.")
            .live(),
    ],
};

pub(super) static IMPORT: BlockTable = BlockTable {
    title: "accounts.NAME.imports[]",
    entries: &[
        OptionEntry::new(&["stream"], "block", "", "Messages of another account.").live(),
        OptionEntry::new(&["service"], "block", "", "Requests that another account answers.").live(),
        OptionEntry::new(&["prefix"], "text", "", "What a stream's subjects begin with here.").live(),
        OptionEntry::new(&["to"], "subject", "", "The name here.").live(),
        OptionEntry::new(&["share"], "boolean", "false", "The service's account learns who asks.").live(),
        OptionEntry::new(&["allow_trace"], "boolean", "false", "Traces may come along with the stream.")
            .live(),
    ],
};

pub(super) static IMPORT_SOURCE: BlockTable = BlockTable {
    title: "accounts.NAME.imports[].stream, accounts.NAME.imports[].service",
    entries: &[
        OptionEntry::new(&["account"], "text", "", "The account that exports it.").live(),
        OptionEntry::new(&["subject"], "subject", "", "The name there.").live(),
    ],
};

pub(super) static MAPPING_DESTINATION: BlockTable = BlockTable {
    title: "mappings.SUBJECT[]",
    entries: &[
        OptionEntry::new(
            &["destination", "dest"],
            "subject",
            "",
            "Where messages go; may use `$1`, `{{…}}`.",
        )
        .live(),
        OptionEntry::new(&["weight"], "percentage", "", "How many of a hundred go there; required.").live(),
        OptionEntry::new(&["cluster"], "text", "", "Only in servers of this cluster.").live(),
    ],
};

pub(super) static MESSAGE_TRACE: BlockTable = BlockTable {
    title: "accounts.NAME.msg_trace",
    entries: &[
        OptionEntry::new(&["dest"], "subject", "", "Where traces go.").live(),
        OptionEntry::new(&["sampling"], "percentage", "100", "How many messages are traced.").live(),
    ],
};

pub(super) static JETSTREAM: BlockTable = BlockTable {
    title: "accounts.NAME.jetstream",
    entries: &[
        OptionEntry::new(
            &["max_memory", "max_mem", "mem", "memory"],
            "bytes",
            "-1",
            "Bytes of memory streams.",
        ),
        OptionEntry::new(
            &["max_store", "max_file", "max_disk", "store", "disk"],
            "bytes",
            "-1",
            "Bytes of file streams.",
        ),
        OptionEntry::new(&["max_streams", "streams"], "number", "-1", "Streams."),
        OptionEntry::new(&["max_consumers", "consumers"], "number", "-1", "Consumers of one stream."),
        OptionEntry::new(
            &["max_bytes_required", "max_stream_bytes", "max_bytes"],
            "boolean",
            "false",
            "Each stream must have a limit of bytes.",
        ),
        OptionEntry::new(
            &["memory_max_stream_bytes", "mem_max_stream_bytes"],
            "bytes",
            "-1",
            "Bytes of one memory stream.",
        ),
        OptionEntry::new(
            &["store_max_stream_bytes", "disk_max_stream_bytes"],
            "bytes",
            "-1",
            "Bytes of one file stream.",
        ),
        OptionEntry::new(&["max_ack_pending"], "number", "-1", "Unacknowledged deliveries of one consumer."),
        OptionEntry::new(
            &["cluster_traffic"],
            "`system` or `owner`",
            "system",
            "Whose account carries the traffic between replicas.",
        ),
    ],
};
