//! Buckets, as far as those of keys and those of objects are alike.
//!
//! Owns their names, the flags that both have, and the list of them. Each bucket is a stream.

use myelin_loadgen::admin::Admin;
use myelin_loadgen::error::BenchError;
use serde_json::Value;

use crate::screen::{show, show_json};
use crate::settings::{STORAGE, Setting, Takes};
use crate::table::{Columns, names, text};

pub(crate) const DESCRIPTION: Setting =
    Setting { flag: "description", place: "description", takes: Takes::Text, help: "What the bucket is for" };

pub(crate) const KEPT_IN: Setting = Setting {
    flag: "storage",
    place: "storage",
    takes: Takes::Word(STORAGE),
    help: "Where the data is kept",
};

pub(crate) const MAX_SIZE: Setting =
    Setting { flag: "max-bucket-size", place: "max_bytes", takes: Takes::Size, help: "Bytes of the bucket" };

pub(crate) const REPLICAS: Setting = Setting {
    flag: "replicas",
    place: "num_replicas",
    takes: Takes::Count,
    help: "Servers that have the data",
};

pub(crate) const TAGS: Setting = Setting {
    flag: "tags",
    place: "placement.tags",
    takes: Takes::Texts,
    help: "On servers with these tags",
};

pub(crate) const CLUSTER: Setting = Setting {
    flag: "cluster",
    place: "placement.cluster",
    takes: Takes::Text,
    help: "On servers of this cluster",
};

pub(crate) const COMPRESS: Setting = Setting {
    flag: "compress",
    place: "compression",
    takes: Takes::Switch(true, "no-compress"),
    help: "Compress the data",
};

pub(crate) const METADATA: Setting =
    Setting { flag: "metadata", place: "metadata", takes: Takes::Pairs, help: "Metadata" };

/// Buckets are compressed or not: there is one way to do it.
pub(crate) fn compressed(config: &mut Value) {
    if let Some(is_wanted) = config["compression"].as_bool() {
        config["compression"] = if is_wanted { "s2" } else { "none" }.into();
    }
}

/// Refuses names that no bucket may have, of keys or of objects.
pub(crate) fn check_bucket(name: &str) -> Result<(), BenchError> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    match !name.is_empty() && name.bytes().all(is_good) {
        true => Ok(()),
        false => {
            Err(BenchError::Usage(format!("{name:?} is no name of a bucket: letters, digits, - and _ are")))
        }
    }
}

/// Lists the buckets whose streams have this before their names, with a row for each.
pub(crate) fn list<const N: usize>(
    admin: &mut Admin,
    prefix: &str,
    (is_names, is_json): (bool, bool),
    headings: &[&str; N],
    row: impl Fn(String, &Value) -> [String; N],
) -> Result<(), BenchError> {
    let name = |info: &Value| text(&info["config"]["name"]).strip_prefix(prefix).map(str::to_owned);
    let mut streams = admin.streams("LIST")?;
    streams.retain(|info| name(info).is_some());
    if is_json {
        return show_json(&streams.into());
    }
    let found: Vec<Value> = streams.iter().filter_map(name).map(Value::from).collect();
    if is_names {
        return show(&names(&found));
    }
    let mut columns = Columns::new(headings);
    for (info, name) in streams.iter().zip(&found) {
        columns.row(row(text(name), info));
    }
    show(&columns.text_or("No buckets"))
}
