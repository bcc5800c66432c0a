//! `myelin bench`: a load generator for any NATS server, and the program that makes the performance
//! table of `docs/performance.md`.
//!
//! This file owns the arguments and who handles them. The rooms: `script` encodes what is published,
//! `publisher` and `receiver` move it, `flow` keeps them together, `throughput`, `request`, `churn` and
//! `footprint` are the workloads, `latency` measures at fixed rates; `plan` has rows of workloads, `contest` runs rows on
//! several servers side by side, `table` with `report` and `compare` print what that gave; `system` is what a server
//! program is, `others` are those that do not speak NATS; `results` is the document of a run and `present` shows it;
//! `commands` are the single-sided benchmarks; `jetstream` has the workloads and rows of streams, `scratch` where their
//! servers keep them;
//! `store` measures the store alone and talks to no server. The driver is light on purpose (few threads, prepared frames,
//! bytes discarded in the kernel), so that the server is what is measured; it needs Linux.

mod address;
mod churn;
mod commands;
mod compare;
mod connection;
mod contest;
mod error;
mod flow;
mod footprint;
mod frame;
mod greeting;
mod jetstream;
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
mod throughput;
mod verify;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use address::Address;
use error::BenchError;

/// `myelin bench …`
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Publish messages
    Pub(PublishArguments),
    /// Receive messages
    Sub(SubscribeArguments),
    /// Request/reply
    #[command(subcommand)]
    Service(ServiceCommand),
    /// JetStream
    #[command(subcommand)]
    Js(jetstream::commands::Command),
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

#[derive(Debug, Subcommand)]
enum ServiceCommand {
    /// Answer requests until the server goes away
    Serve(ServeArguments),
    /// Send requests, each client one after the other
    Request(RequestArguments),
}

/// Who is talked to about what.
#[derive(Debug, Args)]
struct Target {
    /// Subject
    subject: String,
    #[command(flatten)]
    reached: Reached,
}

/// Who is talked to by how many.
#[derive(Debug, Args)]
struct Reached {
    /// Server to use, with the credentials if it wants some
    #[arg(short, long, default_value = "nats://127.0.0.1:4222", value_name = "nats://[user:pass@]host:port")]
    server: Address,
    /// Number of connections
    #[arg(long, default_value_t = 1)]
    clients: usize,
    /// Process id of the server, to print its CPU time per message
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,
}

/// How much is sent.
#[derive(Debug, Args)]
struct Load {
    /// Number of messages, all clients together
    #[arg(long, default_value_t = 100_000)]
    msgs: u64,
    /// Payload in bytes
    #[arg(long, default_value_t = 128)]
    size: usize,
}

#[derive(Debug, Args)]
struct PublishArguments {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    load: Load,
    /// Publish on SUBJECT.0, SUBJECT.1 … in rotation
    #[arg(long)]
    multisubject: bool,
    /// Number of subjects in that rotation
    #[arg(long, default_value_t = 100_000, value_name = "COUNT")]
    multisubject_max: usize,
}

#[derive(Debug, Args)]
struct SubscribeArguments {
    #[command(flatten)]
    target: Target,
    /// Number of messages that each client waits for
    #[arg(long, default_value_t = 100_000)]
    msgs: u64,
    /// Subscribe to SUBJECT.*
    #[arg(long)]
    multisubject: bool,
    /// Check subject and payload of every message; the publisher must be `myelin bench pub`
    #[arg(long)]
    verify: bool,
}

#[derive(Debug, Args)]
struct ServeArguments {
    #[command(flatten)]
    target: Target,
    /// Payload of the replies in bytes
    #[arg(long, default_value_t = 128)]
    size: usize,
}

#[derive(Debug, Args)]
struct RequestArguments {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    load: Load,
}

/// Runs the command. The exit code says whether a table reached its goals.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode, BenchError> {
    process::raise_file_limit();
    match &arguments.command {
        Command::Pub(arguments) => commands::publish(arguments)?,
        Command::Sub(arguments) => commands::subscribe(arguments)?,
        Command::Service(ServiceCommand::Serve(arguments)) => commands::serve(arguments)?,
        Command::Service(ServiceCommand::Request(arguments)) => commands::request(arguments)?,
        Command::Js(command) => command.run()?,
        Command::Latency(arguments) => latency::commands::execute(arguments)?,
        Command::Report(arguments) => present::commands::execute(arguments)?,
        Command::Table(arguments) => return table::run(arguments),
        Command::Compare(arguments) => return compare::run(arguments),
        Command::Store(arguments) => return store::run(arguments),
        Command::StorePart(part) => part.run()?,
    }
    Ok(ExitCode::SUCCESS)
}
