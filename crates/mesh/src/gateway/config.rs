//! Configuration of the gateway: the server's own name and address, logins, other clusters.

use crate::config::{Login, RouteUrl};
use myelin_wire::peer::info::PeerInfo;
use std::time::Duration;

/// Another cluster, as it is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredGateway {
    /// Name of its gateway.
    pub name: String,
    /// Its servers.
    pub urls: Vec<RouteUrl>,
}

/// Configuration of the gateway.
#[derive(Debug, Clone)]
pub struct GatewayConfig {
    /// INFO as it is for every link, but for the addresses of the whole cluster.
    pub info: PeerInfo,
    /// `host:port` at which other clusters are told to dial this server.
    pub url: String,
    /// `None` lets every server in.
    pub login: Option<Login>,
    /// Whether CONNECT says that there is TLS.
    pub tls_required: bool,
    /// Other clusters, without this one.
    pub remotes: Vec<ConfiguredGateway>,
    /// Refuse clusters that are not configured.
    pub rejects_unknown: bool,
    /// Further attempts to reach a cluster that another server told of.
    pub connect_retries: u32,
    /// Whether attempts come less and less often.
    pub connect_backoff: bool,
    /// One of so many failed attempts is an error in the log, before there was ever a link.
    pub connect_error_reports: u32,
    /// The like, where there was a link.
    pub reconnect_error_reports: u32,
    /// Time between two PINGs.
    pub ping_interval: Duration,
    /// Unanswered PINGs that are tolerated.
    pub ping_max: u32,
    /// Time for the other side to log in.
    pub auth_timeout: Duration,
}
