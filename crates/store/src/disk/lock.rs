//! Locks on paths: whoever holds one is the only one who writes below.

use std::collections::HashSet;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A lock that is held. It ends when this is dropped, and with the process.
pub trait Lock: Send + Sync + Debug {}

/// Where nobody else can be.
impl Lock for () {}

/// A lock that somebody else holds, in the words of the error for it.
pub(super) fn is_held() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "another process uses it")
}

/// The locks of a disk in memory, which only this process sees.
#[derive(Clone, Debug, Default)]
pub(super) struct Locks(Arc<Mutex<HashSet<PathBuf>>>);

#[derive(Debug)]
struct Held {
    path: PathBuf,
    locks: Locks,
}

impl Locks {
    pub(super) fn take(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        if !self.paths().insert(path.to_owned()) {
            return Err(is_held());
        }
        Ok(Box::new(Held { path: path.to_owned(), locks: self.clone() }))
    }

    fn paths(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        // Nobody panics between two steps here.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lock for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        self.locks.paths().remove(&self.path);
    }
}
