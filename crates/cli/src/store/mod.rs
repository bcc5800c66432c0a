//! `myelin store`: looks into a store's directory, or fills one with what another server has
//! stored.
//!
//! `check` and `info` only read files; the server may run meanwhile, but what it is just writing
//! looks unfinished then. `import` needs the store for itself, and changes nothing in the directory
//! that it reads. `repair` needs it for itself, too.

mod check;
mod entropy;
mod import;
mod info;
mod json;
mod keys;
mod place;
mod repair;
mod watched;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::screen::plain;

/// Arguments of `myelin store`.
#[derive(Debug, Args)]
pub(crate) struct StoreArguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Read every byte of a store and say what is damaged. Exit code 0: sound, 1: damaged, 2: could
    /// not look
    Check(check::CheckArguments),
    /// Show what streams a store has
    Info(info::InfoArguments),
    /// Say how a damaged store can be repaired, and do it with --apply. Exit code 0: nothing is
    /// wrong any more, 1: something is, 2: could not begin
    Repair(repair::RepairArguments),
    /// Take streams out of a store directory of nats-server, which stays as it is. Exit code 0: all
    /// was taken, 1: not all, 2: could not begin
    Import(import::ImportArguments),
}

/// Exit code of a command that could not do its work; 1 is the answer "damaged".
const COULD_NOT: u8 = 2;

/// Runs the verb. What it could not do is said here.
pub(crate) fn run(arguments: StoreArguments) -> ExitCode {
    let done = match arguments.verb {
        Verb::Check(arguments) => check::run(&arguments),
        Verb::Info(arguments) => info::run(&arguments),
        Verb::Repair(arguments) => repair::run(&arguments),
        Verb::Import(arguments) => import::run(&arguments),
    };
    done.unwrap_or_else(|error| {
        eprintln!("myelin: error: {}", plain(&error.to_string()));
        ExitCode::from(COULD_NOT)
    })
}
