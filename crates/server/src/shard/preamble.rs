//! Preamble of a session: the header of a proxy, and INFO in the plain and then the TLS handshake,
//! or the other way round. Decides what and when; `proxy_protocol` and `handshake` do it.

use super::ShardLocal;
use super::handshake::{HANDSHAKE, handshake};
use super::reader::ConnTask;
use crate::supervise::{self, SupervisedPart};
use crate::tls::{ClientOffer, ClientTls, NO_HANDSHAKE, TrustedCerts, details};
use myelin_broker::{Greeting, Level};
use myelin_conf::options::HandshakeFirst;
use myelin_wire::error::CloseReason;
use rustls::ServerConnection;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Preamble of a connection, as it was when it was accepted: a reload changes nothing of that.
pub(super) struct Preamble {
    pub(super) tls: Option<Arc<ClientOffer>>,
    /// A proxy may say who the client is.
    is_proxied: bool,
}

impl Preamble {
    pub(super) fn of(tls: &ClientTls) -> Self {
        Self { tls: tls.get(), is_proxied: tls.expects_proxy }
    }

    /// INFO's greeting when it comes first; `None` when it does not.
    pub(super) fn first_greeting(&self) -> Option<Greeting> {
        // Compat: whoever comes by a proxy is not told the proxy's address as its own.
        (self.first() == HandshakeFirst::No)
            .then(|| Greeting { hides_ip: self.is_proxied, ..self.greeting() })
    }

    /// INFO's greeting when it is known who the client is.
    fn greeting(&self) -> Greeting {
        self.tls.as_ref().map(|tls| tls.greeting()).unwrap_or_default()
    }

    fn first(&self) -> HandshakeFirst {
        self.tls.as_ref().map_or(HandshakeFirst::No, |tls| tls.first)
    }

    /// `None` when there is nothing to go through.
    pub(super) fn steps(self) -> Option<Box<Self>> {
        (self.is_proxied || self.tls.is_some()).then(|| Box::new(self))
    }
}

/// Authorities of which a callout service may have to be told.
pub(super) fn to_tell<'t>(local: &ShardLocal, trusted: &'t TrustedCerts) -> Option<&'t TrustedCerts> {
    local.broker.auth().may_ask().then_some(trusted)
}

impl ConnTask {
    /// Brings the connection to where its session begins.
    ///
    /// # Errors
    /// When there has to be TLS, and is none.
    pub(super) async fn enter(&mut self, preamble: Preamble) -> Result<(), CloseReason> {
        let mut is_first = self.heard_first(&preamble, preamble.is_proxied).await;
        if preamble.is_proxied {
            self.read_proxy_header().await?;
            // Compat: the reference takes the header for the begin of a handshake, so that clients
            // behind a proxy who wait for INFO wait in vain.
            is_first = is_first && self.heard_first(&preamble, false).await;
        }
        let Some(tls) = &preamble.tls else {
            self.begin_plain();
            return Ok(());
        };
        // Where TLS is optional, a client that begins with something else, or with nothing for as
        // long as a handshake may take, goes on without.
        if tls.is_optional && !is_first && self.first_byte(tls.timeout).await != Some(HANDSHAKE) {
            self.begin_plain();
            return Ok(());
        }
        if !self.local.tls.allows(tls, Instant::now()) {
            let reason = self.session.throttle(&mut self.local.shard.borrow_mut());
            self.local.flush_soon();
            return Err(reason);
        }
        let connection = self.shake(tls).await?;
        self.begin(connection, &tls.terms.trusted, is_first.then(|| preamble.greeting()));
        Ok(())
    }

    /// Whether the handshake comes before INFO. Where the client is to say so by beginning it and
    /// does not, INFO is sent; it is out in any case before anything is encrypted.
    async fn heard_first(&mut self, preamble: &Preamble, hides_ip: bool) -> bool {
        let is_first = match preamble.first() {
            HandshakeFirst::No => false,
            HandshakeFirst::Yes => true,
            HandshakeFirst::Within(delay) => {
                let is_heard = self.first_byte(delay).await.is_some();
                if !is_heard {
                    self.greet(Greeting { hides_ip, ..preamble.greeting() });
                }
                is_heard
            }
        };
        self.local.flush();
        is_first
    }

    /// The session begins without TLS.
    fn begin_plain(&mut self) {
        self.session.arrived(&self.local.shard.borrow(), Instant::now());
        self.wake_at_deadline();
    }

    /// First byte that the peer sends, if it sends anything in time. It stays unread.
    async fn first_byte(&mut self, within: Duration) -> Option<u8> {
        if let Some(first) = self.held_back().first() {
            return Some(*first);
        }
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
        let (write, terms) = (Arc::clone(&self.link.write), tls.terms.clone());
        let (peer, ahead) = (self.link.conn.peer(), self.held_back().to_vec());
        self.hold_back(&[]);
        let (limit, permits) = (tls.timeout, self.local.permits.clone());
        let mut budget = self.budget;
        let shaking = async move {
            let stream = (*write).as_ref();
            let connection = handshake(stream, peer, (terms, permits), ahead, &mut budget).await?;
            Ok::<_, String>((connection, budget))
        };
        let shaking = async move { timeout(limit, shaking).await };
        let mut shaking = supervise::spawn_on(&self.local.control, SupervisedPart::Handshake, shaking);
        let outcome = tokio::select! {
            outcome = &mut shaking => outcome,
            () = self.link.kicked() => {
                shaking.abort();
                return Err(self.link.conn.close_requested().unwrap_or(CloseReason::ClientClosed));
            }
        };
        match outcome {
            Ok(Some(Ok(Ok((connection, budget))))) if tls.accepts(&connection) => {
                self.budget = budget;
                return Ok(connection);
            }
            Ok(Some(Ok(Ok(_)))) => self.log(Level::Error, "TLS handshake error: certificate not pinned"),
            Ok(Some(Ok(Err(error)))) => {
                // Compat: who probes the port, as load balancers do, is no error.
                let level = if error == NO_HANDSHAKE { Level::Debug } else { Level::Error };
                self.log(level, &format!("TLS handshake error: {error}"));
            }
            Ok(Some(Err(_))) => {
                self.log(Level::Debug, "TLS handshake error: i/o timeout");
                // Compat: who connects and says nothing is no error either.
                self.log(Level::Debug, "TLS handshake timeout");
            }
            Ok(None) | Err(_) => return Err(CloseReason::InternalError),
        }
        Err(CloseReason::TlsHandshake)
    }

    /// The session begins over TLS; `greeting` is what INFO says when it comes only now.
    fn begin(&mut self, connection: ServerConnection, trusted: &TrustedCerts, greeting: Option<Greeting>) {
        let details = details(&connection, greeting.is_some(), to_tell(&self.local, trusted));
        if let Some(tls) = &self.link.tls {
            tls.begin(connection);
        }
        if let Some(greeting) = greeting {
            self.greet(Greeting { tls_required: true, ..greeting });
        }
        self.session.secured(&self.local.shard.borrow(), details, Instant::now());
        self.wake_at_deadline();
    }

    fn greet(&self, greeting: Greeting) {
        self.session.greet(&mut self.local.shard.borrow_mut(), greeting);
        self.local.flush_soon();
    }

    fn log(&self, level: Level, line: &str) {
        self.local.broker.log_for(level, &self.link.conn, format_args!("{line}"));
    }
}
