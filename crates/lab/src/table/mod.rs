//! `myelin-lab table`: two server programs side by side, workload by workload, with the goals of
//! the issues.
//!
//! Owns the arguments. Measuring is `comparison`'s, judging and printing `report`'s.

pub(crate) mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use myelin_loadgen::error::BenchError;
use myelin_loadgen::jetstream::consumers::Scale;
use myelin_loadgen::present::write;
use myelin_loadgen::pubsub::flow;

use crate::comparison::{self, Comparison, ComparisonSettings, Measured};
use crate::file_limit::connections;
use crate::rows;
use crate::servers::scratch::{self, Scratch};
use crate::servers::system::System;

pub(crate) const HELP: &str = "\
Compare two server programs side by side, workload by workload.

For every row three fresh servers are started on free loopback ports: the reference, ours, and ours \
again as the A/A control, which shows what is noise. Rounds are interleaved in changing order; medians \
and ranges are reported. CPU is the server's own, from /proc/PID/task/*/schedstat, cross-checked with \
/proc/PID/stat. A run that lost a message is a failed run. The exit code is 1 when a goal is missed.

Rows belong to groups: core (the core server), js (streams), consumers (reading from streams, key-value), edges (TLS, WebSocket), origins (mirrors and sources), identity (rules, accounts, logins, reload), small (small servers, thousands of streams), cluster (three servers on each side), leaf (a hub and its leaf node) and s1 (the \
grid of a study of publishing to streams, without goals). Servers of all but core run with JetStream in a directory of their own below --dir.

One row by hand:
  myelin-lab table --ours target/quick/myelin-server --reference nats-server --rows '1:1-128' --rounds 3

The grid of the study, or its part about files and 256 bytes:
  myelin-lab table --ours A --reference B --rows s1
  myelin-lab table --ours A --reference B --rows 's1-*-file-256'

A quick look at everything, and a check that every message arrives intact and in order:
  myelin-lab table --ours A --reference B --quick
  myelin-lab table --ours A --reference B --quick --rounds 1 --verify";

#[derive(Debug, Args)]
pub(crate) struct TableArguments {
    /// Our server program
    #[arg(long, value_name = "BINARY")]
    ours: PathBuf,
    /// The program to compare with
    #[arg(long, value_name = "BINARY")]
    reference: PathBuf,
    /// Measurements of each server per row
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only these groups (core, js, consumers, origins, edges, identity, small, cluster, leaf, s1)
    /// and rows with a matching name: comma-separated, * stands for anything
    #[arg(long, default_value = rows::TABLE, value_name = "GLOB")]
    rows: String,
    /// Where servers keep their streams: a new directory in this one, removed afterwards
    /// [default: target, or .]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Seconds per measurement [default: 0.8]
    #[arg(long)]
    seconds: Option<f64>,
    /// Rows about consumers: this part of 1,000,000 messages read, 10,000,000 filtered, 1,000,000
    /// unacknowledged and 10,000 consumers [default: 0.2]
    #[arg(long)]
    scale: Option<f64>,
    /// MiB of messages that may wait in a server for all receivers together (and 16 MiB for each)
    #[arg(long, default_value_t = flow::BACKLOG >> 20, value_name = "MIB")]
    backlog: u64,
    /// Short measurements, 100,000 subscriptions and subjects, 500 connections: a look, not a
    /// result
    #[arg(long)]
    quick: bool,
    /// Parse and check every message of the throughput rows; their figures then mean nothing
    #[arg(long)]
    verify: bool,
    /// Write the values of every round to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the table to this file instead of the standard output
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

/// Runs the command. The exit code says whether the goals were reached.
pub(crate) fn run(arguments: &TableArguments) -> Result<ExitCode, BenchError> {
    let rows: Vec<rows::row::Row> =
        rows::rows().into_iter().filter(|row| row.is_among(&arguments.rows)).collect();
    if rows.is_empty() {
        let names: Vec<String> = rows::rows().into_iter().map(|row| row.name).collect();
        let text = format!("no row matches {:?}; there are {}", arguments.rows, names.join(", "));
        return Err(BenchError::Usage(text));
    }
    let settings = arguments.settings()?;
    let comparison = arguments.comparison();
    let scratch = Scratch::new(&scratch::parent(arguments.dir.as_deref()))?;
    let environment = report::TableEnvironment::of(&settings, &comparison);
    let measured: Vec<Measured> = rows
        .iter()
        .map(|row| {
            let measured = comparison::measure(row, &comparison, &settings, &scratch);
            eprint!("{}", report::progress(&measured, &comparison));
            measured
        })
        .collect();
    let markdown = report::markdown(&environment, &measured, &comparison);
    match &arguments.markdown {
        Some(path) => write(path, &markdown)?,
        None => print!("{markdown}"),
    }
    if let Some(path) = &arguments.json {
        write(path, &format!("{:#}\n", report::json(&environment, &measured, &comparison)))?;
    }
    let failed =
        measured.iter().any(|measured| report::judge(measured).iter().any(report::JudgedFigure::failed));
    Ok(ExitCode::from(u8::from(failed)))
}

impl TableArguments {
    /// The reference, ours, and ours again.
    fn comparison(&self) -> Comparison {
        let systems = vec![System::nats("reference", &self.reference), System::nats("ours", &self.ours)];
        Comparison { systems, controlled: report::OURS.0 }
    }

    fn scale(&self) -> Result<Scale, BenchError> {
        let scale = self.scale.unwrap_or(if self.quick { 0.02 } else { 0.2 });
        match scale > 0.0 && scale <= 10.0 {
            true => Ok(Scale(scale)),
            false => Err(BenchError::Usage("--scale must be more than 0 and at most 10".into())),
        }
    }

    fn settings(&self) -> Result<ComparisonSettings, BenchError> {
        let seconds = self.seconds.unwrap_or(if self.quick { 0.25 } else { 0.8 });
        let duration = Duration::try_from_secs_f64(seconds)
            .ok()
            .filter(|duration| !duration.is_zero() && self.rounds > 0)
            .ok_or_else(|| BenchError::Usage("--seconds and --rounds must be more than 0".into()))?;
        Ok(ComparisonSettings {
            rounds: self.rounds,
            duration,
            subscriptions: if self.quick { 100_000 } else { 1_000_000 },
            subjects: if self.quick { 100_000 } else { 1_000_000 },
            scale: self.scale()?,
            stored: if self.quick { 10_000 } else { 100_000 },
            connections: connections(if self.quick { 500 } else { 4000 }),
            backlog: self.backlog << 20,
            verify: self.verify,
        })
    }
}
