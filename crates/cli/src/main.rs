//! `myelin`: the command line. One verb per module: `bench` and `store`.
//!
//! This file owns the argument tree's root and the exit code, and never any work of its own.

mod bench;
mod store;

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
    /// Look into the directory of a store: what is in it, and whether it is sound
    Store(store::Arguments),
}

fn main() -> ExitCode {
    match Arguments::parse().verb {
        Verb::Bench(arguments) => bench::run(arguments).unwrap_or_else(|error| {
            eprintln!("myelin: error: {error}");
            ExitCode::FAILURE
        }),
        Verb::Store(arguments) => store::run(arguments),
    }
}
