//! `myelin kv …`: buckets of keys and values, as ADR-8 keeps them in streams.
//!
//! Owns what is printed. `bucket` knows how keys are stored, `settings` what a bucket may be like,
//! `watch` reads many keys.

mod bucket;
mod settings;
mod watch;

use std::io::{IsTerminal, Read};
use std::time::Duration;

use clap::{Args, Subcommand};
use myelin_loadgen::admin::Admin;
use myelin_loadgen::error::BenchError;
use myelin_loadgen::target_server::ConnectionFlags;
use myelin_loadgen::units::Time;
use serde_json::{Value, json};

use crate::buckets::{self, check_bucket};
use crate::kv::bucket::{KeyBucket, KeyValue, check_key};
use crate::kv::settings::KeySettings;
use crate::kv::watch::{KeyList, Watch};
use crate::screen::{confirm, show, show_json, show_payload};
use crate::settings::SettingFlags;
use crate::table::{ago, facts, limit, local, moment, number, period, size, text};

/// `myelin kv …`
#[derive(Args, Debug)]
pub(crate) struct KeyArguments {
    #[command(flatten)]
    flags: ConnectionFlags,
    #[command(subcommand)]
    verb: KeyVerb,
}

#[derive(Debug, Subcommand)]
enum KeyVerb {
    /// List buckets, or the keys of one
    #[command(visible_alias = "list")]
    Ls(KeyList),
    /// Make a bucket
    #[command(visible_aliases = ["new"])]
    Add {
        bucket: String,
        #[command(flatten)]
        settings: SettingFlags<KeySettings>,
    },
    /// Show one bucket
    #[command(visible_aliases = ["view", "status"])]
    Info {
        bucket: String,
        /// Everything that its stream says, as JSON
        #[arg(short, long)]
        json: bool,
    },
    /// Store a value
    Put {
        bucket: String,
        key: String,
        /// Value; the standard input where there is none and it is no terminal
        value: Option<String>,
    },
    /// Show a value
    Get {
        bucket: String,
        key: String,
        /// The one of this revision, not the last
        #[arg(long)]
        revision: Option<u64>,
        /// The value and nothing else
        #[arg(long)]
        raw: bool,
    },
    /// Store a value if there is none
    Create {
        bucket: String,
        key: String,
        /// Value; the standard input where there is none and it is no terminal
        value: Option<String>,
        /// How long it is kept
        #[arg(long, value_name = "DURATION")]
        ttl: Option<Time>,
    },
    /// Store a value if the one that is there has this revision
    Update { bucket: String, key: String, value: String, revision: u64 },
    /// Remove the value of a key, whose history stays, or a bucket
    #[command(visible_alias = "rm")]
    Del {
        bucket: String,
        key: Option<String>,
        /// Do not ask
        #[arg(short, long)]
        force: bool,
    },
    /// Remove the value of a key and its history
    Purge {
        bucket: String,
        key: String,
        /// Do not ask
        #[arg(short, long)]
        force: bool,
        /// How long it is known that there was one
        #[arg(long, value_name = "DURATION")]
        ttl: Option<Time>,
    },
    /// Show all values of a key that are kept
    History {
        bucket: String,
        key: String,
        /// As JSON
        #[arg(short, long)]
        json: bool,
    },
    /// Show values, and further ones as they come
    Watch(Watch),
}

