//! `myelin bench`: a load generator for any NATS server, and the program that makes the performance
//! table of `docs/performance.md`.
//!
//! This file owns the arguments and who handles them. The rooms: `script` encodes what is published,
//! `publisher` and `receiver` move it, `flow` keeps them together, `throughput`, `request`, `churn` and
//! `footprint` are the workloads, `plan`, `table` and `report` make the table; `jetstream` has the workloads and rows of
//! streams, `scratch` where their servers keep them; `commands` are the benchmarks of `nats bench`, `target` and
//! `context` say how a server is reached, `admin` asks JetStream for what a benchmark needs, `units` reads and prints;
//! `latency` measures at fixed rates, `results` is the document of a run and `present` shows it;
//! `store` measures the store alone and talks to no server. The driver is light on purpose (few threads, prepared frames,
//! bytes discarded in the kernel), so that the server is what is measured; it needs Linux.

pub(crate) mod address;
pub(crate) mod admin;
mod churn;
mod commands;
pub(crate) mod connection;
mod context;
pub(crate) mod error;
mod flow;
mod footprint;
mod frame;
mod greeting;
mod jetstream;
mod latency;
mod plan;
mod present;
mod process;
mod publisher;
mod receiver;
mod report;
mod request;
mod results;
mod scratch;
mod script;
mod stat;
mod store;
mod table;
pub(crate) mod target;
mod throughput;
pub(crate) mod units;
mod verify;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};

use error::BenchError;
use jetstream::consumers::Scale;
use scratch::Scratch;
use table::{Measured, Settings};

pub(crate) use commands::header_lines;

/// Descriptors that the driver needs besides one per connection.
const SPARE_FILES: u64 = 500;

/// `myelin bench …`
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Publish messages
    Pub(commands::arguments::Publish),
    /// Receive messages
    Sub(commands::arguments::Subscribe),
    /// Request/reply
    Service(commands::arguments::Service),
    /// JetStream
    Js(commands::arguments::JetStream),
    /// Key-value buckets
    Kv(commands::arguments::KeyValue),
    /// What the driver itself costs, against a server that does nothing
    Null(commands::arguments::Null),
    /// How long messages take at a fixed rate
    #[command(long_about = latency::commands::HELP)]
    Latency(Box<latency::commands::Arguments>),
    /// Show results that were measured before
    #[command(long_about = present::commands::HELP)]
    Report(present::commands::Arguments),
    /// Compare two server programs side by side, workload by workload
    #[command(long_about = TABLE_HELP)]
    Table(TableArguments),
    /// Measure the store alone, beside one that only writes the same bytes
    #[command(long_about = store::HELP)]
    Store(store::Arguments),
    /// A part of `store` that needs a process of its own
    #[command(subcommand, hide = true)]
    StorePart(store::Part),
}

const TABLE_HELP: &str = "\
Compare two server programs side by side, workload by workload.

For every row three fresh servers are started on free loopback ports: the reference, ours, and ours \
again as the A/A control, which shows what is noise. Rounds are interleaved in changing order; medians \
and ranges are reported. CPU is the server's own, from /proc/PID/task/*/schedstat, cross-checked with \
/proc/PID/stat. A run that lost a message is a failed run. The exit code is 1 when a goal is missed.

Rows belong to groups: core (the core server), js (streams), consumers (reading from streams, key-value) and s1 (the \
grid of a study of publishing to streams, without goals). Servers of all but core run with JetStream in a directory of their own below --dir.

One row by hand:
  myelin bench table --ours target/quick/myelin-server --reference nats-server --rows '1:1-128' --rounds 3

The grid of the study, or its part about files and 256 bytes:
  myelin bench table --ours A --reference B --rows s1
  myelin bench table --ours A --reference B --rows 's1-*-file-256'

A quick look at everything, and a check that every message arrives intact and in order:
  myelin bench table --ours A --reference B --quick
  myelin bench table --ours A --reference B --quick --rounds 1 --verify";

