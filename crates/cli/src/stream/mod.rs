//! `myelin stream …`: streams of a server, and what is in them.
//!
//! Owns what is printed of streams. `config` has the flags that say what a stream is like,
//! `messages` looks at single messages, `scrub` has all of them read.

mod config;
mod messages;
mod scrub;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use myelin_loadgen::admin::Admin;
use myelin_loadgen::error::BenchError;
use myelin_loadgen::names;
use myelin_loadgen::target_server::ConnectionFlags;
use myelin_loadgen::units::grouped;
use serde_json::{Value, json};

use crate::screen::{confirm, show, show_json};
use crate::settings::{SettingFlags, agreed, in_file};
use crate::stream::config::StreamSettings;
use crate::stream::messages::{MessageWanted, View};
use crate::table::{Columns, ago, facts, limit, moment, number, period, size, text, texts};

/// `myelin stream …`
#[derive(Args, Debug)]
pub(crate) struct StreamArguments {
    #[command(flatten)]
    flags: ConnectionFlags,
    #[command(subcommand)]
    verb: StreamVerb,
}

#[derive(Debug, Subcommand)]
enum StreamVerb {
    /// List streams
    #[command(visible_aliases = ["list", "l"])]
    Ls {
        /// Only streams with this subject
        #[arg(long)]
        subject: Option<String>,
        /// Names only
        #[arg(short, long)]
        names: bool,
        /// Everything, as JSON
        #[arg(short, long)]
        json: bool,
    },
    /// Show one stream
    Info {
        stream: String,
        /// Everything, as JSON
        #[arg(short, long)]
        json: bool,
    },
    /// Make a stream
    #[command(visible_aliases = ["create", "new"])]
    Add(AddStream),
    /// Change the configuration of a stream
    #[command(visible_alias = "update")]
    Edit(EditStream),
    /// Show one message of a stream
    Get(MessageWanted),
    /// Show messages of a stream, a page of them
    View(View),
    /// Remove a stream with all its messages
    #[command(visible_aliases = ["delete", "del"])]
    Rm {
        stream: String,
        /// Do not ask
        #[arg(short, long)]
        force: bool,
    },
    /// Have all servers with a stream read what they have stored of it: damage is found, and mended
    /// from others that have it. Exit code 1: something is lost
    Scrub {
        stream: String,
        /// Do not wait until they are through
        #[arg(long)]
        no_wait: bool,
    },
    /// Remove messages of a stream
    Purge(PurgeStream),
    /// Remove one message of a stream, and write over it
    Rmm {
        stream: String,
        /// Sequence
        id: u64,
        /// Do not ask
        #[arg(short, long)]
        force: bool,
    },
}

/// `myelin stream add`
#[derive(Args, Debug)]
struct AddStream {
    /// Name; that of the file where there is none
    stream: Option<String>,
    /// JSON file with the configuration, which the flags change
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Taken and not needed: nothing is asked
    #[arg(long, hide = true)]
    defaults: bool,
    /// Print the new stream as JSON
    #[arg(short, long)]
    json: bool,
    #[command(flatten)]
    settings: SettingFlags<StreamSettings>,
}

/// `myelin stream edit`
#[derive(Args, Debug)]
struct EditStream {
    stream: String,
    /// JSON file with the configuration, instead of that of the stream; the flags change it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Do not ask
    #[arg(short, long)]
    force: bool,
    /// Show what would be different, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the changed stream as JSON
    #[arg(short, long)]
    json: bool,
    #[command(flatten)]
    settings: SettingFlags<StreamSettings>,
}

/// `myelin stream purge`
#[derive(Args, Debug)]
struct PurgeStream {
    stream: String,
    /// Do not ask
    #[arg(short, long)]
    force: bool,
    /// On this subject only
    #[arg(long)]
    subject: Option<String>,
    /// Up to, and without, this sequence
    #[arg(long, conflicts_with = "keep")]
    seq: Option<u64>,
    /// All but so many
    #[arg(long)]
    keep: Option<u64>,
}

