//! The seam between the store and a disk: [`real`], [`memory`] and, for tests, [`faulty`] and
//! [`interrupted`].
//!
//! Around a disk: [`handles`] keeps few files open, [`headroom`] sets space aside, [`claim`] lets
//! one part of the process hold a name.
//!
//! A disk promises little: what was written survives the process at once, and a loss of power only
//! after `sync` returned without an error; a new or renamed entry of a directory survives only
//! after `sync_directory`. Unsynced writes may survive in part and in any order, in units of 512
//! bytes. A failed `sync` says that what was written since the last one may be lost, however often
//! it is asked again.

pub mod claim;
pub mod faulty;
pub mod handles;
pub mod headroom;
pub mod interrupted;
mod lock;
pub mod memory;
pub mod real;
mod tree;

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

pub use lock::Lock;

/// A file system, or what plays one. Paths are absolute. Errors carry the operating system's kind:
/// a full disk is `ErrorKind::StorageFull` (or `QuotaExceeded`).
pub trait Disk: Send + Sync + Debug {
    /// Creates an empty file. `AlreadyExists` if there is one.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// Opens an existing file to read and write.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// Opens an existing file to read; whoever may not write it can do that, too. What would change
    /// it is an error where the disk can tell.
    fn open_read_only(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.open(path)
    }
    /// Lists a directory, sorted by name.
    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>>;
    /// Creates a directory and those above it that are missing.
    fn make_directory(&self, path: &Path) -> io::Result<()>;
    /// Renames a file or directory; a file at `to` is replaced in one step.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file. Whoever has it open can go on reading.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_directory(&self, path: &Path) -> io::Result<()>;
    /// Makes creations, renames and removals in `directory` survive a loss of power.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;
    /// Bytes that an ordinary user may still write on the device that holds `path`.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;
    /// Locks the file `path`, which is made if it is missing and never removed, without waiting.
    /// `ResourceBusy` while somebody else holds the lock, in this process or another one. It keeps
    /// out only those who ask for it, too.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>>;
    /// Which run of the machine this is: while it is the same, what was written is there, synced or
    /// not. `None` where that is not known.
    fn boot(&self) -> Option<u64> {
        None
    }
}

/// Whether an error is one of a full disk: it may pass, and nothing else is wrong.
#[must_use]
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether an error says that the device cannot read what is stored there, or that the file system
/// has found it damaged: `EIO` and, on Linux, `EUCLEAN`. Nothing in the standard library names
/// them.
#[must_use]
pub fn is_unreadable(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(5 | 117))
}

/// Makes a part of a file durable. What the last process could not sync may be in the operating
/// system's memory only, and marked there as if it were on the device: a sync alone would do
/// nothing. So it is written once more.
///
/// # Errors
/// Of reading, writing or syncing.
pub fn write_again(file: &dyn File, from: u64, to: u64) -> io::Result<()> {
    let mut at = from;
    let mut piece = vec![0; to.saturating_sub(from).min(1 << 20) as usize];
    while at < to {
        let wanted = piece.len().min((to - at) as usize);
        let read = file.read_at(&mut piece[..wanted], at)?;
        if read == 0 {
            break;
        }
        file.write_at(&piece[..read], at)?;
        at += read as u64;
    }
    file.sync()
}

/// An open file. Reads and writes name their place; several threads may use one file.
pub trait File: Send + Sync + Debug {
    /// Length in bytes, allocated but unwritten parts included.
    fn len(&self) -> io::Result<u64>;
    /// Whether the length is 0.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Reads up to `buffer.len()` bytes at `offset`; fewer only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// As [`File::read_at`], but only from memory: `None` where it would have to wait for the
    /// device.
    fn read_cached_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        self.read_at(buffer, offset).map(Some)
    }
    /// Writes all of `bytes` at `offset`. After an error any part of them may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes the file at least `length` long, with room for it on the device. The new part reads as
    /// zeros, and writing to it does not fail for lack of space (where the file system can promise
    /// that). After an error a part of it may have been added.
    fn allocate(&self, length: u64) -> io::Result<()>;
    /// Cuts or extends the file to `length` bytes.
    fn set_len(&self, length: u64) -> io::Result<()>;
    /// Makes everything written so far survive a loss of power (`fdatasync`).
    fn sync(&self) -> io::Result<()>;
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirectoryEntry {
    /// The name alone. A name that is not UTF-8 is given with replacement characters; it is none of
    /// ours.
    pub name: String,
    /// Whether it is a directory.
    pub is_directory: bool,
}

#[cfg(test)]
mod tests;
