//! A leaf node's credentials on their way to an account.

use super::Link;
use crate::account::Account;
use crate::broker::Broker;
use crate::callout::PendingCallout;
use crate::conn::Conn;
use crate::conn_details::TlsDetails;
use crate::session::{Checked, handshake};
use crate::token_ends::{FOREVER, TokenEnds, TokenOwner};
use myelin_auth::callout::{CalloutGrant, ClientInfo};
use myelin_auth::operator::ClaimedUser;
use myelin_auth::{
    Attempt, AuthConfig, ConnectionType, Credentials, Decision, Identity, Method, Reject, authenticate,
};
use myelin_wire::error::CloseReason;
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
    /// Information for a callout service beside the credentials and TLS.
    client_info: ClientInfo,
}

impl LeafLogin {
    /// The check of these credentials, by rules of leaf nodes' own or else those of clients.
    /// `elapsed`: since the link began.
    pub fn new(
        broker: &Arc<Broker>,
        conn: &Arc<Conn>,
        own: Option<Arc<AuthConfig>>,
        (credentials, nonce): (Credentials, String),
        client_info: ClientInfo,
        elapsed: Duration,
    ) -> Self {
        let config = own.unwrap_or_else(|| broker.auth());
        // Compat: outside operator mode a JWT is thrown away unread.
        let is_read = matches!(config.method, Method::Operator(_));
        let credentials = Credentials { jwt: credentials.jwt.filter(|_| is_read), ..credentials };
        let now = conn.endpoint().start + elapsed;
        let via =
            if conn.is_web_socket_link() { ConnectionType::LeafnodeWs } else { ConnectionType::Leafnode };
        Self {
            broker: Arc::clone(broker),
            config,
            credentials,
            nonce,
            conn: Arc::clone(conn),
            via,
            now,
            client_info,
        }
    }

    /// Whether checking takes longer than a look into a table.
    pub fn is_slow(&self) -> bool {
        self.config.at(self.via).is_slow(&self.credentials, self.via)
    }

    /// Whether checking may wait for another machine.
    pub fn may_wait(&self) -> bool {
        self.broker.may_wait_for_account(self.config.at(self.via), &self.credentials, self.now)
    }

    /// Checks the credentials.
    pub fn run(self) -> Checked {
        let attempt = Attempt {
            credentials: &self.credentials,
            via: self.via,
            nonce: &self.nonce,
            peer: self.conn.endpoint().peer.ip(),
            now: self.now,
            entropy: self.broker.entropy(),
        };
        let decision = authenticate(self.config.at(self.via), &attempt, &*self.broker);
        let question = match decision {
            Decision::Final(outcome) => return Checked::Final(outcome),
            Decision::AskCallout(question) => question,
        };
        let tls = self.conn.look(|details| details.tls().map(TlsDetails::for_callout));
        match PendingCallout::new(&self.broker, question, ClientInfo { tls, ..self.client_info }) {
            Ok(asking) => Checked::AskCallout(Box::new(asking)),
            Err(reject) => Checked::Final(Err(reject)),
        }
    }

    /// Checks credentials where that takes no longer than a look into a table, and so no callout
    /// service is to be asked.
    ///
    /// # Errors
    /// When they are nobody's.
    pub fn run_at_once(self) -> Result<Identity, Reject> {
        match self.run() {
            Checked::Final(outcome) => outcome,
            Checked::AskCallout(asking) => Err(asking.unanswered()),
        }
    }
}

impl fmt::Debug for LeafLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeafLogin")
    }
}

impl Link {
    /// Reports that a leaf node was refused, which has shown this token, and answers how its link
    /// ends. `reject`: why, if that is known.
    pub fn leaf_refused(&self, reject: Option<&Reject>, jwt: &str) -> CloseReason {
        let reason = reject.map_or(CloseReason::AuthenticationFailure, handshake::close_reason);
        if let Some(client_events) = self.broker.client_events() {
            let by_service = reject.and_then(handshake::by_service);
            let account = || handshake::service_account(&self.broker, &self.broker.auth(), jwt);
            let account = by_service.is_some().then(account).flatten();
            client_events.auth_failed(&self.conn, reason, account.as_ref().zip(by_service));
        }
        reason
    }

    /// Notes what a leaf node says of itself before its credentials are checked. `user`: a name or
    /// a key.
    pub fn leaf_introduced(&self, name: &str, version: &str, user: &str) {
        self.conn.update_details(|details| {
            details.set_name(name);
            details.set_version(version);
            details.set_user(Some(user).filter(|user| !user.is_empty()));
        });
    }

    /// Notes and reports that a leaf node has logged in. `version`: that of its server.
    pub fn leaf_logged_in(&mut self, version: &str, account: &Arc<Account>, identity: &Identity) {
        self.limit_leaf(identity.claims.as_deref(), identity.callout_grant.as_deref());
        self.conn.update_details(|details| {
            details.set_version(version);
            details.account = Arc::clone(account.shared_name());
            details.set_user(identity.user.as_deref());
            details.set_credentials(identity);
        });
        if let Some(client_events) = self.broker.client_events() {
            client_events.connected(&self.conn, account);
            self.is_reported = true;
        }
    }

    /// When the credentials of a leaf node come to their end, and of whose token that is: its own,
    /// or that of its account.
    pub fn expiry(
        &self,
        claims: Option<&ClaimedUser>,
        grant: Option<&CalloutGrant>,
        opened: Instant,
    ) -> Option<(Instant, TokenOwner)> {
        let start = self.conn.endpoint().start;
        let left = |end: SystemTime| end.duration_since(start).unwrap_or_default().min(FOREVER);
        TokenEnds::of(claims, grant).first().map(|(end, owner)| (opened + left(end), owner))
    }

    /// Notes what the account's token makes of a leaf node's user.
    pub fn note_leaf_claims(&self, claims: &Arc<ClaimedUser>) {
        self.conn.update_details(|details| details.set_claims(claims));
    }
}
