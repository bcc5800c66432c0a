//! A string that never shows in logs.

use std::fmt;

/// A password or token. `Debug` prints `[REDACTED]`; only [`Secret::reveal`] gives the text.
/// Equality is for comparing configurations: it takes a time that depends on the text.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(String);

impl Secret {
    /// Wraps a password or token.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the comparison with what a client sent.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[REDACTED]")
    }
}
