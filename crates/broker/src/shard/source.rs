//! Where a message comes from: it decides where else it goes, also behind an import.

use crate::conn::Conn;
use crate::link::leaf_end::LeafRole;
use myelin_wire::peer::parser::QueueNames;

/// Way by which a message has come to this server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Via {
    /// A client or a service of this server has published it.
    Here = 0,
    /// Over a route.
    Route = 1,
    /// From a leaf node.
    Leaf = 2,
    /// From a hub.
    Hub = 3,
    /// From another account of this server, whose stream this one imports: only leaf nodes and hubs
    /// still have to get it.
    Import = 4,
    /// From another cluster.
    Gateway = 5,
}

/// Where a message comes from.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// From a client or a service of this server.
    Here,
    /// From another server of the cluster, which has chosen these queue groups here.
    Route {
        queues: &'a QueueNames<'a>,
        /// Cluster of the leaf node that has published it; mostly empty.
        origin: &'a [u8],
        /// The reply as it has come, if that is mapped; mostly empty.
        whole_reply: &'a [u8],
    },
    /// From another cluster, which has chosen these queue groups here.
    Gateway {
        queues: &'a QueueNames<'a>,
        /// The reply as it has come, if that is mapped; mostly empty.
        whole_reply: &'a [u8],
    },
    /// An answer from another cluster, under a mapped subject: who awaits it gets it as if it was
    /// published here.
    Answer {
        /// The reply as it has come, if that is mapped; mostly empty.
        whole_reply: &'a [u8],
        /// Whether a service answers another account. Compat: other clusters do not get that,
        /// whoever listens there.
        is_of_service: bool,
    },
    /// From a leaf node or a hub, which has chosen these queue groups here.
    Leaf {
        /// Part of this server on the link over which it came.
        role: LeafRole,
        queues: &'a QueueNames<'a>,
        /// Cluster of the other side; empty for none.
        origin: &'a [u8],
        /// The reply as it has come, if that is mapped; mostly empty.
        whole_reply: &'a [u8],
    },
    /// From another account of this server, into which it has come from a leaf node or a hub: a
    /// request for a service that this account exports.
    Request {
        role: LeafRole,
        /// Cluster of the other side; empty for none.
        origin: &'a [u8],
    },
    /// From another account of this server, whose stream this one imports.
    Stream { barred: BarredHubs<'a> },
}

/// Hubs that have got what comes by an import already, or are about to get it.
#[derive(Clone, Copy)]
pub(crate) enum BarredHubs<'a> {
    None,
    /// Hubs of a cluster, or of one whose name nobody says.
    Of(&'a [u8]),
    /// Every hub: each server of this cluster has its own links with them.
    All,
}

impl<'a> Source<'a> {
    /// Where a request of this source comes from in the account that exports the service.
    pub(super) fn of_request(self) -> Self {
        match self {
            Self::Leaf { role, origin, .. } | Self::Request { role, origin } => {
                Self::Request { role, origin }
            }
            Self::Here
            | Self::Route { .. }
            | Self::Stream { .. }
            | Self::Gateway { .. }
            | Self::Answer { .. } => Self::Here,
        }
    }

    /// Where a message of this source comes from in an account that imports the stream.
    pub(super) fn of_stream(self) -> Self {
        let barred = match self {
            Self::Leaf { role: LeafRole::Spoke, origin, .. }
            | Self::Request { role: LeafRole::Spoke, origin } => BarredHubs::Of(origin),
            Self::Route { .. } => BarredHubs::All,
            Self::Here
            | Self::Leaf { .. }
            | Self::Request { .. }
            | Self::Gateway { .. }
            | Self::Answer { .. } => BarredHubs::None,
            Self::Stream { barred } => barred,
        };
        Self::Stream { barred }
    }
}

impl BarredHubs<'_> {
    /// Whether a message does not go over the link `conn`.
    ///
    /// Compat: hubs without a cluster's name may be of one cluster. Leaf nodes of the cluster from
    /// which a message has come get it: they have not seen it in this account.
    pub(super) fn has(self, conn: &Conn) -> bool {
        let hub = conn.leaf().filter(|leaf| leaf.role == LeafRole::Spoke);
        hub.is_some_and(|hub| match self {
            BarredHubs::None => false,
            BarredHubs::Of(origin) => {
                origin.is_empty() || hub.cluster.is_empty() || hub.cluster.as_bytes() == origin
            }
            BarredHubs::All => true,
        })
    }
}
