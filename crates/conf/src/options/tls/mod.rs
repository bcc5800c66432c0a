//! The `tls{}` block, which clients, clusters, gateways, leaf nodes, WebSocket, MQTT and resolvers share.

use super::field::{Field, Read, Report};

/// Who speaks TLS with these options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::options) enum TlsUse {
    Client,
    Cluster,
    Gateway,
    LeafNodes,
    LeafRemote,
    LeafProxy,
    WebSocket,
    Mqtt,
    Resolver,
}

/// TLS as configured.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsOptions {}

impl TlsOptions {
    /// Reads a `tls` block.
    pub(in crate::options) fn read(field: &Field<'_>, _place: TlsUse, _report: &mut Report) -> Read<Self> {
        field.map().map(|_| Self {})
    }
}