pub(crate) fn run(arguments: &KeyArguments) -> Result<(), BenchError> {
    check(&arguments.verb)?;
    let mut admin = Admin::open(&arguments.flags.target()?)?;
    let admin = &mut admin;
    match &arguments.verb {
        KeyVerb::Ls(KeyList { bucket: None, names, json, .. }) => buckets(admin, *names, *json),
        KeyVerb::Ls(wanted) => watch::keys(admin, wanted),
        KeyVerb::Add { bucket, settings } => {
            let config = settings::stream(bucket, settings);
            admin.create_stream(&config)?;
            shown(admin, bucket, false)
        }
        KeyVerb::Info { bucket, json } => shown(admin, bucket, *json),
        KeyVerb::Put { bucket, key, value } => put(admin, bucket, key, value.as_deref(), ""),
        KeyVerb::Get { bucket, key, revision, raw } => get(admin, bucket, key, *revision, *raw),
        KeyVerb::Create { bucket, key, value, ttl } => create(admin, bucket, key, value.as_deref(), *ttl),
        KeyVerb::Update { bucket, key, value, revision } => {
            put(admin, bucket, key, Some(value), &expected(*revision))
        }
        KeyVerb::Del { bucket, key: None, force } => {
            confirm(*force, &format!("Really remove bucket {bucket} with all its values?"))?;
            admin.delete_stream(&format!("KV_{bucket}"))
        }
        KeyVerb::Del { bucket, key: Some(key), force } => {
            confirm(*force, &format!("Really remove key {bucket} > {key}?"))?;
            marked(admin, bucket, key, "KV-Operation: DEL\r\n")
        }
        KeyVerb::Purge { bucket, key, force, ttl } => {
            confirm(*force, &format!("Really purge key {bucket} > {key}?"))?;
            marked(
                admin,
                bucket,
                key,
                &format!("KV-Operation: PURGE\r\nNats-Rollup: sub\r\n{}", lasting(*ttl)),
            )
        }
        KeyVerb::History { bucket, key, json } => watch::history(admin, bucket, key, *json),
        KeyVerb::Watch(wanted) => watch::watch(admin, wanted),
    }
}

/// Refuses names that ADR-8 does not allow before anything is sent.
fn check(verb: &KeyVerb) -> Result<(), BenchError> {
    match verb {
        KeyVerb::Ls(wanted) => wanted.check(),
        KeyVerb::Watch(wanted) => wanted.check(),
        KeyVerb::Add { bucket, .. }
        | KeyVerb::Info { bucket, .. }
        | KeyVerb::Del { bucket, key: None, .. } => check_bucket(bucket),
        KeyVerb::Put { bucket, key, .. }
        | KeyVerb::Get { bucket, key, .. }
        | KeyVerb::Create { bucket, key, .. }
        | KeyVerb::Update { bucket, key, .. }
        | KeyVerb::Del { bucket, key: Some(key), .. }
        | KeyVerb::Purge { bucket, key, .. }
        | KeyVerb::History { bucket, key, .. } => {
            check_bucket(bucket)?;
            check_key(key)
        }
    }
}

fn expected(revision: u64) -> String {
    format!("Nats-Expected-Last-Subject-Sequence: {revision}\r\n")
}

/// Header of a message that is kept so long, or longer: servers count whole seconds, and cut a part
/// of one.
fn lasting(ttl: Option<Time>) -> String {
    let seconds = |ttl: Duration| ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
    ttl.map_or_else(String::new, |Time(ttl)| format!("Nats-TTL: {}s\r\n", seconds(ttl)))
}

fn value_of(value: Option<&str>) -> Result<Vec<u8>, BenchError> {
    let mut input = std::io::stdin();
    let mut bytes = Vec::new();
    match value {
        Some(value) => bytes.extend_from_slice(value.as_bytes()),
        None if input.is_terminal() => return Err(BenchError::Usage("no value is given".into())),
        None => drop(input.read_to_end(&mut bytes).map_err(BenchError::io("reading the value"))?),
    }
    Ok(bytes)
}

/// Stores a value and prints it, as the nats command does.
fn put(
    admin: &mut Admin,
    bucket: &str,
    key: &str,
    value: Option<&str>,
    headers: &str,
) -> Result<(), BenchError> {
    let value = value_of(value)?;
    let bucket = KeyBucket::open(admin, bucket)?;
    put_in(admin, &bucket, key, &value, headers)
}

fn put_in(
    admin: &mut Admin,
    bucket: &KeyBucket,
    key: &str,
    value: &[u8],
    headers: &str,
) -> Result<(), BenchError> {
    bucket.write(admin, key, headers, value)?;
    show_payload(value, false)?;
    show("\n")
}

