//! Configuration of WebSocket as `/varz` shows it.

use jiff::Timestamp;
use myelin_wire::json::{is_false, is_zero, nanoseconds};
use serde::Serialize;
use std::time::Duration;

/// The `websocket` section of `/varz`; what is empty, zero or false is left out.
#[derive(Debug, Clone, Default, Serialize)]
pub struct WebSocketConfig {
    /// The address of the listener.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// Its port, as it is bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Address that clients are told instead.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub advertise: String,
    /// Whom clients without credentials are taken for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub no_auth_user: String,
    /// The cookie that may hold a JWT.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub jwt_cookie: String,
    /// Written in nanoseconds.
    #[serde(skip_serializing_if = "Duration::is_zero", serialize_with = "nanoseconds")]
    pub handshake_timeout: Duration,
    /// Seconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub auth_timeout: f64,
    /// Whether it may do without TLS.
    #[serde(skip_serializing_if = "is_false")]
    pub no_tls: bool,
    /// Whether certificates name users.
    #[serde(skip_serializing_if = "is_false")]
    pub tls_map: bool,
    /// Keys of clients that are accepted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tls_pinned_certs: Vec<String>,
    /// Whether pages may only connect to where they come from.
    #[serde(skip_serializing_if = "is_false")]
    pub same_origin: bool,
    /// Where pages may come from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_origins: Vec<String>,
    /// Whether messages may be compressed.
    #[serde(skip_serializing_if = "is_false")]
    pub compression: bool,
    /// Whether authorities are asked about the certificates of clients.
    #[serde(skip_serializing_if = "is_false")]
    pub tls_ocsp_peer_verify: bool,
    /// When its certificate expires; written by the page.
    #[serde(skip)]
    pub tls_cert_not_after: Option<Timestamp>,
}
