//! Who wants to know who comes and goes: the system account's events.
//!
//! The broker tells what happens and knows nothing of who listens. One witness or none; without one, nothing is paid but a
//! look at an empty place when a client comes, goes or is refused.

use crate::account::Account;
use crate::closed::ClosedConn;
use crate::conn::Conn;
use myelin_wire::error::CloseReason;
use std::sync::Arc;

/// Is told of clients. Called on shards' threads: it must not wait.
pub trait ClientEvents: Send + Sync {
    /// A client was let into an account by its CONNECT.
    fn came(&self, conn: &Arc<Conn>, account: &Arc<Account>);

    /// A connection has ended; `record.details.account` is empty if it was never in one.
    fn went(&self, record: &ClosedConn);

    /// A client's credentials were refused; `service` is the account of the callout service that decided, and why.
    fn refused(&self, conn: &Arc<Conn>, reason: CloseReason, service: Option<(&Arc<Account>, String)>);

    /// An account has more connections now, or fewer.
    fn counted(&self, account: &Arc<Account>);
}
