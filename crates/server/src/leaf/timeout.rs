//! Time that a leaf node has to log in.

use crate::tls::LINK_TIMEOUT as TLS_TIMEOUT;
use myelin_conf::options::{LeafNodeOptions, TlsOptions};
use std::time::Duration;

/// Time for a leaf node to log in, where nothing is configured.
const AUTH_TIMEOUT: Duration = Duration::from_secs(2);

/// Time for a leaf node to log in. Compat: with TLS a second more than the handshake may take.
pub(crate) fn auth_timeout(leaf_nodes: &LeafNodeOptions) -> Duration {
    let of_tls = |tls: &TlsOptions| tls.timeout.unwrap_or(TLS_TIMEOUT) + Duration::from_secs(1);
    let default = leaf_nodes.tls.as_ref().map_or(AUTH_TIMEOUT, of_tls);
    leaf_nodes.authorization.timeout.unwrap_or(default)
}
