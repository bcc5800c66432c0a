//! `myelin-lab`: compares systems, and makes the tables of `docs/performance.md`.
//!
//! This file owns the argument tree's root and the exit code. The rooms: `rows` is what is
//! measured, `servers` what is started, `comparison` runs rows on several servers side by side;
//! `table` with goals and `compare` by plans are what one can ask for; `others` are systems that do
//! not speak NATS; `report` shows what was measured before; `store` measures the store alone and
//! talks to no server. The clients are those of `myelin-loadgen`.

mod compare;
mod comparison;
mod file_limit;
mod others;
mod report;
mod round;
mod rows;
mod servers;
mod store;
mod table;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use myelin_loadgen::error::BenchError;
use myelin_loadgen::meter;

/// Examples at the end of the help, for newcomers.
const EXAMPLES: &str = "\
Examples:
  myelin-lab compare s2 --quick                        servers side by side, by a plan
  myelin-lab report --compare before.json after.json   what has changed
  myelin-lab store --quick --rounds 1                  the store alone

Benchmarks of one server are `myelin bench`.";

/// Compares servers, and versions of one.
#[derive(Debug, Parser)]
#[command(name = "myelin-lab", version, about, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compare two server programs side by side, workload by workload
    #[command(long_about = table::HELP)]
    Table(table::TableArguments),
    /// Compare the systems of a plan, row by row
    #[command(long_about = compare::HELP)]
    Compare(compare::CompareArguments),
    /// Show results that were measured before
    #[command(long_about = report::HELP)]
    Report(report::ReportArguments),
    /// Measure the store alone, beside one that only writes the same bytes
    #[command(long_about = store::HELP)]
    Store(store::StoreArguments),
    /// A part of `store` that needs a process of its own
    #[command(subcommand, hide = true)]
    StorePart(store::RecoveryTask),
}

fn main() -> ExitCode {
    meter::raise_file_limit();
    run(Arguments::parse().command).unwrap_or_else(|error| {
        eprintln!("myelin-lab: error: {error}");
        ExitCode::FAILURE
    })
}

/// Runs the command. The exit code says whether a table reached its goals.
fn run(command: Command) -> Result<ExitCode, BenchError> {
    match command {
        Command::Table(arguments) => table::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Report(arguments) => report::execute(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Store(arguments) => store::run(&arguments),
        Command::StorePart(part) => part.run().map(|()| ExitCode::SUCCESS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_argument_tree_is_sound() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }
}
