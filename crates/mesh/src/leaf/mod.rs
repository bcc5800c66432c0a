//! Leaf nodes: who is linked as one, and the hubs to which this server is one.
//!
//! A link is bound to one account on each side. Who accepts it says INFO, reads CONNECT, finds out
//! by its credentials whose account the link is for, and answers with INFO that has the link's
//! permissions; who has dialled waits for that. Then both tell their interest. What goes over a
//! link from there on is the broker's (`broker/src/link/leaf.rs`).
//!
//! - [`config`]: what the server is told about its leaf nodes and hubs.
//! - [`remote`]: a hub to dial: its addresses, those that it has told of, and when to dial again.
//! - [`session`]: one link, from its first byte.
//!
//! As with routes no socket, thread or clock lives here: the shell dials and accepts.

mod compression;
pub mod config;
mod dialled;
mod handshake;
pub mod remote;
pub mod session;

use config::LeafConfig;
use myelin_broker::Conn;
use myelin_stdx::sync::lock;
use myelin_wire::error::CloseReason;
use myelin_wire::peer::info::PeerInfo;
use remote::LeafRemote;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

/// Services that leaf nodes need from the server around them.
pub trait LeafHost: Send + Sync {
    /// Dial a hub again, in the background.
    fn dial_again(&self, remote: Arc<LeafRemote>);

    /// A leaf node has come or gone, or a link to a hub: an account has another count of them.
    fn count_changed(&self, account: &str);
}

/// Facts about a link with a leaf node or a hub, for whoever lists them.
#[derive(Debug, Clone, Default)]
pub struct LeafFacts {
    /// Name of the other server.
    pub name: String,
    /// Its cluster; empty for none.
    pub cluster: String,
    /// Its JetStream domain.
    pub domain: String,
    /// The account here.
    pub account: String,
    /// The account over there.
    pub remote_account: String,
    /// Whether this server has dialled.
    pub did_solicit: bool,
    /// Whether this server is the leaf node.
    pub is_spoke: bool,
    /// Whether the other side does not hear of what leaf nodes want.
    pub is_isolated: bool,
    /// Interest of the other side.
    pub subscriptions: usize,
    /// The last measured round trip.
    pub rtt: Option<Duration>,
    /// Compression of what is sent, or why there is none; empty before that is known.
    pub compression: String,
    /// Key of the trusted proxy through which it came.
    pub proxy: Option<String>,
}

/// One link, as others see it.
pub struct LeafState {
    conn: Arc<Conn>,
    facts: Mutex<LeafFacts>,
}

impl LeafState {
    pub(crate) fn new(conn: &Arc<Conn>, facts: LeafFacts) -> Arc<Self> {
        Arc::new(Self { conn: Arc::clone(conn), facts: Mutex::new(facts) })
    }

    /// The connection.
    pub fn conn(&self) -> &Arc<Conn> {
        &self.conn
    }

    /// Facts about the link, as they are now.
    pub fn facts(&self) -> LeafFacts {
        lock(&self.facts).clone()
    }

    pub(crate) fn update<R>(&self, update: impl FnOnce(&mut LeafFacts) -> R) -> R {
        update(&mut lock(&self.facts))
    }
}

/// Outcome for a link that was to be entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeafEntry {
    /// The server stops.
    Stopping,
    New,
    /// The link stands in the place of an older one.
    Replaced,
}

/// All links with leaf nodes and hubs.
pub struct LeafNodes {
    config: RwLock<Arc<LeafConfig>>,
    host: Arc<dyn LeafHost>,
    state: Mutex<Links>,
}

#[derive(Default)]
struct Links {
    links: Vec<Arc<LeafState>>,
    is_stopping: bool,
}

impl LeafNodes {
    /// Without any link.
    pub fn new(config: LeafConfig, host: Arc<dyn LeafHost>) -> Arc<Self> {
        Arc::new(Self { config: RwLock::new(Arc::new(config)), host, state: Mutex::default() })
    }

    /// Configuration, as it is now.
    pub fn config(&self) -> Arc<LeafConfig> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Links whose handshake is over, in their order.
    pub fn links(&self) -> Vec<Arc<LeafState>> {
        lock(&self.state).links.clone()
    }

    /// The server stops: no link is entered or dialled again.
    pub fn stop(&self) {
        lock(&self.state).is_stopping = true;
    }

    /// Whether the server stops.
    pub fn is_stopping(&self) -> bool {
        lock(&self.state).is_stopping
    }

    /// INFO for a link: the same for all but for what the session adds.
    pub(crate) fn info(&self, cluster: String) -> PeerInfo {
        PeerInfo { cluster, ..self.config().info.clone() }
    }

    /// Enters a link whose handshake is over. A leaf node that has a link already, which it does
    /// not seem to know of, gets this one instead.
    pub(crate) fn enter(&self, link: &Arc<LeafState>) -> LeafEntry {
        let facts = link.facts();
        let mut state = lock(&self.state);
        if state.is_stopping {
            return LeafEntry::Stopping;
        }
        let is_same = |other: &&Arc<LeafState>| {
            let other = other.facts();
            !other.did_solicit
                && !facts.name.is_empty()
                && !facts.remote_account.is_empty()
                && (&other.name, &other.cluster) == (&facts.name, &facts.cluster)
                && (&other.account, &other.remote_account) == (&facts.account, &facts.remote_account)
        };
        let old = state.links.iter().find(|other| !facts.did_solicit && is_same(other)).cloned();
        state.links.push(Arc::clone(link));
        drop(state);
        let is_replaced = old.is_some();
        if let Some(old) = old {
            old.conn.say(format!("-ERR '{}'\r\n", CloseReason::DuplicateLeafNode.text()).as_bytes());
            old.conn.close(CloseReason::DuplicateLeafNode);
        }
        self.host.count_changed(&facts.account);
        if is_replaced { LeafEntry::Replaced } else { LeafEntry::New }
    }

    /// Whether an account has a leaf node of this cluster.
    pub(crate) fn has_leaf_of(&self, account: &str, cluster: &str) -> bool {
        self.links().iter().map(|link| link.facts()).any(|other| {
            !other.did_solicit && !other.is_spoke && other.account == account && other.cluster == cluster
        })
    }

    /// A hub that was dialled could not be logged in at: it is dialled again.
    pub fn try_again(&self, remote: Arc<LeafRemote>) {
        if !self.is_stopping() && !remote.is_removed() {
            self.host.dial_again(remote);
        }
    }

    /// A link has ended. `again`: the hub that was dialled, to be dialled again.
    pub(crate) fn leave(&self, link: &Arc<LeafState>, again: Option<Arc<LeafRemote>>) {
        let (was_there, is_stopping) = {
            let mut state = lock(&self.state);
            let before = state.links.len();
            state.links.retain(|other| !Arc::ptr_eq(other, link));
            (state.links.len() < before, state.is_stopping)
        };
        if was_there {
            self.host.count_changed(&link.facts().account);
        }
        if let Some(remote) = again.filter(|_| !is_stopping) {
            self.host.dial_again(remote);
        }
    }
}
