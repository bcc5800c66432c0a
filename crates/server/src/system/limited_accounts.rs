//! Accounts whose connections are limited, of which servers of a cluster tell each other at once.

use myelin_broker::Account;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::{BTreeSet, HashMap};
use std::sync::Mutex;

/// Whether it matters how many connections an account has on other servers.
pub(super) fn is_limited(account: &Account) -> bool {
    let limits = account.limits();
    limits.max_connections.is_some() || limits.max_leaf_nodes.is_some()
}

/// Accounts whose connections are limited.
#[derive(Default)]
pub(super) struct LimitedAccounts {
    /// Other servers are to be told at once how many connections these have.
    pub(super) changed: Mutex<BTreeSet<String>>,
    /// Traffic of each at the last look.
    pub(super) moved: Mutex<HashMap<String, LookedAtTraffic>>,
}

/// The part of an account's counts that a look at all connections gives.
#[derive(Deserialize, Clone)]
pub(super) struct LookedAtTraffic {
    pub(super) sent: Box<RawValue>,
    pub(super) received: Box<RawValue>,
    pub(super) slow_consumers: u64,
}
