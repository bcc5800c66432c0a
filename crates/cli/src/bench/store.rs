//! `myelin bench store`: the store alone, on a real disk, beside a null store that only writes the same bytes.
//!
//! This file owns the arguments and the list of rows, which is the table of goals of the issue that built the store. The
//! rooms: `append`, `always`, `subjects`, `read`, `recovery` and `expiry` measure; `ground` is an open store with its
//! disk thread, `upkeep` runs its jobs, `null` the null store, `load` what is appended, `scratch` the directory; `meter` and `figure` count and
//! judge. It knows the store by its public interface only.

mod always;
mod append;
mod expiry;
mod figure;
mod ground;
mod load;
mod meter;
mod null;
mod read;
mod recovery;
mod subjects;
mod upkeep;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

pub(crate) use recovery::Part;

use super::error::BenchError;
use super::plan::matches;
use super::scratch::Scratch;
use figure::Figure;

/// `myelin bench store …`
#[derive(Debug, Args)]
pub(crate) struct Arguments {
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
  myelin bench store --rows append --rounds 3

A quick look at everything:
  myelin bench store --quick --rounds 1";

/// How rows measure.
#[derive(Debug)]
pub(crate) struct Settings {
    rounds: usize,
    divisor: u64,
}

impl Settings {
    /// A number of the full table, as this run has it.
    fn divide(&self, full: u64) -> u64 {
        (full / self.divisor).max(1)
    }

    fn time(&self, seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds / self.divisor as f64)
    }
}

/// Something to measure.
struct Row {
    name: &'static str,
    measure: fn(&Settings, &Scratch) -> Result<Vec<Figure>, BenchError>,
}

const ROWS: [Row; 14] = [
    Row { name: "append", measure: append::beside_null },
    Row { name: "always-1", measure: always::one_stream },
    Row { name: "always-1000", measure: always::many_streams },
    Row { name: "always-single", measure: always::one_writer },
    Row { name: "subjects", measure: subjects::distinct },
    Row { name: "read-file", measure: read::from_page_cache },
    Row { name: "read-memory", measure: read::from_memory },
    Row { name: "recovery", measure: recovery::after_kill },
    Row { name: "limit-messages", measure: append::at_messages },
    Row { name: "limit-bytes", measure: append::at_bytes },
    Row { name: "limit-1-of-100k", measure: append::at_newest },
    Row { name: "limit-1-of-1M", measure: append::at_newest_of_many },
    Row { name: "limit-10-of-20k", measure: append::at_history },
    Row { name: "expiry", measure: expiry::pauses },
];

/// Runs the command. The exit code says whether all goals were reached.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, BenchError> {
    let wanted = |name: &str| arguments.rows.split(',').any(|pattern| matches(pattern.trim(), name));
    let rows: Vec<&Row> = ROWS.iter().filter(|row| wanted(row.name)).collect();
    if rows.is_empty() {
        let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        let text = format!("no row matches {:?}; there are {}", arguments.rows, names.join(", "));
        return Err(BenchError::Usage(text));
    }
    let settings = arguments.settings()?;
    let scratch = Scratch::new(&arguments.dir)?;
    let directory = scratch.path().display().to_string();
    let mut text = figure::circumstances(settings.rounds, settings.divisor, &directory);
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

impl Arguments {
    fn settings(&self) -> Result<Settings, BenchError> {
        let divisor = self.divide.unwrap_or(if self.quick { 20 } else { 1 });
        if divisor == 0 || self.rounds == 0 {
            return Err(BenchError::Usage("--divide and --rounds must be more than 0".into()));
        }
        Ok(Settings { rounds: self.rounds, divisor })
    }
}
