//! `myelin bench`: a load generator for any NATS server.
//!
//! This file owns the arguments and who handles them. The rooms: `commands` are the benchmarks of
//! `nats bench`, `latency` measures at fixed rates, `mqtt` loads servers of MQTT, `null` the driver
//! itself; `moved` are those that are `myelin-lab` now. The clients are those of `myelin-loadgen`.

mod commands;
mod latency;
mod moved;
mod mqtt;
mod null;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use myelin_loadgen::error::BenchError;
use myelin_loadgen::meter;

/// Examples at the end of the help, for newcomers.
const EXAMPLES: &str = "\
Examples:
  myelin bench pub orders --msgs 1000000 --size 256      as nats bench does it
  myelin bench latency --rates 1000 --html latency.html  percentiles at a fixed rate

Comparisons of servers are a program of their own, myelin-lab.";

/// `myelin bench …`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Publish messages
    Pub(commands::arguments::BenchPub),
    /// Receive messages
    Sub(commands::arguments::BenchSub),
    /// Request/reply
    Service(commands::arguments::BenchService),
    /// JetStream
    Js(commands::arguments::JetStream),
    /// JetStream as older clients read it
    #[command(hide = true)]
    Oldjs(commands::arguments::OldJetStream),
    /// Key-value buckets
    Kv(commands::arguments::KeyValue),
    /// MQTT: messages, sessions, retained messages
    #[command(long_about = mqtt::HELP)]
    Mqtt(mqtt::MqttArguments),
    /// Cost of the driver itself, against a server that does nothing
    Null(null::NullArguments),
    /// How long messages take at a fixed rate
    #[command(long_about = latency::HELP)]
    Latency(Box<latency::LatencyArguments>),
    /// Moved to `myelin-lab table`
    #[command(hide = true, disable_help_flag = true)]
    Table(moved::MovedArguments),
    /// Moved to `myelin-lab compare`
    #[command(hide = true, disable_help_flag = true)]
    Compare(moved::MovedArguments),
    /// Moved to `myelin-lab report`
    #[command(hide = true, disable_help_flag = true)]
    Report(moved::MovedArguments),
    /// Moved to `myelin-lab store`
    #[command(hide = true, disable_help_flag = true)]
    Store(moved::MovedArguments),
}

/// Runs the command.
pub(crate) fn run(arguments: BenchArguments) -> Result<ExitCode, BenchError> {
    meter::raise_file_limit();
    match &arguments.command {
        BenchCommand::Pub(arguments) => commands::publish(arguments)?,
        BenchCommand::Sub(arguments) => commands::subscribe(arguments)?,
        BenchCommand::Service(arguments) => commands::service(arguments)?,
        BenchCommand::Js(arguments) => commands::jetstream(arguments)?,
        BenchCommand::Oldjs(arguments) => commands::old_jetstream(arguments)?,
        BenchCommand::Kv(arguments) => commands::key_value(arguments)?,
        BenchCommand::Mqtt(arguments) => mqtt::run(arguments)?,
        BenchCommand::Null(arguments) => null::run(arguments)?,
        BenchCommand::Latency(arguments) => latency::execute(arguments)?,
        BenchCommand::Table(arguments) => return Ok(arguments.refuse("table")),
        BenchCommand::Compare(arguments) => return Ok(arguments.refuse("compare")),
        BenchCommand::Report(arguments) => return Ok(arguments.refuse("report")),
        BenchCommand::Store(arguments) => return Ok(arguments.refuse("store")),
    }
    Ok(ExitCode::SUCCESS)
}
