//! The parts of a start that are about other servers.

use crate::cluster::{self, GroupPart};
use crate::gateway::GatewayOffers;
use crate::monitoring::Monitor;
use crate::ocsp::{self, Ocsp};
use crate::tls::{ClientOffer, LeafOffer};
use crate::{gateway, leaf, mqtt, tls, websocket};
use myelin_broker::{Broker, LinkTerms};
use myelin_conf::options::Options;
use std::sync::Arc;

/// The accounts and links of the cluster, where there is one.
///
/// # Errors
/// When the options about other servers cannot be had together with the rest.
pub(super) fn terms(options: &Options, takes_part_in_groups: bool) -> Result<Option<LinkTerms>, String> {
    let takes_part = takes_part_in_groups || cluster::takes_part(options);
    leaf::check(options)
        .and_then(|()| gateway::check(options))
        .and_then(|()| cluster::terms(options, takes_part))
}

/// Gives the broker what clusters need of it, and a name to the cluster where the options have
/// none: then that is made up.
pub(super) fn form(
    broker: &Broker,
    links: Option<LinkTerms>,
    (options, takes_part_in_groups): (&Options, bool),
) -> bool {
    if takes_part_in_groups || cluster::takes_part(options) {
        GroupPart::prepare(broker);
    }
    if leaf::is_wanted(options) {
        broker.form_leaf_nodes();
    }
    if let Some(name) = gateway::name(options) {
        broker.form_gateway(name);
    }
    let is_dynamic = links.is_some() && options.cluster.name.is_none();
    if let Some(links) = links {
        broker.form_cluster(links);
    }
    if is_dynamic {
        broker.set_cluster(&cluster::dynamic_name());
    }
    is_dynamic
}

/// TLS between servers, where there is a cluster that others can reach.
pub(crate) fn link_offer(options: &Options) -> Result<Option<tls::LinkOffer>, String> {
    if options.cluster.listener.port.is_none() {
        return Ok(None);
    }
    tls::LinkOffer::of(&options.cluster)
}

/// Listens for other servers and dials them, where there is a cluster.
///
/// # Errors
/// When the port cannot be had.
pub(super) fn start(
    parts: cluster::ClusterParts<'_>,
    monitor: &Monitor,
) -> Result<Option<cluster::RunningCluster>, String> {
    if parts.options.cluster.listener.port.is_none() {
        return Ok(None);
    }
    let running = cluster::RunningCluster::start(parts)?;
    monitor.set_cluster(Arc::clone(&running.mesh), running.address.port());
    Ok(Some(running))
}

/// TLS of WebSocket, with what the operator should know.
type WebSocketOffer = (websocket::Security, Vec<String>);

/// TLS that clients and other servers are offered.
pub(super) struct TlsOffers {
    pub(super) clients: Option<ClientOffer>,
    pub(super) websocket: Option<WebSocketOffer>,
    pub(super) mqtt: Option<ClientOffer>,
    pub(super) links: Option<tls::LinkOffer>,
    pub(super) gateways: GatewayOffers,
}

impl TlsOffers {
    /// TLS that the options have.
    ///
    /// # Errors
    /// When a certificate is no good.
    pub(super) fn of(options: &Options) -> Result<Self, String> {
        Ok(Self {
            clients: ClientOffer::of(options)?,
            links: link_offer(options)?,
            websocket: websocket::Security::of(options)?,
            mqtt: mqtt::offer(options)?,
            gateways: gateway::offers(options)?,
        })
    }

    /// Proofs of OCSP that go with it, and the TLS of leaf nodes.
    ///
    /// # Errors
    /// When a certificate is no good, or there is no proof where there is to be one.
    pub(super) fn prove(
        &mut self,
        ocsp: &Ocsp,
        options: &Options,
    ) -> Result<(ocsp::StagedOcsp, leaf::LeafSecurity), String> {
        let Self { clients, websocket, mqtt, links, gateways } = self;
        let mut leaf_nodes = LeafOffer::of(&options.leaf_nodes)?;
        let clients = clients.as_mut().map(|offer| &mut offer.terms);
        let websocket = websocket.as_mut().map(|(security, _)| &mut security.terms);
        let listeners = [
            ocsp::TlsListener::of(options.tls.as_ref(), clients, None),
            ocsp::TlsListener::of(options.websocket.tls.as_ref(), websocket, None),
            ocsp::TlsListener::of(
                options.mqtt.tls.as_ref(),
                mqtt.as_mut().map(|offer| &mut offer.terms),
                None,
            ),
            links.as_mut().map(|offer| ocsp::TlsListener::of_links(offer, None)),
            ocsp::TlsListener::of_leaf_nodes(options.leaf_nodes.tls.as_ref(), leaf_nodes.as_mut()),
        ];
        let listeners = listeners.into_iter().flatten().chain(gateways.listeners(None));
        let mut proofs = ocsp.prepare(options, listeners)?;
        let security = leaf::LeafSecurity { offer: leaf_nodes, hubs: std::mem::take(&mut proofs.hubs) };
        proofs.complaint.take().map_or(Ok((proofs, security)), Err)
    }
}
