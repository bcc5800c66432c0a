//! Gateways: the links with other clusters, and which clusters there are.
//!
//! A server dials one server of each cluster that it knows, the *outbound* link, and accepts
//! *inbound* ones. Who accepts says INFO first; who has dialled answers with CONNECT and its own
//! INFO, and from there on interest goes the one way and messages go the other (see
//! `broker/src/link/gateway.rs`).
//!
//! Clusters are configured, or become known: by a link that one of their servers has dialled, by a
//! server of another cluster that knows them, or by one of this cluster.
//!
//! - [`config`]: what the server is told about its gateway.
//! - [`remote`]: another cluster to dial.
//! - [`session`]: one link, from its first byte.
//! - `gossip`: what servers tell each other of clusters.

pub mod config;
mod gossip;
mod handshake;
pub mod remote;
pub mod session;
#[cfg(test)]
pub(crate) mod tests;

use crate::peers::Mesh;
use config::GatewayConfig;
use myelin_broker::Conn;
use myelin_stdx::sync::{lock, read_lock};
use myelin_wire::peer::groups::{GroupAddress, GroupServer};
use myelin_wire::peer::info::{PeerConnect, PeerInfo};
use remote::GatewayRemote;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, RwLock, Weak};
use std::time::Duration;

/// Clusters that are known at most: a peer can tell of as many as it likes.
const MOST_REMOTES: usize = 1024;

/// Services that gateways need from the server around them.
pub trait GatewayHost: Send + Sync {
    /// Dial a cluster, in the background. `is_first`: there was no link before.
    fn dial(&self, remote: Arc<GatewayRemote>, is_first: bool);
}

/// Facts about a link with a server of another cluster, for whoever lists them.
#[derive(Debug, Clone, Default)]
pub struct GatewayFacts {
    /// Name of the other cluster's gateway.
    pub gateway: String,
    /// Id of the other server.
    pub server_id: String,
    /// Its name.
    pub server_name: String,
    /// Whether this server has dialled.
    pub is_outbound: bool,
    /// SHA-256 of the public key that it has shown, in hex; empty without TLS.
    pub key: String,
    /// Interest of the other side.
    pub subscriptions: usize,
    /// The last measured round trip.
    pub rtt: Option<Duration>,
}

/// One link, as others see it.
pub struct GatewayState {
    conn: Arc<Conn>,
    /// The cluster that was dialled, if one was.
    remote: Option<Arc<GatewayRemote>>,
    facts: Mutex<GatewayFacts>,
}

impl GatewayState {
    fn new(conn: &Arc<Conn>, remote: Option<Arc<GatewayRemote>>) -> Arc<Self> {
        let facts = GatewayFacts {
            gateway: remote.as_ref().map_or_else(String::new, |remote| remote.name().to_owned()),
            is_outbound: remote.is_some(),
            ..GatewayFacts::default()
        };
        Arc::new(Self { conn: Arc::clone(conn), remote, facts: Mutex::new(facts) })
    }

    /// The connection.
    pub fn conn(&self) -> &Arc<Conn> {
        &self.conn
    }

    /// The cluster that was dialled, if one was.
    pub fn remote(&self) -> Option<&Arc<GatewayRemote>> {
        self.remote.as_ref()
    }

    /// Facts about the link, as they are now.
    pub fn facts(&self) -> GatewayFacts {
        lock(&self.facts).clone()
    }

    fn update<R>(&self, update: impl FnOnce(&mut GatewayFacts) -> R) -> R {
        update(&mut lock(&self.facts))
    }
}

/// All links with other clusters, and the clusters that are known.
pub struct Gateways {
    config: RwLock<Arc<GatewayConfig>>,
    host: Arc<dyn GatewayHost>,
    state: Mutex<Known>,
    /// The servers of this cluster, where there is a cluster.
    mesh: OnceLock<Weak<Mesh>>,
}

/// Place of another server of the cluster, as it has told it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToldPlace {
    /// Address of its gateway.
    pub(crate) url: String,
    /// Whether it takes part in groups of replicas.
    pub(crate) takes_part: bool,
}

struct Known {
    remotes: BTreeMap<String, Arc<GatewayRemote>>,
    outbound: BTreeMap<String, Arc<GatewayState>>,
    inbound: Vec<Arc<GatewayState>>,
    /// Addresses of this cluster for others, and how many servers have told each.
    urls: BTreeMap<String, u32>,
    /// The address that each other server of the cluster has told, by the server's id.
    told: BTreeMap<String, ToldPlace>,
    /// INFO that each cluster has said last over the outbound link, by its name.
    heard: BTreeMap<String, PeerInfo>,
    is_stopping: bool,
}

impl Gateways {
    /// Without any link.
    pub fn new(config: GatewayConfig, host: Arc<dyn GatewayHost>) -> Arc<Self> {
        let remotes = config.remotes.iter().map(|remote| {
            (remote.name.clone(), Arc::new(GatewayRemote::configured(&remote.name, &remote.urls)))
        });
        let state = Known {
            remotes: remotes.collect(),
            outbound: BTreeMap::new(),
            inbound: Vec::new(),
            urls: BTreeMap::from([(config.url.clone(), 1)]),
            told: BTreeMap::new(),
            heard: BTreeMap::new(),
            is_stopping: false,
        };
        Arc::new(Self {
            config: RwLock::new(Arc::new(config)),
            host,
            state: Mutex::new(state),
            mesh: OnceLock::new(),
        })
    }

    /// Configuration, as it is now.
    pub fn config(&self) -> Arc<GatewayConfig> {
        Arc::clone(&read_lock(&self.config))
    }

    /// Name of this server's gateway.
    pub fn name(&self) -> String {
        self.config().info.gateway.clone()
    }

