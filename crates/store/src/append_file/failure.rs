//! Why nothing more can be appended to a file.

use std::fmt;
use std::io;
use std::path::Path;

/// A write or a sync of a file failed, or the journal did. It stays: later appends get the same
/// answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteFailed {
    kind: io::ErrorKind,
    text: String,
}

impl WriteFailed {
    /// For an error that the disk gave for `path`.
    pub(crate) fn new(path: &Path, error: &io::Error) -> Self {
        Self { kind: error.kind(), text: format!("{}: {error}", path.display()) }
    }

    /// Kind of the error as the operating system has it; `StorageFull` for a full disk.
    pub fn kind(&self) -> io::ErrorKind {
        self.kind
    }

    /// As an error of the operating system.
    pub fn to_io(&self) -> io::Error {
        io::Error::new(self.kind, self.text.clone())
    }
}

impl fmt::Display for WriteFailed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl std::error::Error for WriteFailed {}

impl From<WriteFailed> for io::Error {
    fn from(failed: WriteFailed) -> Self {
        failed.to_io()
    }
}
