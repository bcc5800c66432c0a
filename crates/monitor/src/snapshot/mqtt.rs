//! Configuration of MQTT as `/varz` shows it.

use jiff::Timestamp;
use myelin_wire::json::{is_false, is_zero, nanoseconds};
use serde::Serialize;
use std::time::Duration;

/// The `mqtt` section of `/varz`; what is empty, zero or false is left out.
#[derive(Debug, Clone, Default, Serialize)]
pub struct MqttConfig {
    /// The address of the listener.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// Its port, as it is bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Whom clients without credentials are taken for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub no_auth_user: String,
    /// Seconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub auth_timeout: f64,
    /// Whether certificates name users.
    #[serde(skip_serializing_if = "is_false")]
    pub tls_map: bool,
    /// Seconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub tls_timeout: f64,
    /// Keys of clients that are accepted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tls_pinned_certs: Vec<String>,
    /// The JetStream domain of sessions and messages.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub js_domain: String,
    /// Written in nanoseconds.
    #[serde(skip_serializing_if = "Duration::is_zero", serialize_with = "nanoseconds")]
    pub ack_wait: Duration,
    /// Messages on their way to one subscription.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_ack_pending: u16,
    /// Whether authorities are asked about the certificates of clients.
    #[serde(skip_serializing_if = "is_false")]
    pub tls_ocsp_peer_verify: bool,
    /// When its certificate expires; written by the page.
    #[serde(skip)]
    pub tls_cert_not_after: Option<Timestamp>,
}
