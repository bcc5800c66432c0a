//! Formats without I/O: bytes in, operations out, and back.
//!
//! This room knows how the client protocol looks on the wire and nothing else: no sockets, no
//! clock, no accounts. [`parser`] turns a buffer into operations that borrow it, [`encode`] writes
//! what a server sends, [`info`] and [`connect`] are the two JSON documents of the handshake,
//! [`header`] reads and writes header blocks, [`json`] is JSON in the manner of Go, [`error`] holds
//! every `-ERR` text, [`proxy`] reads what a load balancer says in front of a connection, [`ocsp`]
//! what an authority says of certificates. [`message_trace`] finds what asks for a trace in a
//! header block, [`encoding`] compresses what is reported. [`message_buf`] holds messages on their
//! way to and from services. [`s2`] compresses links between servers, and backups. [`websocket`] is
//! another way in: the upgrade of an HTTP connection, and frames around the same bytes.
//! [`http_status`] is how HTTP servers that were dialled answer. [`peer`] is what the servers of a
//! cluster say to each other.

// Lengths on the wire have other widths than those in memory: none is cut in silence.
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

pub mod connect;
pub mod der;
pub mod encode;
pub mod encoding;
pub mod error;
pub mod header;
pub mod http_status;
pub mod info;
pub mod json;
pub mod message_buf;
pub mod message_trace;
pub mod ocsp;
pub mod parser;
pub mod peer;
pub mod proxy;
pub mod s2;
pub mod trace_parent;
pub mod websocket;

/// The version that INFO and `/varz` report: clients and suites switch features by it.
pub const REFERENCE_VERSION: &str = "2.15.2";

/// Port of a server that was told nothing else.
pub const DEFAULT_PORT: u16 = 4222;
