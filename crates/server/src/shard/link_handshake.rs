//! A link's TLS handshake, as the server that was dialled and as the one that has dialled.
//!
//! It comes before everything else, and runs where clients' handshakes do. Compat: unlike theirs, a
//! handshake that fails is always an error: nobody has to probe the port of routes.

use super::Permits;
use super::handshake::{Ends, greet_server, handshake};
use super::link::LinkTask;
use crate::budget::StrangerBudget;
use crate::supervise::{self, SupervisedPart};
use crate::tls::{LinkOffer, agreed, is_about_names, peer_certificate};
use myelin_broker::Level;
use myelin_mesh::PeerCertificate;
use myelin_wire::error::CloseReason;
use rustls::Connection;
use rustls::pki_types::ServerName;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::time::timeout;

/// Bytes that a stranger may send in a handshake.
const BUDGET: usize = 256 * 1024;

/// TLS for one link.
pub(crate) struct LinkSecurity {
    pub(crate) offer: Arc<LinkOffer>,
    /// The name that the other server's certificate has to bear, where this one has dialled.
    pub(crate) name: Option<String>,
}

impl LinkSecurity {
    fn side(&self) -> &'static str {
        if self.name.is_some() { "client" } else { "server" }
    }
}

impl LinkTask {
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
        log(Level::Debug, &format!("Starting TLS route {} handshake", security.side()));
        let (write, peer) = (Arc::clone(&self.handle.write), self.handle.conn.peer());
        let (offer, permits) = (Arc::clone(&security.offer), self.local.permits.clone());
        let (name, limit) = (security.name.clone(), security.offer.timeout);
        let shaking = async move { timeout(limit, shake(&write, peer, (&offer, name), permits)).await };
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
                if let Some(name) = security.name.filter(|_| is_about_names(&error)) {
                    security.offer.is_not_called(&name);
                }
                log(Level::Error, &format!("TLS route handshake error: {error}"));
                return Err(CloseReason::TlsHandshake);
            }
            Ok(Some(Err(_))) => {
                let ends = Ends { ours: (*self.handle.write).as_ref().local_addr().ok(), peer };
                log(Level::Error, &format!("TLS route handshake error: {}", ends.elapsed("read")));
                return Err(CloseReason::TlsHandshake);
            }
            Ok(None) | Err(_) => return Err(CloseReason::InternalError),
        };
        self.has_shaken(connection, &security.offer)
    }

    /// Goes on over TLS, unless the other side's key is not one of those that are pinned.
    fn has_shaken(
        &mut self,
        connection: Connection,
        offer: &LinkOffer,
    ) -> Result<Option<PeerCertificate>, CloseReason> {
        let log = |level, line: &str| {
            self.local.broker.log_for(level, &self.handle.conn, format_args!("{line}"));
        };
        let shown = peer_certificate(connection.peer_certificates());
        if !offer.accepts(shown.as_ref()) {
            log(Level::Error, "TLS route handshake error: certificate not pinned");
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
    (offer, name): (&LinkOffer, Option<String>),
    permits: Permits,
) -> Result<Connection, String> {
    let stream = write.as_ref();
    let mut budget = StrangerBudget::of(BUDGET);
    let Some(name) = name else {
        let terms = (offer.terms.clone(), permits);
        return handshake(stream, peer, terms, Vec::new(), &mut budget).await.map(Connection::Server);
    };
    let ends = Ends { ours: stream.local_addr().ok(), peer };
    let name =
        ServerName::try_from(name.clone()).map_err(|_| format!("tls: invalid server name {name:?}"))?;
    let shaken = greet_server(stream, &ends, (&offer.dialling, name), &permits, &mut budget).await;
    shaken.map(Connection::Client)
}
