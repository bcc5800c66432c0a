//! What could live in std: turns, claims, backlogs, ids, random numbers, memory accounting, words for errors.
//!
//! Nothing here knows messages, sockets or clocks. [`claim`] is the protocol by which threads share the
//! work on one queue without ever sleeping on each other; [`turn`] builds single-writer state on it.

pub mod backlog;
pub mod claim;
pub mod digits;
pub mod fault;
pub mod id;
pub mod mem;
pub mod nkey;
pub mod rng;
pub mod sync;
pub mod turn;
