//! Flags that say what a bucket of objects is like, and the stream that it is.
//!
//! The flags' names are those of the `nats` command, the stream's configuration that of ADR-20.

use serde_json::{Value, json};

use crate::settings::{STORAGE, Setting, SettingFlags, Settings, Takes, compressed};

/// The flags of `object add`.
#[derive(Debug)]
pub(super) struct ObjectSettings;

impl Settings for ObjectSettings {
    const TABLE: &'static [Setting] = &[
        Setting {
            flag: "description",
            place: "description",
            takes: Takes::Text,
            help: "What the bucket is for",
        },
        Setting {
            flag: "storage",
            place: "storage",
            takes: Takes::Word(STORAGE),
            help: "Where the data is kept",
        },
        Setting { flag: "ttl", place: "max_age", takes: Takes::Period, help: "How long objects are kept" },
        Setting {
            flag: "max-bucket-size",
            place: "max_bytes",
            takes: Takes::Size,
            help: "Bytes of the bucket",
        },
        Setting {
            flag: "replicas",
            place: "num_replicas",
            takes: Takes::Count,
            help: "Servers that have the data",
        },
        Setting {
            flag: "tags",
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
            flag: "compress",
            place: "compression",
            takes: Takes::Switch(true, "no-compress"),
            help: "Compress the data",
        },
        Setting { flag: "metadata", place: "metadata", takes: Takes::Pairs, help: "Metadata" },
    ];
}

/// Configuration of the stream that the bucket will be.
pub(super) fn stream(bucket: &str, flags: &SettingFlags<ObjectSettings>) -> Value {
    let mut config = json!({
        "name": format!("OBJ_{bucket}"), "subjects": [format!("$O.{bucket}.C.>"), format!("$O.{bucket}.M.>")],
        "storage": "file", "discard": "new", "allow_rollup_hdrs": true, "allow_direct": true,
    });
    flags.apply(&mut config);
    compressed(&mut config);
    config
}
