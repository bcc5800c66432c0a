//! The command line of `bench latency`: its arguments, what it prints and which files it writes.
//!
//! Owns how sizes and durations may be shortened there. Measures nothing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use myelin_loadgen::error::BenchError;
use myelin_loadgen::jetstream::stream::LoadStorage;
use myelin_loadgen::latency::respond::Responders;
use myelin_loadgen::latency::{LatencyMode, LatencyOutcome, LatencySettings, cell, null, run};
use myelin_loadgen::meter::Meter;
use myelin_loadgen::names;
use myelin_loadgen::present::{csv, hgrm, html, terminal, write};
use myelin_loadgen::results::{Clock, Environment, ResultRow, Results, TestedSystem};
use myelin_loadgen::target_server::greeting::Greeting;
use myelin_loadgen::target_server::{ConnectionFlags, Target};
use myelin_loadgen::units::{Bytes, Time};

use crate::screen::tell;

pub(crate) const HELP: &str = "\
Measure how long messages take at a fixed rate.

Every message has a planned time, and latency counts from there: a server that stalls is charged for all \
messages that it held up (the corrected curve), not only for the one that was under way (the uncorrected \
curve, from the real time of sending). Every combination of the modes, sizes and rates is a run. How late \
the driver itself was is printed with each; a percentile with fewer than 10 samples beyond it is marked.

Round trips at two rates and two sizes, half a minute each:
  myelin bench latency --sizes 256B,1KB --rates 50,3000

The same with the answering side on another host:
  other$ myelin bench latency respond --server nats://server:4222
  this$  myelin bench latency --server nats://server:4222 --responders 0

Through a stream, as files for a report:
  myelin bench latency --modes js-ack,js-consume --system mine --json mine.json --hgrm curves/
  myelin-lab report mine.json other.json --html report.html";

/// `myelin bench latency …`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct LatencyArguments {
    #[command(subcommand)]
    side: Option<Side>,
    #[command(flatten)]
    measure: Measure,
    #[command(flatten)]
    flags: ConnectionFlags,
}

#[derive(Debug, Subcommand)]
enum Side {
    /// Answer the requests of a driver that runs elsewhere, until the server goes away
    Respond(Respond),
}

#[derive(Debug, Args)]
struct SubjectArgument {
    /// Token with which subjects begin
    #[arg(long, default_value = "latency")]
    subject: String,
}

#[derive(Debug, Args)]
struct Respond {
    #[command(flatten)]
    common: SubjectArgument,
    /// Services, each with a connection and a thread
    #[arg(long, default_value_t = 1)]
    clients: usize,
}

#[derive(Debug, Args)]
struct Measure {
    #[command(flatten)]
    common: SubjectArgument,
    /// Where messages go
    #[arg(long, value_enum, value_delimiter = ',', default_value = "request")]
    modes: Vec<LatencyMode>,
    /// Payloads, as 256B, 1KB (1024 bytes) or 1MB
    #[arg(long, value_parser = size, value_delimiter = ',', default_value = "256B")]
    sizes: Vec<usize>,
    /// Messages per second, all connections together
    #[arg(long, value_delimiter = ',', default_value = "1000")]
    rates: Vec<u64>,
    /// Connections that send
    #[arg(long, default_value_t = 1)]
    clients: usize,
    /// Messages that one connection may have under way, or `any`
    /// [default: 1 for requests, any for the others]
    #[arg(long, value_parser = outstanding, value_name = "COUNT|any")]
    outstanding: Option<Outstanding>,
    /// How long each run is measured
    #[arg(long, value_parser = duration, default_value = "30s")]
    duration: Duration,
    /// How long messages are sent before that
    #[arg(long, value_parser = duration, default_value = "1s")]
    warmup: Duration,
    /// Times that each run is repeated
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Services that answer, in this process; 0 if `latency respond` runs elsewhere
    #[arg(long, default_value_t = 1)]
    responders: usize,
    /// Where the streams keep their messages
    #[arg(long, default_value = "file", value_enum)]
    storage: LoadStorage,
    /// Process id of the server, to know its CPU time per message
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,
    #[command(flatten)]
    reports: Reports,
}

/// Where the results go.
#[derive(Debug, Args)]
struct Reports {
    /// Name of the server in reports
    #[arg(long, default_value = "server", value_name = "NAME")]
    system: String,
    /// Write the results to this file, for `myelin-lab report`
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the results as a table to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write a report with curves to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write an .hgrm file for every curve into this directory
    #[arg(long, value_name = "DIR")]
    hgrm: Option<PathBuf>,
}

/// Messages that one connection may have under way; `None` is any number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Outstanding(Option<u64>);

pub(crate) fn execute(arguments: &LatencyArguments) -> Result<(), BenchError> {
    let server = &arguments.flags.target()?;
    names::word("subject", arguments.subject())?;
    match &arguments.side {
        Some(Side::Respond(Respond { common, clients })) => {
            Responders::alone(server, &format!("{}.*", common.subject), *clients)
        }
        None => arguments.measure.execute(server),
    }
}

impl LatencyArguments {
    fn subject(&self) -> &str {
        match &self.side {
            Some(Side::Respond(respond)) => &respond.common.subject,
            None => &self.measure.common.subject,
        }
    }
}

