//! `myelin server check`: asks a server's monitoring one of its probes, for the health checks of
//! containers and for scripts, where no other program is at hand.
//!
//! Owns the exit codes, which are those of the `nats` command's checks. Plain HTTP only: who needs
//! TLS has a program that knows it.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use myelin_loadgen::units::Time;

/// Bytes of an answer that are read at most.
const LONGEST_ANSWER: u64 = 1 << 20;

/// Exit code where the server says that it is not well, or says nothing.
const CRITICAL: u8 = 2;

/// Arguments of `myelin server`.
#[derive(Debug, Args)]
pub(crate) struct ServerArguments {
    #[command(subcommand)]
    verb: ServerVerb,
}

#[derive(Debug, Subcommand)]
enum ServerVerb {
    /// Ask a probe of the server's monitoring. Exit code 0: well, 2: not well, or no answer
    Check(CheckArguments),
}

/// `myelin server check`
#[derive(Debug, Args)]
struct CheckArguments {
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

pub(crate) fn run(arguments: &ServerArguments) -> ExitCode {
    let ServerVerb::Check(check) = &arguments.verb;
    match ask(check) {
        Ok((true, body)) => {
            println!("OK {body}");
            ExitCode::SUCCESS
        }
        Ok((false, body)) => {
            println!("CRITICAL {body}");
            ExitCode::from(CRITICAL)
        }
        Err(error) => {
            eprintln!("myelin: error: no answer from {}: {error}", check.monitor);
            ExitCode::from(CRITICAL)
        }
    }
}

/// Asks the probe: whether the server is well, and what it says.
fn ask(check: &CheckArguments) -> io::Result<(bool, String)> {
    let address = check.monitor.trim_start_matches("http://").trim_end_matches('/');
    let (host, base) = address.split_once('/').unwrap_or((address, ""));
    let base = if base.is_empty() { String::new() } else { format!("/{base}") };
    let mut stream = connect(host, check.timeout.0)?;
    stream.set_read_timeout(Some(check.timeout.0))?;
    stream.set_write_timeout(Some(check.timeout.0))?;
    let page = check.probe.page();
    let request = format!("GET {base}/{page} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(LONGEST_ANSWER).read_to_end(&mut answer)?;
    understand(&String::from_utf8_lossy(&answer))
}

fn connect(host: &str, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in host.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Takes status and body out of an answer. Anything but the two statuses of a probe is an error: a
/// page that does not exist is no verdict about the server.
fn understand(answer: &str) -> io::Result<(bool, String)> {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let status = head.lines().next().unwrap_or_default();
    let is_well = match status.split(' ').nth(1) {
        Some("200") => true,
        Some("503") => false,
        _ => return Err(io::Error::new(io::ErrorKind::InvalidData, format!("it says {status:?}"))),
    };
    Ok((is_well, body.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_verdict_only_with_a_status_of_a_probe() {
        let answer = |status: &str| format!("HTTP/1.1 {status}\r\nContent-Type: x\r\n\r\n{{}}\n");
        assert_eq!(understand(&answer("200 OK")).unwrap(), (true, "{}".to_owned()));
        assert_eq!(understand(&answer("503 Service Unavailable")).unwrap(), (false, "{}".to_owned()));
        for nothing in [answer("404 Not Found"), answer("2000"), String::new(), "220 smtp\r\n".to_owned()] {
            assert!(understand(&nothing).is_err(), "{nothing}");
        }
    }
}
