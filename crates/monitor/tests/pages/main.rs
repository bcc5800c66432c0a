//! The pages as a whole, over a fixed source: shapes recorded from the real server, and every
//! option.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail as its asserts do")]

mod accounts;
mod connz;
mod expvar;
mod fixture;
mod golden;
mod jetstream;
mod links;
mod metrics;
mod probes;
mod queues;
mod reference;
mod shape;
mod small;
mod subsz;
