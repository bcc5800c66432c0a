//! Failures of health, and how they are answered.

use serde::Serialize;

/// Kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum FailureKind {
    /// The request itself.
    #[serde(rename = "BAD_REQUEST")]
    Request,
    Connection,
    JetStream,
    Account,
    Stream,
    Consumer,
}

/// One thing that is not well, as details show it.
#[derive(Debug, Serialize)]
pub(crate) struct Failure {
    #[serde(rename = "type")]
    pub(super) kind: FailureKind,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) account: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) stream: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) consumer: String,
    pub(super) error: String,
    /// Whether what was asked for does not exist.
    #[serde(skip)]
    pub(super) missing: bool,
}

impl Failure {
    /// One that has to do with no account.
    pub(super) fn new(kind: FailureKind, error: String) -> Self {
        let [account, stream, consumer] = [(); 3].map(|()| String::new());
        Self { kind, account, stream, consumer, error, missing: false }
    }

    /// The HTTP status and the word for it.
    pub(super) fn status(&self) -> (u16, &'static str) {
        match self.kind {
            FailureKind::Request => (400, "error"),
            FailureKind::Connection => (500, "error"),
            _ if self.missing => (404, "unavailable"),
            _ => (503, "unavailable"),
        }
    }
}
