//! Flags that say what a bucket of objects is like, and the stream that it is.
//!
//! The flags' names are those of the `nats` command, the stream's configuration that of ADR-20.

use serde_json::{Value, json};

use crate::buckets::{self, compressed};
use crate::settings::{Setting, SettingFlags, Settings, Takes};

/// The flags of `object add`.
#[derive(Debug)]
pub(super) struct ObjectSettings;

impl Settings for ObjectSettings {
    const TABLE: &'static [Setting] = &[
        buckets::DESCRIPTION,
        buckets::KEPT_IN,
        Setting { flag: "ttl", place: "max_age", takes: Takes::Period, help: "How long objects are kept" },
        buckets::MAX_SIZE,
        buckets::REPLICAS,
        buckets::TAGS,
        buckets::CLUSTER,
        buckets::COMPRESS,
        buckets::METADATA,
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
