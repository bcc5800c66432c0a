//! A second build of the same commit, in a clone in another folder: do the same bytes come out?

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::error::DistError;
use crate::packages::SUMS;
use crate::tool;
use crate::version::Version;

/// Builds what `root` has committed once more, from a clone, and compares with what is in `into`.
///
/// # Errors
///
/// Something is not committed, the clone does not build, or a file differs.
pub fn verify(root: &Path, target: &Path, profile: &str, into: &Path) -> Result<(), DistError> {
    if Version::of(root)?.is_changed() {
        return Err(DistError::NotCommitted);
    }
    let clone = target.join("second");
    if clone.exists() {
        fs::remove_dir_all(&clone).map_err(DistError::io(&clone))?;
    }
    tool::run(Command::new("git").args(["clone", "--quiet"]).args([root, &clone]))?;
    let again = clone.join("target/packages");
    let built = tool::cargo()
        .args(["run", "--locked", "--quiet", "-p", "myelin-dist", "--", "--profile", profile, "--into"])
        .arg(&again)
        .current_dir(&clone)
        .env_remove("CARGO_TARGET_DIR")
        .status()
        .map_err(|error| DistError::Tool("cargo".into(), error))?;
    if !built.success() {
        return Err(DistError::Failed("the second build".into()));
    }
    let (first, second) = (sums(into)?, sums(&again)?);
    let differs: Vec<String> = first.symmetric_difference(&second).filter_map(|line| name(line)).collect();
    if differs.is_empty() {
        return fs::remove_dir_all(&clone).map_err(DistError::io(&clone));
    }
    let names: BTreeSet<String> = differs.into_iter().collect();
    Err(DistError::Differs(names.into_iter().collect()))
}

fn sums(folder: &Path) -> Result<BTreeSet<String>, DistError> {
    let path = folder.join(SUMS);
    let text = fs::read_to_string(&path).map_err(DistError::io(&path))?;
    Ok(text.lines().map(str::to_owned).collect())
}

fn name(line: &str) -> Option<String> {
    line.split("  ").nth(1).map(str::to_owned)
}
