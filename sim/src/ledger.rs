//! The ledger: which seeds ran on which commit, and what came of it. The program alone writes it.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

use crate::{Counts, Simulated};

const HEAD: &str = "commit\tfirst seed\tlast seed\toperations\tdeaths\tfaults\tresult\tworld\n";

/// Seeds that ran one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Kind of world that they are of.
    pub world: Simulated,
    /// The first of them, and how many they were.
    pub first: u64,
    /// How many seeds ran.
    pub seeds: u64,
    /// How many of them went wrong.
    pub failed: u64,
    /// Counts of those that went well.
    pub counts: Counts,
}

/// Adds a line for the commit that is checked out. A tree that was changed since is called so.
///
/// # Errors
/// The file cannot be written.
pub fn add(path: &Path, entry: &Entry) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    let head = if file.metadata()?.len() == 0 { HEAD } else { "" };
    let line = line(&commit(), entry);
    file.write_all(format!("{head}{line}").as_bytes())
}

fn line(commit: &str, entry: &Entry) -> String {
    let Entry { world, first, seeds, failed, counts } = *entry;
    let result = match failed {
        0 => "clean".to_owned(),
        failed => format!("{failed} went wrong"),
    };
    let last = first.wrapping_add(seeds.saturating_sub(1));
    let Counts { operations, deaths, faults, .. } = counts;
    format!("{commit}\t{first}\t{last}\t{operations}\t{deaths}\t{faults}\t{result}\t{}\n", world.word())
}

fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok().filter(|one| one.status.success());
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".to_owned() };
    // What only tells of runs changes nothing.
    let changes =
        git(&["status", "--porcelain", "--untracked-files=no", "--", "crates", "sim", "Cargo.lock"]);
    if changes.is_none_or(|changes| !changes.is_empty()) { format!("{commit}+changes") } else { commit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_commit_seeds_and_result() {
        let counts = Counts { operations: 60, deaths: 4, faults: 2, ..Counts::default() };
        let entry = Entry { world: Simulated::Server, first: 7, seeds: 3, failed: 0, counts };
        assert_eq!(line("c0ffee", &entry), "c0ffee\t7\t9\t60\t4\t2\tclean\tserver\n");
        let entry = Entry { failed: 2, world: Simulated::Cluster, ..entry };
        assert_eq!(line("c0ffee", &entry), "c0ffee\t7\t9\t60\t4\t2\t2 went wrong\tcluster\n");
    }
}