pub(crate) fn run(arguments: &StreamArguments) -> Result<(), BenchError> {
    check(&arguments.verb)?;
    let mut admin = Admin::open(&arguments.flags.target()?)?;
    match &arguments.verb {
        StreamVerb::Ls { subject, names, json } => list(&mut admin, subject.as_deref(), *names, *json),
        StreamVerb::Info { stream, json } => shown(&admin.stream(stream)?, *json),
        StreamVerb::Add(wanted) => add(&mut admin, wanted),
        StreamVerb::Edit(wanted) => edit(&mut admin, wanted),
        StreamVerb::Get(wanted) => messages::get(&mut admin, wanted),
        StreamVerb::View(wanted) => messages::view(&mut admin, wanted),
        StreamVerb::Rm { stream, force } => {
            confirm(*force, &format!("Really remove stream {stream}?"))?;
            admin.delete_stream(stream)
        }
        StreamVerb::Scrub { stream, no_wait } => scrub::run(&mut admin, stream, !no_wait),
        StreamVerb::Purge(wanted) => purge(&mut admin, wanted),
        StreamVerb::Rmm { stream, id, force } => {
            confirm(*force, &format!("Really remove message {id} of stream {stream}?"))?;
            admin.ask(&format!("STREAM.MSG.DELETE.{stream}"), &json!({ "seq": id })).map(drop)
        }
    }
}

/// Refuses names that would break a line before anything is sent.
fn check(verb: &StreamVerb) -> Result<(), BenchError> {
    match verb {
        StreamVerb::Ls { subject, .. } => {
            subject.as_deref().map_or(Ok(()), |text| names::word("subject", text))
        }
        StreamVerb::Info { stream, .. }
        | StreamVerb::Rm { stream, .. }
        | StreamVerb::Scrub { stream, .. }
        | StreamVerb::Rmm { stream, .. }
        | StreamVerb::Get(MessageWanted { stream, .. })
        | StreamVerb::View(View { stream, .. })
        | StreamVerb::Edit(EditStream { stream, .. }) => names::stream(stream),
        StreamVerb::Add(wanted) => wanted.stream.as_deref().map_or(Ok(()), names::stream),
        StreamVerb::Purge(PurgeStream { stream, subject, .. }) => {
            names::stream(stream)?;
            subject.as_deref().map_or(Ok(()), |subject| names::word("subject", subject))
        }
    }
}

fn list(admin: &mut Admin, subject: Option<&str>, is_names: bool, is_json: bool) -> Result<(), BenchError> {
    let body = subject.map_or_else(|| json!({}), |subject| json!({ "subject": subject }));
    let verb = if is_names { "STREAM.NAMES" } else { "STREAM.LIST" };
    let streams = admin.listed(verb, "streams", &body)?;
    match is_json {
        true => show_json(&Value::from(streams)),
        false if is_names => show(&crate::table::names(&streams)),
        false => show(&table(&streams)),
    }
}

fn shown(info: &Value, is_json: bool) -> Result<(), BenchError> {
    if is_json { show_json(info) } else { show(&description(info)) }
}

fn add(admin: &mut Admin, wanted: &AddStream) -> Result<(), BenchError> {
    // As the nats command does: gets without the leader's help are of use to everybody.
    let usual = || Ok(json!({ "storage": "file", "allow_direct": true }));
    let mut config = wanted.config.as_deref().map_or_else(usual, in_file)?;
    wanted.settings.apply(&mut config);
    if let Some(name) = &wanted.stream {
        config["name"] = name.as_str().into();
    }
    let name = text(&config["name"]);
    names::stream(&name)?;
    let info = admin.ask(&format!("STREAM.CREATE.{name}"), &config)?;
    if !wanted.json {
        show(&format!("Stream {name} was created\n\n"))?;
    }
    shown(&info, wanted.json)
}

fn edit(admin: &mut Admin, wanted: &EditStream) -> Result<(), BenchError> {
    let name = &wanted.stream;
    let old = admin.stream(name)?["config"].clone();
    let mut config = wanted.config.as_deref().map_or_else(|| Ok(old.clone()), in_file)?;
    wanted.settings.apply(&mut config);
    config["name"] = name.as_str().into();
    if agreed(&old, &config, wanted.force, wanted.dry_run)? {
        let info = admin.ask(&format!("STREAM.UPDATE.{name}"), &config)?;
        show(&format!("Stream {name} was changed\n\n"))?;
        shown(&info, wanted.json)?;
    }
    Ok(())
}

