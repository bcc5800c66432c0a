//! Reasons why a package cannot be made.

use std::path::{Path, PathBuf};
use std::{fmt, io};

/// Why there is no package.
#[derive(Debug)]
pub enum DistError {
    /// A file or folder cannot be read or written.
    Io(PathBuf, io::Error),
    /// A program that is needed cannot be started.
    Tool(String, io::Error),
    /// A program that is needed has failed; it has said why.
    Failed(String),
    /// A program that is needed has printed something else than expected.
    Unexpected(String),
    /// The tag of the commit and the version in `Cargo.toml` are not the same.
    Tag {
        /// Version that the tag names.
        tag: String,
        /// Version that `Cargo.toml` names.
        workspace: String,
    },
    /// Two builds of one commit differ in these files.
    Differs(Vec<String>),
    /// Files that are to be built twice are not as they are committed.
    NotCommitted,
}

impl DistError {
    /// Wraps an I/O error with the path: for `map_err`.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::Io(path, error)
    }
}

impl fmt::Display for DistError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Tool(tool, error) => write!(f, "{tool} cannot be run: {error}"),
            Self::Failed(line) => write!(f, "failed: {line}"),
            Self::Unexpected(text) => write!(f, "{text}"),
            Self::Tag { tag, workspace } => {
                write!(f, "the tag says {tag}, Cargo.toml says {workspace}")
            }
            Self::Differs(files) => write!(f, "two builds differ in {}", files.join(", ")),
            Self::NotCommitted => {
                write!(f, "there are changes that are not committed: a clone would not have them")
            }
        }
    }
}

impl std::error::Error for DistError {}
