//! Formation of the cluster's JetStream: which servers make the meta group, and when.
//!
//! A store that was in a cluster before knows the members of its meta group. A new one asks the
//! servers that are linked. Where none of them has a meta group, a new one is made when as many of
//! the cluster are linked as routes are configured, and some of each other cluster that the gateway
//! names, and has these.

use super::RunningJetStream;
use crate::cluster::{GroupPart, own_urls, takes_part};
use myelin_broker::{Broker, LinkedPeer, PeerObserver};
use myelin_conf::options::Options;
use myelin_jetstream::{FoundingTerms, GroupSettings, JetStream, KeptLogBounds, peer_id};
use myelin_replica::Peer;
use myelin_stdx::sync::lock;
use myelin_wire::peer::groups::{BULK_ACCOUNT, GroupServer, RAFT_ACCOUNT};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// Word of links to other servers.
struct Formation {
    jetstream: Arc<JetStream>,
    routes: Mutex<OtherServers>,
}

/// Servers of the cluster to which routes lead, but for this one.
struct OtherServers {
    routes: BTreeSet<(String, Option<u16>)>,
    /// A new cluster has at least as many. One name may be that of several servers, of which only
    /// this one is known yet: nobody is alone who has a route to a name.
    least: usize,
}

impl RunningJetStream {
    /// Takes part in groups, where the server is in a cluster. `None`: it is in none.
    ///
    /// # Errors
    /// Words for why the votes or the meta group cannot be read or written.
    pub(crate) fn join_groups(
        &self,
        options: &Options,
        broker: &Broker,
    ) -> Result<Option<GroupPart>, String> {
        if !takes_part(options) {
            self.jetstream.tell_unled();
            return Ok(None);
        }
        let name = broker.info().server_name;
        let accounts = (broker.internal_account(RAFT_ACCOUNT), broker.internal_account(BULK_ACCOUNT));
        let (Some(me), (Some(account), Some(bulk))) = (peer_id(&name), accounts) else {
            return Err("the server has no account for groups".to_owned());
        };
        if name.contains(',') {
            return Err(format!("server_name {name:?} must not have a comma in a cluster with JetStream"));
        }
        let incarnation = self.jetstream.begin_groups(GroupSettings {
            me,
            account,
            bulk,
            kept_log: KeptLogBounds::default(),
        })?;
        if self.jetstream.has_meta(RAFT_ACCOUNT) {
            self.jetstream.begin_meta(&[])?;
        }
        let routes = OtherServers::of(options);
        let terms = FoundingTerms { expected: routes.expected(), clusters: clusters(options) };
        self.jetstream.seek_meta(terms)?;
        let formation = Formation { jetstream: Arc::clone(&self.jetstream), routes: Mutex::new(routes) };
        let server = GroupServer { store: me.to_string(), incarnation, servers: Vec::new() };
        Ok(Some(GroupPart { server, observer: Arc::new(formation) }))
    }
}

impl OtherServers {
    fn of(options: &Options) -> Self {
        let cluster = &options.cluster;
        let own_port = cluster.listener.port.map(|port| port.to_bind());
        let listens = cluster.listener.host.as_str();
        let is_said = |host: &str| host == listens || ["localhost", "127.0.0.1", "::1"].contains(&host);
        let named = cluster.routes.iter().map(|route| {
            (route.host().to_ascii_lowercase(), route.port().and_then(|port| port.parse().ok()))
        });
        let named: BTreeSet<(String, Option<u16>)> =
            named.filter(|(host, port)| *port != own_port || !is_said(host)).collect();
        let least = if named.is_empty() { 1 } else { 2 };
        let is_own = |host: &str, port: Option<u16>| {
            port == own_port && port.is_some_and(|port| own_urls::is_own((listens, port), host))
        };
        Self { routes: named.into_iter().filter(|(host, port)| !is_own(host, *port)).collect(), least }
    }

    /// How many servers a new cluster has: those that the routes lead to, and this one.
    fn expected(&self) -> usize {
        (self.routes.len() + 1).max(self.least)
    }
}

/// Other clusters that the gateway leads to.
fn clusters(options: &Options) -> Vec<String> {
    let Some(own) = crate::gateway::name(options) else { return Vec::new() };
    let named = options.gateway.gateways.iter().map(|remote| &remote.name);
    named.filter(|name| *name != own).cloned().collect()
}

impl PeerObserver for Formation {
    fn peer_linked(&self, peer: &LinkedPeer) {
        let said = peer.said();
        if said.account != RAFT_ACCOUNT {
            return;
        }
        if let Some(id) = Peer::parse(&said.store) {
            self.jetstream.peer_linked(id, peer);
        }
        self.jetstream.server_is_of(&said.name, said.is_foreign.then_some(&*said.cluster));
        self.jetstream.server_linked(&said.name, &said.cluster);
    }

    fn route_is_own(&self, host: &str, port: u16) {
        let mut others = lock(&self.routes);
        if others.routes.remove(&(host.to_ascii_lowercase(), Some(port))) {
            self.jetstream.expect_servers(others.expected());
        }
    }

    fn peer_unlinked(&self, peer: &LinkedPeer) {
        let said = peer.said();
        if said.account == RAFT_ACCOUNT
            && let Some(id) = Peer::parse(&said.store)
        {
            self.jetstream.peer_unlinked(id, peer);
        }
    }

    fn cluster_heard(&self, cluster: &str, has_any: bool) {
        self.jetstream.cluster_heard(cluster, has_any);
    }
}
