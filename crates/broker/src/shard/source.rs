//! Where a message comes from: it decides where else it goes.

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
    },
    /// From a leaf node or a hub, which has chosen these queue groups here.
    Leaf {
        /// Part of this server on the link over which it came.
        role: LeafRole,
        queues: &'a QueueNames<'a>,
        /// Cluster of the other side; empty for none.
        origin: &'a [u8],
    },
}
