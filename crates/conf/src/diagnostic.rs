//! Diagnostics: what is wrong in a configuration, and where.

use std::fmt;
use std::sync::Arc;

/// A place in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The file's path as it was given or joined; empty for text that is no file.
    pub file: Arc<str>,
    /// Counted from 1.
    pub line: u32,
    /// Bytes. Compat: counted from 0 on the first line and from 1 on the others, as the reference
    /// does.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// One error or warning, printed as `file:line:column: message`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Absent when the diagnostic is about the configuration as a whole.
    pub position: Option<Position>,
    /// One line of text without the position.
    pub message: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.position {
            Some(position) => write!(f, "{position}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}
