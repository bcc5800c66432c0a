//! Configuration of leaf nodes: who may be one, and how links are.

use myelin_auth::AuthConfig;
use myelin_wire::peer::info::PeerInfo;
use myelin_wire::s2::mode::CompressionMode;
use std::sync::Arc;
use std::time::Duration;

/// How links are compressed.
#[derive(Debug, Clone)]
pub struct LeafCompression {
    /// Mode as it is configured.
    pub mode: CompressionMode,
    /// Round trips up to which `s2_auto` has its levels.
    pub thresholds: Vec<Duration>,
}

/// Configuration of leaf nodes and of what is common to all hubs.
#[derive(Debug, Clone)]
pub struct LeafConfig {
    /// INFO as it is for every leaf node; without a port of leaf nodes it is empty.
    pub info: PeerInfo,
    /// Name of this server.
    pub name: String,
    /// Id of this server.
    pub id: String,
    /// Cluster that CONNECT and INFO say where this server is no cluster's.
    pub cluster: String,
    /// Rules by which leaf nodes log in, if they have their own. Else those of clients hold.
    pub auth: Option<Arc<AuthConfig>>,
    /// Account of leaf nodes where nobody has to log in.
    pub default_account: Option<String>,
    /// Compression for leaf nodes that dial.
    pub compression: LeafCompression,
    /// Oldest version of a leaf node, and how it is written.
    pub min_version: Option<[u64; 3]>,
    /// Whether no leaf node hears of what others want.
    pub is_isolated: bool,
    /// Time for a leaf node to log in.
    pub auth_timeout: Duration,
    /// Time between two PINGs.
    pub ping_interval: Duration,
    /// Unanswered PINGs that are tolerated.
    pub ping_max: u32,
    /// Largest message.
    pub max_payload: u32,
    /// Whether headers are taken.
    pub headers: bool,
    /// Wait before a hub is dialled again.
    pub reconnect: Duration,
}

/// The numbers at the front of a version, of which a suffix may follow.
pub(crate) fn version_numbers(text: &str) -> Option<[u64; 3]> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut numbers = text.split(['-', '+']).next()?.split('.').map(|number| number.parse().ok());
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

#[cfg(test)]
mod tests {
    use super::version_numbers;

    #[test]
    fn versions_of_servers_are_read() {
        assert_eq!(version_numbers("2.15.2"), Some([2, 15, 2]));
        assert_eq!(version_numbers("v2.9.0-beta.1"), Some([2, 9, 0]));
        for bad in ["", "2", "2.1", "a.b.c", "-1.0.0"] {
            assert_eq!(version_numbers(bad), None, "{bad}");
        }
    }
}
