//! Configuration as the pages show it: made when it is loaded, replaced as a whole by a reload.

use crate::cluster;
use crate::jetstream::directory;
use crate::leaf::timeout::auth_timeout;
use crate::tls;
use jiff::Timestamp;
use myelin_conf::options::{
    ClusterOptions, GLOBAL_ACCOUNT, JetStreamOptions, LeafNodeOptions, LeafRemoteOptions, ListenerOptions,
    MqttOptions, Options, PoolSize, Port, SyncInterval, TlsOptions, WebSocketOptions,
};
use myelin_conf::{Loaded, Url};
use myelin_monitor::{
    ClusterConfig, DenyRules, GatewayVarz, JetStreamConfig, LeafNodesConfig, LeafRemoteConfig, MetricsConfig,
    MqttConfig, VarzJetStreamLimits, VarzLimits, VarzSettings, WebSocketConfig,
};
use std::time::Duration;

/// Values of the configuration that the pages show, replaced as a whole by a reload.
#[derive(Debug)]
pub(super) struct Configured {
    pub(super) limits: VarzLimits,
    pub(super) settings: VarzSettings,
    pub(super) cluster: ClusterConfig,
    pub(super) leaf: LeafNodesConfig,
    pub(super) gateway: GatewayVarz,
    pub(super) mqtt: MqttConfig,
    pub(super) websocket: WebSocketConfig,
    /// `None` serves no `/metrics`.
    pub(super) metrics: Option<MetricsConfig>,
    /// The dashboard is served.
    pub(super) dashboard: bool,
    pub(super) wants_jetstream: bool,
    /// Authorities are asked about the certificates of clients.
    pub(super) asks_about_peers: bool,
    pub(super) jetstream: JetStreamConfig,
    pub(super) jetstream_limits: VarzJetStreamLimits,
    /// When it was loaded.
    pub(super) since: Timestamp,
}

impl Configured {
    pub(super) fn new(loaded: &Loaded, since: Timestamp) -> Self {
        let options = &loaded.options;
        Self {
            limits: limits(options),
            settings: settings(options, loaded.config_digest.clone().unwrap_or_default()),
            cluster: cluster_config(&options.cluster),
            gateway: super::gateways::configured(&options.gateway, &options.cluster),
            leaf: leaf_nodes(&options.leaf_nodes, &options.cluster),
            mqtt: mqtt(&options.mqtt),
            websocket: websocket(&options.websocket),
            metrics: options.monitoring.metrics.as_ref().map(super::figures::configured),
            dashboard: options.monitoring.dashboard,
            wants_jetstream: options.jetstream.enabled,
            asks_about_peers: options.tls.as_ref().is_some_and(tls::asks_about_peers),
            jetstream: jetstream(&options.jetstream),
            jetstream_limits: jetstream_limits(&options.jetstream),
            since,
        }
    }
}

fn limits(options: &Options) -> VarzLimits {
    let limits = &options.limits;
    VarzLimits {
        // Compat: no connections at all are written as -1.
        max_connections: match limits.max_connections {
            0 => -1,
            max => i64::from(max),
        },
        max_subscriptions: limits.max_subscriptions.map_or(0, i64::from),
        ping_interval: limits.ping_interval,
        ping_max: i64::from(limits.ping_max),
        http_host: options.monitoring_host().to_owned(),
        // Compat: a random port is shown as it was asked for, not as it was bound.
        http_port: options.monitoring.port.map_or(0, Port::to_number),
        http_base_path: options.monitoring.shown_base_path().to_owned(),
        https_port: options.monitoring.https_port.map_or(0, Port::to_number),
        auth_timeout: options.auth_timeout().as_secs_f64(),
        max_control_line: limits.max_control_line as i32,
        max_payload: limits.shown_max_payload(),
        max_pending: limits.max_pending as i64,
    }
}

fn settings(options: &Options, config_digest: String) -> VarzSettings {
    let flags = options.identity.feature_flags.merged();
    VarzSettings {
        tls_timeout: options.tls_timeout().as_secs_f64(),
        write_deadline: options.limits.write_deadline,
        write_timeout: options.limits.write_timeout.name().to_owned(),
        config_digest,
        feature_flags: flags.into_iter().map(|(name, on)| (name.to_owned(), on)).collect(),
        system_account: options.accounts.system_account().unwrap_or_default().to_owned(),
        tags: options.identity.tags.clone(),
        metadata: options.identity.metadata.clone(),
        operator_jwts: options.operators.list.iter().map(|operator| operator.jwt.clone()).collect(),
        operator_claims: options.operators.list.iter().map(|operator| operator.claims.clone()).collect(),
        pinned_account_fails: 0,
        trusted_proxies: Some(&options.proxies.trusted).filter(|keys| !keys.is_empty()).cloned(),
        tls_cert_not_after: options.tls.as_ref().and_then(tls::expiry),
    }
}

