//! The session of a route, as the shell serves it.

use super::LinkSession;
use crate::certificate::PeerCertificate;
use crate::peer_session::{Announcement, Ingested, PeerSession};
use bytes::Bytes;
use myelin_auth::{Identity, Reject};
use myelin_broker::{Conn, LinkRemoval, Shard};
use myelin_wire::error::CloseReason;
use myelin_wire::s2::S2Level;
use std::sync::Arc;
use std::time::Instant;

impl PeerSession for LinkSession {
    fn conn(&self) -> &Arc<Conn> {
        self.conn()
    }

    fn greet(&mut self, shard: &mut Shard, shown: Option<PeerCertificate>, now: Instant) {
        self.greet(shard, shown, now);
    }

    fn take_announcing(&mut self) -> Option<Announcement> {
        self.take_announcing().map(Announcement::Route)
    }

    fn ingest(&mut self, shard: &mut Shard, buf: &[u8], backing: Option<&Bytes>, now: Instant) -> Ingested {
        self.ingest(shard, buf, backing, now)
    }

    /// Nothing that takes long is checked on a route.
    fn checked(&mut self, _: &mut Shard, _: Result<Identity, Reject>, _: Instant) -> Result<(), CloseReason> {
        Ok(())
    }

    fn take_switch(&mut self) -> Option<S2Level> {
        self.take_switch()
    }

    fn has_switched(&mut self) {
        self.has_switched();
    }

    fn take_level(&mut self) -> Option<S2Level> {
        self.take_level()
    }

    fn reload(&mut self, shard: &mut Shard) -> Result<(), CloseReason> {
        self.reload(shard)
    }

    fn deadline(&self) -> Instant {
        self.deadline()
    }

    fn on_deadline(&mut self, now: Instant) -> Option<CloseReason> {
        self.on_deadline(now)
    }

    fn end(&mut self, reason: CloseReason) -> Option<LinkRemoval> {
        self.end(reason)
    }

    fn abandon(&mut self, reason: CloseReason) -> LinkRemoval {
        self.abandon(reason)
    }

    fn kind(&self) -> &'static str {
        "route"
    }
}
