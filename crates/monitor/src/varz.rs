//! `/varz`: the server as a whole.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use crate::leafz::LeafNodesConfig;
use crate::response::PageResponse;
use crate::routez::ClusterConfig;
use crate::snapshot::GatewayVarz;
use crate::snapshot::{
    JetStreamConfig, JetStreamSnapshot, JetStreamStats, LinkCounts, MetaGroup, MqttConfig, OcspPeerCache,
    Process, ServerIdentity, ServerSnapshot, SnapshotSource, Traffic, VarzJetStreamLimits, VarzLimits,
    WebSocketConfig,
};
use crate::text::{age, utc};
use myelin_wire::json::{is_zero, nanoseconds};

pub(crate) fn answer(source: &dyn SnapshotSource) -> PageResponse {
    source.count_request("/varz");
    let jetstream = source.jetstream();
    PageResponse::page(&Varz::of(&source.server(), jetstream.as_ref()))
}

/// `{}` while VarzJetStream does not run.
#[derive(Serialize, Default)]
struct VarzJetStream<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<&'a JetStreamConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stats: Option<&'a JetStreamStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    meta: Option<&'a MetaGroup>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<&'a VarzJetStreamLimits>,
}

impl<'a> VarzJetStream<'a> {
    fn of(snapshot: &'a JetStreamSnapshot) -> Self {
        Self {
            config: Some(&snapshot.config),
            stats: Some(&snapshot.stats),
            meta: snapshot.meta.as_ref(),
            limits: Some(&snapshot.limits),
        }
    }
}

/// Configuration of a listener, and when its certificate expires; `{}` without the listener.
#[derive(Serialize)]
struct WithCertificate<'a, C: Serialize> {
    #[serde(flatten)]
    config: &'a C,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_cert_not_after: Option<String>,
}

impl<'a, C: Serialize> WithCertificate<'a, C> {
    fn of(config: &'a C, not_after: Option<Timestamp>) -> Self {
        Self { config, tls_cert_not_after: not_after.map(utc) }
    }
}

/// Waits for the reference's disk semaphore, which has no counterpart here.
#[derive(Serialize, Default)]
struct DiskWaits {
    waiters: i64,
    waits: u64,
    wait_time: u64,
    max_wait_time: u64,
}

#[derive(Serialize)]
struct Varz<'a> {
    #[serde(flatten)]
    identity: &'a ServerIdentity,
    #[serde(flatten)]
    limits: &'a VarzLimits,
    cluster: &'a ClusterConfig,
    gateway: &'a GatewayVarz,
    leaf: &'a LeafNodesConfig,
    mqtt: WithCertificate<'a, MqttConfig>,
    websocket: WithCertificate<'a, WebSocketConfig>,
    jetstream: VarzJetStream<'a>,
    tls_timeout: f64,
    #[serde(serialize_with = "nanoseconds")]
    write_deadline: Duration,
    #[serde(skip_serializing_if = "str::is_empty")]
    write_timeout: &'a str,
    start: String,
    now: String,
    uptime: String,
    #[serde(flatten)]
    process: &'a Process,
    #[serde(flatten)]
    traffic: &'a Traffic,
    slow_consumers: u64,
    stale_connections: u64,
    stalled_clients: u64,
    subscriptions: u32,
    http_req_stats: &'a BTreeMap<String, u64>,
    config_load_time: String,
    config_digest: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    tags: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    feature_flags: &'a BTreeMap<String, bool>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    trusted_operators_jwt: &'a [String],
    #[serde(skip_serializing_if = "<[serde_json::Value]>::is_empty")]
    trusted_operators_claim: &'a [serde_json::Value],
    #[serde(skip_serializing_if = "str::is_empty")]
    system_account: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    pinned_account_fails: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ocsp_peer_cache: Option<&'a OcspPeerCache>,
    slow_consumer_stats: LinkCounts,
    stale_connection_stats: LinkCounts,
    disk_io_wait_stats: DiskWaits,
    #[serde(skip_serializing_if = "Option::is_none")]
    proxies: Option<Proxies<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_cert_not_after: Option<String>,
}

#[derive(Serialize)]
struct Proxies<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    trusted: Vec<TrustedProxy<'a>>,
}

#[derive(Serialize)]
struct TrustedProxy<'a> {
    key: &'a str,
}

impl<'a> Proxies<'a> {
    fn of(keys: &'a [String]) -> Self {
        Self { trusted: keys.iter().map(|key| TrustedProxy { key }).collect() }
    }
}

impl<'a> Varz<'a> {
    fn of(server: &'a ServerSnapshot, jetstream: Option<&'a JetStreamSnapshot>) -> Self {
        let (settings, clocks) = (&server.settings, server.clocks);
        Self {
            identity: &server.identity,
            limits: &server.limits,
            cluster: &server.cluster,
            gateway: &server.gateway,
            leaf: &server.leaf,
            mqtt: WithCertificate::of(&server.mqtt, server.mqtt.tls_cert_not_after),
            websocket: WithCertificate::of(&server.websocket, server.websocket.tls_cert_not_after),
            jetstream: jetstream.map_or_else(VarzJetStream::default, VarzJetStream::of),
            tls_timeout: settings.tls_timeout,
            write_deadline: settings.write_deadline,
            write_timeout: &settings.write_timeout,
            start: utc(clocks.start),
            now: utc(clocks.now),
            uptime: age(clocks.start, clocks.now),
            process: &server.process,
            traffic: &server.traffic,
            slow_consumers: server.slow_consumers.total(),
            stale_connections: server.stale_connections.total(),
            stalled_clients: server.traffic.stalled_clients,
            subscriptions: server.traffic.subscriptions,
            http_req_stats: &server.http_req_stats,
            config_load_time: utc(clocks.config_load),
            config_digest: &settings.config_digest,
            tags: &settings.tags,
            metadata: &settings.metadata,
            feature_flags: &settings.feature_flags,
            trusted_operators_jwt: &settings.operator_jwts,
            trusted_operators_claim: &settings.operator_claims,
            system_account: &settings.system_account,
            pinned_account_fails: settings.pinned_account_fails,
            ocsp_peer_cache: server.ocsp_peer_cache.as_ref(),
            slow_consumer_stats: server.slow_consumers,
            stale_connection_stats: server.stale_connections,
            disk_io_wait_stats: DiskWaits::default(),
            proxies: settings.trusted_proxies.as_deref().map(Proxies::of),
            tls_cert_not_after: settings.tls_cert_not_after.map(utc),
        }
    }
}
