//! Gateways as the server tells of them.

use super::ConnSnapshot;
use crate::text::optional_utc;
use jiff::Timestamp;
use myelin_wire::json::{is_zero, nanoseconds};
use serde::Serialize;
use std::time::Duration;

/// The gateway of this server, and its links with other clusters.
#[derive(Debug, Clone)]
pub struct GatewaysSnapshot {
    /// Name of this server's gateway.
    pub name: String,
    /// The host that others are told to dial.
    pub host: String,
    /// The port that others are told to dial.
    pub port: u16,
    /// All links, those over which messages go and those over which they come.
    pub links: Vec<GatewaySnapshot>,
}

/// One link with a server of another cluster.
#[derive(Debug, Clone)]
pub struct GatewaySnapshot {
    /// Name of the other cluster.
    pub cluster: String,
    /// Whether this server has dialled: then messages go over it, else they come.
    pub is_outbound: bool,
    /// Whether the other cluster is configured here.
    pub is_configured: bool,
    /// The connection; its name is the id of the other server.
    pub conn: ConnSnapshot,
    /// Accounts, and how far the side that tells its interest is with each.
    pub accounts: Vec<GatewayAccountSnapshot>,
}

/// An account on a link with a server of another cluster.
#[derive(Debug, Clone)]
pub struct GatewayAccountSnapshot {
    /// Its name.
    pub name: String,
    /// How far the side is that tells its interest.
    pub mode: &'static str,
    /// Subjects of which an older server has said that nobody wants them.
    pub unwanted: usize,
}

/// The `gateway` section of `/varz`; what is empty or zero is left out.
#[derive(Debug, Clone, Default, Serialize)]
pub struct GatewayVarz {
    /// Name of the gateway.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The address for other clusters.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// The port for other clusters, as it is bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Seconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub auth_timeout: f64,
    /// Seconds for a handshake, with or without TLS.
    #[serde(skip_serializing_if = "is_zero")]
    pub tls_timeout: f64,
    /// Whether other clusters have to speak TLS.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tls_required: bool,
    /// Whether they have to show certificates.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tls_verify: bool,
    /// The address that others are told, where it is configured.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub advertise: String,
    /// Attempts to dial a cluster that another one told of.
    #[serde(skip_serializing_if = "is_zero")]
    pub connect_retries: u32,
    /// Clusters that are configured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gateways: Vec<RemoteGatewayVarz>,
    /// Whether clusters that are not configured are refused.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reject_unknown: bool,
    /// Written in nanoseconds. Compat: that of routes.
    #[serde(skip_serializing_if = "Duration::is_zero", serialize_with = "nanoseconds")]
    pub write_deadline: Duration,
    /// Reaction when the write deadline passes. Compat: that of routes.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub write_timeout: &'static str,
    /// When the certificate for other clusters expires.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "optional_utc")]
    pub tls_cert_not_after: Option<Timestamp>,
}

/// A cluster that is configured, in `/varz`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RemoteGatewayVarz {
    /// Its name.
    pub name: String,
    /// Seconds for a handshake with TLS, where the cluster has its own.
    #[serde(skip_serializing_if = "is_zero")]
    pub tls_timeout: f64,
    /// `host:port` of its servers, learnt ones among them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub urls: Vec<String>,
}
