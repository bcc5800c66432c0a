//! The protocol between the servers of a cluster: what travels over a route.
//!
//! [`parser`] turns a buffer into operations that borrow it, [`encode`] writes what a server says
//! to its peers, [`info`] has the two JSON documents of the handshake. Both ends of a link speak
//! alike; who dialled sends CONNECT, and both send INFO.
//!
//! A link that is *dedicated* to one account leaves that account's name out of every operation.
//!
//! Servers of Myelin that take part in groups of replicas say so in their INFO, and have links of
//! their own beside the others: [`groups`].
//!
//! Leaf nodes and their hubs speak a dialect of it, of one account and with verbs of their own:
//! [`leaf`] has what is not the same, and [`gateway`] what is not among clusters.

pub mod encode;
pub mod gateway;
pub mod groups;
pub mod info;
pub mod leaf;
pub mod parser;
#[cfg(test)]
mod tests;

/// Level of the protocol between servers: 2 knows accounts, 3 traces of messages.
pub const PEER_PROTOCOL: i32 = 3;

/// Level from which on servers trace messages.
pub const TRACING_PROTOCOL: i32 = 3;

/// The name of an origin cluster that stands for none; no cluster may be called so.
pub const NO_ORIGIN: &str = "_";

/// Number of the connection of a pool that carries an account: FNV-1a of its name, modulo the
/// pool's size.
pub fn pool_index(pool_size: u32, account: &str) -> u32 {
    if pool_size <= 1 { 0 } else { account_hash(account) % pool_size }
}

/// FNV-1a of an account's name.
pub fn account_hash(account: &str) -> u32 {
    account.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
