//! The addresses on which a server listens.

use crate::http::Scheme;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Addresses on which the server listens.
pub(crate) struct BoundAddresses {
    pub(crate) client: SocketAddr,
    /// Where monitoring is served, and how.
    pub(crate) monitoring: Option<(Scheme, SocketAddr)>,
    /// Where WebSocket is spoken.
    pub(crate) websocket: Option<SocketAddr>,
    /// The file that says them.
    pub(crate) ports_file: Option<PathBuf>,
}

impl BoundAddresses {
    pub(super) fn new(
        client: SocketAddr,
        monitoring: Option<(Scheme, SocketAddr)>,
        websocket: Option<SocketAddr>,
    ) -> Self {
        Self { client, monitoring, websocket, ports_file: None }
    }
}
