//! Publishing, receiving and requesting as fast as it goes, with messages that are encoded before.
//!
//! The rooms: `script` encodes what is published, `publisher` and `receiver` move it, `flow` keeps
//! them together, `throughput`, `request` and `churn` are the loads, `verify` checks every message.

pub mod churn;
pub mod flow;
pub mod publisher;
pub mod receiver;
pub mod request;
pub mod script;
pub mod throughput;
pub mod verify;
