//! Statistics that a server publishes again and again: `$SYS.SERVER.<id>.STATSZ`, and when it is
//! pinged.

use super::{Page, page};
use crate::gatewayz::StatszGateway;
use crate::response::PageResponse;
use crate::routez::RouteSnapshot;
use crate::snapshot::GatewaysSnapshot;
use crate::snapshot::{
    JetStreamConfig, JetStreamSnapshot, JetStreamStats, LinkCounts, MetaGroup, ServerSnapshot,
    SnapshotSource, VarzJetStreamLimits, Volume,
};
use crate::text::utc;
use myelin_wire::json::is_zero;
use serde::Serialize;

/// The numbers, without the envelope. `heard`: other servers that say of themselves in the system
/// account that they are there, of whichever cluster.
///
/// # Errors
/// None that could be: they are JSON.
pub fn statsz(source: &dyn SnapshotSource, heard: usize) -> Result<Page, String> {
    let (server, jetstream, routes) = (source.server(), source.jetstream(), source.routes());
    let gateways = source.gateways();
    let shown = jetstream.as_ref().map(|jetstream| JetStreamConfig {
        // Compat: where it lies is nobody else's business.
        store_dir: String::new(),
        ..jetstream.config.clone()
    });
    let jetstream = jetstream.as_ref().zip(shown.as_ref());
    page(PageResponse::line(200, &Statsz::of((&server, heard), (&routes, gateways.as_ref()), jetstream)))
}

#[derive(Serialize)]
struct Statsz<'a> {
    start: String,
    mem: i64,
    cores: usize,
    cpu: f64,
    connections: usize,
    total_connections: u64,
    active_accounts: usize,
    subscriptions: u32,
    sent: Volume,
    sent_to_clients: Volume,
    received: Volume,
    received_from_clients: Volume,
    slow_consumers: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    slow_consumer_stats: Option<LinkCounts>,
    #[serde(skip_serializing_if = "is_zero")]
    stale_connections: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    stale_connection_stats: Option<LinkCounts>,
    #[serde(skip_serializing_if = "is_zero")]
    stalled_clients: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    routes: Vec<StatszRoute<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gateways: Vec<StatszGateway<'a>>,
    active_servers: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    jetstream: Option<StatszJetStream<'a>>,
    #[serde(skip_serializing_if = "is_zero")]
    gomaxprocs: usize,
}

/// One link to another server.
#[derive(Serialize)]
struct StatszRoute<'a> {
    rid: u64,
    name: &'a str,
    sent: Volume,
    received: Volume,
    pending: usize,
}

impl<'a> StatszRoute<'a> {
    fn of(route: &'a RouteSnapshot) -> Self {
        let ([in_msgs, out_msgs], [in_bytes, out_bytes]) = (route.msgs, route.bytes);
        Self {
            rid: route.rid,
            name: &route.remote_name,
            sent: Volume { msgs: out_msgs, bytes: out_bytes },
            received: Volume { msgs: in_msgs, bytes: in_bytes },
            pending: route.pending_size,
        }
    }
}

#[derive(Serialize)]
struct StatszJetStream<'a> {
    config: &'a JetStreamConfig,
    stats: &'a JetStreamStats,
    #[serde(skip_serializing_if = "Option::is_none")]
    meta: Option<MetaGroup>,
    limits: &'a VarzJetStreamLimits,
}

/// Compat: who does not lead the meta group calls it by the group's name, and shows no members.
fn shown_meta(meta: MetaGroup, leads: bool) -> MetaGroup {
    if leads { meta } else { MetaGroup { name: "_meta_".to_owned(), replicas: Vec::new(), ..meta } }
}

impl<'a> Statsz<'a> {
    fn of(
        (server, heard): (&'a ServerSnapshot, usize),
        (routes, gateways): (&'a [RouteSnapshot], Option<&'a GatewaysSnapshot>),
        jetstream: Option<(&'a JetStreamSnapshot, &'a JetStreamConfig)>,
    ) -> Self {
        let (process, traffic) = (&server.process, &server.traffic);
        let some = |counts: LinkCounts| (counts.total() > 0).then_some(counts);
        Self {
            start: utc(server.clocks.start),
            mem: process.mem,
            cores: process.cores,
            cpu: process.cpu,
            connections: traffic.connections,
            total_connections: traffic.total_connections,
            active_accounts: server.active_accounts,
            subscriptions: traffic.subscriptions,
            sent: Volume { msgs: traffic.out_msgs, bytes: traffic.out_bytes },
            sent_to_clients: Volume { msgs: traffic.out_client_msgs, bytes: traffic.out_client_bytes },
            received: Volume { msgs: traffic.in_msgs, bytes: traffic.in_bytes },
            received_from_clients: Volume { msgs: traffic.in_client_msgs, bytes: traffic.in_client_bytes },
            slow_consumers: server.slow_consumers.total(),
            slow_consumer_stats: some(server.slow_consumers),
            stale_connections: server.stale_connections.total(),
            stale_connection_stats: some(server.stale_connections),
            stalled_clients: traffic.stalled_clients,
            routes: routes.iter().map(StatszRoute::of).collect(),
            gateways: gateways.map(StatszGateway::all).unwrap_or_default(),
            // One that is linked is there before it says so.
            active_servers: 1 + traffic.remotes.max(heard),
            jetstream: jetstream.map(|(snapshot, config)| StatszJetStream {
                config,
                stats: &snapshot.stats,
                meta: snapshot.meta.clone().map(|meta| shown_meta(meta, snapshot.leads_meta)),
                limits: &snapshot.limits,
            }),
            gomaxprocs: process.gomaxprocs,
        }
    }
}
