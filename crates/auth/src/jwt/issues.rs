//! Issues of claims: everything that is found, not only the first.

use serde::Serialize;

/// One complaint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Issue {
    /// In the reference's words.
    pub description: String,
    /// Claims with such a complaint are worth nothing.
    pub blocking: bool,
    /// Whether the issue will pass with time, or came with it.
    pub time_check: bool,
}

/// All complaints about claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Issues(Vec<Issue>);

impl Issues {
    pub(super) fn error(&mut self, description: impl Into<String>) {
        self.0.push(Issue { description: description.into(), blocking: true, time_check: false });
    }

    pub(super) fn warning(&mut self, description: impl Into<String>) {
        self.0.push(Issue { description: description.into(), blocking: false, time_check: false });
    }

    pub(super) fn time(&mut self, description: impl Into<String>) {
        self.0.push(Issue { description: description.into(), blocking: false, time_check: true });
    }

    /// Whether the claims are worth nothing, now.
    #[must_use]
    pub fn are_blocking(&self) -> bool {
        self.0.iter().any(|issue| issue.blocking || issue.time_check)
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = &Issue> {
        self.0.iter()
    }

    /// The first complaint, for a test or a line of the log.
    #[must_use]
    pub fn first(&self) -> Option<&str> {
        self.0.first().map(|issue| issue.description.as_str())
    }
}
