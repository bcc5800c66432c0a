//! Counts that several pages show.

use serde::Serialize;

/// One count per kind of link.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct LinkCounts {
    /// Clients.
    pub clients: u64,
    /// Routes.
    pub routes: u64,
    /// Gateways.
    pub gateways: u64,
    /// Leaf nodes.
    pub leafs: u64,
}

impl LinkCounts {
    /// The sum over all kinds.
    #[must_use]
    pub fn total(self) -> u64 {
        self.clients + self.routes + self.gateways + self.leafs
    }
}

/// Messages and their bytes, headers and payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Volume {
    /// Messages.
    pub msgs: u64,
    /// Bytes.
    pub bytes: u64,
}
