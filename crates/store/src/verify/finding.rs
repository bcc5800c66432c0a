//! Findings of a check: one per place, with what it means for whoever runs the server.

use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;

use crate::{Seq, StreamId};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; nothing is lost but what earlier starts have told.
    Note,
    /// The place should not be like that, and nothing shows that a message is lost.
    Suspicious,
    /// Bytes that were safe are not what was written, or are not there.
    Damage,
}

/// Name of the stream that a file belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamName {
    /// The number in the name of its directory.
    pub id: StreamId,
    /// From its `meta`; empty if that cannot be read.
    pub account: String,
    /// From its `meta`; empty if that cannot be read.
    pub name: String,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The stream that it concerns, if it is one.
    pub stream: Option<StreamName>,
    /// The file or directory, as a path below the store's root.
    pub file: PathBuf,
    /// Where in the file.
    pub bytes: Option<Range<u64>>,
    /// Messages that it concerns, or may concern.
    pub sequences: Option<RangeInclusive<Seq>>,
    /// Fault that was found.
    pub what: String,
    /// Consequence of the fault, in one sentence.
    pub meaning: &'static str,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Suspicious => "suspicious",
            Self::Damage => "damage",
        })
    }
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.is_empty() {
            return write!(f, "stream {:016x}", self.id.0);
        }
        write!(f, "stream {} of account {}", self.name, self.account)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.severity, self.file.display())?;
        if let Some(bytes) = &self.bytes {
            write!(f, ", bytes {} to {}", bytes.start, bytes.end)?;
        }
        if let Some(stream) = &self.stream {
            write!(f, " ({stream})")?;
        }
        write!(f, ": {}", self.what)?;
        if let Some(sequences) = self.sequences.as_ref().filter(|sequences| !sequences.is_empty()) {
            write!(f, "; messages {} to {}", sequences.start(), sequences.end())?;
        }
        write!(f, ". {}", self.meaning)
    }
}
