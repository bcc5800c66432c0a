//! A leaf node's credentials on their way to an account.

use super::Link;
use crate::broker::Broker;
use crate::conn::Conn;
use myelin_auth::{Attempt, AuthConfig, ConnectionType, Credentials, Identity, Method, Reject, authenticate};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Credentials of a leaf node that are to be checked. May take long: run it off the data path.
pub struct LeafLogin {
    broker: Arc<Broker>,
    config: Arc<AuthConfig>,
    credentials: Credentials,
    nonce: String,
    conn: Arc<Conn>,
    via: ConnectionType,
    now: SystemTime,
}

impl LeafLogin {
    /// The check of these credentials, by rules of leaf nodes' own or else those of clients.
    /// `elapsed`: since the link began.
    pub fn new(
        broker: &Arc<Broker>,
        conn: &Arc<Conn>,
        own: Option<Arc<AuthConfig>>,
        (credentials, nonce): (Credentials, String),
        elapsed: Duration,
    ) -> Self {
        let config = own.unwrap_or_else(|| broker.auth());
        // Compat: outside operator mode a JWT is thrown away unread.
        let is_read = matches!(config.method, Method::Operator(_));
        let credentials = Credentials { jwt: credentials.jwt.filter(|_| is_read), ..credentials };
        let now = conn.endpoint().start + elapsed;
        let via =
            if conn.is_web_socket_link() { ConnectionType::LeafnodeWs } else { ConnectionType::Leafnode };
        Self { broker: Arc::clone(broker), config, credentials, nonce, conn: Arc::clone(conn), via, now }
    }

    /// Whether checking takes longer than a look into a table.
    pub fn is_slow(&self) -> bool {
        self.config.at(self.via).is_slow(&self.credentials, self.via)
    }

    /// Checks the credentials.
    ///
    /// # Errors
    /// When they are nobody's, or a callout service would have to decide: leaf nodes do not ask it.
    pub fn run(self) -> Result<Identity, Reject> {
        let attempt = Attempt {
            credentials: &self.credentials,
            via: self.via,
            nonce: &self.nonce,
            peer: self.conn.endpoint().peer.ip(),
            now: self.now,
            entropy: self.broker.entropy(),
        };
        authenticate(self.config.at(self.via), &attempt, &*self.broker).without_callout()
    }
}

impl fmt::Debug for LeafLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeafLogin")
    }
}

impl Link {
    /// When the credentials of a leaf node come to their end: its own, or those of its account.
    pub fn expiry(&self, identity: &Identity, now: Instant, opened: Instant) -> Option<Instant> {
        let claims = identity.claims.as_ref()?;
        let wall = self.conn.endpoint().start + now.saturating_duration_since(opened);
        let ends = [claims.expires(), claims.account().expires()].into_iter().flatten();
        let left = |end: SystemTime| end.duration_since(wall).unwrap_or_default().min(FOREVER);
        ends.map(|end| now + left(end)).min()
    }
}

/// The longest time that a timer is set for.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 86400);
