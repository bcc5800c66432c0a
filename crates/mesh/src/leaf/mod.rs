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
mod domains;
mod handshake;
mod reload;
pub mod remote;
pub mod session;
mod tls_state;

use config::LeafConfig;
use myelin_broker::Conn;
use myelin_stdx::sync::{lock, read_lock, write_lock};
use myelin_wire::error::CloseReason;
use myelin_wire::peer::info::PeerInfo;
use remote::LeafRemote;
use std::sync::{Arc, Mutex, RwLock};
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
    /// Compression that a leaf node has asked for; empty where it says nothing.
    pub asked_compression: String,
    /// Key of the trusted proxy through which it came.
    pub proxy: Option<String>,
}

/// One link, as others see it.
pub struct LeafState {
    conn: Arc<Conn>,
    /// The hub that was dialled, if one was.
    remote: Option<Arc<LeafRemote>>,
    facts: Mutex<LeafFacts>,
}

impl LeafState {
    pub(crate) fn new(conn: &Arc<Conn>, remote: Option<Arc<LeafRemote>>, facts: LeafFacts) -> Arc<Self> {
        Arc::new(Self { conn: Arc::clone(conn), remote, facts: Mutex::new(facts) })
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
    /// Addresses for leaf nodes of the other servers of this server's cluster, and those of their
    /// WebSockets.
    others: Mutex<[Vec<String>; 2]>,
}

#[derive(Default)]
struct Links {
    links: Vec<Arc<LeafState>>,
    is_stopping: bool,
}

impl LeafNodes {
    /// Without any link.
    pub fn new(config: LeafConfig, host: Arc<dyn LeafHost>) -> Arc<Self> {
        Arc::new(Self {
            config: RwLock::new(Arc::new(config)),
            host,
            state: Mutex::default(),
            others: Mutex::default(),
        })
    }

    /// Configuration, as it is now.
    pub fn config(&self) -> Arc<LeafConfig> {
        Arc::clone(&read_lock(&self.config))
    }

    /// Address at which leaf nodes are accepted, as other servers of the cluster are told it.
    pub fn address(&self) -> Option<String> {
        Some(self.config().info.ip.clone()).filter(|address| !address.is_empty())
    }

    /// Takes over another configuration. Compat: leaf nodes that want a compression which is not
    /// this server's any more have to connect again.
    pub fn reload(&self, config: LeafConfig) {
        let (before, mode) = (self.config().compression.mode, config.compression.mode);
        *write_lock(&self.config) = Arc::new(config);
        if before == mode {
            return;
        }
        for link in self.links() {
            let LeafFacts { did_solicit, asked_compression: asked, .. } = link.facts();
            if !did_solicit && !matches!(&*asked, "" | "not supported") && asked != mode.name() {
                link.conn.close(CloseReason::ClientClosed);
            }
        }
    }

    /// A hub is none any more: its link ends, and it is not dialled again.
    pub fn remove(&self, remote: &Arc<LeafRemote>) {
        remote.remove();
        let is_its =
            |link: &&Arc<LeafState>| link.remote.as_ref().is_some_and(|own| Arc::ptr_eq(own, remote));
        self.links().iter().filter(is_its).for_each(|link| link.conn.close(CloseReason::ClientClosed));
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
        let mut info = PeerInfo { cluster, ..self.config().info.clone() };
        let [others, web_sockets] = &*lock(&self.others);
        // Compat: this server's own WebSocket is not among them.
        info.ws_connect_urls.clone_from(web_sockets);
        let news = others.iter().filter(|url| !info.leafnode_urls.contains(url)).cloned();
        let news: Vec<_> = news.collect();
        info.leafnode_urls.extend(news);
        info
    }

    /// Takes over the addresses of the other servers of this server's cluster for leaf nodes, and
    /// those of their WebSockets, and tells leaf nodes if they have changed. `cluster`: its name.
    /// At the end of the server leaf nodes keep what they know: that is where they go.
    pub fn set_others(&self, urls: [Vec<String>; 2], cluster: &str) {
        if self.is_stopping() {
            return;
        }
        {
            let mut others = lock(&self.others);
            if *others == urls {
                return;
            }
            *others = urls;
        }
        let line = self.info(cluster.to_owned()).line();
        for link in self.links() {
            if !link.facts().did_solicit {
                link.conn.say(&line);
            }
        }
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
