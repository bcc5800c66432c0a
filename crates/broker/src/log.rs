//! The seam through which the broker speaks to the log, so that it needs no logging library.

use std::fmt::Arguments;

/// How loud a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Something broke or was refused.
    Error,
    /// Something that an operator should look at.
    Warn,
    /// Normal life.
    Info,
    /// Connections coming and going.
    Debug,
    /// Every protocol line.
    Trace,
}

/// Where lines go. Implemented by the server; must not block for long.
pub trait Log: Send + Sync {
    /// Whether lines of this level are written at all: asked before formatting.
    fn enabled(&self, level: Level) -> bool;
    /// Writes one line.
    fn write(&self, level: Level, line: Arguments<'_>);
}