    /// Dials all configured clusters.
    pub fn solicit(&self) {
        let remotes: Vec<_> = lock(&self.state).remotes.values().cloned().collect();
        let configured = remotes.into_iter().filter(|remote| !remote.is_implicit());
        configured.for_each(|remote| self.host.dial(remote, true));
    }

    /// The server stops: no link is entered or dialled again.
    pub fn stop(&self) {
        let mut state = lock(&self.state);
        state.is_stopping = true;
        state.remotes.values().for_each(|remote| remote.remove());
    }

    /// Whether the server stops.
    pub fn is_stopping(&self) -> bool {
        lock(&self.state).is_stopping
    }

    /// Links over which messages go, by the names of the clusters.
    pub fn outbound(&self) -> Vec<Arc<GatewayState>> {
        lock(&self.state).outbound.values().cloned().collect()
    }

    /// Links over which messages come, in their order.
    pub fn inbound(&self) -> Vec<Arc<GatewayState>> {
        lock(&self.state).inbound.clone()
    }

    /// Clusters that are known, by their names.
    pub fn remotes(&self) -> Vec<Arc<GatewayRemote>> {
        lock(&self.state).remotes.values().cloned().collect()
    }

    /// The cluster of this name, if it is known.
    pub fn remote(&self, name: &str) -> Option<Arc<GatewayRemote>> {
        lock(&self.state).remotes.get(name).cloned()
    }

    /// Addresses of this cluster for others.
    pub fn urls(&self) -> Vec<String> {
        lock(&self.state).urls.keys().cloned().collect()
    }

    /// INFO, as it is now.
    pub(crate) fn info(&self) -> PeerInfo {
        self.info_with(&lock(&self.state))
    }

    /// INFO with what is known of the cluster.
    fn info_with(&self, known: &Known) -> PeerInfo {
        let config = self.config();
        let own = std::iter::once((&config.info.id, &config.url));
        let others = known.told.iter().filter(|(_, told)| told.takes_part);
        let members = own.chain(others.map(|(id, told)| (id, &told.url)));
        let address = |(id, url): (&String, &String)| GroupAddress { id: id.clone(), url: url.clone() };
        let servers: Vec<GroupAddress> = members.map(address).collect();
        PeerInfo {
            gateway_urls: known.urls.keys().cloned().collect(),
            myelin: config.info.myelin.clone().map(|server| GroupServer { servers, ..server }),
            ..config.info.clone()
        }
    }

    /// CONNECT for another cluster, with this login where it has its own.
    pub(crate) fn connect(&self, login: Option<(String, String)>) -> PeerConnect {
        let config = self.config();
        let own = || config.login.as_ref().map(|login| (login.user.clone(), login.own.clone()));
        let (user, pass) = login.or_else(own).unwrap_or_default();
        PeerConnect {
            user,
            pass,
            tls_required: config.tls_required,
            name: config.info.id.clone(),
            gateway: config.info.gateway.clone(),
            ..PeerConnect::default()
        }
    }

    /// Whether a server of this cluster has that name.
    fn is_name_taken(&self, name: &str) -> bool {
        if name.is_empty() {
            return false;
        }
        let is_linked = |mesh: Arc<Mesh>| mesh.links().iter().any(|link| link.facts().remote_name == name);
        self.config().info.name == name || self.mesh().is_some_and(is_linked)
    }

    pub(crate) fn mesh(&self) -> Option<Arc<Mesh>> {
        self.mesh.get()?.upgrade()
    }

    /// An outbound link is there; false if there is one to that cluster already, or the server
    /// stops.
    fn enter_outbound(&self, link: &Arc<GatewayState>, name: &str) -> bool {
        let mut state = lock(&self.state);
        if state.is_stopping || state.outbound.contains_key(name) {
            return false;
        }
        state.outbound.insert(name.to_owned(), Arc::clone(link));
        true
    }

    /// An inbound link is there, whose other side was told this line of INFO at its beginning: what
    /// has changed since it hears now. False if the server stops.
    fn enter_inbound(&self, link: &Arc<GatewayState>, told: &[u8]) -> bool {
        let mut state = lock(&self.state);
        if !state.is_stopping {
            state.inbound.push(Arc::clone(link));
            let line = self.info_with(&state).line();
            if line != told {
                link.conn.say(&line);
            }
        }
        !state.is_stopping
    }

    /// A link has ended. `again`: the cluster is to be dialled again.
    fn leave(&self, link: &Arc<GatewayState>, again: bool) {
        let gone = {
            let mut state = lock(&self.state);
            state.inbound.retain(|other| !Arc::ptr_eq(other, link));
            let before = state.outbound.len();
            state.outbound.retain(|_, other| !Arc::ptr_eq(other, link));
            if state.outbound.len() < before {
                state.heard.remove(&link.facts().gateway);
            }
            if state.is_stopping {
                return;
            }
            (state.outbound.len() < before).then(|| link.facts().gateway)
        };
        if let (Some(gone), Some(mesh)) = (gone, self.mesh()) {
            mesh.forget_cluster(&gone);
        }
        if let Some(remote) = link.remote.as_ref().filter(|remote| again && !remote.is_removed()) {
            self.host.dial(Arc::clone(remote), false);
        }
    }

    /// A cluster that another server told of could not be reached. Answers whether to give it up:
    /// not as long as it has a link to here.
    pub fn gives_up(&self, remote: &GatewayRemote) -> bool {
        let mut state = lock(&self.state);
        if state.inbound.iter().any(|link| link.facts().gateway == remote.name()) {
            return false;
        }
        if let Some(removed) = state.remotes.remove(remote.name()) {
            removed.remove();
        }
        true
    }
}
