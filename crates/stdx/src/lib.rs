//! Parts that could live in std: turns, claims, backlogs, ids, moments as numbers and texts,
//! sequences, random numbers, memory accounting, words for errors.
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
