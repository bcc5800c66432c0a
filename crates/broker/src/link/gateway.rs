//! Gateways: links with other clusters, as the broker sees them.
//!
//! A server dials one server of each other cluster, and has one link to there for its messages,
//! the *outbound* one. Over the links that others have dialled, the *inbound* ones, it tells what
//! its whole cluster wants: clients and services here, other servers of the cluster, and leaf nodes
//! (`gateway_announcements.rs`). What is wanted over there is remote interest, as that of routes,
//! so a message leads to an outbound link by its cached route, and no message crosses that nobody
//! wants. Of a queue group a member of another cluster has its turn where none is in this one, in
//! the nearest cluster first; only one cluster gets it.
//!
//! What comes from another cluster goes to clients, services, leaf nodes and the other servers of
//! this cluster, and never on to a third cluster: all clusters are linked with each other.
//!
//! A reply whose subscription is young is mapped (`shard/gateway.rs`): the answer might come before
//! the interest in it.

use super::Link;
use super::end::LinkScope;
use super::gateway_announcements::GatewayAnnouncing;
use super::gateway_end::{GatewayAccount, GatewayEnd, GatewaySide, GatewayTerms};
use super::gateway_links::GatewayLinks;
use crate::broker::Broker;
use crate::conn::Conn;
use crate::shard::Shard;
use bytes::Bytes;
use myelin_wire::peer::gateway;
use myelin_wire::peer::parser::Routed;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Broker {
    /// The server has a gateway from now on: interest is counted for other clusters. To be called
    /// at the start, before there is any interest.
    pub fn form_gateway(&self, name: &str) {
        self.cluster.set_gateways(Arc::new(GatewayLinks::new(name, &self.info().server_id)));
    }

    /// Whether the server has a gateway.
    pub fn has_gateway(&self) -> bool {
        self.cluster.has_gateways()
    }

    /// Names of the clusters to which there are links, the nearest first.
    pub fn other_clusters(&self) -> Vec<String> {
        let Some(gateways) = GatewayLinks::of(&self.cluster) else { return Vec::new() };
        let outbound = gateways.outbound();
        let mut ends: Vec<_> = outbound.iter().filter_map(|conn| conn.gateway()).collect();
        ends.sort_by_key(|end| end.round_trip());
        ends.iter().map(|end| end.name.to_string()).collect()
    }

    /// Whether there is a link over which messages go to the cluster of this gateway.
    pub fn has_outbound_gateway(&self, name: &str) -> bool {
        let is_it = |conn: &Arc<Conn>| conn.gateway().is_some_and(|gateway| &*gateway.name == name);
        GatewayLinks::of(&self.cluster).is_some_and(|gateways| gateways.outbound().iter().any(is_it))
    }
}

impl Link {
    /// The handshake with a server of another cluster is over. What the other side is to be told of
    /// interest is returned, for inbound links.
    pub fn begin_gateway(&mut self, terms: GatewayTerms, headers: bool) -> Option<GatewayAnnouncing> {
        let side = terms.side;
        self.conn.set_headers(headers);
        if let Some(link) = self.conn.link() {
            let _ = link.gateway.set(Box::new(GatewayEnd::new(terms)));
            let _ = link.scope.set(LinkScope::All);
        }
        if let Some(gateways) = GatewayLinks::of(&self.broker.cluster) {
            gateways.add(&self.conn, side == GatewaySide::Outbound);
        }
        match side {
            GatewaySide::Inbound => Some(GatewayAnnouncing::new(&self.broker, &self.conn)),
            GatewaySide::Outbound => {
                self.broker.outdate_routes();
                None
            }
        }
    }

    /// A round trip was measured: the nearest cluster is asked first.
    pub fn note_round_trip(&self, rtt: Duration) {
        self.conn.gateway().iter().for_each(|gateway| gateway.set_round_trip(rtt));
    }

    /// A message has come from another cluster.
    #[inline]
    pub fn publish_from_gateway(
        &mut self,
        shard: &mut Shard,
        message: &Routed<'_>,
        backing: Option<&Bytes>,
        now: Instant,
    ) {
        let Some(account) = self.account_of(message.account, "gateway message", message.subject) else {
            return;
        };
        shard.publish_from_gateway(&self.conn, &account, (message, backing), &mut self.buffers, now);
        self.last = Some(account);
    }

    /// The other server has this id: mapped replies for it go over this link.
    pub fn set_server(&self, id: &str) {
        if let Some(link) = self.conn.link() {
            let _ = link.server.set(gateway::short_name(id));
        }
    }
}

impl Conn {
    /// Accounts of whose interest the other side of an inbound gateway is told, or that of an
    /// outbound one tells, and how far they are.
    pub fn gateway_accounts(&self) -> Vec<GatewayAccount> {
        match self.gateway() {
            Some(gateway) if gateway.is_outbound() => gateway.heard_accounts(),
            Some(gateway) => gateway.told_accounts(),
            None => Vec::new(),
        }
    }
}
