//! Directories of the streams in a store, as they are found when it is opened.

use crate::StreamId;
use std::collections::BTreeSet;

/// The directories of streams in a store.
#[derive(Debug, Default)]
pub(crate) struct Directories {
    /// Of streams that are there, readable or not.
    pub(crate) there: BTreeSet<StreamId>,
    /// Of streams that were being made or removed when a process ended, and those that the register
    /// says were removed.
    pub(crate) unfinished: BTreeSet<StreamId>,
    /// Streams that the register says are there.
    pub(crate) registered: BTreeSet<StreamId>,
    /// Streams of the register that had no directory before the journal was replayed.
    pub(crate) without_files: BTreeSet<StreamId>,
}
