//! `myelin bench`: a load generator for any NATS server, and the program that makes the performance
//! table of `docs/performance.md`.
//!
//! This file owns the arguments and who handles them. The rooms: `script` encodes what is published,
//! `publisher` and `receiver` move it, `flow` keeps them together, `throughput`, `request`, `churn` and
//! `footprint` are the workloads, `latency` measures at fixed rates; `plan` has rows of workloads, `contest` runs rows on
//! several servers side by side, `table` with `report` and `compare` print what that gave, `judge` tells difference from noise; `system` is what a server
//! program is, `others` are those that do not speak NATS; `results` is the document of a run and `present` shows it;
//! `commands` are the benchmarks of `nats bench`, `target` and `context` say how a server is reached, `admin` asks JetStream
//! for what a benchmark needs, `units` reads and prints; `jetstream` has the workloads and rows of streams, `scratch` where
//! their servers keep them;
//! `store` measures the store alone and talks to no server. The driver is light on purpose (few threads, prepared frames,
//! bytes discarded in the kernel), so that the server is what is measured; it needs Linux.

pub(crate) mod address;
pub(crate) mod admin;
mod churn;
mod commands;
mod compare;
pub(crate) mod connection;
mod contest;
mod context;
mod edges;
pub(crate) mod error;
mod flow;
mod footprint;
mod frame;
mod greeting;
mod identity;
mod jetstream;
mod judge;
mod latency;
#[cfg_attr(not(feature = "other-systems"), path = "bench/others_absent.rs")]
mod others;
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
mod system;
mod table;
pub(crate) mod target;
mod throughput;
pub(crate) mod units;
mod verify;

use std::process::ExitCode;

use clap::{Args, Subcommand};

pub(crate) use commands::header_lines;
use error::BenchError;

/// What a newcomer may want to type first.
const EXAMPLES: &str = "\
Examples:
  myelin bench pub orders --msgs 1000000 --size 256      as nats bench does it
  myelin bench latency --rates 1000 --html latency.html  percentiles at a fixed rate
  myelin bench compare s2 --quick                        servers side by side, by a plan
  myelin bench report --compare before.json after.json   what has changed";

/// `myelin bench …`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
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
    /// JetStream as older clients read it
    #[command(hide = true)]
    Oldjs(commands::arguments::OldJetStream),
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
    #[command(long_about = table::HELP)]
    Table(table::Arguments),
    /// Compare the systems of a plan, row by row
    #[command(long_about = compare::HELP)]
    Compare(compare::Arguments),
    /// Measure the store alone, beside one that only writes the same bytes
    #[command(long_about = store::HELP)]
    Store(store::Arguments),
    /// A part of `store` that needs a process of its own
    #[command(subcommand, hide = true)]
    StorePart(store::Part),
}

/// Runs the command. The exit code says whether a table reached its goals.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode, BenchError> {
    process::raise_file_limit();
    match &arguments.command {
        Command::Pub(arguments) => commands::publish(arguments)?,
        Command::Sub(arguments) => commands::subscribe(arguments)?,
        Command::Service(arguments) => commands::service(arguments)?,
        Command::Js(arguments) => commands::jetstream(arguments)?,
        Command::Oldjs(arguments) => commands::old_jetstream(arguments)?,
        Command::Kv(arguments) => commands::key_value(arguments)?,
        Command::Null(arguments) => commands::null(arguments)?,
        Command::Latency(arguments) => latency::commands::execute(arguments)?,
        Command::Report(arguments) => present::commands::execute(arguments)?,
        Command::Table(arguments) => return table::run(arguments),
        Command::Compare(arguments) => return compare::run(arguments),
        Command::Store(arguments) => return store::run(arguments),
        Command::StorePart(part) => part.run()?,
    }
    Ok(ExitCode::SUCCESS)
}
