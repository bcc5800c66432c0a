//! A WebSocket that a link is, or has to become.

use crate::tls::TrustedCerts;
use myelin_wire::websocket::upgrade::{Solicitation, Upgrade};
use rustls::ServerConnection;
use std::time::Duration;

/// WebSocket that a link is, or has to become.
pub(crate) enum LinkUpgrade {
    /// A leaf node has come by the listener for WebSocket, over TLS or without.
    Accepted(Box<AcceptedLeaf>),
    /// A hub is asked for one, in this time.
    Dialled(Solicitation, Duration),
}

/// Leaf node that has come by the listener for WebSocket.
pub(crate) struct AcceptedLeaf {
    pub(crate) upgrade: Upgrade,
    pub(crate) security: Option<ServerConnection>,
    /// Authorities of which one has signed its certificate.
    pub(crate) trusted: TrustedCerts,
}

impl LinkUpgrade {
    /// Whether TLS is there already.
    pub(super) fn is_secure(&self) -> bool {
        matches!(self, Self::Accepted(leaf) if leaf.security.is_some())
    }
}
