//! Configuration of the gateway: the server's own name and address, logins, other clusters.

use crate::certificate::{self, CertificateRules};
use crate::config::{Login, RouteUrl};
use myelin_auth::ClientCertificate;
use myelin_wire::peer::info::{PeerConnect, PeerInfo};
use std::fmt::Arguments;
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
    /// Whether certificates decide who may come in.
    pub certificates: CertificateRules,
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

impl GatewayConfig {
    /// Whether a server that says this, and has shown this certificate, may come in. `note` gets
    /// what the log says of it.
    pub(super) fn admits(
        &self,
        connect: &PeerConnect,
        certificate: Option<&ClientCertificate>,
        note: &dyn Fn(Arguments<'_>),
    ) -> bool {
        let urls = self.remotes.iter().flat_map(|remote| &remote.urls);
        certificate::admits((self.certificates, self.login.as_ref()), urls, (connect, certificate), note)
    }
}
