//! Gossip of clusters: servers of one cluster tell each other over routes, and those of others when
//! one of them dials.

use super::remote::GatewayRemote;
use super::{GatewayState, Gateways, Known, MOST_REMOTES, ToldPlace};
use crate::names::check_cluster;
use crate::peers::{LinkState, Mesh};
use myelin_stdx::sync::lock;
use myelin_wire::peer::gateway::GOSSIP;
use myelin_wire::peer::info::PeerInfo;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Addresses of this cluster at most that others are told of.
const MOST_URLS: usize = 1024;

impl Gateways {
    /// The server is one of a cluster.
    pub fn join(&self, mesh: &Arc<Mesh>) {
        let _ = self.mesh.set(Arc::downgrade(mesh));
        let heard: Vec<PeerInfo> = lock(&self.state).heard.values().cloned().collect();
        heard.iter().for_each(|info| self.tell_of_members(info));
    }

    /// Another cluster has said over its outbound link which of its servers take part in groups.
    pub(super) fn hear_of_members(&self, info: &PeerInfo) {
        {
            let mut state = lock(&self.state);
            if !state.outbound.contains_key(&info.gateway) {
                return;
            }
            state.heard.insert(info.gateway.clone(), info.clone());
        }
        self.tell_of_members(info);
    }

    /// Ends links of groups with servers of other clusters that have shown other keys than these.
    pub fn end_foreign_strangers(&self, pinned: &BTreeSet<String>) {
        self.mesh().iter().for_each(|mesh| mesh.end_foreign_strangers(pinned));
    }

    fn tell_of_members(&self, info: &PeerInfo) {
        let Some(mesh) = self.mesh() else { return };
        // Each domain has a JetStream of its own.
        let said = info.myelin.as_ref().filter(|_| info.domain == self.config().info.domain);
        mesh.hear_of_cluster(&info.gateway, said.map_or(&[], |said| &said.servers));
    }

    /// There is a cluster of this name at these addresses: it is dialled unless it is known.
    pub(super) fn hear_of(&self, name: &str, urls: &[String]) {
        if name == self.name() || check_cluster(name).is_err() {
            return;
        }
        let remote = {
            let mut state = lock(&self.state);
            if let Some(known) = state.remotes.get(name) {
                return known.add(urls);
            }
            if state.is_stopping || state.remotes.len() >= MOST_REMOTES {
                return;
            }
            let Some(remote) = GatewayRemote::implicit(name, urls).map(Arc::new) else { return };
            state.remotes.insert(name.to_owned(), Arc::clone(&remote));
            remote
        };
        self.host.dial(remote, true);
    }

    /// A server of another cluster has told of a third one.
    pub(super) fn hear_gossip(&self, info: &PeerInfo) {
        if self.config().rejects_unknown && self.remote(&info.gateway).is_none() {
            return;
        }
        self.hear_of(&info.gateway, &info.gateway_urls);
    }

    /// Tells a server that has dialled of the other clusters.
    pub(super) fn gossip_to(&self, link: &GatewayState) {
        let own = link.facts().gateway;
        let id = self.config().info.id.clone();
        for remote in self.remotes().iter().filter(|remote| remote.name() != own) {
            if let Some(line) = gossip_line(&id, "", remote) {
                link.conn.say(&line);
            }
        }
    }

    /// Tells the servers of this cluster of another one, to which they dial, too.
    pub(super) fn tell_cluster(&self, gateway: &str, urls: &[String]) {
        let Some(mesh) = self.mesh() else { return };
        let own = self.config();
        let info = PeerInfo {
            // Compat: an id that is no server's.
            id: format!("GW{}", own.info.id),
            name: own.info.name.clone(),
            gateway: gateway.to_owned(),
            gateway_urls: urls.to_vec(),
            gateway_cmd: GOSSIP,
            ..PeerInfo::default()
        };
        mesh.say_to_each(&info.line());
    }

    /// A route to another server has begun: it is told of the other clusters.
    fn route_began(&self, link: &LinkState) {
        let id = format!("GW{}", self.config().info.id);
        let linked = self.outbound();
        for remote in linked.iter().filter_map(|linked| linked.remote()) {
            if let Some(line) = gossip_line(&id, "", remote) {
                link.tell(&line);
            }
        }
    }

