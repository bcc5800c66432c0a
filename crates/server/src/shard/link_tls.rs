//! TLS under a link: when the handshake comes, and how it ends.
//!
//! On routes it comes before everything else. A hub says INFO first, unless `handshake_first` is
//! set; a leaf node begins the handshake when it has read that. Compat: on routes a handshake that
//! fails is always an error: nobody has to probe that port.

use super::Permits;
use super::handshake::{Ends, greet_server, handshake};
use super::link::LinkTask;
use crate::budget::StrangerBudget;
use crate::supervise::{self, SupervisedPart};
use crate::tls::{
    HubTls, LeafOffer, LinkOffer, NO_HANDSHAKE, TlsTerms, agreed, is_about_names, peer_certificate,
};
use myelin_broker::Level;
use myelin_conf::options::HandshakeFirst;
use myelin_mesh::PeerCertificate;
use myelin_wire::error::CloseReason;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, Connection};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::time::timeout;

/// Bytes that a stranger may send in a handshake.
const HANDSHAKE_BUDGET: usize = 256 * 1024;

/// TLS for one link. The name is what the other server's certificate has to bear.
#[derive(Clone)]
pub(crate) enum LinkSecurity {
    /// With a server of the cluster; with a name where this one has dialled.
    Route(Arc<LinkOffer>, Option<String>),
    /// With a leaf node that has dialled.
    LeafNode(Arc<LeafOffer>),
    /// With a hub that was dialled, if it comes to that.
    Hub(Arc<HubTls>, String),
}

/// A side of a handshake.
enum Shaking {
    Accepted(TlsTerms),
    Dialled(Arc<ClientConfig>, String),
}

impl LinkSecurity {
    /// When the handshake comes.
    pub(super) fn first(&self) -> HandshakeFirst {
        match self {
            Self::Route(..) => HandshakeFirst::Yes,
            Self::LeafNode(offer) => offer.first,
            Self::Hub(tls, _) if tls.is_first => HandshakeFirst::Yes,
            Self::Hub(..) => HandshakeFirst::No,
        }
    }

    /// Whether it is the session that says when the handshake comes, if it has not come first.
    pub(super) fn waits_for_session(&self) -> bool {
        matches!(self, Self::Hub(..))
    }

    fn kind(&self) -> &'static str {
        if matches!(self, Self::Route(..)) { "route" } else { "leafnode" }
    }

    fn side(&self) -> &'static str {
        match self {
            Self::Route(_, Some(_)) | Self::Hub(..) => "client",
            Self::Route(_, None) | Self::LeafNode(_) => "server",
        }
    }

    fn timeout(&self) -> Duration {
        match self {
            Self::Route(offer, _) => offer.timeout,
            Self::LeafNode(offer) => offer.timeout,
            Self::Hub(tls, _) => tls.timeout,
        }
    }

    fn shaking(&self) -> Shaking {
        match self {
            Self::Route(offer, None) => Shaking::Accepted(offer.terms.clone()),
            Self::Route(offer, Some(name)) => Shaking::Dialled(Arc::clone(&offer.dialling), name.clone()),
            Self::LeafNode(offer) => Shaking::Accepted(offer.terms.clone()),
            Self::Hub(tls, name) => Shaking::Dialled(Arc::clone(&tls.config), name.clone()),
        }
    }

    /// Whether the other side's key is one of those that are pinned, where any are.
    fn accepts(&self, shown: Option<&PeerCertificate>) -> bool {
        let is_pinned = |pinned: &BTreeSet<String>| {
            pinned.is_empty() || shown.is_some_and(|shown| pinned.contains(&shown.key))
        };
        match self {
            Self::Route(offer, _) => offer.accepts(shown),
            Self::LeafNode(offer) => is_pinned(&offer.pinned),
            Self::Hub(tls, _) => is_pinned(&tls.pinned),
        }
    }

    /// The certificate does not bear the name.
    fn is_not_called(&self) {
        match self {
            Self::Route(offer, Some(name)) => offer.is_not_called(name),
            Self::Hub(tls, name) => tls.borrowed.is_not_called(name),
            Self::Route(_, None) | Self::LeafNode(_) => {}
        }
    }

    /// Compat: who has begun with something else than a handshake is no error for a leaf node.
    fn level(&self, error: &str) -> Level {
        let is_route = matches!(self, Self::Route(..));
        if error == NO_HANDSHAKE && !is_route { Level::Debug } else { Level::Error }
    }
}