fn create(
    admin: &mut Admin,
    bucket: &str,
    key: &str,
    value: Option<&str>,
    ttl: Option<Time>,
) -> Result<(), BenchError> {
    let bucket = KeyBucket::open(admin, bucket)?;
    // A key that has gone has a marker, which the value takes the place of.
    let before = match bucket.last(admin, key)? {
        Some(there) if there.is_there() => {
            return Err(BenchError::Usage(format!("key exists, with revision {}", there.revision)));
        }
        Some(marker) => marker.revision,
        None => 0,
    };
    put_in(admin, &bucket, key, &value_of(value)?, &(expected(before) + &lasting(ttl)))
}

/// Stores that a key has gone.
fn marked(admin: &mut Admin, bucket: &str, key: &str, headers: &str) -> Result<(), BenchError> {
    KeyBucket::open(admin, bucket)?.write(admin, key, headers, b"").map(drop)
}

fn get(
    admin: &mut Admin,
    bucket: &str,
    key: &str,
    revision: Option<u64>,
    is_raw: bool,
) -> Result<(), BenchError> {
    let bucket = KeyBucket::open(admin, bucket)?;
    let found = match revision {
        Some(revision) => bucket.revision(admin, key, revision)?,
        None => bucket.last(admin, key)?,
    };
    let Some(KeyValue { revision, created, value, .. }) = found.filter(KeyValue::is_there) else {
        return Err(BenchError::Usage("key not found".into()));
    };
    if is_raw {
        return show_payload(&value, true);
    }
    show(&format!("{} > {key} revision: {revision} created @ {}\n\n", bucket.name, local(created)))?;
    show_payload(&value, false)?;
    show("\n\n")
}

fn buckets(admin: &mut Admin, is_names: bool, is_json: bool) -> Result<(), BenchError> {
    let headings = ["Bucket", "Created", "Size", "Values", "Last Update", "Description"];
    buckets::list(admin, "KV_", (is_names, is_json), &headings, |name, info| {
        let state = &info["state"];
        [
            name,
            moment(&info["created"]),
            size(&state["bytes"]),
            number(&state["messages"]),
            ago(&state["last_ts"]),
            text(&info["config"]["description"]),
        ]
    })
}

fn shown(admin: &mut Admin, bucket: &str, is_json: bool) -> Result<(), BenchError> {
    let KeyBucket { name, stream, info, .. } = KeyBucket::open(admin, bucket)?;
    if is_json {
        return show_json(&info);
    }
    let (config, state) = (&info["config"], &info["state"]);
    show(&facts(&[
        ("Bucket", name),
        ("Description", text(&config["description"])),
        ("Created", moment(&info["created"])),
        ("History kept", number(&config["max_msgs_per_subject"])),
        ("Values stored", number(&state["messages"])),
        ("Size", size(&state["bytes"])),
        ("Maximum size", limit(&config["max_bytes"], size)),
        ("Maximum value size", limit(&config["max_msg_size"], size)),
        ("Maximum age", limit(&config["max_age"], period)),
        ("TTL of keys", if config["allow_msg_ttl"] == true { "allowed" } else { "" }.into()),
        ("Storage", text(&config["storage"])),
        ("Compression", text(&config["compression"])),
        ("Replicas", number(&config["num_replicas"])),
        ("Stream", stream),
        ("Mirror of", text(&config["mirror"]["name"])),
        ("Leader", text(&info["cluster"]["leader"])),
    ]))
}

/// A value as JSON shows it: in base64 where it is no text.
fn as_json(found: &KeyValue) -> Value {
    let mut shown = json!({
        "key": found.key, "revision": found.revision, "created": found.created.to_string(),
        "operation": found.operation,
    });
    match std::str::from_utf8(&found.value) {
        Ok(text) => shown["value"] = text.into(),
        Err(_) => shown["value_base64"] = myelin_stdx::base64::encode(&found.value).into(),
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_goes_before_its_time() {
        let header = |millis| lasting(Some(Time(Duration::from_millis(millis))));
        assert_eq!([2000, 1001, 500].map(header), [2, 2, 1].map(|s| format!("Nats-TTL: {s}s\r\n")));
        assert_eq!(lasting(None), "");
    }
}
