//! `myelin server check`: asks a server's monitoring one of its probes, for the health checks of
//! containers and for scripts, where no other program is at hand.
//!
//! Owns the exit codes, which are those of the `nats` command's checks.

use std::io;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use myelin_loadgen::units::Time;

use crate::monitoring;
use crate::screen::plain;

/// Exit code where the server says that it is not well, or says nothing.
const CRITICAL: u8 = 2;

/// `myelin server check`
#[derive(Debug, Args)]
pub(super) struct CheckArguments {
    /// Question to ask
    #[arg(value_enum)]
    probe: ServerProbe,
    /// Where the server's monitoring listens: HOST:PORT, and its base path if it has one
    #[arg(long, default_value = "127.0.0.1:8222", value_name = "ADDRESS")]
    monitor: String,
    /// How long the answer may take
    #[arg(long, default_value = "5s", value_name = "DURATION")]
    timeout: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ServerProbe {
    /// Does the process live?
    Live,
    /// Is the start over?
    Startup,
    /// Should clients be sent here?
    Ready,
    /// May the server be stopped now?
    Stop,
}

impl ServerProbe {
    fn page(self) -> &'static str {
        match self {
            Self::Live => "livez",
            Self::Startup => "startupz",
            Self::Ready => "readyz",
            Self::Stop => "stopz",
        }
    }
}

pub(super) fn run(check: &CheckArguments) -> ExitCode {
    match ask(check) {
        Ok((true, body)) => {
            println!("OK {}", plain(&body));
            ExitCode::SUCCESS
        }
        Ok((false, body)) => {
            println!("CRITICAL {}", plain(&body));
            ExitCode::from(CRITICAL)
        }
        Err(error) => {
            eprintln!("myelin: error: no answer from {}: {}", check.monitor, plain(&error.to_string()));
            ExitCode::from(CRITICAL)
        }
    }
}

/// Asks the probe: whether the server is well, and what it says.
fn ask(check: &CheckArguments) -> io::Result<(bool, String)> {
    let (status, body) = monitoring::page(&check.monitor, check.probe.page(), check.timeout.0)?;
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
