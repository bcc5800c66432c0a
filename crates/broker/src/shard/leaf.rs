//! Messages that come from a leaf node or a hub: to whoever wants them here and beyond.
//!
//! They are published as a client of the account would: mappings and imports apply here. Queue
//! groups get them if the other side has chosen them for this one; routes get what comes from a
//! leaf node, not what comes from a hub.

use super::Shard;
use super::fanout::Publisher;
use super::mapped_replies::unmapped;
use super::routed::{RoutedBuffers, addressed, may_ask_for_trace, message_of};
use super::source::{BarredHubs, Source, Via};
use crate::account::Account;
use crate::conn::Conn;
use crate::link::leaf_end::{LeafEnd, LeafRole};
use crate::service::ServiceTarget;
use bytes::Bytes;
use myelin_wire::peer::gateway::MappedReply;
use myelin_wire::peer::parser::{PASSED_ON, QueueNames, Routed};
use std::sync::Arc;
use std::time::Instant;

impl<'a> Publisher<'a> {
    /// Way by which what it publishes has come.
    #[inline(always)]
    pub(super) fn via(&self) -> Via {
        match self.source {
            Source::Here | Source::Answer { is_of_service: false, .. } => Via::Here,
            Source::Gateway { .. } | Source::Answer { is_of_service: true, .. } => Via::Gateway,
            Source::Route { .. } => Via::Route,
            Source::Leaf { role, .. } | Source::Request { role, .. } => match role {
                LeafRole::Hub => Via::Leaf,
                LeafRole::Spoke => Via::Hub,
            },
            Source::Stream { .. } => Via::Import,
        }
    }

    /// Queue groups that another server of the cluster has chosen, if the message comes from one.
    #[inline(always)]
    pub(super) fn routed(&self) -> Option<&'a QueueNames<'a>> {
        match self.source {
            Source::Route { queues, .. } => Some(queues),
            _ => None,
        }
    }

    /// Whether the server of the cluster that was chosen for its groups passes it on to this one:
    /// who wants it beside them has got it.
    #[inline(always)]
    pub(super) fn is_passed_on(&self) -> bool {
        self.routed().is_some_and(|queues| queues.contains(PASSED_ON))
    }

    /// Whether the message goes to a service of its route: where it was published it has gone by
    /// imports, and to those beside groups before it was passed on.
    #[inline(always)]
    pub(super) fn reaches(&self, service: &ServiceTarget) -> bool {
        match service {
            ServiceTarget::Import(_) | ServiceTarget::Measurers if self.has_imported() => false,
            service => service.queue().is_some() || !self.is_passed_on(),
        }
    }

    /// Whether imports were applied where it was published.
    #[inline(always)]
    pub(super) fn has_imported(&self) -> bool {
        matches!(self.source, Source::Route { .. } | Source::Gateway { .. } | Source::Answer { .. })
    }

