//! Repairs a store that nobody uses: brings back what its bytes allow, and says what they do not.
//!
//! Owns what no start does by itself: marks of the store and names of streams of which both copies
//! are gone, manifests of which neither can be read, journal files that were set aside. All else is
//! what a start does, and repair lets it do that: it opens every stream, so that torn ends are cut,
//! copies written again and strange files set aside, and then has new bases, manifests and consumer
//! logs written where the old ones were damaged.
//!
//! Without `apply` the same runs on an overlay, so what is told is what would be done. Nothing that
//! can be read is deleted; what is replaced or not understood is in quarantine. Each step can be
//! repeated: whoever is interrupted begins again.

mod action;
mod kept;
mod losses;
mod manifests;
mod markers;
mod metas;
mod register;
mod streams;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use myelin_disk::{Disk, File, Lock};
use myelin_stdx::os_error::words;

use crate::config::StreamConfig;
use crate::entropy::Entropy;
use crate::keys::Keys;
use crate::meta::{MARKER, Meta};
use crate::recovery::{Notice, QUARANTINE, place_aside};
use crate::store::{COPY, LOCK, set_all_aside, set_lock_aside, stream_number};
use crate::verify::Overlay;
use crate::{StreamId, Timestamp};

pub use action::{RepairAction, RepairOutcome, Summary};

/// Name and configuration of a stream, from somebody who knows them: for a directory of which no
/// copy of `meta` can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// Which directory it belongs to, if that is known.
    pub directory: Option<StreamId>,
    /// Account of the stream.
    pub account: String,
    /// Name of the stream.
    pub name: String,
    /// Text that the stream's owner would have written about it.
    pub config: Vec<u8>,
    /// When it was made.
    pub created: Timestamp,
}

/// How to repair.
pub struct RepairOptions<'a> {
    /// Whether anything is changed.
    pub apply: bool,
    /// Keys that open encrypted streams.
    pub keys: Option<Keys>,
    /// Names for streams that have lost theirs.
    pub given: Vec<Given>,
    /// How a stream is opened, from what is written about it. Its limits are not enforced.
    pub shape: &'a dyn Fn(&Meta) -> StreamConfig,
    /// For salts of what is written anew.
    pub entropy: Arc<dyn Entropy>,
    /// The time.
    pub now: Timestamp,
}

impl fmt::Debug for RepairOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { apply, given, .. } = self;
        f.debug_struct("Options").field("apply", apply).field("given", given).finish_non_exhaustive()
    }
}

/// Repairs the store in `root`, and calls `progress` with each thing that was done, is lost or is
/// left to the operator.
///
/// # Errors
/// There is no store, another process uses it, or the disk fails. It may be repeated.
pub fn repair(
    disk: &Arc<dyn Disk>,
    root: &Path,
    options: &RepairOptions<'_>,
    progress: &mut dyn FnMut(&RepairAction),
) -> io::Result<Summary> {
    let names = disk.list(root)?;
    let has = |name: &str| names.iter().any(|entry| entry.name == name);
    if ![MARKER, COPY, "streams"].iter().any(|name| has(name)) {
        return Err(io::Error::new(io::ErrorKind::NotFound, "there is no store in this directory"));
    }
    let mut aside = if options.apply { set_lock_aside(&**disk, root)? } else { Vec::new() };
    // A look does not even make the file, and without it nobody can have the store open.
    let is_file = names.iter().any(|entry| entry.name == LOCK && !entry.is_directory);
    let lock = if options.apply || is_file { Some(take_lock(&**disk, root)?) } else { None };
    let disk: Arc<dyn Disk> =
        if options.apply { Arc::clone(disk) } else { Arc::new(Overlay::new(Arc::clone(disk))) };
    let mut repairing = Repairing { disk, root, options, progress, summary: Summary::default() };
    aside.extend(set_all_aside(&*repairing.disk, root)?);
    for notice in aside {
        let Notice::SetAside { name, to, why } = notice else { continue };
        let what = format!("{why}; moved to {}", to.strip_prefix(root).unwrap_or(&to).display());
        repairing.emit(RepairAction::new(RepairOutcome::Repaired, name, what));
    }
    let store = markers::repair(&mut repairing)?;
    if let Some(store) = store {
        register::repair(&mut repairing, store)?;
    }
    metas::repair(&mut repairing)?;
    let renewed = manifests::repair(&mut repairing)?;
    if let Some(store) = store {
        kept::repair(&mut repairing, store)?;
    }
    // Opening the store takes it again.
    drop(lock);
    streams::repair(&mut repairing, &renewed)?;
    Ok(repairing.summary)
}

fn take_lock(disk: &dyn Disk, root: &Path) -> io::Result<Box<dyn Lock>> {
    let path = root.join(LOCK);
    disk.lock(&path).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => named(&path, &error),
        _ => error,
    })
}

/// A repair on its way.
struct Repairing<'a> {
    disk: Arc<dyn Disk>,
    root: &'a Path,
    options: &'a RepairOptions<'a>,
    progress: &'a mut dyn FnMut(&RepairAction),
    summary: Summary,
}

impl Repairing<'_> {
    fn emit(&mut self, mut action: RepairAction) {
        self.summary.count(action.outcome);
        if let Ok(below) = action.file.strip_prefix(self.root) {
            action.file = below.to_owned();
        }
        (self.progress)(&action);
    }

    /// The directories of streams, in order.
    fn streams(&self) -> io::Result<Vec<StreamId>> {
        let entries = match self.disk.list(&self.root.join("streams")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let directories = entries.iter().filter(|entry| entry.is_directory);
        Ok(directories.filter_map(|entry| stream_number(&entry.name)).collect())
    }

    /// Copies a file to quarantine, where it stays when another one takes its place. Durable on
    /// return.
    fn copy_aside(&self, path: &Path, stream: &str) -> io::Result<()> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let bytes = whole(&*self.disk.open_read_only(path)?)?;
        let to = place_aside(&*self.disk, self.root, stream, &name)?;
        let copy = self.disk.create(&to)?;
        copy.write_at(&bytes, 0)?;
        copy.sync()?;
        self.disk.sync_directory(&self.root.join(QUARANTINE))
    }

    /// Moves a file to quarantine. Durable on return.
    fn move_aside(&self, path: &Path, stream: &str) -> io::Result<()> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let to = place_aside(&*self.disk, self.root, stream, &name)?;
        self.disk.rename(path, &to)?;
        self.disk.sync_directory(&self.root.join(QUARANTINE))?;
        path.parent().map_or(Ok(()), |parent| self.disk.sync_directory(parent))
    }
}

/// An error of a file, with its name.
fn named(path: &Path, error: &io::Error) -> io::Error {
    let name = path.file_name().unwrap_or_default().display();
    io::Error::new(error.kind(), format!("{name}: cannot read it: {}", words(error)))
}

/// All bytes of a small file.
fn whole(file: &dyn File) -> io::Result<Vec<u8>> {
    let length = usize::try_from(file.len()?).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let mut bytes = vec![0; length];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// A directory's name.
fn hex(id: StreamId) -> String {
    format!("{:016x}", id.0)
}
