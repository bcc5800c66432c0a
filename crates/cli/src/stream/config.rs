//! Flags that say what a stream is like. Their names are those of the `nats` command.

use crate::settings::{STORAGE, Setting, Settings, Takes};

/// The flags of `stream add` and `stream edit`.
#[derive(Debug)]
pub(super) struct StreamSettings;

const RETENTION: &[(&str, &str)] =
    &[("limits", "limits"), ("interest", "interest"), ("work", "workqueue"), ("workqueue", "workqueue")];

impl Settings for StreamSettings {
    const TABLE: &'static [Setting] = &[
        Setting {
            flag: "subjects",
            place: "subjects",
            takes: Takes::Texts,
            help: "Subjects that are stored",
        },
        Setting {
            flag: "description",
            place: "description",
            takes: Takes::Text,
            help: "What the stream is for",
        },
        Setting {
            flag: "storage",
            place: "storage",
            takes: Takes::Word(STORAGE),
            help: "Where messages are kept",
        },
        Setting {
            flag: "compression",
            place: "compression",
            takes: Takes::Word(&[("none", "none"), ("s2", "s2")]),
            help: "How files are compressed",
        },
        Setting {
            flag: "replicas",
            place: "num_replicas",
            takes: Takes::Count,
            help: "Servers that have each message",
        },
        Setting {
            flag: "tag",
            place: "placement.tags",
            takes: Takes::Texts,
            help: "On servers with these tags",
        },
        Setting {
            flag: "cluster",
            place: "placement.cluster",
            takes: Takes::Text,
            help: "On servers of this cluster",
        },
        Setting {
            flag: "ack",
            place: "no_ack",
            takes: Takes::Switch(false, "no-ack"),
            help: "Acknowledge publishes",
        },
        Setting {
            flag: "retention",
            place: "retention",
            takes: Takes::Word(RETENTION),
            help: "What keeps a message",
        },
        Setting {
            flag: "discard",
            place: "discard",
            takes: Takes::Word(&[("new", "new"), ("old", "old")]),
            help: "Which message goes where there is no room",
        },
        Setting {
            flag: "discard-per-subject",
            place: "discard_new_per_subject",
            takes: Takes::Switch(true, "no-discard-per-subject"),
            help: "Refuse new messages of a full subject",
        },
        Setting {
            flag: "first-sequence",
            place: "first_seq",
            takes: Takes::Count,
            help: "Sequence of the first message",
        },
        Setting {
            flag: "max-age",
            place: "max_age",
            takes: Takes::Period,
            help: "How long a message is kept",
        },
        Setting { flag: "max-bytes", place: "max_bytes", takes: Takes::Size, help: "Bytes that are kept" },
        Setting {
            flag: "max-consumers",
            place: "max_consumers",
            takes: Takes::Count,
            help: "Consumers that there may be",
        },
        Setting {
            flag: "max-msg-size",
            place: "max_msg_size",
            takes: Takes::Size,
            help: "Bytes of the largest message",
        },
        Setting { flag: "max-msgs", place: "max_msgs", takes: Takes::Count, help: "Messages that are kept" },
        Setting {
            flag: "max-msgs-per-subject",
            place: "max_msgs_per_subject",
            takes: Takes::Count,
            help: "Messages of a subject that are kept",
        },
        Setting {
            flag: "dupe-window",
            place: "duplicate_window",
            takes: Takes::Period,
            help: "How long a message id is remembered",
        },
        Setting {
            flag: "mirror",
            place: "mirror",
            takes: Takes::Origin,
            help: "Copy this stream, and nothing else",
        },
        Setting {
            flag: "source",
            place: "sources",
            takes: Takes::Origins,
            help: "Take the messages of these streams, too",
        },
        Setting {
            flag: "allow-batch",
            place: "allow_atomic",
            takes: Takes::Switch(true, "no-allow-batch"),
            help: "Allow atomic batches",
        },
        Setting {
            flag: "allow-fast",
            place: "allow_batched",
            takes: Takes::Switch(true, "no-allow-fast"),
            help: "Allow fast batches",
        },
        Setting {
            flag: "allow-counter",
            place: "allow_msg_counter",
            takes: Takes::Switch(true, "no-allow-counter"),
            help: "Be a counter",
        },
        Setting {
            flag: "allow-rollup",
            place: "allow_rollup_hdrs",
            takes: Takes::Switch(true, "no-allow-rollup"),
            help: "Allow messages that replace those before",
        },
        Setting {
            flag: "deny-delete",
            place: "deny_delete",
            takes: Takes::Switch(true, "no-deny-delete"),
            help: "Let nobody delete single messages",
        },
        Setting {
            flag: "deny-purge",
            place: "deny_purge",
            takes: Takes::Switch(true, "no-deny-purge"),
            help: "Let nobody purge",
        },
        Setting {
            flag: "allow-direct",
            place: "allow_direct",
            takes: Takes::Switch(true, "no-allow-direct"),
            help: "Let every replica answer gets",
        },
        Setting {
            flag: "allow-mirror-direct",
            place: "mirror_direct",
            takes: Takes::Switch(true, "no-allow-mirror-direct"),
            help: "Let mirrors answer gets, too",
        },
        Setting {
            flag: "allow-msg-ttl",
            place: "allow_msg_ttl",
            takes: Takes::Switch(true, "no-allow-msg-ttl"),
            help: "Allow TTLs of messages",
        },
        Setting {
            flag: "allow-schedules",
            place: "allow_msg_schedules",
            takes: Takes::Switch(true, "no-allow-schedules"),
            help: "Allow schedules",
        },
        Setting {
            flag: "subject-del-markers-ttl",
            place: "subject_delete_marker_ttl",
            takes: Takes::Period,
            help: "How long markers of what has gone are kept",
        },
        Setting {
            flag: "transform-source",
            place: "subject_transform.src",
            takes: Takes::Text,
            help: "Subjects that are stored under others",
        },
        Setting {
            flag: "transform-destination",
            place: "subject_transform.dest",
            takes: Takes::Text,
            help: "What those are",
        },
        Setting { flag: "metadata", place: "metadata", takes: Takes::Pairs, help: "Metadata" },
        Setting {
            flag: "republish-source",
            place: "republish.src",
            takes: Takes::Text,
            help: "Subjects that are published again once they are stored",
        },
        Setting {
            flag: "republish-destination",
            place: "republish.dest",
            takes: Takes::Text,
            help: "Where to",
        },
        Setting {
            flag: "republish-headers",
            place: "republish.headers_only",
            takes: Takes::Switch(true, "no-republish-headers"),
            help: "Without their payload",
        },
        Setting {
            flag: "limit-consumer-inactive",
            place: "consumer_limits.inactive_threshold",
            takes: Takes::Period,
            help: "How long consumers may be inactive",
        },
        Setting {
            flag: "limit-consumer-max-pending",
            place: "consumer_limits.max_ack_pending",
            takes: Takes::Count,
            help: "Unacknowledged messages that consumers may have",
        },
        Setting {
            flag: "persist-mode",
            place: "persist_mode",
            takes: Takes::Text,
            help: "How messages get to the disk",
        },
    ];
}
