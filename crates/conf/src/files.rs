//! The files that options name, as far as a configuration is checked against them.
//!
//! Reads and looks, never writes. Texts of errors are those of Go.

use myelin_stdx::os_error::words;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// Bytes of the largest file that an option may name.
const MAX_BYTES: u64 = 16 << 20;

/// The bytes of a file.
pub(crate) fn read(path: &str) -> Result<Vec<u8>, String> {
    let file = File::open(path).map_err(|error| format!("open {path}: {}", words(&error)))?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("read {path}: {}", words(&error)))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("{path} is larger than {} MiB", MAX_BYTES >> 20));
    }
    Ok(bytes)
}

/// State of a path where an option wants a directory that it may write to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathState {
    /// A directory that its owner may write to.
    Directory,
    /// Nothing yet, and a directory can be made there.
    Free,
    /// Something else, or something else on the way there.
    Blocked,
}

/// Looks at a place without making anything there.
pub(crate) fn place(path: &str) -> PathState {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() && !found.permissions().readonly() => PathState::Directory,
        Ok(_) => PathState::Blocked,
        Err(_) => {
            let above = Path::new(path).ancestors().skip(1).find_map(|above| fs::metadata(above).ok());
            let is_blocked = above.is_some_and(|above| !above.is_dir());
            if is_blocked { PathState::Blocked } else { PathState::Free }
        }
    }
}
