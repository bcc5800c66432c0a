//! Rows about who may do what: rules for subjects, imports, many accounts, expensive passwords, a
//! reload.
//!
//! Owns the configurations of these servers and what is done to them. A row that asks what
//! something costs compares a server with itself: users with and without rules, requests in one
//! account and through an import, in alternation. Nothing here is about TLS.

use std::fmt::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use myelin_loadgen::connection::address::{Address, Credentials};
use myelin_loadgen::connection::{Connection, PATIENCE};
use myelin_loadgen::error::BenchError;
use myelin_loadgen::latency;
use myelin_loadgen::metric::Metric;
use myelin_loadgen::pubsub::publisher::Until;
use myelin_loadgen::pubsub::request::RequestLoad;
use myelin_loadgen::pubsub::throughput::{self, Prepared, ReceiverInterest};

use crate::file_limit::connections;
use crate::rows::probe::probe;
use crate::rows::subjects::SUBJECTS;
use crate::servers::process::{Server, free_port};
use crate::servers::scratch::Scratch;

/// Group of these rows, for `--rows`.
pub(crate) const GROUP: &str = "identity";

const RULES: usize = 100;
const ACCOUNTS: usize = 10_000;
const CONNECTED: usize = 10_000;

/// How long clients are watched meanwhile.
const PROBE_TIME: Duration = Duration::from_secs(2);

/// Clients that log in at once, over and over.
const LOGGING_IN: usize = 4;

/// The password of the benchmark's users, and what bcrypt makes of it at cost 8.
const PASSWORD: &str = "benchmark-only-secret";
const HASH: &str = "$2a$08$tqH0Nv.F9dGTQdKplV13buvP3NvvP.hEtfWt.3TZcX31tz3yEOacu";

/// Workload of a row about identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdentityLoad {
    /// A publisher with as many receivers, who have 100 rules that allow and 100 that deny.
    Rules { receivers: usize, size: usize },
    /// Requests to a service of another account.
    Import,
    /// A server with 10,000 accounts of one user each.
    Accounts,
    /// Logins with bcrypt beside messages.
    Logins,
    /// A reload with 10,000 connections, beside messages.
    Reload,
}

impl fmt::Display for IdentityLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rules { receivers, size } => {
                write!(
                    f,
                    "1 publisher, {receivers} subscribers, {size} B, with and without 2 x {RULES} rules"
                )
            }
            Self::Import => write!(f, "requests through an import and in one account"),
            Self::Accounts => write!(f, "a process that has just been started with {ACCOUNTS} accounts"),
            Self::Logins => {
                write!(f, "{LOGGING_IN} clients log in over and over, bcrypt cost 8, beside messages")
            }
            Self::Reload => write!(f, "a reload with {CONNECTED} connections, beside messages"),
        }
    }
}

type Readings = Vec<(Metric, f64)>;

impl IdentityLoad {
    /// Whether every round starts a server of its own.
    pub(crate) fn wants_fresh_server(self) -> bool {
        matches!(self, Self::Accounts | Self::Reload)
    }

    pub(crate) fn server(self, binary: &Path, scratch: &Scratch) -> Result<Server, BenchError> {
        let port = free_port()?;
        let room = scratch.room(&format!("server-{port}"))?;
        Server::with_configuration(binary, port, room, &self.configuration(false))
    }

    /// The file before or after the reload.
    fn configuration(self, is_new: bool) -> String {
        match self {
            Self::Rules { .. } => rules(),
            Self::Import => imports(),
            Self::Accounts => accounts(),
            Self::Logins | Self::Reload => {
                let late =
                    if is_new { format!(", {{user: late, password: {PASSWORD:?}}}") } else { String::new() };
                format!(
                    "authorization {{ timeout: 30, users: [{{user: plain, password: {PASSWORD:?}}}, \
                     {{user: slow, password: {HASH:?}}}{late}] }}\n"
                )
            }
        }
    }

    /// Does it once.
    pub(crate) fn run(self, server: &Server, until: Until, backlog: u64) -> Result<Readings, BenchError> {
        match self {
            Self::Rules { receivers, size } => compare_rules(server, (receivers, size), until, backlog),
            Self::Import => compare_import(server, until),
            Self::Accounts => Ok(vec![
                (Metric::ProcessMemory, server.meter().resident_at_rest()? as f64 / f64::from(1 << 20)),
                (Metric::StartTime, server.ready_after().as_secs_f64() * 1e3),
            ]),
            Self::Logins => log_in(server),
            Self::Reload => reload(server),
        }
    }
}

fn address(server: &Server, user: &str) -> Address {
    let credentials = Credentials::Password { user: user.to_owned(), password: PASSWORD.to_owned() };
    Address { credentials, ..server.address().clone() }
}

fn rules() -> String {
    let list = |first: &str| {
        let mut list = format!("\"{first}.>\"");
        for number in 1..RULES {
            let _ = match number % 2 {
                0 => write!(list, ", \"{first}{number}.*.x\""),
                _ => write!(list, ", \"bench.{first}{number}.>\""),
            };
        }
        list
    };
    let (allow, deny) = (list("bench"), list("secret"));
    let rules = format!("{{allow: [{allow}], deny: [{deny}]}}");
    format!(
        "authorization {{ users: [{{user: plain, password: {PASSWORD:?}}}, {{user: ruled, password: {PASSWORD:?}, \
         permissions: {{publish: {rules}, subscribe: {rules}}}}}] }}\n"
    )
}

