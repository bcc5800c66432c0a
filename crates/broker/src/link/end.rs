//! The end of a link that all shards share: its scope and rules, and the control bytes that wait
//! for the next flush.

use super::complaints::Complaints;
use super::gateway_end::GatewayEnd;
use super::leaf_end::LeafEnd;
use crate::cluster::AccountPlace;
use crate::outbox::{AppendCounts, Outbox, Queued, Segment, Staged};
use arc_swap::ArcSwapOption;
use myelin_auth::Permissions;
use myelin_stdx::mem::Accountant;
use myelin_stdx::sync::lock;
use myelin_wire::peer::gateway::ShortName;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

/// Accounts that a link is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkScope {
    /// Accounts that this server puts at this place of its pool.
    Pooled(u32),
    /// One account only, whose name is left out of what is said.
    Dedicated(String),
    /// One [internal](crate::Broker::internal_account) account, whose name is left out, too.
    Internal(String),
    /// All but those: there is but one link to the other server beside theirs.
    All,
}

/// The part of a connection that only links have.
#[derive(Default)]
pub(crate) struct LinkEnd {
    /// The other end is a leaf node or a hub.
    is_of_leaf_node: bool,
    /// The other end is a server of another cluster.
    is_of_gateway: bool,
    /// The link is a WebSocket.
    is_web_socket: bool,
    /// Known once the handshake is over.
    pub(super) scope: OnceLock<LinkScope>,
    /// Terms of a link with a leaf node or a hub, known then, too.
    pub(super) leaf: OnceLock<Box<LeafEnd>>,
    /// Terms of a link with another cluster, known then, too.
    pub(super) gateway: OnceLock<Box<GatewayEnd>>,
    /// Short name of the server at the other end, for replies that come back from other clusters.
    pub(super) server: OnceLock<ShortName>,
    /// Rules for what may cross the link; `None` where everything may.
    pub(super) rules: ArcSwapOption<Permissions>,
    /// Whoever has this lock may take that of the outbox, and no other.
    control: Mutex<Vec<u8>>,
    /// The owner shard was told to flush it and has not begun to: it is not told again.
    pub(super) is_woken: AtomicBool,
    /// The other side tells what becomes of traced messages.
    pub(super) traces: AtomicBool,
    /// The other side says who has sent requests to JetStream, and takes that off where it is said.
    pub(super) says_askers: AtomicBool,
    pub(crate) complaints: Complaints,
    /// Remote subscriptions of the other side, as of what has come last.
    pub(crate) subscriptions: AtomicUsize,
}

impl LinkEnd {
    /// A link with a leaf node or a hub.
    pub(crate) fn of_leaf_node(is_web_socket: bool) -> Self {
        Self { is_of_leaf_node: true, is_web_socket, ..Self::default() }
    }

    /// A link with a server of another cluster.
    pub(crate) fn of_gateway() -> Self {
        Self { is_of_gateway: true, ..Self::default() }
    }

    /// Whether the link is with another cluster, also before its handshake is over.
    pub(crate) fn is_of_gateway(&self) -> bool {
        self.is_of_gateway
    }

    /// The part that only gateways have, once their handshake is over.
    #[inline]
    pub(crate) fn gateway(&self) -> Option<&GatewayEnd> {
        self.gateway.get().map(|gateway| &**gateway)
    }

    /// Whether the link leads to the server of this short name.
    pub(crate) fn leads_to(&self, server: &[u8]) -> bool {
        self.server.get().is_some_and(|own| own == server)
    }

    /// Whether the link is a WebSocket.
    pub(crate) fn is_web_socket(&self) -> bool {
        self.is_web_socket
    }

    /// Whether the link is with a leaf node or a hub, also before its handshake is over.
    pub(crate) fn is_of_leaf_node(&self) -> bool {
        self.is_of_leaf_node
    }

    /// The part that only links with leaf nodes and hubs have, once their handshake is over.
    #[inline]
    pub(crate) fn leaf(&self) -> Option<&LeafEnd> {
        self.leaf.get().map(|leaf| &**leaf)
    }

    /// Adds control bytes; true when the owner shard is to be woken for them.
    pub(super) fn say(&self, bytes: &[u8]) -> bool {
        let mut control = lock(&self.control);
        control.extend_from_slice(bytes);
        // Under the lock: who finds it set adds before the owner takes what is there.
        !self.is_woken.swap(true, Relaxed)
    }

    /// Moves control bytes and then what a shard has staged into the outbox, in one step.
    pub(crate) fn queue<W: Ord + Clone>(
        &self,
        outbox: &Outbox<W>,
        memory: &Accountant,
        segments: &mut Staged,
        mut load: AppendCounts,
    ) -> Queued {
        let mut control = lock(&self.control);
        if !control.is_empty() {
            let control = std::mem::take(&mut *control);
            load.wire += control.len();
            load.own += control.len();
            segments.insert(0, Segment::Own(control));
        }
        outbox.append(segments, load, memory)
    }

    /// Whether what concerns an account, which has this place, goes over this link.
    pub(crate) fn carries(&self, account: &str, place: AccountPlace) -> bool {
        let is_internal = place == AccountPlace::Internal;
        match self.scope.get() {
            None => false,
            Some(LinkScope::All) => !is_internal,
            Some(LinkScope::Dedicated(name)) => !is_internal && account == name,
            Some(LinkScope::Internal(name)) => is_internal && account == name,
            Some(LinkScope::Pooled(at)) => place == AccountPlace::Pooled(*at),
        }
    }

    /// Whether the link is for an internal account.
    pub(crate) fn is_internal(&self) -> bool {
        matches!(self.scope.get(), Some(LinkScope::Internal(_)))
    }

    /// The account's name as it is said on this link.
    pub(crate) fn named<'a>(&self, account: &'a str) -> Option<&'a [u8]> {
        let is_dedicated = matches!(self.scope.get(), Some(LinkScope::Dedicated(_) | LinkScope::Internal(_)));
        (!is_dedicated).then_some(account.as_bytes())
    }

    /// Whether the other side tells what becomes of traced messages.
    pub(crate) fn traces(&self) -> bool {
        self.traces.load(Relaxed)
    }

    /// Whether the other side says who has sent requests to JetStream.
    #[inline]
    pub(crate) fn says_askers(&self) -> bool {
        self.says_askers.load(Relaxed)
    }
}