impl Measure {
    fn execute(&self, server: &Target) -> Result<(), BenchError> {
        if self.rounds == 0 {
            return Err(BenchError::Usage("--rounds must be at least 1".into()));
        }
        let version = Greeting::of(server)?.to_string();
        let system = TestedSystem { name: self.reports.system.clone(), version };
        let mut environment = Environment::now();
        environment.note("rounds", self.rounds.to_string());
        let mut results = Results::new(environment, vec![system], Vec::new());
        for settings in self.runs(server) {
            let row = self.row(&settings)?;
            tell(&terminal::row(&row));
            results.rows.push(row);
            let null = null::of(&settings)?;
            tell(&format!("  driver alone, {null}\n"));
            results.environment.note(&format!("driver alone, {}", settings.load()), null);
        }
        self.reports.write(&results)
    }

    /// Every combination, in the order of the arguments.
    fn runs(&self, server: &Target) -> Vec<LatencySettings> {
        let mut runs = Vec::new();
        for &mode in &self.modes {
            for &size in &self.sizes {
                runs.extend(self.rates.iter().map(|&rate| self.settings(server, mode, size, rate)));
            }
        }
        runs
    }

    fn settings(&self, server: &Target, mode: LatencyMode, size: usize, rate: u64) -> LatencySettings {
        LatencySettings {
            server: server.clone(),
            mode,
            size,
            rate,
            connections: self.clients,
            outstanding: self.outstanding.map_or(mode.usual_outstanding(), |Outstanding(count)| count),
            warming: self.warmup,
            duration: self.duration,
            subject: self.common.subject.clone(),
            storage: self.storage,
            responders: self.responders,
            meter: self.server_pid.map(Meter::of),
        }
    }

    fn row(&self, settings: &LatencySettings) -> Result<ResultRow, BenchError> {
        let rounds: Result<Vec<LatencyOutcome>, BenchError> =
            (0..self.rounds).map(|_| run(settings)).collect();
        Ok(ResultRow {
            name: settings.name(),
            group: "latency".into(),
            workload: settings.workload(),
            cells: vec![cell(&self.reports.system, settings.mode.what(), &rounds?)],
        })
    }
}

impl Reports {
    fn write(&self, results: &Results) -> Result<(), BenchError> {
        if let Some(path) = &self.json {
            results.save(path)?;
        }
        if let Some(path) = &self.csv {
            write(path, &csv::table(results))?;
        }
        if let Some(path) = &self.html {
            write(path, &html::page(results))?;
        }
        match &self.hgrm {
            Some(directory) => write_hgrm(directory, results),
            None => Ok(()),
        }
    }
}

/// Writes one file per curve: `SYSTEM-ROW.hgrm`, `….uncorrected.hgrm` and `….driver.hgrm`.
fn write_hgrm(directory: &Path, results: &Results) -> Result<(), BenchError> {
    std::fs::create_dir_all(directory).map_err(BenchError::io("creating the directory of .hgrm files"))?;
    for row in &results.rows {
        for cell in &row.cells {
            for curve in &cell.curves {
                let kind = match curve.clock {
                    Clock::Planned => "",
                    Clock::Sent => ".uncorrected",
                    Clock::Driver => ".driver",
                };
                let name = format!("{}{kind}.hgrm", file_name(&format!("{}-{}", cell.system, row.name)));
                write(&directory.join(name), &hgrm::text(&curve.latencies))?;
            }
        }
    }
    Ok(())
}

/// A name with nothing in it that a file system or a shell minds.
fn file_name(name: &str) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() || "-._".contains(c) { c } else { '-' };
    let name: String = name.chars().map(kept).collect();
    name.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

/// Reads `256B`, `1KB`, `5KiB`, `1M` or plain bytes, as everywhere, and 0.
pub(crate) fn size(text: &str) -> Result<usize, String> {
    if matches!(text, "0" | "0B") {
        return Ok(0);
    }
    let Bytes(bytes) = text.parse().map_err(|error: BenchError| error.to_string())?;
    usize::try_from(bytes).map_err(|_| format!("{text:?} is too much"))
}

/// Reads `30s`, `500ms`, `2m`, as everywhere, or plain seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string()),
        Err(_) => text.parse().map(|Time(time)| time).map_err(|error: BenchError| error.to_string()),
    }
}

fn outstanding(text: &str) -> Result<Outstanding, String> {
    match (text, text.parse()) {
        ("any", _) => Ok(Outstanding(None)),
        (_, Ok(count)) if count > 0 => Ok(Outstanding(Some(count))),
        _ => Err(format!("{text:?} is neither a number from 1 nor \"any\"")),
    }
}

#[cfg(test)]
mod tests {
    use myelin_loadgen::units::size_text;

    use super::*;

    #[test]
    fn sizes_are_read_and_shown() {
        for (text, bytes, shown) in [
            ("256B", 256, "256B"),
            ("256", 256, "256B"),
            ("1KB", 1024, "1KB"),
            ("5k", 5120, "5KB"),
            ("1MiB", 1 << 20, "1MB"),
            ("1025", 1025, "1025B"),
            ("0", 0, "0B"),
        ] {
            assert_eq!(size(text), Ok(bytes));
            assert_eq!(size_text(bytes), shown);
        }
        for wrong in ["", "KB", "1XB", "-1", "1.5KB", "99999999999999999999", "18446744073709551615KB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_and_windows_are_read() {
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert!(["", "s", "1y", "-1", "-1s", "1 s", "NaN"].iter().all(|wrong| duration(wrong).is_err()));
        assert_eq!(outstanding("any"), Ok(Outstanding(None)));
        assert_eq!(outstanding("7"), Ok(Outstanding(Some(7))));
        assert!(outstanding("0").is_err() && outstanding("few").is_err());
    }

    #[test]
    fn file_names_are_tame() {
        assert_eq!(file_name("my/server-request 1KB @3000/s x25"), "my-server-request-1KB-3000-s-x25");
        assert_eq!(file_name("../.."), "..-..");
    }
}
