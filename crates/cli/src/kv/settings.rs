//! Flags that say what a bucket of keys is like, and the stream that it is.
//!
//! The flags' names are those of the `nats` command, the stream's configuration that of ADR-8.

use serde_json::{Value, json};

use crate::buckets::{self, compressed};
use crate::settings::{Setting, SettingFlags, Settings, Takes};

/// The flags of `kv add`.
#[derive(Debug)]
pub(super) struct KeySettings;

/// How long ids of messages are remembered, in nanoseconds; not longer than the messages.
const DUPLICATES: u64 = 120_000_000_000;

impl Settings for KeySettings {
    const TABLE: &'static [Setting] = &[
        buckets::DESCRIPTION,
        Setting {
            flag: "history",
            place: "max_msgs_per_subject",
            takes: Takes::Count,
            help: "Values of a key that are kept, up to 64",
        },
        buckets::KEPT_IN,
        Setting { flag: "ttl", place: "max_age", takes: Takes::Period, help: "How long values are kept" },
        Setting {
            flag: "marker-ttl",
            place: "subject_delete_marker_ttl",
            takes: Takes::Period,
            help: "Allow TTLs of keys; how long markers of what has gone are kept",
        },
        Setting {
            flag: "max-value-size",
            place: "max_msg_size",
            takes: Takes::Size,
            help: "Bytes of the largest value",
        },
        buckets::MAX_SIZE,
        buckets::REPLICAS,
        buckets::TAGS,
        buckets::CLUSTER,
        buckets::COMPRESS,
        buckets::METADATA,
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
            help: "Without the value",
        },
        Setting {
            flag: "mirror",
            place: "mirror",
            takes: Takes::Origin,
            help: "Copy this bucket, and nothing else",
        },
        Setting {
            flag: "source",
            place: "sources",
            takes: Takes::Origins,
            help: "Take the values of these buckets, too",
        },
    ];
}

/// Configuration of the stream that the bucket will be.
pub(super) fn stream(bucket: &str, flags: &SettingFlags<KeySettings>) -> Value {
    let mut config = json!({
        "name": format!("KV_{bucket}"), "subjects": [format!("$KV.{bucket}.>")], "storage": "file",
        "max_msgs_per_subject": 1, "discard": "new", "allow_rollup_hdrs": true, "deny_delete": true,
        "allow_direct": true,
    });
    flags.apply(&mut config);
    compressed(&mut config);
    let age = config["max_age"].as_u64().filter(|age| *age > 0);
    config["duplicate_window"] = age.map_or(DUPLICATES, |age| age.min(DUPLICATES)).into();
    if flags.sets("subject_delete_marker_ttl") {
        config["allow_msg_ttl"] = true.into();
    }
    for source in config["sources"].as_array_mut().into_iter().flatten() {
        let origin = source["name"].as_str().unwrap_or_default().to_owned();
        *source = json!({
            "name": format!("KV_{origin}"),
            "subject_transforms": [{ "src": format!("$KV.{origin}.>"), "dest": format!("$KV.{bucket}.>") }],
        });
    }
    if let Some(origin) = config["mirror"]["name"].as_str().map(|origin| format!("KV_{origin}")) {
        config["mirror"]["name"] = origin.into();
        config["mirror_direct"] = true.into();
        config["subjects"] = Value::Null;
    }
    config
}
