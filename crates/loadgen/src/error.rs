//! Errors of a benchmark, in words that a person at a terminal can act on.
//!
//! Owns the one error type of `bench`. A run that lost a message is an error, never a slow result.

use std::{fmt, io};

/// Why a benchmark gave no figure.
#[derive(Debug)]
pub enum BenchError {
    /// The `--server` address cannot be understood.
    Address(String),
    /// Encryption was wanted or refused, or its files are not what they should be.
    Tls(String),
    /// A system call failed; the first field says during what.
    Io(&'static str, io::Error),
    /// The server answered `-ERR` with this text.
    Refused(String),
    /// The server closed the connection.
    Closed,
    /// The server sent bytes that are not the NATS protocol, or not what was published.
    Protocol(String),
    /// Messages did not arrive, or too many did.
    Lost(String),
    /// A server process could not be started or watched.
    Process(String),
    /// A file of results cannot be read or written; the text names it.
    Results(String),
    /// The store under test failed.
    Store(String),
    /// Nobody answered a request.
    NoResponder,
    /// Another thread of the same run failed; its error is the one to read.
    Aborted,
    /// The arguments ask for something impossible.
    Usage(String),
}

impl BenchError {
    /// Wraps an I/O error with the activity that it ended: for `map_err`.
    pub fn io<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::Io(doing, error.into())
    }
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(text) => write!(f, "bad server address: {text}"),
            Self::Tls(text) => write!(f, "encryption: {text}"),
            Self::Io(doing, error) => write!(f, "{doing}: {error}"),
            Self::Refused(text) => write!(f, "the server refused: {text}"),
            Self::Closed => write!(f, "the server closed the connection"),
            Self::Protocol(text) => write!(f, "unexpected bytes from the server: {text}"),
            Self::Lost(text) => write!(f, "failed run: {text}"),
            Self::Process(text) => write!(f, "server process: {text}"),
            Self::Results(text) => write!(f, "results: {text}"),
            Self::Store(text) => write!(f, "the store: {text}"),
            Self::NoResponder => write!(f, "nobody answers requests on this subject"),
            Self::Aborted => write!(f, "stopped because another part of the run failed"),
            Self::Usage(text) => write!(f, "{text}"),
        }
    }
}

impl std::error::Error for BenchError {}
