//! Connections of an account on other servers of the cluster: limits of clients and of leaf nodes
//! hold for all servers together.
//!
//! What other servers say of themselves comes by the system account (`server/src/system/peers.rs`).
//! It is a moment old: two servers may each let in the last client that there is room for. Of those
//! that are too many then each server ends its share: servers take their places in the order of
//! their ids, so that all of them together end as many as are too many and no more.

use hashbrown::HashMap;
use myelin_stdx::sync::lock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

/// Connections of one account on one server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConnectionCount {
    /// Clients.
    pub clients: u32,
    /// Leaf nodes.
    pub leaf_nodes: u32,
}

/// Connections of one account on all other servers.
#[derive(Default)]
pub(crate) struct ConnectionsElsewhere {
    /// Clients on all of them.
    clients: AtomicUsize,
    leaf_nodes: AtomicUsize,
    by_server: Mutex<HashMap<String, ConnectionCount>>,
}

impl ConnectionsElsewhere {
    /// Clients on other servers.
    #[inline]
    pub(crate) fn clients(&self) -> usize {
        self.clients.load(Relaxed)
    }

    /// Leaf nodes of other servers.
    pub(crate) fn leaf_nodes(&self) -> usize {
        self.leaf_nodes.load(Relaxed)
    }

    /// Servers that have clients or leaf nodes of the account.
    pub(crate) fn servers(&self) -> usize {
        self.by_server().len()
    }

    /// Connections on servers whose places come before those of the server `own`.
    ///
    /// Compat: the reference has each server end as many as are too many on all of them together:
    /// of clients that come to several servers at one moment none may stay.
    pub(crate) fn before(&self, own: &str) -> ConnectionCount {
        let mut before = ConnectionCount::default();
        #[expect(clippy::disallowed_methods, reason = "a sum")]
        for (_, count) in self.by_server().iter().filter(|(server, _)| server.as_str() < own) {
            before.clients = before.clients.saturating_add(count.clients);
            before.leaf_nodes = before.leaf_nodes.saturating_add(count.leaf_nodes);
        }
        before
    }

    fn by_server(&self) -> MutexGuard<'_, HashMap<String, ConnectionCount>> {
        lock(&self.by_server)
    }

    /// Replaces what is known of one server.
    pub(crate) fn set(&self, server: &str, count: ConnectionCount) {
        let mut by_server = self.by_server();
        if count == ConnectionCount::default() {
            by_server.remove(server);
        } else {
            *by_server.entry_ref(server).or_default() = count;
        }
        #[expect(clippy::disallowed_methods, reason = "a sum")]
        let sum = |of: fn(&ConnectionCount) -> u32| by_server.values().map(|count| of(count) as usize).sum();
        self.clients.store(sum(|count| count.clients), Relaxed);
        self.leaf_nodes.store(sum(|count| count.leaf_nodes), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_counts_as_it_said_last() {
        let elsewhere = ConnectionsElsewhere::default();
        let count = |clients, leaf_nodes| ConnectionCount { clients, leaf_nodes };
        elsewhere.set("A", count(3, 0));
        elsewhere.set("B", count(0, 1));
        elsewhere.set("A", count(2, 0));
        assert_eq!((elsewhere.clients(), elsewhere.servers()), (2, 2));
        assert_eq!(elsewhere.leaf_nodes(), 1);
        let before = ["A", "B", "C"].map(|own| elsewhere.before(own));
        assert_eq!(before, [count(0, 0), count(2, 0), count(2, 1)]);
        elsewhere.set("A", count(0, 0));
        assert_eq!((elsewhere.clients(), elsewhere.servers()), (0, 1));
    }
}
