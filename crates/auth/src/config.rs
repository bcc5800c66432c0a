//! What the configuration says about who may connect.
//!
//! Plain data, built once per configuration and shared by all connections.

use std::collections::HashMap;
use std::sync::Arc;

use crate::authenticate::authenticate;
use crate::credentials::{ConnectionType, ConnectionTypes, Credentials};
use crate::identity::{AccountName, Identity};
use crate::permissions::Permissions;
use crate::secret::StoredSecret;

/// How connections authenticate.
#[derive(Clone, Debug)]
pub struct AuthConfig {
    /// What a CONNECT must bring.
    pub method: Method,
    /// The user that connections without credentials become. Only [`Method::Users`] heeds it.
    pub no_auth_user: Option<String>,
    /// Whether `no_auth_user` was not configured but follows from configuring nothing except the system
    /// account. Compat: INFO then still says `auth_required`.
    pub no_auth_user_implied: bool,
    /// The rules for WebSocket, where those are others.
    pub websocket: Option<Box<AuthConfig>>,
}

/// What a CONNECT must bring.
#[derive(Clone, Debug)]
pub enum Method {
    /// Nothing: everybody is let into the global account.
    Open,
    /// This token.
    Token(StoredSecret),
    /// This user and password, in the global account.
    SingleUser {
        /// The only user name.
        name: String,
        /// Its password.
        password: StoredSecret,
    },
    /// The name and password of one of these.
    Users(Users),
}

/// The configured users by name.
#[derive(Clone, Debug)]
pub struct Users {
    by_name: HashMap<String, User>,
    /// What the passwords of unknown names are compared with: nothing agrees with it, and finding that out
    /// is as slow as for the slowest user, so that names cannot be probed by time.
    decoy: StoredSecret,
}

/// One configured user.
#[derive(Clone, Debug)]
pub struct User {
    /// Its name in CONNECT.
    pub name: String,
    /// Its password. A user with an empty one cannot log in, but may be the `no_auth_user`.
    pub password: StoredSecret,
    /// The account it lives in.
    pub account: AccountName,
    /// What it may do; `None` is everything.
    pub permissions: Option<Arc<Permissions>>,
    /// The ways in that it may take.
    pub connection_types: ConnectionTypes,
}

impl Users {
    /// The users of a configuration. Of two with one name the later counts.
    #[must_use]
    pub fn new(users: impl IntoIterator<Item = User>) -> Self {
        let by_name: HashMap<_, _> = users.into_iter().map(|user| (user.name.clone(), user)).collect();
        let slowest = by_name.values().filter_map(|user| user.password.cost()).max();
        Self { by_name, decoy: StoredSecret::decoy(slowest) }
    }

    /// The user called `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&User> {
        self.by_name.get(name)
    }

    /// What to compare the password of an unknown user with.
    pub(crate) fn decoy(&self) -> &StoredSecret {
        &self.decoy
    }
}

impl AuthConfig {
    /// Everybody is let in.
    #[must_use]
    pub fn open() -> Self {
        Self::new(Method::Open)
    }

    /// Connections authenticate by `method`, without a `no_auth_user`.
    #[must_use]
    pub fn new(method: Method) -> Self {
        Self { method, no_auth_user: None, no_auth_user_implied: false, websocket: None }
    }

    /// The rules for connections of this kind.
    #[must_use]
    pub fn at(&self, via: ConnectionType) -> &Self {
        match (via, &self.websocket) {
            (ConnectionType::Websocket, Some(websocket)) => websocket,
            _ => self,
        }
    }

    /// Whether a connection must authenticate at all, be it as the `no_auth_user`.
    #[must_use]
    pub fn required(&self) -> bool {
        !matches!(self.method, Method::Open)
    }

    /// What `auth_required` in INFO says. Compat: a configured `no_auth_user` turns it off, although a
    /// connection that does send credentials must have the right ones.
    #[must_use]
    pub fn advertised(&self) -> bool {
        self.required() && (self.no_auth_user.is_none() || self.no_auth_user_implied)
    }

    /// The same for connections of this kind. Compat: over WebSocket a `no_auth_user` changes nothing.
    #[must_use]
    pub fn advertised_at(&self, via: ConnectionType) -> bool {
        match via {
            ConnectionType::Websocket => self.at(via).required(),
            _ => self.advertised(),
        }
    }

    /// Whether [`authenticate`](crate::authenticate) may take tens of milliseconds or more for these
    /// credentials, so that it must run off the data path.
    #[must_use]
    pub fn is_slow(&self, credentials: &Credentials) -> bool {
        self.stored_secret(credentials).is_some_and(StoredSecret::is_slow)
    }

    /// Who a connection is that begins with something else than CONNECT, if that is allowed. Never slow.
    #[must_use]
    pub fn anonymous(&self, via: ConnectionType) -> Option<Identity> {
        authenticate(self, &Credentials::default(), via).ok()
    }

    /// The user that connections without credentials become.
    pub(crate) fn no_auth_user(&self) -> Option<&User> {
        match &self.method {
            Method::Users(users) => users.get(self.no_auth_user.as_deref()?),
            _ => None,
        }
    }

    /// The secret that the credentials would be compared with.
    fn stored_secret(&self, credentials: &Credentials) -> Option<&StoredSecret> {
        match &self.method {
            Method::Open => None,
            Method::Token(token) => Some(token),
            Method::SingleUser { password, .. } => Some(password),
            Method::Users(users) => {
                Some(users.get(credentials.user()?).map_or(users.decoy(), |user| &user.password))
            }
        }
    }
}