/// Compat: the reference goes on to show the name of the start after a reload, here it is the one
/// in force.
fn cluster_config(options: &ClusterOptions) -> ClusterConfig {
    let is_default = options.listener.host == ListenerOptions::default().host;
    // Compat: where nobody listens the default is not filled in.
    let listens = options.listener.port.is_some();
    let default = if listens { cluster::auth_timeout(options) } else { Duration::ZERO };
    let auth_timeout = options.authorization.timeout.unwrap_or(default);
    let tls_timeout = if listens { cluster::tls_timeout(options) } else { Duration::ZERO };
    ClusterConfig {
        name: String::new(),
        host: if is_default && !listens { String::new() } else { options.listener.host.clone() },
        cluster_port: None,
        auth_timeout: auth_timeout.as_secs_f64(),
        urls: options.routes.iter().map(host_and_port).collect(),
        tls_timeout: tls_timeout.as_secs_f64(),
        tls_required: options.tls.is_some(),
        tls_verify: options.tls.is_some(),
        tls_cert_not_after: options.tls.as_ref().and_then(tls::expiry),
        pool_size: match options.pool_size {
            PoolSize::Single => -1,
            size if !listens && size == ClusterOptions::default().pool_size => 0,
            PoolSize::Connections(connections) => i64::from(connections),
        },
        write_deadline: options.write_deadline.unwrap_or_default(),
        write_timeout: options.write_timeout.name(),
    }
}

/// Compat: what is said of writes is that of routes.
fn leaf_nodes(options: &LeafNodeOptions, cluster: &ClusterOptions) -> LeafNodesConfig {
    let common = LeafNodesConfig {
        remotes: options.remotes.iter().map(leaf_remote).collect(),
        write_deadline: cluster.write_deadline.unwrap_or_default(),
        write_timeout: cluster.write_timeout.name(),
        ..LeafNodesConfig::default()
    };
    if options.listener.port.is_none() {
        return common;
    }
    let tls = options.tls.as_ref();
    LeafNodesConfig {
        host: options.listener.host.clone(),
        auth_timeout: auth_timeout(options).as_secs_f64(),
        tls_timeout: tls.and_then(|tls| tls.timeout).unwrap_or(tls::LINK_TIMEOUT).as_secs_f64(),
        tls_required: tls.is_some(),
        tls_verify: tls.is_some_and(|tls| tls.verify || tls.verify_and_map),
        tls_cert_not_after: tls.and_then(tls::expiry),
        ..common
    }
}

fn leaf_remote(remote: &LeafRemoteOptions) -> LeafRemoteConfig {
    let denies = !remote.deny_imports.is_empty() || !remote.deny_exports.is_empty();
    let timeout = remote.tls.as_ref().map(|tls| tls.timeout.unwrap_or(tls::LINK_TIMEOUT));
    LeafRemoteConfig {
        local_account: remote.account.clone().unwrap_or_else(|| GLOBAL_ACCOUNT.to_owned()),
        tls_timeout: timeout.unwrap_or_default().as_secs_f64(),
        urls: remote.urls.iter().map(host_and_port).collect(),
        deny: denies.then(|| DenyRules {
            exports: remote.deny_exports.clone(),
            imports: remote.deny_imports.clone(),
        }),
    }
}

pub(super) fn host_and_port(route: &Url) -> String {
    match route.port() {
        Some(port) => format!("{}:{port}", route.host()),
        None => route.host().to_owned(),
    }
}

/// The port is shown as it is bound. Compat: what has its default is not shown.
fn mqtt(options: &MqttOptions) -> MqttConfig {
    let (tls, default) = (options.tls.as_ref(), MqttOptions::default());
    let listens = options.listener.port.is_some();
    let has_host = listens || options.listener != ListenerOptions::default();
    let tls_timeout = if listens {
        tls.map_or(TlsOptions::DEFAULT_TIMEOUT, TlsOptions::client_timeout)
    } else {
        tls.and_then(|tls| tls.timeout).unwrap_or_default()
    };
    MqttConfig {
        host: if has_host { options.listener.host.clone() } else { String::new() },
        port: None,
        no_auth_user: options.no_auth_user.clone().unwrap_or_default(),
        auth_timeout: options.authorization.timeout.unwrap_or_default().as_secs_f64(),
        tls_map: tls.is_some_and(|tls| tls.verify_and_map),
        tls_timeout: tls_timeout.as_secs_f64(),
        tls_pinned_certs: tls.map(|tls| tls.pinned_certs.iter().cloned().collect()).unwrap_or_default(),
        js_domain: options.js_domain.clone().unwrap_or_default(),
        ack_wait: if options.ack_wait == default.ack_wait { Duration::ZERO } else { options.ack_wait },
        max_ack_pending: match options.max_ack_pending {
            pending if pending == default.max_ack_pending => 0,
            pending => pending,
        },
        tls_ocsp_peer_verify: tls.is_some_and(crate::tls::asks_about_peers),
        tls_cert_not_after: tls.and_then(crate::tls::expiry),
    }
}

