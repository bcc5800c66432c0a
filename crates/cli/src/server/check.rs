//! `myelin server check`: asks a server's monitoring one of its probes, for the health checks of
//! containers and for scripts, where no other program is at hand; or looks at what it has
//! (`health`).
//!
//! Owns the tree of questions, and the exit codes of probes, which are those of the `nats`
//! command's checks.

use std::io;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use myelin_loadgen::units::Time;

use crate::monitoring;
use crate::screen::{plain, say};
use crate::server::health::{self, ConnectionCheck, ConsumerCheck, StreamCheck};

/// Exit code where the server says that it is not well, or says nothing.
const CRITICAL: u8 = 2;

/// `myelin server check`
#[derive(Debug, Args)]
pub(super) struct CheckArguments {
    #[command(subcommand)]
    question: Question,
    /// Where the server's monitoring listens: HOST:PORT, and its base path if it has one
    #[arg(long, global = true, default_value = "127.0.0.1:8222", value_name = "ADDRESS")]
    monitor: String,
    /// How long the answer may take
    #[arg(long, global = true, default_value = "5s", value_name = "DURATION")]
    timeout: Time,
}

#[derive(Debug, Subcommand)]
enum Question {
    /// Does the process live?
    Live,
    /// Is the start over?
    Startup,
    /// Should clients be sent here?
    Ready,
    /// May the server be stopped now?
    Stop,
    /// Can clients connect, and soon?
    #[command(visible_alias = "conn")]
    Connection(ConnectionCheck),
    /// Are a stream and its copies as they should be?
    Stream(StreamCheck),
    /// Does a consumer keep up?
    Consumer(ConsumerCheck),
}

pub(super) fn run(check: &CheckArguments) -> ExitCode {
    let page = match &check.question {
        Question::Live => "livez",
        Question::Startup => "startupz",
        Question::Ready => "readyz",
        Question::Stop => "stopz",
        Question::Connection(wanted) => return health::connection(wanted),
        Question::Stream(wanted) => return health::stream(wanted),
        Question::Consumer(wanted) => return health::consumer(wanted),
    };
    match ask(check, page) {
        Ok((true, body)) => {
            say(&format_args!("OK {body}"));
            ExitCode::SUCCESS
        }
        Ok((false, body)) => {
            say(&format_args!("CRITICAL {body}"));
            ExitCode::from(CRITICAL)
        }
        Err(error) => {
            eprintln!("myelin: error: no answer from {}: {}", check.monitor, plain(&error.to_string()));
            ExitCode::from(CRITICAL)
        }
    }
}

/// Asks a probe: whether the server is well, and what it says.
fn ask(check: &CheckArguments, page: &str) -> io::Result<(bool, String)> {
    let (status, body) = monitoring::page(&check.monitor, page, check.timeout.0)?;
    Ok((verdict(status)?, body))
}

/// Whether the server is well by the status of a probe. Anything but the two statuses that one has
/// is an error: a page that does not exist is no verdict about the server.
fn verdict(status: u16) -> io::Result<bool> {
    match status {
        200 => Ok(true),
        503 => Ok(false),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, format!("it says {status}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_verdict_only_with_a_status_of_a_probe() {
        assert!(verdict(200).unwrap() && !verdict(503).unwrap());
        assert!([404, 301, 500].iter().all(|status| verdict(*status).is_err()));
    }
}
