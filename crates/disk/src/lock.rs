//! Locks on paths: whoever holds one is the only one who writes below.

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};

use crate::claim::{Claim, ClaimSet};

/// A lock that is held. It ends when this is dropped, and with the process.
pub trait Lock: Send + Sync + Debug {}

/// Where nobody else can be.
impl Lock for () {}

/// Of a disk in memory, which only this process sees.
impl Lock for Claim<PathBuf> {}

/// A lock that somebody else holds, in the words of the error for it.
pub(super) fn is_held() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "another process uses it")
}

/// Locks a path of a disk in memory.
pub(super) fn take(locks: &ClaimSet<PathBuf>, path: &Path) -> io::Result<Box<dyn Lock>> {
    match locks.take(path.to_owned()) {
        Some(claim) => Ok(Box::new(claim)),
        None => Err(is_held()),
    }
}
