//! `myelin server …`: whether a server is well, what it is, and what is going on in it.
//!
//! Owns the tree of verbs. `check` and `health` ask whether it is well, `list` shows servers,
//! `info` one, `top` its connections, and `pages` gets what the latter two show.

mod check;
mod health;
mod info;
mod list;
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
    /// Ask whether a server, a stream or a consumer is well. Exit code 0: well, 1: a warning,
    /// 2: not well, or no answer
    Check(check::CheckArguments),
    /// List the servers that the system account sees
    #[command(visible_alias = "ls")]
    List(list::ListArguments),
    /// Show what a server is, and how much it does
    #[command(visible_alias = "i")]
    Info(info::InfoArguments),
    /// Show the connections of a server that do most, again and again
    Top(top::TopArguments),
}

pub(crate) fn run(arguments: &ServerArguments) -> ExitCode {
    match &arguments.verb {
        ServerVerb::Check(check) => check::run(check),
        ServerVerb::List(list) => crate::done(list::run(list)),
        ServerVerb::Info(info) => crate::done(info::run(info)),
        ServerVerb::Top(top) => crate::done(top::run(top)),
    }
}
