//! Sessions of links, whatever they are with: what the shell has to know to serve them.

use crate::certificate::PeerCertificate;
use bytes::Bytes;
use myelin_auth::{Identity, Reject};
use myelin_broker::{Announcing, Conn, GatewayAnnouncing, LeafAnnouncing, LeafLogin, LinkRemoval, Shard};
use myelin_wire::error::CloseReason;
use myelin_wire::s2::S2Level;
use std::sync::Arc;
use std::time::Instant;

/// Step that a session asks for next.
#[derive(Debug)]
pub enum Next {
    /// Read more: the rest is an operation that takes at least this many bytes from its start.
    More(usize),
    /// Flush the shard, then offer the rest again.
    Flush,
    /// Check credentials, which may take long, then say what came of it and offer the rest again.
    Check(Box<LeafLogin>),
    /// Flush the shard and end the link.
    Close(CloseReason),
}

/// The outcome of [`PeerSession::ingest`].
#[derive(Debug)]
pub struct Ingested {
    /// Bytes of the buffer that are dealt with.
    pub bytes: usize,
    /// Step that comes next.
    pub next: Next,
}

/// The interest that the other side of a link is to be told.
pub enum Announcement {
    /// For another server of the cluster.
    Route(Announcing),
    /// For a leaf node or a hub.
    Leaf(LeafAnnouncing),
    /// For a server of another cluster.
    Gateway(GatewayAnnouncing),
}

impl Announcement {
    /// Whether it takes long to tell it.
    pub fn is_long(&self) -> bool {
        match self {
            Self::Route(announcing) => announcing.is_long(),
            Self::Leaf(announcing) => announcing.is_long(),
            Self::Gateway(announcing) => announcing.is_long(),
        }
    }

    /// Tells it.
    pub fn run(self) {
        match self {
            Self::Route(announcing) => announcing.run(),
            Self::Leaf(announcing) => announcing.run(),
            Self::Gateway(announcing) => announcing.run(),
        }
    }
}

/// Session of one link.
pub trait PeerSession {
    /// The connection.
    fn conn(&self) -> &Arc<Conn>;

    /// Says what can be said before the other side has said anything, over TLS or without.
    fn greet(&mut self, shard: &mut Shard, now: Instant);

    /// Goes on over TLS; `shown` is the other side's certificate.
    ///
    /// # Errors
    /// When the link has to end.
    fn secured(&mut self, shown: Option<PeerCertificate>, now: Instant) -> Result<(), CloseReason>;

    /// Leaves compression to the WebSocket that carries the link. Only links with leaf nodes and
    /// hubs have one.
    fn leave_compression(&mut self) {}

    /// The session by which the link goes on: once, where that is of another kind than this one.
    /// What has come since is for it, and so is the end of the link.
    fn take_successor(&mut self) -> Option<Box<dyn PeerSession>> {
        None
    }

    /// Whether there has to be TLS before anything more is dealt with: once, and only where this
    /// side has dialled. [`secured`](Self::secured) has to follow.
    fn take_wish_for_tls(&mut self) -> bool;

    /// Takes the announcements of this server's interest, once after the handshake. They may take
    /// long.
    fn take_announcing(&mut self) -> Option<Announcement>;

    /// Works off what has come. `backing` is the same bytes where they are in memory that can be
    /// shared.
    fn ingest(&mut self, shard: &mut Shard, buf: &[u8], backing: Option<&Bytes>, now: Instant) -> Ingested;

    /// Goes on after credentials were checked.
    ///
    /// # Errors
    /// When the link has to end.
    fn checked(
        &mut self,
        shard: &mut Shard,
        outcome: Result<Identity, Reject>,
        now: Instant,
    ) -> Result<(), CloseReason>;

    /// The level at which everything is to be compressed from here on, in both directions: once,
    /// when everything that was said before is written. [`has_switched`](Self::has_switched) has to
    /// follow.
    fn take_switch(&mut self) -> Option<S2Level>;

    /// The transport compresses.
    fn has_switched(&mut self);

    /// Another level for what is sent from here on.
    fn take_level(&mut self) -> Option<S2Level>;

    /// Takes over what a reload has changed for this link.
    ///
    /// # Errors
    /// When the link cannot go on as it is.
    fn reload(&mut self, shard: &mut Shard) -> Result<(), CloseReason>;

    /// When [`on_deadline`](Self::on_deadline) wants to be called next.
    fn deadline(&self) -> Instant;

    /// Sends PING, or ends a link whose other side does not answer or does not say who it is.
    fn on_deadline(&mut self, now: Instant) -> Option<CloseReason>;

    /// Ends the link. What remains to be done may take long.
    fn end(&mut self, reason: CloseReason) -> Option<LinkRemoval>;

    /// Does what [`end`](Self::end) has not done, be it that it has failed in the middle: nothing
    /// that names the link remains, and its place is free.
    fn abandon(&mut self, reason: CloseReason) -> LinkRemoval;

    /// Kind of the other side, as the log calls it.
    fn kind(&self) -> &'static str;
}