    /// The reply as it has come from another server, where that is mapped; else empty.
    #[inline(always)]
    pub(super) fn whole_reply(&self) -> &'a [u8] {
        match self.source {
            Source::Route { whole_reply, .. }
            | Source::Gateway { whole_reply, .. }
            | Source::Leaf { whole_reply, .. }
            | Source::Answer { whole_reply, .. } => whole_reply,
            _ => &[],
        }
    }

    /// Cluster of the leaf node from which the message has come here, or to another server of this
    /// cluster; empty where it has not.
    #[inline(always)]
    pub(super) fn leaf_origin(&self) -> &'a [u8] {
        match self.source {
            Source::Leaf { origin, .. } | Source::Route { origin, .. } => origin,
            _ => &[],
        }
    }

    /// Whether a member here of a queue group may get it: of what leaf nodes and hubs send, only if
    /// the group was chosen there. Compat: of what goes under another subject here nobody could
    /// choose.
    #[inline(always)]
    pub(super) fn has_chosen(&self, queue: &[u8]) -> bool {
        match self.source {
            Source::Leaf { queues, .. } => queues.contains(queue) || !self.is_mapped && queues.is_empty(),
            Source::Gateway { queues, .. } => queues.contains(queue),
            _ => true,
        }
    }

    /// Writes the head of a frame for the link `conn` from the one that a route has, and answers
    /// whether it names the cluster of the leaf node: other clusters do not hear of that.
    pub(super) fn write_head(
        &self,
        conn: &Conn,
        head: &mut Vec<u8>,
        cached: &[u8],
        has_headers: bool,
    ) -> bool {
        let origin = self.leaf_origin();
        let is_of_leaf = cached[0] == b'R' && !origin.is_empty() && conn.gateway().is_none();
        if is_of_leaf {
            debug_assert!(cached.starts_with(b"RMSG "), "heads of routes and gateways alone begin with R");
            // Compat: a route hears of what cluster the leaf node is, and always of headers.
            head.extend_from_slice(b"LMSG ");
            head.extend_from_slice(origin);
            head.extend_from_slice(&cached[4..]);
        } else {
            head.push(if has_headers { b'H' } else { cached[0] });
            head.extend_from_slice(&cached[1..]);
        }
        is_of_leaf
    }

    /// Whether a message would go back to where it came from: over its link, to leaf nodes of its
    /// cluster, or by an import to its hub.
    #[inline(always)]
    pub(super) fn comes_from(&self, conn: &Arc<Conn>) -> bool {
        match self.source {
            Source::Here | Source::Answer { .. } => false,
            Source::Gateway { .. } => Arc::ptr_eq(conn, self.conn),
            Source::Route { origin, .. } | Source::Leaf { origin, .. } => {
                let is_of_cluster = || conn.leaf().is_some_and(|leaf| leaf.cluster.as_bytes() == origin);
                Arc::ptr_eq(conn, self.conn) || !origin.is_empty() && is_of_cluster()
            }
            Source::Request { .. } | Source::Stream { .. } => self.was_imported_from(conn),
        }
    }

    #[cold]
    fn was_imported_from(&self, conn: &Arc<Conn>) -> bool {
        match self.source {
            Source::Request { role: LeafRole::Spoke, origin } => BarredHubs::Of(origin).has(conn),
            Source::Request { role: LeafRole::Hub, .. } => Arc::ptr_eq(conn, self.conn),
            Source::Stream { barred } => barred.has(conn) || Arc::ptr_eq(conn, self.conn),
            Source::Here
            | Source::Route { .. }
            | Source::Leaf { .. }
            | Source::Gateway { .. }
            | Source::Answer { .. } => false,
        }
    }
}

impl Shard {
    /// Routes one message that has come over the link `conn` with a leaf node or a hub.
    #[inline(never)]
    pub(crate) fn publish_leaf(
        &mut self,
        (conn, leaf): (&Arc<Conn>, &LeafEnd),
        account: &Arc<Account>,
        (routed, backing): (&Routed<'_>, Option<&Bytes>),
        buffers: &mut RoutedBuffers,
        now: Instant,
    ) {
        if let Some(mapped) = MappedReply::of(routed.subject)
            && self.publish_answer_of_leaf(conn, account, (routed, mapped), now)
        {
            return;
        }
        let (unmapped, whole_reply) = unmapped(routed);
        let (to, subject, reply) = addressed(&unmapped);
        let logs_protocol = buffers.logs_protocol;
        let (tail, shared_tail) = buffers.tail_of(&unmapped, reply, backing);
        let (queues, origin) = (&routed.queues, leaf.cluster.as_bytes());
        let from = Publisher {
            logs_protocol,
            source: Source::Leaf { role: leaf.role, queues, origin, whole_reply },
            is_mapped: true,
            ..Publisher::internal(conn, account, now)
        };
        if !whole_reply.is_empty() {
            let address = if to.is_empty() { subject } else { to };
            self.remember(&from, (address, reply));
        }
        let message = message_of(routed, (to, subject, reply), (tail, shared_tail.as_ref()));
        if may_ask_for_trace(&message) {
            return self.publish_routed_traced(from, message);
        }
        let _ = self.publish_onward(from, message);
    }
}
