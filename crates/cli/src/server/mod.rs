//! `myelin server …`: whether a server is well, what it is, and what is going on in it.
//!
//! Owns the tree of verbs. `check` asks probes, `info` shows a server, `top` its connections, and
//! `pages` gets what both show.

mod check;
mod info;
mod pages;
mod rates;
mod top;

use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Arguments of `myelin server`.
#[derive(Debug, Args)]
pub(crate) struct ServerArguments {
    #[command(subcommand)]
    verb: ServerVerb,
}

#[derive(Debug, Subcommand)]
enum ServerVerb {
    /// Ask a probe of the server's monitoring. Exit code 0: well, 2: not well, or no answer
    Check(check::CheckArguments),
    /// Show what a server is, and how much it does
    #[command(visible_alias = "i")]
    Info(info::InfoArguments),
    /// Show the connections of a server that do most, again and again
    Top(top::TopArguments),
}

pub(crate) fn run(arguments: &ServerArguments) -> ExitCode {
    match &arguments.verb {
        ServerVerb::Check(check) => check::run(check),
        ServerVerb::Info(info) => crate::done(info::run(info)),
        ServerVerb::Top(top) => crate::done(top::run(top)),
    }
}
