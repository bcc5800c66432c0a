//! The journal: what its files hold, and what the replay says of it.

use std::io;
use std::path::Path;

use crate::disk::Disk;
use crate::journal::{Problem, ReplayReport, inspect};

use super::{Finding, Reporter};

/// Looks at the files themselves.
pub(super) fn check(disk: &dyn Disk, root: &Path, store: u64, reporter: &mut Reporter<'_>) {
    let directory = root.join("journal");
    let files = match inspect(disk, &directory, store) {
        Ok(files) => files,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => {
            let meaning = "The server does not start with this journal.";
            reporter.tell(Finding::damage(directory, format!("it cannot be read: {error}"), meaning));
            return;
        }
    };
    let newest = files.iter().map(|file| file.number).max().unwrap_or(0);
    for file in files.into_iter().filter(|file| file.number == newest || file.number == 0) {
        let Some(range) = file.broken else { continue };
        let meaning = "The last round was being written when the process or the power failed, or was damaged since; \
                       nothing of a round that was not finished had been confirmed.";
        reporter.tell(Finding::note(file.path, "the last block is not whole", meaning).at(range));
    }
}

const LOST: &str = "Bytes that were confirmed as safe may be missing in the files that they belong to.";

/// Puts what the replay reports into findings.
pub(super) fn judge(report: &ReplayReport, directory: &Path, reporter: &mut Reporter<'_>) {
    for problem in &report.problems {
        let file = match problem {
            Problem::MissingRounds { file, .. } | Problem::Foreign { file } | Problem::Malformed { file, .. } => file,
            _ => directory,
        };
        reporter.tell(Finding::damage(file, problem.to_string(), LOST));
    }
    if report.cut > 0 {
        let what = format!("{} rounds were not finished", report.cut);
        reporter.tell(Finding::note(directory, what, "Nothing of them had been confirmed as safe."));
    }
    for path in &report.kept {
        let meaning = "It may hold the only copy of some bytes: keep it until the store was checked against a backup.";
        let (path, what) = (path.clone(), "a start could not use all of it and set it aside");
        // What this replay set aside was told above.
        let is_new = report.problems.iter().any(|problem| !matches!(problem, Problem::MissingStart { .. }));
        if !is_new {
            reporter.tell(Finding::suspicious(path, what, meaning));
        }
    }
    for path in &report.unknown {
        reporter.tell(Finding::note(path, "it is none of the journal's files", "The server leaves it alone."));
    }
}
