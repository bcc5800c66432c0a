//! Many keys of a bucket, or all values of one: listed, or as they come.

use clap::Args;
use myelin_loadgen::admin::Admin;
use myelin_loadgen::error::BenchError;
use serde_json::{Value, json};

use crate::buckets::check_bucket;
use crate::kv::as_json;
use crate::kv::bucket::{KeyBucket, KeyValue, check_pattern};
use crate::pull::ConsumerReader;
use crate::screen::{json_text, one_line, plain, show, show_json};
use crate::table::{Columns, local, names};

/// Values that one request asks for.
const BATCH: u64 = 256;

/// `myelin kv ls`
#[derive(Args, Debug)]
pub(super) struct KeyList {
    /// Bucket, whose keys are listed
    pub(super) bucket: Option<String>,
    /// Keys like this only: it may hold wildcards
    key: Option<String>,
    /// Names only
    #[arg(short, long)]
    pub(super) names: bool,
    /// Revisions and times of the keys, too
    #[arg(short, long)]
    verbose: bool,
    /// Their values, too
    #[arg(long)]
    display_value: bool,
    /// As JSON
    #[arg(short, long)]
    pub(super) json: bool,
}

/// `myelin kv watch`
#[derive(Args, Debug)]
pub(super) struct Watch {
    bucket: String,
    /// Keys like this only: it may hold wildcards
    key: Option<String>,
    /// Values before the last, too
    #[arg(long, conflicts_with_all = ["updates", "revision"])]
    history: bool,
    /// Leave out that keys have gone
    #[arg(long, overrides_with = "deletes")]
    no_deletes: bool,
    #[arg(long, hide = true, overrides_with = "no_deletes")]
    deletes: bool,
    /// New values only
    #[arg(long, conflicts_with = "revision")]
    updates: bool,
    /// Begin with this revision
    #[arg(long)]
    revision: Option<u64>,
    /// End after so many values
    #[arg(long)]
    count: Option<u64>,
    /// One JSON object a line
    #[arg(short, long)]
    json: bool,
}

impl KeyList {
    pub(super) fn check(&self) -> Result<(), BenchError> {
        self.bucket.as_deref().map_or(Ok(()), check_bucket)?;
        self.key.as_deref().map_or(Ok(()), check_pattern)
    }
}

impl Watch {
    pub(super) fn check(&self) -> Result<(), BenchError> {
        check_bucket(&self.bucket)?;
        self.key.as_deref().map_or(Ok(()), check_pattern)
    }
}

pub(super) fn keys(admin: &mut Admin, wanted: &KeyList) -> Result<(), BenchError> {
    let bucket = KeyBucket::open(admin, wanted.bucket.as_deref().unwrap_or_default())?;
    let filter = bucket.stored(wanted.key.as_deref().unwrap_or(">"));
    let has_values = wanted.display_value || wanted.json;
    let config = json!({
        "deliver_policy": "last_per_subject", "filter_subject": filter, "headers_only": !has_values,
    });
    let found = all(admin, &bucket, &config, KeyValue::is_there)?;
    if wanted.json {
        return show_json(&found.iter().map(as_json).collect());
    }
    if !wanted.verbose {
        return match found.is_empty() {
            true => show("No keys found in bucket\n"),
            false => show(&names(&found.into_iter().map(|found| Value::from(found.key)).collect::<Vec<_>>())),
        };
    }
    let mut columns = Columns::new(&["Key", "Created", "Revision", "Value"]);
    for KeyValue { key, revision, created, value, .. } in found {
        columns.row([
            key,
            local(created),
            revision.to_string(),
            String::from_utf8_lossy(&value).into_owned(),
        ]);
    }
    show(&columns.text_or("No keys found in bucket"))
}

pub(super) fn history(admin: &mut Admin, bucket: &str, key: &str, is_json: bool) -> Result<(), BenchError> {
    let bucket = KeyBucket::open(admin, bucket)?;
    let config = json!({ "deliver_policy": "all", "filter_subject": bucket.stored(key) });
    let found = all(admin, &bucket, &config, |_| true)?;
    if is_json {
        return show_json(&found.iter().map(as_json).collect());
    }
    let mut columns = Columns::new(&["Key", "Revision", "Op", "Created", "Length", "Value"]);
    for KeyValue { key, revision, created, operation, value } in found {
        let (length, value) = (value.len().to_string(), String::from_utf8_lossy(&value).into_owned());
        columns.row([key, revision.to_string(), operation.into(), local(created), length, value]);
    }
    show(&columns.text_or("No values"))
}

/// All values that a consumer like this finds now.
fn all(
    admin: &mut Admin,
    bucket: &KeyBucket,
    config: &Value,
    is_wanted: impl Fn(&KeyValue) -> bool,
) -> Result<Vec<KeyValue>, BenchError> {
    let mut found = Vec::new();
    ConsumerReader::looking(admin, &bucket.stream, config, BATCH)?.each(|pulled| {
        found.extend(Some(bucket.of_delivery(pulled)).filter(&is_wanted));
        Ok(())
    })?;
    Ok(found)
}

pub(super) fn watch(admin: &mut Admin, wanted: &Watch) -> Result<(), BenchError> {
    let bucket = KeyBucket::open(admin, &wanted.bucket)?;
    let policy = match wanted {
        Watch { revision: Some(_), .. } => "by_start_sequence",
        Watch { history: true, .. } => "all",
        Watch { updates: true, .. } => "new",
        _ => "last_per_subject",
    };
    let filter = bucket.stored(wanted.key.as_deref().unwrap_or(">"));
    let mut config = json!({ "deliver_policy": policy, "filter_subject": filter });
    if let Some(revision) = wanted.revision {
        config["opt_start_seq"] = revision.max(1).into();
    }
    let mut reader = ConsumerReader::looking(admin, &bucket.stream, &config, BATCH)?;
    let mut left = wanted.count.unwrap_or(u64::MAX);
    while left > 0 {
        let Some(pulled) = reader.next(None)? else { break };
        let found = bucket.of_delivery(pulled);
        if wanted.no_deletes && !found.is_there() {
            continue;
        }
        left -= 1;
        show(&if wanted.json { line_of_json(&found) } else { line(&bucket.name, &found) })?;
    }
    reader.end()
}

/// JSON in one line.
fn line_of_json(found: &KeyValue) -> String {
    json_text(&as_json(found).to_string()) + "\n"
}

fn line(bucket: &str, found: &KeyValue) -> String {
    let KeyValue { key, created, operation, value, .. } = found;
    let head = format!("[{}] {operation} {bucket} > {}", local(*created), one_line(key));
    match found.is_there() {
        true => format!("{head}: {}\n", plain(&String::from_utf8_lossy(value))),
        false => format!("{head}\n"),
    }
}
