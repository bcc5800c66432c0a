//! TLS under a link: when the handshake comes, and how it ends.
//!
//! On routes it comes before everything else. A hub says INFO first, unless `handshake_first` is
//! set; a leaf node begins the handshake when it has read that. Compat: on routes a handshake that
//! fails is always an error: nobody has to probe that port.

use super::Permits;
use super::handshake::{Ends, greet_server, handshake};
use super::link::LinkTask;
use super::link_security::{LinkSecurity, Shaking};
use super::preamble::to_tell;
use crate::budget::StrangerBudget;
use crate::supervise::{self, SupervisedPart};
use crate::tls::{TrustedCerts, agreed, details, is_about_names, peer_certificate};
use myelin_broker::Level;
use myelin_mesh::PeerCertificate;
use myelin_wire::error::CloseReason;
use rustls::pki_types::ServerName;
use rustls::{Connection, ServerConnection};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::time::timeout;

/// Bytes that a stranger may send in a handshake.
const HANDSHAKE_BUDGET: usize = 256 * 1024;

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
        if let (Connection::Server(accepted), LinkSecurity::LeafNode(offer)) = (&connection, security) {
            self.note_tls(accepted, &offer.terms.trusted);
        }
        if let Some(tls) = &self.handle.tls {
            tls.begin(connection);
        }
        Ok(shown)
    }

    /// Notes what was agreed on with a leaf node, for pages and for a callout service. `trusted`:
    /// authorities of which one has signed its certificate.
    pub(super) fn note_tls(&self, connection: &ServerConnection, trusted: &TrustedCerts) {
        // Compat: of links nobody says that the handshake came first.
        self.handle.conn.note_tls(details(connection, false, to_tell(&self.local, trusted)));
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
    let (config, name, revocation) = match with {
        Shaking::Accepted(terms) => {
            let shaken = handshake(stream, peer, (terms, permits), Vec::new(), &mut budget).await;
            return shaken.map(Connection::Server);
        }
        Shaking::Dialled(config, name, revocation) => (config, name, revocation),
    };
    let ends = Ends { ours: stream.local_addr().ok(), peer };
    let name =
        ServerName::try_from(name.clone()).map_err(|_| format!("tls: invalid server name {name:?}"))?;
    let shaken =
        greet_server(stream, &ends, (&config, name, revocation.as_deref()), &permits, &mut budget).await;
    shaken.map(Connection::Client)
}
