//! `myelin-lab store`: the store alone, on a real disk, beside a null store that only writes the
//! same bytes.
//!
//! This file owns the arguments and the list of rows, which is the table of goals of the issue that
//! built the store. The rooms: `append`, `always`, `subjects`, `read`, `recovery` and `expiry`
//! measure; `ground` is an open store with its disk thread, `upkeep` runs its jobs, `null` the null
//! store, `load` what is appended; `meter` and `figure` count and judge. It knows the store by its
//! public interface only.

pub(crate) mod always;
pub(crate) mod append;
pub(crate) mod expiry;
pub(crate) mod figure;
pub(crate) mod ground;
pub(crate) mod load;
pub(crate) mod meter;
pub(crate) mod null;
pub(crate) mod read;
pub(crate) mod recovery;
pub(crate) mod subjects;
pub(crate) mod upkeep;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use myelin_loadgen::error::BenchError;

use crate::rows::row::matches;
use crate::servers::scratch::Scratch;
use crate::store::figure::Figure;
pub(crate) use crate::store::recovery::RecoveryTask;

/// `myelin-lab store …`
#[derive(Debug, Args)]
pub(crate) struct StoreArguments {
    /// Where files are written: a new directory in this one, removed afterwards
    #[arg(long, default_value = ".", value_name = "DIR")]
    dir: PathBuf,
    /// Only rows with a matching name: comma-separated, * stands for anything
    #[arg(long, default_value = "*", value_name = "GLOB")]
    rows: String,
    /// Measurements of each side of a row
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Sizes and times divided by 20: a look, not a result
    #[arg(long)]
    quick: bool,
    /// Divide sizes and times by this instead
    #[arg(long, value_name = "NUMBER")]
    divide: Option<u64>,
    /// Write the table to this file instead of the standard output
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

pub(crate) const HELP: &str = "\
Measure the store alone, on a real disk, workload by workload.

Sides of a row alternate in changing order; medians and ranges are reported. CPU is that of the thread that \
appends or reads, unless it says otherwise. Needs 8 GB in DIR (400 MB with --quick), 3 GB of memory, and some \
minutes. The exit code is 1 when a goal is missed.

One row by hand:
  myelin-lab store --rows append --rounds 3

A quick look at everything:
  myelin-lab store --quick --rounds 1";

/// How rows measure.
#[derive(Debug)]
pub(crate) struct StoreSettings {
    rounds: usize,
    divisor: u64,
}

impl StoreSettings {
    /// A number of the full table, as this run has it.
    fn divide(&self, full: u64) -> u64 {
        (full / self.divisor).max(1)
    }

    fn time(&self, seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds / self.divisor as f64)
    }
}

/// Something to measure.
struct StoreRow {
    name: &'static str,
    measure: fn(&StoreSettings, &Scratch) -> Result<Vec<Figure>, BenchError>,
}

const ROWS: [StoreRow; 14] = [
    StoreRow { name: "append", measure: append::beside_null },
    StoreRow { name: "always-1", measure: always::one_stream },
    StoreRow { name: "always-1000", measure: always::many_streams },
    StoreRow { name: "always-single", measure: always::one_writer },
    StoreRow { name: "subjects", measure: subjects::distinct },
    StoreRow { name: "read-file", measure: read::from_page_cache },
    StoreRow { name: "read-memory", measure: read::from_memory },
    StoreRow { name: "recovery", measure: recovery::after_kill },
    StoreRow { name: "limit-messages", measure: append::at_messages },
    StoreRow { name: "limit-bytes", measure: append::at_bytes },
    StoreRow { name: "limit-1-of-100k", measure: append::at_newest },
    StoreRow { name: "limit-1-of-1M", measure: append::at_newest_of_many },
    StoreRow { name: "limit-10-of-20k", measure: append::at_history },
    StoreRow { name: "expiry", measure: expiry::pauses },
];

/// Runs the command. The exit code says whether all goals were reached.
pub(crate) fn run(arguments: &StoreArguments) -> Result<ExitCode, BenchError> {
    let wanted = |name: &str| arguments.rows.split(',').any(|pattern| matches(pattern.trim(), name));
    let rows: Vec<&StoreRow> = ROWS.iter().filter(|row| wanted(row.name)).collect();
    if rows.is_empty() {
        let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        let text = format!("no row matches {:?}; there are {}", arguments.rows, names.join(", "));
        return Err(BenchError::Usage(text));
    }
    let settings = arguments.settings()?;
    let scratch = Scratch::new(&arguments.dir)?;
    let directory = scratch.path().display().to_string();
    let mut text = figure::environment(settings.rounds, settings.divisor, &directory);
    text.push('\n');
    text.push_str(figure::HEADING);
    let mut failed = false;
    for row in rows {
        match (row.measure)(&settings, &scratch) {
            Ok(figures) => {
                failed |= figures.iter().any(|figure| figure.is_met() == Some(false));
                for figure in figures {
                    let line = figure.markdown(row.name);
                    eprintln!("{line}");
                    text.push_str(&line);
                    text.push('\n');
                }
            }
            Err(error) => {
                failed = true;
                let line = format!("| {} | failed: {error} | | | **NO** |\n", row.name);
                eprint!("{line}");
                text.push_str(&line);
            }
        }
    }
    match &arguments.markdown {
        Some(path) => std::fs::write(path, text).map_err(BenchError::io("writing the table"))?,
        None => print!("{text}"),
    }
    Ok(ExitCode::from(u8::from(failed)))
}

impl StoreArguments {
    fn settings(&self) -> Result<StoreSettings, BenchError> {
        let divisor = self.divide.unwrap_or(if self.quick { 20 } else { 1 });
        if divisor == 0 || self.rounds == 0 {
            return Err(BenchError::Usage("--divide and --rounds must be more than 0".into()));
        }
        Ok(StoreSettings { rounds: self.rounds, divisor })
    }
}
