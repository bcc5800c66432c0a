//! Client ids of MQTT by account: each names one connection of this server at a time.
//!
//! A second connection with an id takes the place of the first. Where applications fight over an
//! id, each of which connects again at once, the next one is kept waiting for [`JAIL`] and closed.

use crate::conn::Conn;
use myelin_stdx::sync::lock;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Time for which a client id cannot be taken over again.
const JAIL: Duration = Duration::from_secs(1);

/// Owner of a client id.
struct Owner {
    conn: Arc<Conn>,
    /// When it took the id from another connection.
    took_over: Option<Instant>,
}

/// Client ids of one account.
type Ids = HashMap<Box<str>, Owner>;

/// Owners of client ids, by account and id.
#[derive(Default)]
pub(crate) struct MqttClients {
    owners: Mutex<HashMap<Box<str>, Ids>>,
}

/// Outcome of a claim to a client id.
pub(crate) enum ClaimedId {
    /// The connection owns it now; whoever owned it before has to go.
    Owned(Option<Arc<Conn>>),
    /// The id was fought over just now: the connection is to be kept waiting until then.
    Jailed(Instant),
}

impl MqttClients {
    /// Gives `id` to `conn`, unless it was taken over a moment ago.
    pub(crate) fn claim(&self, account: &str, id: &str, conn: &Arc<Conn>, now: Instant) -> ClaimedId {
        let mut owners = lock(&self.owners);
        let ids = owners.entry(account.into()).or_default();
        let Some(owner) = ids.get_mut(id) else {
            ids.insert(id.into(), Owner { conn: Arc::clone(conn), took_over: None });
            return ClaimedId::Owned(None);
        };
        if owner.took_over.is_some_and(|at| now.saturating_duration_since(at) <= JAIL) {
            return ClaimedId::Jailed(now + JAIL);
        }
        owner.took_over = Some(now);
        ClaimedId::Owned(Some(std::mem::replace(&mut owner.conn, Arc::clone(conn))))
    }

    /// Frees `id`, if it is still the connection's.
    pub(crate) fn release(&self, account: &str, id: &str, conn: &Arc<Conn>) {
        let mut owners = lock(&self.owners);
        let Some(ids) = owners.get_mut(account) else { return };
        if ids.get(id).is_some_and(|owner| Arc::ptr_eq(&owner.conn, conn)) {
            ids.remove(id);
        }
        if ids.is_empty() {
            owners.remove(account);
        }
    }
}
