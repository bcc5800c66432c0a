//! Clients that make load on a NATS server, and what they measured.
//!
//! The floor under `myelin bench` and `myelin-lab`, which are front ends: they have arguments,
//! tables and processes of servers. The rooms: `connection` speaks the protocol, `target_server`
//! says how a server is reached and `admin` asks its JetStream API; `client_pool` runs clients and
//! `workloads` are what those do; `pubsub`, `jetstream` and `mqtt` are the loads of tables;
//! `latency` measures at fixed rates; `meter` reads a process's CPU time and memory; `metric` and
//! `results` are what comes out, `present` shows it; `units` reads and prints numbers, `names` and
//! `token` are subjects and their parts, `plain` makes texts harmless. Everything is light on
//! purpose (few threads, prepared frames, bytes discarded in the kernel), so that the server is
//! what is measured; it needs Linux.

pub mod admin;
pub mod client_pool;
pub mod connection;
pub mod error;
pub mod jetstream;
pub mod latency;
pub mod meter;
pub mod metric;
pub mod mqtt;
pub mod names;
pub mod plain;
pub mod present;
pub mod pubsub;
pub mod results;
pub mod target_server;
pub mod token;
pub mod units;
pub mod workloads;
