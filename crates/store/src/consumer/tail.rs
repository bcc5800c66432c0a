//! Traits of the append-only file that carries a log, and of whoever makes such files.
//!
//! Writing at once or later, syncing and the journal are theirs. A log tells them its bytes in
//! order.

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

use myelin_disk::File;

use crate::id::nanos;
use crate::journal::Journal;
use crate::{AppendFile, AppendFileOptions, Durability, FileId, OnDurable, Timestamp};

/// An append-only file.
pub trait Tail: Send + Debug {
    /// Where the next byte goes.
    fn end(&self) -> u64;
    /// Up to where bytes count as stored, in the stream's mode of durability.
    fn releasable(&self) -> u64;
    /// Up to where bytes survive a loss of power, whatever that mode is.
    fn durable(&self) -> u64;
    /// Makes room for `length` more bytes.
    ///
    /// # Errors
    /// Of the disk, usually that it is full. It can be asked again.
    fn reserve(&mut self, length: u64) -> io::Result<()>;
    /// Appends `bytes`; answers the new end.
    ///
    /// # Errors
    /// Of the disk. The file cannot be appended to any more.
    fn append(&mut self, bytes: &[u8], now: Timestamp) -> io::Result<u64>;
    /// Nothing of the file needs to survive any more: it was replaced.
    fn abandon(&mut self);
    /// Whether bytes that were appended may be lost, because of the disk.
    fn has_failed(&self) -> bool;
}

/// Where append-only files come from.
pub trait Tails: Send + Sync + Debug {
    /// Takes over `file`, whose content up to `end` is complete and safe: synced, or
    /// [vouched](Self::vouched) for.
    ///
    /// # Errors
    /// Of the disk.
    fn attach(&self, id: FileId, path: &Path, file: Arc<dyn File>, end: u64) -> io::Result<Box<dyn Tail>>;

    /// Makes the first log, which begins with `bytes`, and has somebody vouch for these: safe on
    /// return, or if `is_shared` when what was noted in the store is made durable. `None`, and
    /// nothing was made: nobody does, and the log has to be synced before it is taken over.
    ///
    /// # Errors
    /// Of the disk. There is no log.
    fn begin(&self, _path: &Path, _bytes: &[u8], _is_shared: bool) -> io::Result<Option<Arc<dyn File>>> {
        Ok(None)
    }

    /// How many bytes at the beginning of a log are safe, with its name, whatever its directory
    /// and its file say.
    fn vouched(&self, _number: u64) -> u64 {
        0
    }

    /// A later log has durably taken the place of the first one.
    fn replaced(&self) {}

    /// Makes the place where logs are, before the first one is made there.
    ///
    /// # Errors
    /// Of the disk.
    fn prepare(&self) -> io::Result<()> {
        Ok(())
    }

    /// The disk is full: gives up space that was kept for this. Whether trying again has a point.
    fn give_room(&self) -> bool {
        false
    }
}

/// The append-only files of a store on a device: its journal makes them durable.
#[derive(Clone)]
pub struct JournalTails {
    /// The device's.
    pub journal: Arc<Journal>,
    /// The stream's mode.
    pub durability: Durability,
    /// Listener that is told when logs have become durable, or cannot any more.
    pub on_durable: Option<Arc<dyn OnDurable>>,
}

impl JournalTails {
    /// Takes over a file, as [`Tails::attach`] does. `is_new`: its name may not be durable, and
    /// whoever vouches for it misses it.
    pub(crate) fn open(
        &self,
        id: FileId,
        path: &Path,
        file: Arc<dyn File>,
        end: u64,
        is_new: bool,
    ) -> Arc<AppendFile> {
        let options = AppendFileOptions {
            id,
            // The number in the id grows with each rewrite.
            generation: 0,
            file,
            path: path.to_owned(),
            end,
            is_new,
            durability: self.durability,
            bound: end.saturating_mul(2).max(AHEAD),
            on_durable: self.on_durable.clone(),
        };
        let file = AppendFile::new(&self.journal, options);
        if !is_new {
            // A log that is begun holds whole states: that they are there is stated also if nothing
            // is ever appended to it.
            self.journal.shared().changed().push(&file);
        }
        file
    }
}

/// Bytes up to which a small log is allocated ahead: about where it is written anew.
const AHEAD: u64 = 512 << 10;

impl Debug for JournalTails {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JournalTails").field("durability", &self.durability).finish_non_exhaustive()
    }
}

impl Tails for JournalTails {
    fn attach(&self, id: FileId, path: &Path, file: Arc<dyn File>, end: u64) -> io::Result<Box<dyn Tail>> {
        Ok(Box::new(self.open(id, path, file, end, false)))
    }
}

impl Tail for Arc<AppendFile> {
    fn end(&self) -> u64 {
        AppendFile::end(self)
    }

    fn releasable(&self) -> u64 {
        AppendFile::releasable(self)
    }

    fn durable(&self) -> u64 {
        AppendFile::durable(self)
    }

    fn reserve(&mut self, length: u64) -> io::Result<()> {
        AppendFile::reserve(self, length).map(drop)
    }

    fn append(&mut self, bytes: &[u8], now: Timestamp) -> io::Result<u64> {
        Ok(AppendFile::append(self, bytes, nanos(now))?)
    }

    fn abandon(&mut self) {
        AppendFile::abandon(self);
    }

    fn has_failed(&self) -> bool {
        AppendFile::has_failed(self)
    }
}
