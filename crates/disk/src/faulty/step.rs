//! The journal of a faulty disk: what was asked of it, point by point, for whoever wonders why a
//! run failed.

use std::fmt;
use std::path::PathBuf;

/// One operation point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskStep {
    /// Its number, from 0.
    pub point: u64,
    /// The file or directory.
    pub path: PathBuf,
    /// Operation that was asked for.
    pub operation: DiskOperation,
    /// Whether it was done wholly.
    pub done: bool,
}

/// Operation of a disk that changes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskOperation {
    /// An empty file.
    Create,
    /// Bytes at an offset.
    Write {
        /// Where they go.
        offset: u64,
        /// How many they are.
        length: u64,
    },
    /// Room up to a length.
    Allocate(u64),
    /// A new length.
    SetLen(u64),
    /// A file's content.
    Sync,
    /// A directory and those above it.
    MakeDirectory,
    /// Another name.
    Rename(PathBuf),
    /// A file goes.
    RemoveFile,
    /// A directory goes.
    RemoveDirectory,
    /// A directory's names.
    SyncDirectory,
}

impl fmt::Display for DiskStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed = if self.done { "" } else { "  FAILED" };
        write!(f, "{:>5} {} {:?}{failed}", self.point, self.path.display(), self.operation)
    }
}
