//! A server process under every kind of load at once, round after round, measured from outside.
//!
//! What a server holds is bounded: streams by their limits, tables by who is there. So under a load
//! that stays the same, every figure that can be read from outside must stay the same too, once
//! each kind of load has turned over. This room starts a server, loads it through real sockets,
//! reads the process and its monitoring pages at the end of each round, and judges the rows
//! ([`judge`]). It never imports the server, so that it can drive any program that speaks NATS.

pub mod judge;
mod load;
mod measure;
mod plan;
mod report;
mod run;
mod server;
mod settings;
mod verdict;
mod world;

pub use plan::{Plan, fresh_seed};
pub use run::run;
pub use verdict::Verdict;

/// Error for a person to read.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
