//! How a connection becomes secure: INFO in the plain and then the handshake, or the other way round; then the
//! session goes on. Decides when, `secure` does it.

use super::reader::Reader;
use super::secure::{HANDSHAKE, handshake};
use crate::tls::{ClientOffer, NO_HANDSHAKE, details};
use myelin_broker::Level;
use myelin_conf::options::HandshakeFirst;
use myelin_wire::error::CloseReason;
use rustls::ServerConnection;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::timeout;

impl Reader {
    /// Brings the connection to where its session begins.
    ///
    /// # Errors
    /// When there has to be TLS, and is none.
    pub(super) async fn secure(&mut self, tls: Arc<ClientOffer>) -> Result<(), CloseReason> {
        let is_first = match tls.first {
            HandshakeFirst::No => false,
            HandshakeFirst::Yes => true,
            HandshakeFirst::Within(delay) => match self.first_byte(delay).await {
                Some(_) => true,
                None => {
                    self.greet(false);
                    false
                }
            },
        };
        // INFO goes out before anything is encrypted.
        self.local.flush();
        // Where TLS is optional, a client that begins with something else, or with nothing for as long as a
        // handshake may take, goes on without.
        if tls.is_optional && !is_first && self.first_byte(tls.timeout).await != Some(HANDSHAKE) {
            self.wake_at_deadline();
            return Ok(());
        }
        let connection = self.shake(&tls).await?;
        self.begin(connection, is_first);
        Ok(())
    }

    /// What the peer sends first, if it sends anything in time. It stays unread.
    async fn first_byte(&mut self, within: Duration) -> Option<u8> {
        let mut first = [0];
        tokio::select! {
            peeked = timeout(within, self.read.peek(&mut first)) => match peeked {
                Ok(Ok(1)) => Some(first[0]),
                _ => None,
            },
            () = self.link.kicked() => None,
        }
    }

    async fn shake(&mut self, tls: &ClientOffer) -> Result<ServerConnection, CloseReason> {
        self.log(Level::Debug, "Starting TLS client connection handshake");
        let (write, config) = (Arc::clone(&self.link.write), Arc::clone(&tls.config));
        let peer = self.link.conn.endpoint().peer;
        let (limit, places) = (tls.timeout, Arc::clone(&self.local.handshakes));
        let shaking = async move { timeout(limit, handshake(write, peer, config, &places)).await };
        let mut shaking = self.local.control.spawn(shaking);
        let outcome = tokio::select! {
            outcome = &mut shaking => outcome,
            () = self.link.kicked() => {
                shaking.abort();
                return Err(self.link.conn.close_requested().unwrap_or(CloseReason::ClientClosed));
            }
        };
        match outcome {
            Ok(Ok(Ok(connection))) if tls.accepts(&connection) => return Ok(connection),
            Ok(Ok(Ok(_))) => self.log(Level::Error, "TLS handshake error: certificate not pinned"),
            Ok(Ok(Err(error))) => {
                // Compat: who probes the port, as load balancers do, is no error.
                let level = if error == NO_HANDSHAKE { Level::Debug } else { Level::Error };
                self.log(level, &format!("TLS handshake error: {error}"));
            }
            Ok(Err(_)) => {
                self.log(Level::Debug, "TLS handshake error: i/o timeout");
                // Compat: who connects and says nothing is no error either.
                self.log(Level::Debug, "TLS handshake timeout");
            }
            Err(_) => return Err(CloseReason::InternalError),
        }
        Err(CloseReason::TlsHandshake)
    }

    fn begin(&mut self, connection: ServerConnection, is_first: bool) {
        let details = details(&connection, is_first);
        if let Some(tls) = &self.link.tls {
            tls.begin(connection);
        }
        if is_first {
            self.greet(true);
        }
        self.session.secured(&self.local.shard.borrow(), details, Instant::now());
        self.wake_at_deadline();
    }

    fn greet(&self, after_handshake: bool) {
        self.session.greet(&mut self.local.shard.borrow_mut(), after_handshake);
        self.local.flush_soon();
    }

    fn log(&self, level: Level, line: &str) {
        self.local.broker.log_for(level, &self.link.conn, format_args!("{line}"));
    }
}
