//! Why a backup or a restore could not go on, in words that say what to do.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use myelin_loadgen::error::BenchError;
use serde_json::{Value, json};

use crate::screen::plain;

/// Reason why a stream, or the whole, was not backed up or restored.
#[derive(Debug)]
pub(super) enum BackupError {
    /// The server, or the way to it.
    Server(BenchError),
    /// A file of the backup.
    File(PathBuf, io::Error),
    /// Anything else, in its own words.
    Other(String),
}

impl BackupError {
    /// Wraps what a file has refused: for `map_err`.
    pub(super) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::File(path.to_owned(), error)
    }

    /// Whether other streams would meet the same.
    pub(super) fn ends_all(&self) -> bool {
        match self {
            Self::Server(error) => {
                !matches!(error, BenchError::Refused(_) | BenchError::Lost(_) | BenchError::Protocol(_))
            }
            Self::File(..) => true,
            Self::Other(_) => false,
        }
    }
}

impl fmt::Display for BackupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(BenchError::Refused(text)) if text.contains("Permissions Violation") => {
                write!(f, "the server refused: {text}: allow this user what docs/backup.md lists")
            }
            Self::Server(BenchError::Lost(text)) => write!(f, "{text}"),
            Self::Server(error) => write!(f, "{error}"),
            Self::File(path, error) if error.kind() == io::ErrorKind::StorageFull => {
                write!(f, "{}: {error}: make room there, and run the same command again", path.display())
            }
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for BackupError {}

impl From<BenchError> for BackupError {
    fn from(error: BenchError) -> Self {
        Self::Server(error)
    }
}

/// Tells failures, each with its stream.
pub(super) fn tell_failures(failures: &[(String, String)]) {
    let line = |stream, why| plain(&format!("myelin: error: stream {stream}: {why}"));
    failures.iter().for_each(|(stream, why)| eprintln!("{}", line(stream, why)));
}

/// Failures for a summary in JSON.
pub(super) fn as_json(failures: &[(String, String)]) -> Vec<Value> {
    failures.iter().map(|(stream, why)| json!({ "stream": stream, "error": why })).collect()
}
