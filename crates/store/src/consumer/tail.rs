//! What this room asks of the append-only file that carries a log, and of whoever makes such files.
//!
//! Writing at once or later, syncing and the journal are theirs. A log tells them its bytes in order.

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::disk::File;
use crate::{FileId, Timestamp};

/// An append-only file.
pub trait Tail: Send + Debug {
    /// Where the next byte goes.
    fn end(&self) -> u64;
    /// Up to where bytes count as stored, in the stream's mode of durability.
    fn releasable(&self) -> u64;
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
}

/// Where append-only files come from.
pub trait Tails: Send + Sync + Debug {
    /// Takes over `file`, whose content up to `end` is complete and synced.
    ///
    /// # Errors
    /// Of the disk.
    fn attach(&self, id: FileId, path: &Path, file: Arc<dyn File>, end: u64) -> io::Result<Box<dyn Tail>>;
}
