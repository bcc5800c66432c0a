//! A leaf node's credentials on their way to an account.

use super::Link;
use crate::account::Account;
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
        Self { broker: Arc::clone(broker), config, credentials, nonce, conn: Arc::clone(conn), now }
    }

    /// Whether checking takes longer than a look into a table.
    pub fn is_slow(&self) -> bool {
        self.config.is_slow(&self.credentials, ConnectionType::Leafnode)
    }

    /// Checks the credentials.
    ///
    /// # Errors
    /// When they are nobody's, or a callout service would have to decide: leaf nodes do not ask it.
    pub fn run(self) -> Result<Identity, Reject> {
        let attempt = Attempt {
            credentials: &self.credentials,
            via: ConnectionType::Leafnode,
            nonce: &self.nonce,
            peer: self.conn.endpoint().peer.ip(),
            now: self.now,
            entropy: self.broker.entropy(),
        };
        authenticate(&self.config, &attempt, &*self.broker).without_callout()
    }
}

impl fmt::Debug for LeafLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeafLogin")
    }
}

impl Link {
    /// Notes and reports that a leaf node has logged in. `version`: that of its server.
    pub fn leaf_logged_in(&mut self, version: &str, account: &Arc<Account>, identity: &Identity) {
        self.conn.update_details(|details| {
            version.clone_into(&mut details.version);
            account.name().clone_into(&mut details.account);
            details.user.clone_from(&identity.user);
            details.issuer_key.clone_from(&identity.issuer_key);
            details.claims.clone_from(&identity.claims);
            details.proxy.clone_from(&identity.proxy);
        });
        if let Some(client_events) = self.broker.client_events() {
            client_events.connected(&self.conn, account);
            self.is_reported = true;
        }
    }

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
