//! `myelin`: the command line. One verb per module; today there is one, `bench`.
//!
//! This file owns the argument tree's root and the exit code, and never any work of its own.

mod bench;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The command line of the Myelin messaging server.
#[derive(Debug, Parser)]
#[command(name = "myelin", version, about)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Load generator and performance table for any server that speaks the NATS protocol
    Bench(bench::Arguments),
}

fn main() -> ExitCode {
    let Arguments { verb: Verb::Bench(arguments) } = Arguments::parse();
    match bench::run(arguments) {
        Ok(verdict) => verdict,
        Err(error) => {
            eprintln!("myelin: error: {error}");
            ExitCode::FAILURE
        }
    }
}
