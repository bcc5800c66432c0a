//! The cores of streams and consumers: what becomes of a message, an acknowledgement, a request,
//! without knowing who brought it.
//!
//! Whoever embeds them passes messages, `now` and random numbers, runs the store's rounds and jobs,
//! and carries out the effects of each turn. No broker, socket, thread or clock lives here, so that
//! replicas can apply the same and a simulation can drive it. Nothing is acknowledged, republished
//! or read before the store has released it (contracts.md C1).
//!
//! # Where to look
//!
//! - What a stream does with a message: `stream/admit.rs` (checks), `stream/append_run.rs` (what is
//!   stored together), `stream/flush.rs` (one append), `stream/batch/` (batches of publishers),
//!   `stream/counters.rs`, `stream/schedules/`. What publishers are told: `stream/reply.rs`,
//!   `stream/release_queue.rs`.
//! - What comes from other streams: `stream/copy.rs`. What leaves a stream by itself:
//!   `stream/upkeep.rs`, `stream/interest_cleanup.rs`.
//! - What a consumer delivers, and when: `consumer/`, a file per concern; `consumer/tests/` has a
//!   twin that says what is right.
//! - Direct gets and message gets: `read/`, slice by slice if there is much.
//! - Backups, restores, imports of nats-server's files: `backup/`. Formats: `natsfiles/src/`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::iter_over_hash_type))]

pub mod backup;
pub mod consumer;
pub mod group;
pub mod read;
mod role;
pub mod stream;

pub use role::ReplicaRole;
