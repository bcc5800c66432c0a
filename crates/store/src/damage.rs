//! Damage that a file of the store can have.
//!
//! Owns the words for it. A `Damage` is a fact about bytes: what follows from it is decided by
//! whoever knows what the bytes were for. Nothing that is damaged is ever removed because of it.

use std::fmt;
use std::io;

use myelin_disk::is_full;

/// Why a file, or a part of it, cannot be taken for what it should be.
#[derive(Debug)]
pub enum Damage {
    /// The operating system could not read it, or not write to it.
    Io(io::Error),
    /// The file ends too early.
    Short(&'static str),
    /// The file does not begin as such files do.
    Magic(&'static str),
    /// A later version wrote it, with this version number of the format.
    Version(&'static str, u32),
    /// Bytes have changed, or they belong to another file.
    Checksum(&'static str),
    /// The bytes are those that were written, but say what cannot be.
    Content(&'static str),
    /// The file is encrypted, and there is no key.
    Locked(&'static str),
    /// The file was not encrypted with this key, or was changed since.
    Unauthentic(&'static str),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Nothing is wrong with the bytes: somebody else has them, or new ones do not fit.
            Self::Io(error) if error.kind() == io::ErrorKind::ResourceBusy || is_full(error) => {
                f.write_str(&myelin_stdx::os_error::words(error))
            }
            Self::Io(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {
                write!(f, "cannot write to it: {}", myelin_stdx::os_error::words(error))
            }
            Self::Io(error) => write!(f, "cannot read it: {}", myelin_stdx::os_error::words(error)),
            Self::Short(what) => write!(f, "{what}: ends too early"),
            Self::Magic(what) => write!(f, "{what}: does not begin as one"),
            Self::Version(what, version) => {
                write!(f, "{what}: written by a later version (format {version})")
            }
            Self::Checksum(what) => write!(f, "{what}: wrong checksum"),
            Self::Content(what) => write!(f, "{what}: impossible content"),
            Self::Locked(what) => write!(f, "{what}: encrypted, and no key is configured"),
            Self::Unauthentic(what) => write!(f, "{what}: encrypted with another key, or changed since"),
        }
    }
}

impl std::error::Error for Damage {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for Damage {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
