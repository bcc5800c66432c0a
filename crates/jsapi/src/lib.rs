//! Requests, configurations, answers, errors and advisories about streams and consumers, byte for
//! byte as the reference says them.
//!
//! Everything here is a value or a function of values. No stream, store, account or connection is
//! known, so that whoever replays, simulates or only checks a request can have this alone.
//!
//! # Where to look
//!
//! - What a configuration may say: `config/check/`, `config/update.rs`; of a consumer:
//!   `consumer/config/check/`, `consumer/config/update.rs`. Recorded answers of the reference are
//!   in `jsapi/tests/reference/`.
//! - Limits of accounts: `config/limits.rs`. What is kept on disk of a configuration:
//!   `config/stored.rs`, `consumer/config/stored.rs`.
//! - Requests and answers of the API: `api/`; of messages: `get_request/`,
//!   `consumer/next_request.rs`. How JSON is read, with Go's faults: `json/`.
//! - Texts and codes of errors: `error/catalogue.rs`. Advisories: `advisory.rs`.
//! - What a counter says: `counter/`. When a schedule is due: `schedule/`.

pub mod advisory;
pub mod api;
pub mod config;
pub mod consumer;
pub mod counter;
pub mod error;
pub mod get_request;
pub mod json;
pub mod schedule;

pub use error::ApiError;
