//! `myelin store`: looks into a store's directory, and changes nothing there.
//!
//! `check` and `info` only read files; the server may run meanwhile, but what it is just writing looks unfinished then.

mod check;
mod info;
mod json;
mod keys;

use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Arguments of `myelin store`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Read every byte of a store and say what is damaged. Exit code 0: sound, 1: damaged, 2: could not look
    Check(check::Arguments),
    /// Show what streams a store has
    Info(info::Arguments),
}

/// Exit code of a command that could not do its work; 1 is the answer "damaged".
const COULD_NOT: u8 = 2;

/// Runs the verb. What it could not do is said here.
pub(crate) fn run(arguments: Arguments) -> ExitCode {
    let done = match arguments.verb {
        Verb::Check(arguments) => check::run(&arguments),
        Verb::Info(arguments) => info::run(&arguments),
    };
    done.unwrap_or_else(|error| {
        eprintln!("myelin: error: {error}");
        ExitCode::from(COULD_NOT)
    })
}