impl LinkTask {
    /// Whether the other side begins a handshake, or anything else, in this time.
    pub(super) async fn begins_within(&mut self, delay: Duration) -> bool {
        let mut first = [0];
        tokio::select! {
            peeked = timeout(delay, self.read.peek(&mut first)) => matches!(peeked, Ok(Ok(1))),
            () = self.handle.kicked() => false,
        }
    }

    /// Does the handshake; what the other side has shown is returned.
    ///
    /// # Errors
    /// When it fails, takes too long, or the link is to end.
    pub(super) async fn secure(
        &mut self,
        security: LinkSecurity,
    ) -> Result<Option<PeerCertificate>, CloseReason> {
        let log = |level, line: &str| {
            self.local.broker.log_for(level, &self.handle.conn, format_args!("{line}"));
        };
        let kind = security.kind();
        log(Level::Debug, &format!("Starting TLS {kind} {} handshake", security.side()));
        let (write, peer) = (Arc::clone(&self.handle.write), self.handle.conn.peer());
        let (with, permits, limit) = (security.shaking(), self.local.permits.clone(), security.timeout());
        let shaking = async move { timeout(limit, shake(&write, peer, with, permits)).await };
        let mut shaking = supervise::spawn_on(&self.local.control, SupervisedPart::Handshake, shaking);
        let outcome = tokio::select! {
            outcome = &mut shaking => outcome,
            () = self.handle.kicked() => {
                shaking.abort();
                return Err(self.handle.conn.close_requested().unwrap_or(CloseReason::ClientClosed));
            }
        };
        let connection = match outcome {
            Ok(Some(Ok(Ok(connection)))) => connection,
            Ok(Some(Ok(Err(error)))) => {
                if is_about_names(&error) {
                    security.is_not_called();
                }
                log(security.level(&error), &format!("TLS {kind} handshake error: {error}"));
                return Err(CloseReason::TlsHandshake);
            }
            Ok(Some(Err(_))) if kind == "route" => {
                let ends = Ends { ours: (*self.handle.write).as_ref().local_addr().ok(), peer };
                log(Level::Error, &format!("TLS route handshake error: {}", ends.elapsed("read")));
                return Err(CloseReason::TlsHandshake);
            }
            Ok(Some(Err(_))) => {
                log(Level::Debug, "TLS handshake timeout");
                return Err(CloseReason::TlsHandshake);
            }
            Ok(None) | Err(_) => return Err(CloseReason::InternalError),
        };
        self.has_shaken(connection, &security)
    }

    /// Goes on over TLS, unless the other side's key is not one of those that are pinned.
    fn has_shaken(
        &mut self,
        connection: Connection,
        security: &LinkSecurity,
    ) -> Result<Option<PeerCertificate>, CloseReason> {
        let log = |level, line: &str| {
            self.local.broker.log_for(level, &self.handle.conn, format_args!("{line}"));
        };
        let shown = peer_certificate(connection.peer_certificates());
        if !security.accepts(shown.as_ref()) {
            let kind = security.kind();
            log(Level::Error, &format!("TLS {kind} handshake error: certificate not pinned"));
            return Err(CloseReason::TlsHandshake);
        }
        log(Level::Debug, "TLS handshake complete");
        log(Level::Debug, &agreed(&connection));
        if let Some(tls) = &self.handle.tls {
            tls.begin(connection);
        }
        Ok(shown)
    }
}

/// The handshake, from either side.
async fn shake(
    write: &OwnedWriteHalf,
    peer: SocketAddr,
    with: Shaking,
    permits: Permits,
) -> Result<Connection, String> {
    let stream = write.as_ref();
    let mut budget = StrangerBudget::of(HANDSHAKE_BUDGET);
    let (config, name) = match with {
        Shaking::Accepted(terms) => {
            let shaken = handshake(stream, peer, (terms, permits), Vec::new(), &mut budget).await;
            return shaken.map(Connection::Server);
        }
        Shaking::Dialled(config, name) => (config, name),
    };
    let ends = Ends { ours: stream.local_addr().ok(), peer };
    let name =
        ServerName::try_from(name.clone()).map_err(|_| format!("tls: invalid server name {name:?}"))?;
    let shaken = greet_server(stream, &ends, (&config, name), &permits, &mut budget).await;
    shaken.map(Connection::Client)
}