    /// Another server of the cluster has its first route now, or none any more. `told` finds the
    /// address that it says by its routes; other clusters hear of a change.
    ///
    /// All of it is done under the lock: whoever comes later knows what is true then, and says it
    /// later.
    pub(crate) fn note_url(&self, server: &str, told: impl FnOnce() -> Option<ToldPlace>) {
        let mut state = lock(&self.state);
        if state.is_stopping {
            return;
        }
        let before = state.told.remove(server);
        let mut is_news = before.as_ref().is_some_and(|before| state.count_url(&before.url, false));
        let now = told().filter(|_| state.urls.len() < MOST_URLS);
        let takes_part = |told: &Option<ToldPlace>| told.as_ref().is_some_and(|told| told.takes_part);
        is_news |= takes_part(&before) != takes_part(&now);
        if let Some(told) = now {
            is_news |= state.count_url(&told.url, true);
            state.told.insert(server.to_owned(), told);
        }
        if is_news {
            let line = self.info_with(&state).line();
            state.inbound.iter().for_each(|link| link.conn.say(&line));
        }
    }
}

impl Known {
    /// One more server has this address, or one less. Answers whether it has come or gone with
    /// that.
    fn count_url(&mut self, url: &str, is_there: bool) -> bool {
        let count = self.urls.entry(url.to_owned()).or_default();
        let before = *count > 0;
        *count = if is_there { *count + 1 } else { count.saturating_sub(1) };
        let now = *count > 0;
        if !now {
            self.urls.remove(url);
        }
        before != now
    }
}

/// The line by which another server is told of a cluster; `None` where no address is known.
fn gossip_line(id: &str, name: &str, remote: &GatewayRemote) -> Option<Vec<u8>> {
    let urls = remote.addresses();
    let info = PeerInfo {
        id: id.to_owned(),
        name: name.to_owned(),
        gateway: remote.name().to_owned(),
        gateway_urls: urls,
        gateway_cmd: GOSSIP,
        ..PeerInfo::default()
    };
    (!info.gateway_urls.is_empty()).then(|| info.line())
}

impl Mesh {
    /// The server has a gateway: servers of the cluster tell each other of other clusters.
    pub fn set_gateways(self: &Arc<Self>, gateways: &Arc<Gateways>) {
        gateways.join(self);
        let _ = self.gateways.set(Arc::clone(gateways));
    }

    /// Another server of the cluster has told of another cluster.
    pub(crate) fn heard_of_gateway(&self, info: &PeerInfo, link: &LinkState) {
        let id = link.facts().remote_id;
        match self.gateways.get() {
            None => {
                let name = &info.gateway;
                self.complain(format_args!(
                    "Received information about gateway {name:?} from {id}, but gateway is not configured"
                ));
            }
            Some(gateways) if info.gateway_cmd == GOSSIP => {
                gateways.hear_of(&info.gateway, &info.gateway_urls)
            }
            Some(_) => {
                let command = info.gateway_cmd;
                self.complain(format_args!("Unknown command {command} from server {id}"));
            }
        }
    }

    /// Tells the other side of a route whose handshake is over of the other clusters, once to each
    /// server.
    pub(crate) fn tell_of_gateways(&self, link: &Arc<LinkState>) {
        let facts = link.facts();
        let is_first = facts.account.is_none() && facts.place == Some(0);
        if let Some(gateways) = self.gateways.get().filter(|_| is_first) {
            gateways.route_began(link);
        }
    }

    /// The first route to another server is there, or the last one is gone: the address that it
    /// says is one of this cluster, or no more.
    pub(crate) fn note_gateway_url(&self, server: &str) {
        let Some(gateways) = self.gateways.get() else { return };
        gateways.note_url(server, || {
            let mut facts = self.links().into_iter().map(|link| link.facts());
            let url = facts.find_map(|facts| facts.urls.gateway.filter(|_| facts.remote_id == server))?;
            Some(ToldPlace { url, takes_part: self.state().internal.has_member(server) })
        });
    }

    /// Says a line once to each other server.
    fn say_to_each(&self, line: &[u8]) {
        let mut told = BTreeSet::new();
        for link in self.links() {
            let facts = link.facts();
            if facts.account.is_none() && told.insert(facts.remote_id) {
                link.tell(line);
            }
        }
    }
}
