//! `myelin-lab report`: results that were measured before, as tables and as a page.

use std::path::{Path, PathBuf};

use clap::Args;
use myelin_loadgen::error::BenchError;
use myelin_loadgen::present::{Report, compare, csv, html, terminal, write};
use myelin_loadgen::results::Results;

pub(crate) const HELP: &str = "\
Show results that were measured before.

Several files are laid over each other: rows of the same name become one, and systems that have the same name are \
called after their files.

  myelin-lab report a.json b.json --html report.html
  myelin-lab report --compare before.json after.json";

/// `myelin-lab report …`
#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// Results that `bench latency --json` or `myelin-lab compare` wrote
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Say for every figure of two files whether the second is better
    #[arg(long)]
    compare: bool,
    /// Write a page with pictures to this file; it needs no network to be read
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write all figures to this file, comma-separated
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

pub(crate) fn execute(arguments: &ReportArguments) -> Result<(), BenchError> {
    let documents: Vec<(String, Results)> = arguments
        .files
        .iter()
        .map(|path| Ok((name(path), Results::load(path)?)))
        .collect::<Result<_, _>>()?;
    if arguments.compare {
        let [(first, before), (second, after)] = &documents[..] else {
            return Err(BenchError::Usage("--compare wants two files".into()));
        };
        print!("{}", compare::table([first, second], [before, after]));
    }
    let report = Report::of(documents);
    match (&arguments.html, &arguments.csv) {
        (None, None) if !arguments.compare => print!("{}", terminal::report(&report)),
        (page, table) => {
            page.iter().try_for_each(|path| write(path, &html::report(&report)))?;
            table.iter().try_for_each(|path| write(path, &csv::report(&report)))?;
        }
    }
    Ok(())
}

/// Name of a file's systems where names of several files meet: that of the file, without extension.
fn name(path: &Path) -> String {
    path.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}
