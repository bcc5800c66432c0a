//! Servers that form clusters and leaf nodes on loopback, with proxies between them that cut and
//! stall, and clients that know who must get what.
//!
//! [`Cluster`] starts processes of one or two programs, whose links all go through [`Links`]; which
//! there are, and who hears of whom over them, is said by a [`Topology`].
//! [`Client`] speaks the protocol as bytes. [`Model`] knows subscriptions and what was published,
//! and says what is wrong with what came. [`random`] lets all of that live random lives;
//! [`torture`] troubles three servers that share JetStream, and counts what they have promised;
//! [`elections`] measures how long a stream of theirs is without a leader.
//! This room never imports a server, so that it can mix any programs that read nats-server's
//! configuration.

mod client;
mod cluster;
pub mod elections;
mod gateways;
mod links;
mod model;
mod pages;
mod proxy;
pub mod random;
mod requester;
mod server;
mod settle;
mod topology;
pub mod torture;
mod trio;
mod wait;

pub use client::{Client, Delivery};
pub use cluster::{Cluster, ClusterPlan};
pub use links::{LinkState, Links};
pub use model::{Fault, MessageId, Model, Reach, SentMessage, Subscription, SubscriptionId};
pub use topology::{LeafLink, Outbound, Topology, Ways};
pub use wait::{PATIENCE, wait_for};

/// Error for a person to read.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
