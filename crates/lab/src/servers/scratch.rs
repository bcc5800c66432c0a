//! A directory for one run of a benchmark, and everything below it until the run is over.
//!
//! Owns the directory: it is gone when this value is, whether the run ended well or not.
//! Directories of runs that were killed are removed by the next run in the same place.

use std::fs;
use std::path::{Path, PathBuf};

use myelin_loadgen::error::BenchError;

/// Start of the directories' names, before the process id.
const PREFIX: &str = "myelin-bench-";

/// Where such a directory is made, unless somebody wants it otherwise.
pub(crate) fn parent(wanted: Option<&Path>) -> PathBuf {
    let usual = if Path::new("target").is_dir() { "target" } else { "." };
    wanted.map_or_else(|| PathBuf::from(usual), Path::to_path_buf)
}

/// Directory of one run, which is removed with the value.
#[derive(Debug)]
pub(crate) struct Scratch {
    root: PathBuf,
}

impl Scratch {
    /// A new directory in `parent`, which is not removed.
    pub(crate) fn new(parent: &Path) -> Result<Self, BenchError> {
        let parent = std::path::absolute(parent).map_err(BenchError::io("the directory of the benchmark"))?;
        fs::create_dir_all(&parent).map_err(BenchError::io("the directory of the benchmark"))?;
        remove_abandoned(&parent);
        let root = parent.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&root).map_err(BenchError::io("the directory of the benchmark"))?;
        Ok(Self { root })
    }

    /// An empty directory in it, until the value goes.
    pub(crate) fn room(&self, name: &str) -> Result<Self, BenchError> {
        let root = self.root.join(name);
        fs::create_dir(&root).map_err(BenchError::io("a directory of the benchmark"))?;
        Ok(Self { root })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.root
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.root) {
            eprintln!("myelin: cannot remove {}: {error}", self.root.display());
        }
    }
}

/// Removes the directories of runs whose process is gone.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new("/proc").join(process.to_string()).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_behind() {
        let parent = std::env::temp_dir().join(format!("myelin-scratch-test-{}", std::process::id()));
        let abandoned = parent.join(format!("{PREFIX}4294967295"));
        fs::create_dir_all(abandoned.join("store")).unwrap();
        fs::create_dir(parent.join(format!("{PREFIX}not-a-number"))).unwrap();
        let scratch = Scratch::new(&parent).unwrap();
        let room = scratch.room("one").unwrap();
        fs::write(room.path().join("file"), "x").unwrap();
        drop(scratch);
        std::mem::forget(room);
        let left: Vec<_> = fs::read_dir(&parent).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        fs::remove_dir_all(&parent).unwrap();
        assert_eq!(left, [format!("{PREFIX}not-a-number").as_str()]);
    }
}