fn purge(admin: &mut Admin, wanted: &PurgeStream) -> Result<(), BenchError> {
    let PurgeStream { stream, force, subject, seq, keep } = wanted;
    confirm(*force, &format!("Really purge stream {stream}?"))?;
    let mut body = json!({});
    for (name, value) in [("filter", json!(subject)), ("seq", json!(seq)), ("keep", json!(keep))] {
        if !value.is_null() {
            body[name] = value;
        }
    }
    show(&format!("{} messages removed from stream {stream}\n", grouped(admin.purge(stream, &body)?)))
}

fn table(streams: &[Value]) -> String {
    let mut columns = Columns::new(&[
        "Name",
        "Storage",
        "Replicas",
        "Messages",
        "Size",
        "Consumers",
        "Last Message",
        "Description",
    ]);
    for info in streams {
        let (config, state) = (&info["config"], &info["state"]);
        columns.row([
            text(&config["name"]),
            text(&config["storage"]),
            number(&config["num_replicas"]),
            number(&state["messages"]),
            size(&state["bytes"]),
            number(&state["consumer_count"]),
            ago(&state["last_ts"]),
            text(&config["description"]),
        ]);
    }
    columns.text_or("No streams")
}

fn description(info: &Value) -> String {
    let (config, state) = (&info["config"], &info["state"]);
    let is_copied = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let sources: Vec<String> = config["sources"].as_array().into_iter().flatten().map(is_copied).collect();
    facts(&[
        ("Stream", text(&config["name"])),
        ("Description", text(&config["description"])),
        ("Subjects", texts(&config["subjects"])),
        ("Mirror of", text(&config["mirror"]["name"])),
        ("Sources", sources.join(", ")),
        ("Created", moment(&info["created"])),
        ("Storage", text(&config["storage"])),
        ("Retention", text(&config["retention"])),
        ("Discard", text(&config["discard"])),
        ("Replicas", number(&config["num_replicas"])),
        ("Leader", text(&info["cluster"]["leader"])),
        ("Maximum messages", limit(&config["max_msgs"], number)),
        ("Maximum per subject", limit(&config["max_msgs_per_subject"], number)),
        ("Maximum bytes", limit(&config["max_bytes"], size)),
        ("Maximum age", limit(&config["max_age"], period)),
        ("Maximum message size", limit(&config["max_msg_size"], size)),
        ("Duplicate window", period(&config["duplicate_window"])),
        ("Allows", allowed(config)),
        ("Messages", number(&state["messages"])),
        ("Bytes", size(&state["bytes"])),
        ("First sequence", number(&state["first_seq"])),
        ("Last sequence", number(&state["last_seq"])),
        ("Last message", moment(&state["last_ts"])),
        ("Consumers", number(&state["consumer_count"])),
    ])
}

/// Features of the stream besides the usual.
fn allowed(config: &Value) -> String {
    let words = [
        ("allow_direct", "direct gets"),
        ("allow_rollup_hdrs", "rollups"),
        ("allow_atomic", "atomic batches"),
        ("allow_batched", "fast batches"),
        ("allow_msg_ttl", "TTLs of messages"),
        ("allow_msg_counter", "counters"),
        ("allow_msg_schedules", "schedules"),
        ("sealed", "nothing: it is sealed"),
    ];
    let allowed: Vec<&str> =
        words.iter().filter(|(key, _)| config[*key] == true).map(|(_, word)| *word).collect();
    allowed.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_shown_in_columns_and_in_lines() {
        let info = json!({
            "created": "2026-01-01T00:00:00Z",
            "config": {"name": "S", "subjects": ["a", "b.>"], "storage": "file", "num_replicas": 1, "max_bytes": -1,
                "max_msgs": 5000, "retention": "limits", "discard": "new", "description": "\u{1b}[2J"},
            "state": {"messages": 12_345, "bytes": 2048, "first_seq": 1, "last_seq": 12_345, "consumer_count": 2},
        });
        let text = table(std::slice::from_ref(&info));
        let expected = "Name  Storage  Replicas  Messages  Size     Consumers  Last Message  Description\n\
            S     file     1         12,345    2.0 KiB  2          never         \\u{1b}[2J\n";
        assert_eq!(text, expected);
        assert_eq!(table(&[]), "No streams\n");
        let text = description(&info);
        for line in
            ["Subjects: a, b.>", "Maximum messages: 5,000", "Maximum bytes: unlimited", "Bytes: 2.0 KiB"]
        {
            assert!(text.contains(line), "{text}");
        }
    }
}
