//! Parts that could live in std: turns, claims, backlogs, ids, moments as numbers and texts,
//! sequences, random numbers, memory accounting, histograms, words for errors; and the version of
//! all this.
//!
//! Nothing here knows messages, sockets or clocks. [`claim`] is the protocol by which threads share
//! the work on one queue without ever sleeping on each other; [`turn`] builds single-writer state
//! on it.

pub mod backlog;
pub mod base64;
pub mod base_n;
pub mod claim;
pub mod entropy;
pub mod equal;
pub mod histogram;
pub mod id;
pub mod mem;
pub mod nkey;
pub mod os_error;
pub mod planted;
pub mod rfc3339;
pub mod rng;
pub mod seq;
pub mod sync;
pub mod time;
pub mod turn;
pub mod varint;

/// Version of Myelin: the one that a package was given when it was built (`dist/`), else that of
/// the workspace.
pub const VERSION: &str = match option_env!("MYELIN_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};
