//! How a connection becomes secure: INFO in the plain, then the handshake, then the session goes on.

use super::reader::Reader;
use super::secure::{HANDSHAKE, handshake};
use crate::tls::{ClientTls, details};
use myelin_broker::Level;
use myelin_wire::error::CloseReason;
use rustls::ServerConnection;
use std::sync::Arc;
use std::time::Instant;
use tokio::time::timeout;

impl Reader {
    /// Waits for the handshake. Where TLS is optional, a client that begins with something else, or with
    /// nothing for as long as a handshake may take, goes on without.
    pub(super) async fn secure(&mut self) -> Result<(), CloseReason> {
        let Some(tls) = self.local.tls.clone() else { return Ok(()) };
        // INFO goes out before anything is encrypted.
        self.local.flush();
        if tls.is_optional && !self.begins_handshake(&tls).await {
            return Ok(());
        }
        self.log(Level::Debug, "Starting TLS client connection handshake");
        let current = tls.current.get();
        let shaking = timeout(tls.timeout, handshake(Arc::clone(&self.link.write), current));
        let mut shaking = self.local.control.spawn(shaking);
        let outcome = tokio::select! {
            outcome = &mut shaking => outcome,
            () = self.link.kicked() => {
                shaking.abort();
                return Err(self.link.conn.close_requested().unwrap_or(CloseReason::ClientClosed));
            }
        };
        match outcome {
            Ok(Ok(Ok(connection))) if tls.accepts(&connection) => self.begin(connection),
            Ok(Ok(Ok(_))) => return Err(self.handshake_failed("certificate not pinned")),
            Ok(Ok(Err(error))) => return Err(self.handshake_failed(&error)),
            Ok(Err(_)) => return Err(self.session.insecure(&mut self.local.shard.borrow_mut())),
            Err(_) => return Err(CloseReason::InternalError),
        }
        Ok(())
    }

    async fn begins_handshake(&mut self, tls: &ClientTls) -> bool {
        let mut first = [0];
        tokio::select! {
            peeked = timeout(tls.timeout, self.read.peek(&mut first)) => matches!(peeked, Ok(Ok(1))) && first == [HANDSHAKE],
            () = self.link.kicked() => false,
        }
    }

    fn begin(&mut self, connection: ServerConnection) {
        let details = details(&connection);
        if let Some(tls) = &self.link.tls {
            tls.begin(connection);
        }
        self.session.secured(&self.local.shard.borrow(), details, Instant::now());
        self.wake_at_deadline();
    }

    fn handshake_failed(&self, error: &str) -> CloseReason {
        self.log(Level::Error, &format!("TLS handshake error: {error}"));
        CloseReason::TlsHandshake
    }

    fn log(&self, level: Level, line: &str) {
        self.local.broker.log_for(level, &self.link.conn, format_args!("{line}"));
    }
}
