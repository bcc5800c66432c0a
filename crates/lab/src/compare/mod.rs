//! `myelin-lab compare`: the systems of a plan side by side, row by row, with noise told from
//! difference.
//!
//! This file owns the arguments and the run: which systems are here, which rows are left to do, and
//! what is written where. The rooms: `file` reads plans, `work` says what their rows do, `document`
//! turns what `comparison` measured into results, `report` prints results, `insert` puts them into
//! a page.

pub(crate) mod document;
pub(crate) mod file;
pub(crate) mod insert;
pub(crate) mod report;
pub(crate) mod work;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use myelin_loadgen::error::BenchError;
use myelin_loadgen::jetstream::consumers::Scale;
use myelin_loadgen::present::{html, write};
use myelin_loadgen::pubsub::flow;
use myelin_loadgen::results::Results;
use myelin_loadgen::workloads::null;

use crate::compare::document::Document;
use crate::compare::file::Plan;
use crate::comparison::{self, Comparison, ComparisonSettings};
use crate::file_limit::connections;
use crate::rows::row::{FULL_STREAM, Workload};
use crate::servers::scratch::{self, Scratch};
use crate::servers::system::{self, System};

pub(crate) const HELP: &str = "\
Compare the systems of a plan, row by row.

A plan is a TOML file (bench/plans/*.toml), or the name of one that is part of this program: s1 to s6, the published \
studies that we repeat. For every row each system is started afresh on a free loopback port, and one of them twice: the \
second process is the A/A control. Rounds are interleaved in changing order; medians and ranges are reported, and a ratio \
that is not beyond what the control shows is printed as \"no difference shown\". A run that lost a message is a failed run, \
and makes the exit code 1.

A look at one study, and the whole of it into a page with markers for it:
  myelin-lab compare s2 --quick
  myelin-lab compare s2 --json s2.json --into docs/performance.md

In pieces: rows that are in the file already are not measured again
  myelin-lab compare s1 --rows 'sync-*' --json s1.json --resume
  myelin-lab compare s1 --rows 'async-*' --json s1.json --resume

Other programs than those found beside this one or on PATH:
  myelin-lab compare s6 --program myelin=target/quick/myelin-server --program nats-server=/opt/nats-server";

/// `myelin-lab compare …`
#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    /// Plan file, or the name of a plan of this program: s1 … s6
    #[arg(value_name = "PLAN")]
    plan: String,
    /// Only rows with a matching name: comma-separated, * stands for anything
    #[arg(long, default_value = "*", value_name = "GLOB")]
    rows: String,
    /// Only these systems, comma-separated
    #[arg(long, value_name = "NAMES")]
    systems: Option<String>,
    /// Where a system's program is; may be given several times
    #[arg(long, value_name = "SYSTEM=PATH", value_parser = program)]
    program: Vec<(String, PathBuf)>,
    /// Rounds of every row, instead of what the plan says
    #[arg(long)]
    rounds: Option<usize>,
    /// A tenth of the messages, a quarter of a second, at most three rounds: a look, not a result
    #[arg(long)]
    quick: bool,
    /// Where servers keep their streams: a new directory in this one, removed afterwards
    /// [default: target, or .]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// MiB of messages that may wait in a server for all receivers together (and 16 MiB for each)
    #[arg(long, default_value_t = flow::BACKLOG >> 20, value_name = "MIB")]
    backlog: u64,
    /// Write the values of every round to this file, after every row
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keep the rows of the JSON file that have not failed, and measure the others
    #[arg(long, requires = "json")]
    resume: bool,
    /// Write a page with pictures to this file; it needs no network to be read
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the table to this file instead of the standard output
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Put the table between the markers of the plan in this page
    #[arg(long, value_name = "FILE")]
    into: Option<PathBuf>,
    /// Say this above the table too, such as which build of a program it was; may be given several
    /// times
    #[arg(long, value_name = "NAME=TEXT", value_parser = note)]
    note: Vec<(String, String)>,
    /// List the rows and measure nothing
    #[arg(long)]
    list: bool,
}

fn program(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.split_once('=').ok_or("expected SYSTEM=PATH")?;
    Ok((name.to_owned(), PathBuf::from(path)))
}

fn note(text: &str) -> Result<(String, String), String> {
    let (name, text) = text.split_once('=').ok_or("expected NAME=TEXT")?;
    Ok((name.to_owned(), text.to_owned()))
}

/// Runs the command. The exit code says whether every run was a good one.
pub(crate) fn run(arguments: &CompareArguments) -> Result<ExitCode, BenchError> {
    let plan = arguments.plan()?;
    if arguments.list {
        plan.rows.iter().for_each(|row| println!("{}", row.name));
        return Ok(ExitCode::SUCCESS);
    }
    let comparison = arguments.comparison(&plan)?;
    let before = arguments.results_so_far()?;
    let mut document = Document::new(&plan, &comparison, arguments.quick, before)?;
    for (name, text) in &arguments.note {
        document.note(name, text.clone());
    }
    if plan.rows.iter().any(|row| !document.has(&row.name)) {
        document.note("driver against a server that does nothing", null::summary()?);
    }
    let settings = arguments.settings(&plan);
    let scratch = Scratch::new(&scratch::parent(arguments.dir.as_deref()))?;
    for row in &plan.rows {
        if document.has(&row.name) {
            continue;
        }
        if let Workload::Latency(load) = &row.workload {
            let (name, text) = load.null()?;
            document.note(&name, text);
        }
        let measured = comparison::measure(row, &comparison, &settings, &scratch);
        document.add(&measured);
        eprint!("{}", report::row(document.results(), &plan.head, &row.name));
        if let Some(path) = &arguments.json {
            document.results().save(path)?;
        }
    }
    let results = document.in_order(&plan);
    arguments.print(&plan, &results)?;
    let failed = results.rows.iter().flat_map(|row| &row.cells).any(|cell| !cell.errors.is_empty());
    Ok(ExitCode::from(u8::from(failed)))
}

impl CompareArguments {
    /// The plan with what the arguments make of it.
    fn plan(&self) -> Result<Plan, BenchError> {
        let mut plan = Plan::load(&self.plan)?;
        if self.quick {
            plan.hurry();
        }
        match self.rounds {
            Some(0) => return Err(BenchError::Usage("--rounds must be at least 1".into())),
            Some(rounds) => plan.repeat(rounds),
            None => {}
        }
        let names: Vec<String> = plan.rows.iter().map(|row| row.name.clone()).collect();
        plan.rows.retain(|row| row.is_among(&self.rows));
        match plan.rows.is_empty() {
            true => {
                let text = format!("no row matches {:?}; there are {}", self.rows, names.join(", "));
                Err(BenchError::Usage(text))
            }
            false => Ok(plan),
        }
    }

    /// The systems of the plan that are here.
    fn comparison(&self, plan: &Plan) -> Result<Comparison, BenchError> {
        let known = |name: &str| plan.systems.iter().any(|system| system.name == name);
        let wanted: Option<Vec<&str>> =
            self.systems.as_ref().map(|names| names.split(',').map(str::trim).collect());
        let named =
            wanted.iter().flatten().copied().chain(self.program.iter().map(|(name, _)| name.as_str()));
        if let Some(name) = named.into_iter().find(|name| !known(name)) {
            return Err(BenchError::Usage(format!("the plan has no system {name:?}")));
        }
        let mut systems = Vec::new();
        for candidate in &plan.systems {
            if wanted.as_ref().is_some_and(|wanted| !wanted.contains(&candidate.name.as_str())) {
                continue;
            }
            let chosen = self.program.iter().find(|(name, _)| *name == candidate.name);
            let found = match chosen {
                Some((_, path)) => Some(path.clone()),
                None => system::find(&candidate.program),
            };
            match found {
                Some(program) => {
                    systems.push(System { name: candidate.name.clone(), kind: candidate.kind, program });
                }
                None if candidate.optional => {
                    eprintln!(
                        "myelin-lab: {} takes no part: there is no {}",
                        candidate.name, candidate.program
                    );
                }
                None => {
                    let text = format!(
                        "there is no {} for {}; say where with --program {}=PATH",
                        candidate.program, candidate.name, candidate.name
                    );
                    return Err(BenchError::Usage(text));
                }
            }
        }
        let controlled = systems.iter().position(|system| system.name == plan.head.control);
        let controlled =
            controlled.ok_or_else(|| BenchError::Usage(format!("{} is the control", plan.head.control)))?;
        Ok(Comparison { systems, controlled })
    }

    fn results_so_far(&self) -> Result<Option<Results>, BenchError> {
        let file: Option<&Path> = self.json.as_deref().filter(|path| self.resume && path.exists());
        file.map(Results::load).transpose()
    }

    fn settings(&self, plan: &Plan) -> ComparisonSettings {
        let full = FULL_STREAM as f64;
        ComparisonSettings {
            rounds: plan.head.rounds,
            duration: Duration::from_secs_f64(plan.head.seconds),
            subscriptions: if self.quick { 100_000 } else { 1_000_000 },
            subjects: if self.quick { 100_000 } else { 1_000_000 },
            stored: plan.head.stored,
            scale: Scale(plan.head.stored as f64 / full),
            connections: connections(if self.quick { 500 } else { 4000 }),
            backlog: self.backlog << 20,
            verify: false,
        }
    }

    fn print(&self, plan: &Plan, results: &Results) -> Result<(), BenchError> {
        let markdown = report::markdown(results, &plan.head);
        let alone = format!("# {}\n\n{markdown}", plan.head.title);
        if let Some(path) = &self.markdown {
            write(path, &alone)?;
        }
        if let Some(path) = &self.html {
            write(path, &html::page(results))?;
        }
        if let Some(path) = &self.into {
            let page = std::fs::read_to_string(path).map_err(BenchError::io("reading the page"))?;
            let page = insert::between_markers(&page, &plan.head.name, &markdown)
                .map_err(|why| BenchError::Usage(format!("{}: {why}", path.display())))?;
            write(path, &page)?;
        }
        if self.markdown.is_none() && self.into.is_none() {
            print!("{alone}");
        }
        Ok(())
    }
}
