//! Jobs: what a stream's files need besides being written: sealing, merging, compacting, erasing,
//! removing.
//!
//! A [`Job`] comes out of [`crate::Stream::next_job`], runs on whatever thread the embedder has for
//! it, and goes back into [`crate::Stream::finish`]. It takes no turn; of the stream it sees
//! immutable files, what was handed to it, and the catalog's texts, for which it holds the lock in
//! short slices. A job never decides what is deleted: entries and manifests say that. It never
//! removes a file that the manifest on disk may still list.
//!
//! Whatever instant a crash comes at, one state is whole: a new file is written under a name that
//! ends with `.tmp` (or one that nothing refers to), synced, and only then given its name, and what
//! it replaces goes after that.

mod compact;
pub(crate) mod entries;
mod merge;
mod output;
mod overwrite;
mod remove;
mod return_slot;
mod seal;
mod state;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::SegmentNo;
use crate::damage::Damage;
use crate::notes::NotesImage;
use crate::stream::{Files, Segment, StoreError, StreamShared};

pub(crate) use compact::{Compacted, Compaction};
pub(crate) use merge::{Merged, Merging};
pub(crate) use output::Packing;
pub(crate) use overwrite::Overwriting;
pub(crate) use remove::Removal;
pub(crate) use return_slot::{ReturnSlot, TaskGuard};
pub(crate) use seal::{Sealed, Sealing};

/// One piece of upkeep of one stream. See the module.
#[derive(Debug)]
#[must_use = "a stream has one job out at a time: one that is dropped makes its upkeep rest"]
pub struct Job {
    pub(crate) env: JobEnv,
    pub(crate) guard: TaskGuard,
}

/// Where a job works.
#[derive(Clone, Debug)]
pub(crate) struct JobEnv {
    pub(crate) files: Files,
    pub(crate) shared: Arc<StreamShared>,
}

/// Task of a job.
#[derive(Debug)]
pub(crate) enum Task {
    /// A closed segment gets its footer.
    Seal(Box<Sealing>),
    /// The effects of sealed segments go into a new base and manifest.
    Merge(Box<Merging>),
    /// A sealed segment is written again without messages that are gone.
    Compact(Box<Compaction>),
    /// Overwrites with zeros what held erased messages in a replaced file.
    Overwrite(Overwriting),
    /// Files that no manifest lists any more are removed.
    Remove(Removal),
    /// Writes the notes of a stream of a group, before segments that say them are sealed.
    WriteNotes(NotesImage),
}

/// Result of a job; for [`crate::Stream::finish`].
#[derive(Debug)]
#[must_use = "the stream has to be told"]
pub struct Done {
    pub(crate) result: Result<Finished, JobError>,
    pub(crate) guard: TaskGuard,
}

/// A job that did what it was for.
#[derive(Debug)]
pub(crate) enum Finished {
    Sealed(Box<Sealed>),
    Merged(Box<Merged>),
    Compacted(Box<Compacted>),
    Overwritten,
    Removed,
    /// The file of notes has everything up to this index.
    WroteNotes(u64),
}

/// Why a job failed.
#[derive(Debug)]
pub(crate) enum JobError {
    /// A file could not be written or read. Everything is as it was.
    Io(io::Error),
    /// A file is not what it should be. Everything is as it was.
    Damage(SegmentNo, Damage),
    /// A sync of the only copy failed: nobody knows what the file holds.
    Lost(io::Error),
    /// The job panicked, or was dropped.
    Left,
    /// The stream has failed, or is deleted, or was opened anew: its files are not this job's any
    /// more.
    Stopped,
}

impl Job {
    /// Does it. Takes from a millisecond to seconds: reads and writes up to a few segments, and
    /// syncs them.
    pub fn run(self) -> Done {
        let Self { env, guard } = self;
        let register = &env.files.store_env.register;
        let begun = env.check().and_then(|()| Ok(register.make_name_safe(env.shared.id)?));
        let result = begun.and_then(|()| match guard.task() {
            Task::Seal(sealing) => sealing.run(&env).map(|sealed| Finished::Sealed(Box::new(sealed))),
            Task::Merge(merging) => merging.run(&env).map(|merged| Finished::Merged(Box::new(merged))),
            Task::Compact(compaction) => {
                compaction.run(&env).map(|compacted| Finished::Compacted(Box::new(compacted)))
            }
            Task::Overwrite(overwriting) => overwriting.run(&env).map(|()| Finished::Overwritten),
            Task::Remove(removal) => removal.run(&env).map(|()| Finished::Removed),
            Task::WriteNotes(image) => {
                image.write(&*env.files.store_env.disk, &env.files.directory)?;
                Ok(Finished::WroteNotes(image.through))
            }
        });
        if result.is_ok() {
            // It may have made room; taken is only what leaves as much again.
            env.files.store_env.headroom.restore();
        }
        Done { result, guard }
    }

    /// Runs the job once `first` has succeeded: without that nothing is done, and the stream tries
    /// again later.
    pub fn run_after(self, first: impl FnOnce() -> io::Result<()>) -> Done {
        match first() {
            Ok(()) => self.run(),
            Err(error) => Done { result: Err(error.into()), guard: self.guard },
        }
    }

    /// Whether it seals a segment: what is gone from that is not read any more when the stream is
    /// opened.
    #[must_use]
    pub fn seals(&self) -> bool {
        matches!(self.guard.task(), Task::Seal(_))
    }

    /// Name of the job, one word, for logs and statistics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.guard.task() {
            Task::Seal(_) => "seal",
            Task::Merge(_) => "merge",
            Task::Compact(_) => "compact",
            Task::Overwrite(_) => "overwrite",
            Task::Remove(_) => "remove",
            Task::WriteNotes(_) => "notes",
        }
    }
}

impl JobEnv {
    /// To be asked before each step that changes a file.
    ///
    /// # Errors
    /// `Stopped`.
    fn check(&self) -> Result<(), JobError> {
        match self.shared.failure() {
            Some(_) => Err(JobError::Stopped),
            None => Ok(()),
        }
    }
}

impl JobError {
    pub(crate) fn of(segment: &Segment, damage: Damage) -> Self {
        match damage {
            Damage::Io(error) => Self::Io(error),
            damage => Self::Damage(segment.no, damage),
        }
    }

    pub(crate) fn into_store_error(self) -> StoreError {
        match self {
            Self::Io(error) => StoreError::from_io(error),
            Self::Stopped => StoreError::Failed(self.to_string()),
            other => StoreError::Read(crate::ReadError::Damaged(other.to_string())),
        }
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Damage(no, damage) => write!(f, "segment {}: {damage}", no.0),
            Self::Lost(error) => write!(f, "a sync failed: {error}"),
            Self::Stopped => f.write_str("the stream has failed"),
            Self::Left => f.write_str("a job did not come back"),
        }
    }
}

impl From<io::Error> for JobError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
