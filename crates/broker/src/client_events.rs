//! Events about clients, for the system account: connected, disconnected, refused, counted.
//!
//! The broker calls one implementation or none and knows nothing else about it; without one, the
//! cost is a look at an empty cell when a client connects, disconnects or is refused.

use crate::account::Account;
use crate::closed::ClosedConn;
use crate::conn::Conn;
use myelin_wire::error::CloseReason;
use std::sync::Arc;

/// Receives events about clients. Called on shards' threads: it must not wait.
pub trait ClientEvents: Send + Sync {
    /// A client was let into an account by its CONNECT, or a leaf node.
    fn connected(&self, conn: &Arc<Conn>, account: &Arc<Account>);

    /// A connection has ended; `record.details.account` is empty if it was never in one.
    fn disconnected(&self, record: &ClosedConn);

    /// The link of a leaf node that `connected` was called for has ended.
    fn leaf_node_gone(&self, conn: &Arc<Conn>, reason: CloseReason);

    /// A leaf node has joined an account, whichever side has dialled.
    fn leaf_node_joined(&self, account: &Arc<Account>);

    /// Credentials of a client or a leaf node were refused; `service` is the account of the callout
    /// service that decided, and why.
    fn auth_failed(&self, conn: &Arc<Conn>, reason: CloseReason, service: Option<(&Arc<Account>, String)>);

    /// An account has more connections now, or fewer.
    fn count_changed(&self, account: &Arc<Account>);
}
