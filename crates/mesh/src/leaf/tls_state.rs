//! TLS of a link, as its session sees it: a hub that was dialled says INFO first, and nothing is
//! answered before the link is encrypted.

use super::session::LeafSession;
use crate::certificate::PeerCertificate;
use myelin_auth::ClientCertificate;
use myelin_wire::error::CloseReason;
use myelin_wire::peer::info::PeerInfo;
use std::sync::Arc;
use std::time::Instant;

/// State of a link's TLS.
#[derive(Debug, Default)]
pub(super) struct TlsState {
    /// Certificate that the other side has shown.
    pub(super) certificate: Option<Arc<ClientCertificate>>,
    /// Whether the link is encrypted.
    is_on: bool,
    /// The hub's INFO, which is dealt with when the link is encrypted.
    postponed: Option<Vec<u8>>,
    /// The transport was told to begin the handshake.
    is_under_way: bool,
}

impl TlsState {
    /// Puts INFO off until the link is encrypted.
    pub(super) fn postpone(&mut self, json: &[u8]) {
        self.postponed = Some(json.to_vec());
    }

    /// Whether the handshake has to begin.
    pub(super) fn is_wished_for(&self) -> bool {
        self.postponed.is_some() && !self.is_under_way
    }

    /// Takes the wish for a handshake: once.
    pub(super) fn takes_wish(&mut self) -> bool {
        let is_wished_for = self.is_wished_for();
        self.is_under_way |= is_wished_for;
        is_wished_for
    }
}

impl LeafSession {
    /// Whether there has to be TLS and is none, where this server has dialled.
    pub(super) fn wants_tls(&self, info: &PeerInfo) -> bool {
        let is_wanted = self.remote().is_some_and(|remote| remote.config.wants_tls);
        // Under a WebSocket its URL has decided that.
        (info.tls_required || is_wanted) && !self.tls.is_on && !self.link.conn().is_web_socket_link()
    }

    /// The link is encrypted: what has waited for that goes on.
    pub(super) fn has_secured(
        &mut self,
        shown: Option<PeerCertificate>,
        now: Instant,
    ) -> Result<(), CloseReason> {
        self.tls.certificate = shown.map(|shown| shown.names);
        self.tls.is_on = true;
        self.tls.postponed.take().map_or(Ok(()), |json| self.info_of_hub(&json, now))
    }
}
