//! `myelin stream ls|info|rm|purge|scrub`: streams of a server, for the steps around a benchmark.
//!
//! Owns what is printed. The official `nats` command does everything else with streams.

use std::io::{BufRead, IsTerminal, Write};

use clap::{Args, Subcommand};
use myelin_loadgen::admin::Admin;
use myelin_loadgen::error::BenchError;
use myelin_loadgen::names;
use myelin_loadgen::target_server::ConnectionFlags;
use myelin_loadgen::units::{binary, grouped};
use serde_json::{Value, json};

use crate::scrub;

/// `myelin stream …`
#[derive(Args, Debug)]
pub(crate) struct StreamArguments {
    #[command(flatten)]
    flags: ConnectionFlags,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List streams
    #[command(visible_alias = "list")]
    Ls {
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
    Purge {
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
    },
}

pub(crate) fn run(arguments: &StreamArguments) -> Result<(), BenchError> {
    match &arguments.command {
        Command::Ls { .. } => {}
        Command::Info { stream, .. } | Command::Rm { stream, .. } | Command::Scrub { stream, .. } => {
            names::stream(stream)?;
        }
        Command::Purge { stream, subject, .. } => {
            names::stream(stream)?;
            subject.as_deref().map_or(Ok(()), |subject| names::word("subject", subject))?;
        }
    }
    let mut admin = Admin::open(&arguments.flags.target()?)?;
    match &arguments.command {
        Command::Ls { names: true, .. } => {
            for name in admin.streams("NAMES")? {
                println!("{}", name.as_str().unwrap_or_default());
            }
        }
        Command::Ls { json: true, .. } => println!("{:#}", Value::from(admin.streams("LIST")?)),
        Command::Ls { .. } => print!("{}", table(&admin.streams("LIST")?)),
        Command::Info { stream, json: true } => println!("{:#}", admin.stream(stream)?),
        Command::Info { stream, .. } => print!("{}", description(&admin.stream(stream)?)),
        Command::Rm { stream, force } => {
            confirm(*force, &format!("Really remove stream {stream}?"))?;
            admin.ask(&format!("STREAM.DELETE.{stream}"), &Value::Null)?;
        }
        Command::Scrub { stream, no_wait } => scrub::run(&mut admin, stream, !no_wait)?,
        Command::Purge { stream, force, subject, seq, keep } => {
            confirm(*force, &format!("Really purge stream {stream}?"))?;
            let mut body = json!({});
            for (name, value) in [("filter", json!(subject)), ("seq", json!(seq)), ("keep", json!(keep))] {
                if !value.is_null() {
                    body[name] = value;
                }
            }
            println!("{} messages removed from stream {stream}", grouped(admin.purge(stream, &body)?));
        }
    }
    Ok(())
}

/// Asks a person at the terminal; fails where there is none, unless `--force` was given.
fn confirm(is_forced: bool, question: &str) -> Result<(), BenchError> {
    if is_forced {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(BenchError::Usage("nobody is there to ask: use --force".into()));
    }
    print!("{question} (y/N) ");
    let mut answer = String::new();
    let mut ask = || {
        std::io::stdout().flush()?;
        std::io::stdin().lock().read_line(&mut answer)
    };
    ask().map_err(BenchError::io("asking"))?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(BenchError::Usage("left as it is".into())),
    }
}

fn table(streams: &[Value]) -> String {
    if streams.is_empty() {
        return "No streams\n".into();
    }
    let heading = ["Name", "Storage", "Replicas", "Messages", "Size", "Consumers"].map(str::to_owned);
    let row = |info: &Value| {
        let (config, state) = (&info["config"], &info["state"]);
        [
            config["name"].as_str().unwrap_or_default().to_owned(),
            config["storage"].as_str().unwrap_or_default().to_owned(),
            number(&config["num_replicas"]),
            number(&state["messages"]),
            size(&state["bytes"]),
            number(&state["consumer_count"]),
        ]
    };
    let mut rows = vec![heading];
    rows.extend(streams.iter().map(row));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}

fn description(info: &Value) -> String {
    let (config, state) = (&info["config"], &info["state"]);
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let subjects: Vec<String> = config["subjects"].as_array().into_iter().flatten().map(text).collect();
    let limit = |value: &Value| match value.as_i64() {
        None | Some(i64::MIN..=0) => "unlimited".to_owned(),
        Some(limit) => grouped(limit.unsigned_abs()),
    };
    let facts = [
        ("Stream", text(&config["name"])),
        ("Subjects", subjects.join(", ")),
        ("Created", text(&info["created"])),
        ("Storage", text(&config["storage"])),
        ("Retention", text(&config["retention"])),
        ("Discard", text(&config["discard"])),
        ("Replicas", number(&config["num_replicas"])),
        ("Maximum messages", limit(&config["max_msgs"])),
        ("Maximum bytes", limit(&config["max_bytes"])),
        ("Messages", number(&state["messages"])),
        ("Bytes", size(&state["bytes"])),
        ("First sequence", number(&state["first_seq"])),
        ("Last sequence", number(&state["last_seq"])),
        ("Consumers", number(&state["consumer_count"])),
    ];
    facts.into_iter().map(|(name, value)| format!("{name:>17}: {value}\n")).collect()
}

fn number(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".into(), grouped)
}

fn size(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".into(), |bytes| binary(bytes as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_shown_in_columns_and_in_lines() {
        let info = json!({
            "created": "2026-01-01T00:00:00Z",
            "config": {"name": "S", "subjects": ["a", "b.>"], "storage": "file", "num_replicas": 1, "max_bytes": -1,
                "max_msgs": 5000, "retention": "limits", "discard": "new"},
            "state": {"messages": 12_345, "bytes": 2048, "first_seq": 1, "last_seq": 12_345, "consumer_count": 2},
        });
        let text = table(std::slice::from_ref(&info));
        let expected = "Name  Storage  Replicas  Messages  Size     Consumers\n\
            S     file     1         12,345    2.0 KiB  2\n";
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