fn imports() -> String {
    format!(
        "accounts {{\n\
         EXPORTER {{ users: [{{user: exporter, password: {PASSWORD:?}}}], exports: [{{service: \"service.*\"}}] }}\n\
         IMPORTER {{ users: [{{user: importer, password: {PASSWORD:?}}}], \
         imports: [{{service: {{account: EXPORTER, subject: \"service.*\"}}}}] }}\n}}\n"
    )
}

fn accounts() -> String {
    let mut text = String::from("accounts {\n");
    for number in 0..ACCOUNTS {
        let _ = writeln!(text, "A{number} {{ users: [{{user: u{number}, password: p{number}}}] }}");
    }
    text + "}\n"
}

/// The mean of what `of` gives twice without and twice with something, in the order without, with,
/// with, without.
fn kept(mut of: impl FnMut(bool) -> Result<f64, BenchError>) -> Result<Readings, BenchError> {
    let (first, second, third, last) = (of(false)?, of(true)?, of(true)?, of(false)?);
    let (without, with) = (f64::midpoint(first, last), f64::midpoint(second, third));
    Ok(vec![(Metric::MessageRate, with), (Metric::RateKept, with / without * 100.0)])
}

fn half(until: Until) -> Until {
    match until {
        Until::Elapsed(duration) => Until::Elapsed(duration / 2),
        Until::Messages(count) => Until::Messages(count / 2),
    }
}

fn compare_rules(
    server: &Server,
    (receivers, size): (usize, usize),
    until: Until,
    backlog: u64,
) -> Result<Readings, BenchError> {
    let load = throughput::ThroughputLoad {
        publishers: 1,
        receivers,
        interest: ReceiverInterest::Star,
        subjects: SUBJECTS,
        size,
    };
    let prepared = Prepared::new(load, 1 << 20, backlog);
    let (plain, ruled) = (address(server, "plain"), address(server, "ruled"));
    kept(|with| {
        let address = if with { &ruled } else { &plain };
        Ok(prepared.run(address, half(until), None, false)?.rate())
    })
}

fn compare_import(server: &Server, until: Until) -> Result<Readings, BenchError> {
    let load = RequestLoad { clients: 50, services: 1, size: 128, subjects: SUBJECTS };
    let (service, importer) = (address(server, "exporter"), address(server, "importer"));
    kept(|with| {
        let clients = if with { &importer } else { &service };
        Ok(load.between(&service, clients, half(until), None)?.rate())
    })
}

fn log_in(server: &Server) -> Result<Readings, BenchError> {
    let (stop, logins) = (AtomicBool::new(false), AtomicU64::new(0));
    let slow = address(server, "slow");
    let start = Instant::now();
    let outcome = thread::scope(|scope| {
        let clients: Vec<_> = (0..LOGGING_IN)
            .map(|_| {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        drop(Connection::open(&slow)?);
                        logins.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok::<_, BenchError>(())
                })
            })
            .collect();
        // By a user whose password costs nothing.
        let outcome = probe(&address(server, "plain"), PROBE_TIME);
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        outcome
    })?;
    let logins = logins.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64();
    Ok([vec![(Metric::LoginRate, logins)], latencies(&outcome)].concat())
}

fn latencies(outcome: &latency::LatencyOutcome) -> Readings {
    let of = |quantile| outcome.from_planned.microseconds(quantile);
    vec![(Metric::LatencyMedian, of(0.5)), (Metric::Latency99, of(0.99)), (Metric::LatencyMost, of(1.0))]
}

fn reload(server: &Server) -> Result<Readings, BenchError> {
    let plain = address(server, "plain");
    let idle: Vec<Connection> =
        (0..connections(CONNECTED)).map(|_| Connection::open(&plain)).collect::<Result<_, _>>()?;
    let (outcome, took) = thread::scope(|scope| {
        let reloading = scope.spawn(|| {
            thread::sleep(PROBE_TIME / 3);
            let start = Instant::now();
            server.reload(&IdentityLoad::Reload.configuration(true))?;
            // It is through when the new file's user is let in.
            let late = address(server, "late");
            while let Err(error) = Connection::open(&late) {
                if start.elapsed() > PATIENCE {
                    return Err(error);
                }
                thread::sleep(Duration::from_millis(1));
            }
            Ok(start.elapsed())
        });
        let outcome = probe(&plain, PROBE_TIME);
        let took = reloading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok::<_, BenchError>((outcome?, took?))
    })?;
    drop(idle);
    Ok([vec![(Metric::ReloadTime, took.as_secs_f64() * 1e3)], latencies(&outcome)].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_as_many_as_the_rows_say() {
        let text = rules();
        // Two users' lists: publish and subscribe, each with both kinds.
        let subjects = text.matches(".>\"").count() + text.matches(".x\"").count();
        assert_eq!(subjects, 2 * 2 * RULES);
        assert_eq!(accounts().lines().count(), ACCOUNTS + 2);
    }

    #[test]
    fn what_is_kept_is_a_part_of_the_rate_without() {
        let mut rates = [100.0, 40.0, 60.0, 100.0].into_iter();
        let mut asked = Vec::new();
        let readings = kept(|with| {
            asked.push(with);
            Ok(rates.next().unwrap())
        });
        assert_eq!(readings.unwrap(), [(Metric::MessageRate, 50.0), (Metric::RateKept, 50.0)]);
        assert_eq!(asked, [false, true, true, false]);
    }
}
