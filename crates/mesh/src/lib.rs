//! The cluster: which servers are connected, by which links, and what they say to each other.
//!
//! No socket, thread or clock lives here. A shell (`myelin-server`) dials and accepts; it gives the
//! bytes of each link to its [`LinkSession`] and does what the [`MeshHost`] is asked for. Time is
//! an argument, and the shell adds the random part of a delay.
//!
//! - [`certificate`]: servers that are let in by their certificates.
//! - [`config`]: what the server is told about its cluster.
//! - [`session`]: one link, from its first byte: states of the handshake, then interest and
//!   messages, which are the broker's ([`myelin_broker::Link`]).
//! - [`peers`]: the servers that are known and the links to each: duplicates, places of a pool, who
//!   dials again when a link ends.
//! - [`gossip`]: what a new link makes others know, and what follows when others know of a server.
//! - `members`: servers that take part in groups of replicas, and their own links.
//! - `advertised`: addresses that clients and leaf nodes are told.
//! - `names`: what a name of another server may be.
//! - [`gateway`]: other clusters.
//! - [`leaf`]: leaf nodes, and the hubs to which this server is one.
//! - [`peer_session`]: what the shell has to know of a session, of a route or of a leaf node.
//!
//! # Links to a server
//!
//! Two servers have as many links as the larger of their pools, each with a place, and accounts are
//! spread over them; beside that, one for each account that has its own (the system account, and
//! those that are configured; the internal ones, if both take part in groups). Only who dialled a
//! link knows its place and says so in INFO. One link is enough to begin: whoever dialled it dials
//! the next when the first PONG has come, which shows that it was let in.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::iter_over_hash_type))]

mod advertised;
pub mod certificate;
pub mod config;
mod facts;
pub mod gateway;
pub mod gossip;
pub mod leaf;
mod members;
mod names;
pub mod peer_session;
pub mod peers;
mod reload;
pub mod session;
#[cfg(test)]
mod tests;

pub use certificate::{CertificateRules, PeerCertificate};
pub use config::{Login, MeshConfig, RouteUrl};
pub use peer_session::{Announcement, Ingested, Next, PeerSession};
pub use peers::{Dial, DialCause, LinkState, Mesh, MeshHost};
pub use session::{LinkSession, LinkSide};