#[derive(Debug, Args)]
struct TableArguments {
    /// Our server program
    #[arg(long, value_name = "BINARY")]
    ours: PathBuf,
    /// The program to compare with
    #[arg(long, value_name = "BINARY")]
    reference: PathBuf,
    /// Measurements of each server per row
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only these groups (core, js, consumers, s1) and rows with a matching name: comma-separated, * stands for anything
    #[arg(long, default_value = plan::TABLE, value_name = "GLOB")]
    rows: String,
    /// Where servers keep their streams: a new directory in this one, removed afterwards [default: target, or .]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Seconds per measurement [default: 0.8]
    #[arg(long)]
    seconds: Option<f64>,
    /// Rows about consumers: this part of 1,000,000 messages read, 10,000,000 filtered, 1,000,000 unacknowledged and
    /// 10,000 consumers [default: 0.2]
    #[arg(long)]
    scale: Option<f64>,
    /// MiB of messages that may wait in a server for all receivers together (and 16 MiB for each)
    #[arg(long, default_value_t = flow::BACKLOG >> 20, value_name = "MIB")]
    backlog: u64,
    /// Short measurements, 100,000 subscriptions and subjects, 500 connections: a look, not a result
    #[arg(long)]
    quick: bool,
    /// Parse and check every message of the throughput rows; their figures then mean nothing
    #[arg(long)]
    verify: bool,
    /// Write the values of every round to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the table to this file instead of the standard output
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

/// Runs the command. The exit code says whether a table reached its goals.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode, BenchError> {
    process::raise_file_limit();
    match &arguments.command {
        Command::Pub(arguments) => commands::publish(arguments)?,
        Command::Sub(arguments) => commands::subscribe(arguments)?,
        Command::Service(arguments) => commands::service(arguments)?,
        Command::Js(arguments) => commands::jetstream(arguments)?,
        Command::Kv(arguments) => commands::key_value(arguments)?,
        Command::Null(arguments) => commands::null(arguments)?,
        Command::Latency(arguments) => latency::commands::execute(arguments)?,
        Command::Report(arguments) => present::commands::execute(arguments)?,
        Command::Table(arguments) => return table(arguments),
        Command::Store(arguments) => return store::run(arguments),
        Command::StorePart(part) => part.run()?,
    }
    Ok(ExitCode::SUCCESS)
}

fn table(arguments: &TableArguments) -> Result<ExitCode, BenchError> {
    let rows: Vec<plan::Row> = plan::rows().into_iter().filter(|row| row.is_among(&arguments.rows)).collect();
    if rows.is_empty() {
        let names: Vec<String> = plan::rows().into_iter().map(|row| row.name).collect();
        let text = format!("no row matches {:?}; there are {}", arguments.rows, names.join(", "));
        return Err(BenchError::Usage(text));
    }
    let settings = arguments.settings()?;
    let scratch = Scratch::new(&arguments.directory())?;
    let circumstances = report::Circumstances::of(&settings);
    let measured: Vec<Measured> = rows
        .into_iter()
        .map(|row| {
            let measured = table::measure(row, &settings, &scratch);
            eprint!("{}", report::progress(&measured));
            measured
        })
        .collect();
    let markdown = report::markdown(&circumstances, &measured);
    match &arguments.markdown {
        Some(path) => write(path, &markdown)?,
        None => print!("{markdown}"),
    }
    if let Some(path) = &arguments.json {
        write(path, &format!("{:#}\n", report::json(&circumstances, &measured)))?;
    }
    let failed = measured.iter().any(|measured| report::judge(measured).iter().any(report::Line::failed));
    Ok(ExitCode::from(u8::from(failed)))
}

fn write(path: &Path, text: &str) -> Result<(), BenchError> {
    std::fs::write(path, text).map_err(BenchError::io("writing the report"))
}

impl TableArguments {
    fn directory(&self) -> PathBuf {
        let usual = if Path::new("target").is_dir() { "target" } else { "." };
        self.dir.clone().unwrap_or_else(|| PathBuf::from(usual))
    }

    fn scale(&self) -> Result<Scale, BenchError> {
        let scale = self.scale.unwrap_or(if self.quick { 0.02 } else { 0.2 });
        match scale > 0.0 && scale <= 10.0 {
            true => Ok(Scale(scale)),
            false => Err(BenchError::Usage("--scale must be more than 0 and at most 10".into())),
        }
    }

    fn settings(&self) -> Result<Settings, BenchError> {
        let seconds = self.seconds.unwrap_or(if self.quick { 0.25 } else { 0.8 });
        let duration = Duration::try_from_secs_f64(seconds)
            .ok()
            .filter(|duration| !duration.is_zero() && self.rounds > 0)
            .ok_or_else(|| BenchError::Usage("--seconds and --rounds must be more than 0".into()))?;
        let files = process::raise_file_limit().saturating_sub(SPARE_FILES);
        let connections = if self.quick { 500 } else { 4000 };
        Ok(Settings {
            ours: self.ours.clone(),
            reference: self.reference.clone(),
            rounds: self.rounds,
            duration,
            subscriptions: if self.quick { 100_000 } else { 1_000_000 },
            subjects: if self.quick { 100_000 } else { 1_000_000 },
            scale: self.scale()?,
            stored: if self.quick { 10_000 } else { 100_000 },
            connections: connections.min(usize::try_from(files).unwrap_or(usize::MAX)),
            backlog: self.backlog << 20,
            verify: self.verify,
        })
    }
}