/// The port is shown as it is bound.
fn websocket(options: &WebSocketOptions) -> WebSocketConfig {
    let tls = options.tls.as_ref();
    if options.listener.port.is_none() && *options == WebSocketOptions::default() {
        return WebSocketConfig::default();
    }
    let has_host = options.listener.port.is_some() || options.listener != ListenerOptions::default();
    WebSocketConfig {
        host: if has_host { options.listener.host.clone() } else { String::new() },
        port: None,
        advertise: options.advertise.clone().unwrap_or_default(),
        no_auth_user: options.no_auth_user.clone().unwrap_or_default(),
        jwt_cookie: options.jwt_cookie.clone().unwrap_or_default(),
        handshake_timeout: options.handshake_timeout.unwrap_or_default(),
        auth_timeout: options.authorization.timeout.unwrap_or_default().as_secs_f64(),
        no_tls: options.no_tls,
        tls_map: tls.is_some_and(|tls| tls.verify_and_map),
        tls_pinned_certs: tls.map(|tls| tls.pinned_certs.iter().cloned().collect()).unwrap_or_default(),
        same_origin: options.same_origin,
        allowed_origins: options.allowed_origins.clone(),
        compression: options.compression,
        tls_ocsp_peer_verify: tls.is_some_and(crate::tls::asks_about_peers),
        tls_cert_not_after: tls.and_then(crate::tls::expiry),
    }
}

fn jetstream(options: &JetStreamOptions) -> JetStreamConfig {
    let is_positive = |bytes: Option<u64>| bytes.is_some_and(|bytes| bytes > 0);
    JetStreamConfig {
        // Known when JetStream has started.
        max_memory: 0,
        max_storage: 0,
        // A default place is claimed by who asks for it: not by a server that stores nothing.
        store_dir: if options.enabled { directory(options).display().to_string() } else { String::new() },
        sync_interval: match options.sync_interval {
            // Compat: what is shown then is the default.
            SyncInterval::Always => JetStreamOptions::DEFAULT_SYNC,
            SyncInterval::Every(interval) => interval,
        },
        sync_always: options.sync_interval == SyncInterval::Always,
        domain: options.domain.clone().unwrap_or_default(),
        compress_ok: is_positive(options.max_memory_store) && is_positive(options.max_file_store),
        unique_tag: options.unique_tag.clone().unwrap_or_default(),
        strict: options.strict,
    }
}

fn jetstream_limits(options: &JetStreamOptions) -> VarzJetStreamLimits {
    let limits = &options.limits;
    let number = |n: Option<u32>| i64::from(n.unwrap_or(0));
    VarzJetStreamLimits {
        max_request_batch: number(limits.max_request_batch),
        max_ack_pending: number(limits.max_ack_pending),
        max_ha_assets: number(limits.max_ha_assets),
        max_duplicate_window: limits.duplicate_window.unwrap_or_default(),
        max_batch_inflight_per_stream: number(limits.batch.max_inflight_per_stream),
        max_batch_inflight_total: number(limits.batch.max_inflight_total),
        max_batch_size: number(limits.batch.max_msgs),
        max_batch_timeout: limits.batch.timeout.unwrap_or_default(),
        // Compat: no limit is written as -1.
        default_max_consumers: limits.default_max_consumers.map_or(-1, i64::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_paths_are_shown_as_they_were_asked_for() {
        let mut options = Options::default();
        assert_eq!((limits(&options).http_port, limits(&options).http_base_path.as_str()), (0, ""));
        options.monitoring.port = Some(Port::Random);
        options.monitoring.base_path = "/mon".to_owned();
        assert_eq!((limits(&options).http_port, limits(&options).http_base_path.as_str()), (-1, "/mon"));
        options.monitoring.port = Some(Port::Fixed(8222));
        assert_eq!(limits(&options).http_port, 8222);
    }

    #[test]
    fn a_server_without_jetstream_has_no_place_to_store_in() {
        let mut options = JetStreamOptions::default();
        assert_eq!(jetstream(&options).store_dir, "");
        options.enabled = true;
        options.store_dir = Some("/somewhere".into());
        assert_eq!(jetstream(&options).store_dir, "/somewhere/jetstream");
    }
}
