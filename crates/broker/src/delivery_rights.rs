//! Permissions that deliveries to one connection must respect; replaced by each CONNECT.

use myelin_auth::{Permissions, ReplyGrants};
use myelin_stdx::sync::lock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Permissions that deliveries to a connection must respect.
pub(crate) struct DeliveryPermissions {
    pub(crate) permissions: Arc<Permissions>,
    /// Present with `allow_responses`.
    pub(crate) grants: Option<Mutex<ReplyGrants>>,
}

impl DeliveryPermissions {
    pub(crate) fn new(permissions: Arc<Permissions>, now: Instant) -> Arc<Self> {
        let grants = permissions.responses().map(|rule| Mutex::new(ReplyGrants::new(rule, now)));
        Arc::new(Self { permissions, grants })
    }
}

/// Permissions of one connection, where all shards look at them.
#[derive(Default)]
pub(crate) struct DeliveryRights {
    held: Mutex<Option<Arc<DeliveryPermissions>>>,
    /// Perf: a route that is built takes no lock for a connection that may get everything.
    has_rights: AtomicBool,
    /// Whether a deny rule cuts into one of the connection's subscriptions: changes outdate the
    /// routes of all of them.
    is_filtered: AtomicBool,
}

impl DeliveryRights {
    pub(crate) fn get(&self) -> Option<Arc<DeliveryPermissions>> {
        if self.has_rights.load(Relaxed) { lock(&self.held).clone() } else { None }
    }

    /// Replaces the permissions. `cuts`: a deny rule cuts into a subscription.
    pub(crate) fn set(&self, rights: Option<Arc<DeliveryPermissions>>, cuts: bool) {
        self.is_filtered.store(cuts, Relaxed);
        let mut held = lock(&self.held);
        self.has_rights.store(rights.is_some(), Relaxed);
        debug_assert!(rights.is_some() || !self.is_filtered(), "only permissions hold messages back");
        *held = rights;
    }

    /// Whether deny rules are to be asked before the connection is shown a subject that is not the
    /// one by which the message came.
    pub(crate) fn is_filtered(&self) -> bool {
        self.is_filtered.load(Relaxed)
    }

    /// A deny rule cuts into a subscription from now on; false when one did before.
    #[cold]
    pub(crate) fn begin_filtering(&self) -> bool {
        !self.is_filtered.swap(true, Relaxed)
    }
}
