//! Measurements of the server from `/proc`, and of what its store takes on disk.

use crate::Error;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Bytes of one of `st_blocks`, whatever the file system's own blocks are.
const BLOCK: u64 = 512;

/// Where our journal is in a store's folder. nats-server has none.
const JOURNAL: &str = "jetstream/myelin/journal";

/// One look at the process.
#[derive(Debug)]
pub(super) struct Sample {
    /// Memory in RAM, in bytes: all of it, and what belongs to no file.
    pub(super) resident: u64,
    pub(super) anonymous: u64,
    pub(super) threads: u64,
    pub(super) descriptors: usize,
    /// Open files that are in no folder any more.
    pub(super) removed: Vec<RemovedFile>,
    /// Bytes of allocated blocks of the store's files, without the journal's.
    stored: u64,
    /// Bytes of the journal's files.
    pub(super) journal: u64,
}

/// A file that somebody removed and the server holds.
#[derive(Debug, Clone)]
pub(super) struct RemovedFile {
    pub(super) descriptor: u32,
    pub(super) inode: u64,
    /// Where it was.
    pub(super) path: PathBuf,
    /// Bytes that the file still takes.
    bytes: u64,
}

#[cfg(test)]
impl RemovedFile {
    /// One for tests.
    pub(super) fn sample(descriptor: u32, inode: u64) -> Self {
        Self { descriptor, inode, path: PathBuf::from("segment"), bytes: 0 }
    }
}

impl Sample {
    pub(super) fn of(pid: u32, store: &Path) -> Result<Self, Error> {
        let proc = PathBuf::from(format!("/proc/{pid}"));
        let status = fs::read_to_string(proc.join("status"))?;
        let descriptors = descriptors(&proc)?;
        let journal = allocated(&store.join(JOURNAL))?;
        Ok(Self {
            resident: status_line(&status, "VmRSS:")? * 1024,
            anonymous: status_line(&status, "RssAnon:")? * 1024,
            threads: status_line(&status, "Threads:")?,
            removed: descriptors.iter().filter_map(|&descriptor| removed_file(&proc, descriptor)).collect(),
            descriptors: descriptors.len(),
            stored: allocated(store)?.saturating_sub(journal),
            journal,
        })
    }

    /// Bytes that the store takes of the disk, removed files included, the journal not.
    pub(super) fn disk(&self) -> u64 {
        self.stored + self.removed.iter().map(|file| file.bytes).sum::<u64>()
    }
}

fn status_line(status: &str, name: &str) -> Result<u64, Error> {
    let value =
        status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok());
    value.ok_or_else(|| format!("no {name} in the process's status").into())
}

fn descriptors(proc: &Path) -> Result<Vec<u32>, Error> {
    let mut all = Vec::new();
    for entry in fs::read_dir(proc.join("fd"))? {
        all.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(all)
}

/// The file behind a descriptor, if it is a removed one. Descriptors come and go meanwhile: what is
/// not there is none.
fn removed_file(proc: &Path, descriptor: u32) -> Option<RemovedFile> {
    let link = proc.join("fd").join(descriptor.to_string());
    let path = fs::read_link(&link).ok()?;
    let path = path.to_str()?.strip_suffix(" (deleted)")?;
    let file = fs::metadata(&link).ok()?;
    // Memory files look removed from their birth.
    let is_file = file.is_file() && !path.starts_with("/memfd:");
    let (inode, bytes) = (file.ino(), file.blocks() * BLOCK);
    is_file.then(|| RemovedFile { descriptor, inode, path: path.into(), bytes })
}

/// The allocated bytes of everything in `folder`. What vanishes meanwhile takes nothing.
fn allocated(folder: &Path) -> Result<u64, Error> {
    let entries = match fs::read_dir(folder) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    let mut bytes = 0;
    for entry in entries {
        let Ok(entry) = entry else { continue };
        let Ok(file) = entry.metadata() else { continue };
        bytes += file.blocks() * BLOCK;
        if file.is_dir() {
            bytes += allocated(&entry.path())?;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write as _;

    #[test]
    fn a_removed_file_counts_as_long_as_it_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("segment");
        let mut file = File::create(&path).unwrap();
        file.write_all(&vec![1; 1 << 20]).unwrap();
        file.sync_all().unwrap();
        let of = || Sample::of(std::process::id(), folder.path()).unwrap();
        let ours =
            |sample: &Sample| sample.removed.iter().find(|file| file.path == path).map(|file| file.bytes);
        let there = of();
        assert!(there.stored >= 1 << 20, "{} bytes", there.stored);
        assert_eq!(ours(&there), None);
        fs::remove_file(&path).unwrap();
        let removed = of();
        assert!(removed.stored < 1 << 20);
        assert!(ours(&removed).unwrap() >= 1 << 20);
        assert!(removed.disk() >= 1 << 20);
        drop(file);
        assert_eq!(ours(&of()), None);
    }

    #[test]
    fn the_journal_is_counted_apart() {
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join(JOURNAL);
        fs::create_dir_all(&journal).unwrap();
        let mut file = File::create(journal.join("00000001.jnl")).unwrap();
        file.write_all(&vec![1; 1 << 20]).unwrap();
        file.sync_all().unwrap();
        let sample = Sample::of(std::process::id(), folder.path()).unwrap();
        assert!(sample.journal >= 1 << 20 && sample.stored < 1 << 20, "{sample:?}");
    }
}
