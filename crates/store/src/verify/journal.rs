//! The journal: what its files hold, and what the replay says of it.

use std::io;
use std::path::Path;

use myelin_disk::Disk;

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
            reporter.emit(Finding::damage(directory, format!("it cannot be read: {error}"), meaning));
            return;
        }
    };
    kept(disk, &directory, reporter);
    let newest = files.iter().map(|file| file.number).max().unwrap_or(0);
    for file in files.into_iter().filter(|file| file.number == newest || file.number == 0) {
        let Some(range) = file.broken else { continue };
        let meaning = "The last round was being written when the process or the power failed, or was damaged since; \
                       nothing of a round that was not finished had been confirmed.";
        reporter.emit(Finding::note(file.path, "the last block is not whole", meaning).at(range));
    }
}

/// Files that an earlier start set aside.
fn kept(disk: &dyn Disk, directory: &Path, reporter: &mut Reporter<'_>) {
    for entry in disk.list(directory).unwrap_or_default() {
        if entry.name.starts_with("kept-") {
            let meaning = "It may hold the only copy of some bytes: keep it until the store was checked against a \
                           backup.";
            let what = "an earlier start could not use all of it and set it aside";
            reporter.emit(Finding::suspicious(directory.join(entry.name), what, meaning));
        }
    }
}

const LOST: &str = "Bytes that were confirmed as safe may be missing in the files that they belong to.";

/// Puts what the replay reports into findings.
pub(super) fn judge(report: &ReplayReport, directory: &Path, reporter: &mut Reporter<'_>) {
    for problem in &report.problems {
        let file = match problem {
            Problem::MissingRounds { file, .. }
            | Problem::Foreign { file }
            | Problem::Malformed { file, .. } => file,
            _ => directory,
        };
        reporter.emit(Finding::damage(file, problem.to_string(), LOST));
    }
    for (path, bit) in &report.corrected {
        let byte = bit / 8;
        let what = crate::flipped::words(*bit as usize);
        let meaning = "It can be told which; the next start reads it as it was, and nothing is lost.";
        reporter.emit(Finding::damage(path, what, meaning).at(byte..byte + 1));
    }
    if report.cut > 0 {
        let what = format!("{} rounds were not finished", report.cut);
        reporter.emit(Finding::note(directory, what, "Nothing of them had been confirmed as safe."));
    }
    for path in &report.unknown {
        reporter.emit(Finding::note(
            path,
            "it is none of the journal's files",
            "The server leaves it alone.",
        ));
    }
}
