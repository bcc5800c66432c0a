//! Configuration of authentication: who may connect.
//!
//! Plain data, built once per configuration and shared by all connections.

use std::sync::Arc;

use crate::attempt::Attempt;
use crate::callout::Callout;
use crate::connection_type::ConnectionType;
use crate::credentials::Credentials;
use crate::operator::Trust;
use crate::secret::StoredSecret;
use crate::users::{NkeyUser, User, Users};

/// How connections authenticate.
#[derive(Clone, Debug)]
pub struct AuthConfig {
    /// Method by which a CONNECT is checked.
    pub method: Method,
    /// The user that connections without credentials become. Only [`Method::Users`] uses it.
    pub no_auth_user: Option<String>,
    /// Whether `no_auth_user` was not configured but follows from configuring nothing except the
    /// system account. Compat: INFO then still says `auth_required`.
    pub no_auth_user_implied: bool,
    /// Kinds of listeners with `verify_and_map`: the client certificate selects the user. Only
    /// [`Method::Users`] uses them.
    pub maps_certificates: Vec<ConnectionType>,
    /// The service that decides about everybody whom it does not leave out.
    pub callout: Option<Arc<Callout>>,
    /// Public keys of proxies whose word about their clients counts.
    pub proxies: Arc<[String]>,
    /// The single user, and whoever has the token, must come through one of them.
    pub proxy_required: bool,
    /// The rules for WebSocket, where those are others.
    pub websocket: Option<Box<AuthConfig>>,
    /// The rules for MQTT, where those are others.
    pub mqtt: Option<Box<AuthConfig>>,
}

/// Method by which a CONNECT is checked: what it must bring.
#[derive(Clone, Debug)]
pub enum Method {
    /// Nothing: everybody is let into the global account.
    Open,
    /// A token that all clients share.
    Token(StoredSecret),
    /// One user with a password, in the global account.
    SingleUser {
        /// The only user name.
        name: String,
        /// Its password.
        password: StoredSecret,
    },
    /// The name and password of one of these, or a signature by the key of one.
    Users(Users),
    /// The token of a user whose account an operator vouches for.
    Operator(Arc<Trust>),
}

/// Of whom credentials speak, whether or not they prove it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NamedUser<'a> {
    Nkey(&'a NkeyUser),
    User(&'a User),
    /// The only one.
    Single(&'a str),
    Nobody,
}

impl<'a> NamedUser<'a> {
    /// Its name or public key.
    pub(crate) fn id(self) -> Option<&'a str> {
        match self {
            Self::Nkey(user) => Some(&user.nkey),
            Self::User(user) => Some(&user.name),
            Self::Single(name) => Some(name),
            Self::Nobody => None,
        }
    }

    /// Whether it must come through a trusted proxy.
    pub(crate) fn needs_proxy(self, config: &AuthConfig) -> bool {
        match self {
            Self::Nkey(user) => user.proxy_required,
            Self::User(user) => user.proxy_required,
            Self::Single(_) | Self::Nobody => config.proxy_required && config.is_protected(),
        }
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
        Self {
            method,
            no_auth_user: None,
            no_auth_user_implied: false,
            maps_certificates: Vec::new(),
            callout: None,
            proxies: Arc::default(),
            proxy_required: false,
            websocket: None,
            mqtt: None,
        }
    }

    /// The rules for connections of this kind.
    #[must_use]
    pub fn at(&self, via: ConnectionType) -> &Self {
        if let ConnectionType::Mqtt | ConnectionType::MqttWs = via {
            return self.mqtt.as_deref().unwrap_or(self);
        }
        match (via, &self.websocket) {
            (ConnectionType::Websocket, Some(websocket)) => websocket,
            // Compat: leaf nodes are not asked for the credentials of that block, but are its
            // `no_auth_user`, which there is only where it has no credentials.
            (ConnectionType::LeafnodeWs, Some(websocket)) if websocket.no_auth_user.is_some() => websocket,
            _ => self,
        }
    }

    /// Whether a connection must authenticate at all, be it as the `no_auth_user`.
    #[must_use]
    pub fn required(&self) -> bool {
        self.is_protected() || self.callout.is_some()
    }

    /// Whether a callout service may be asked about anybody: that of the configuration, or that of
    /// an account with a token.
    #[must_use]
    pub fn may_ask(&self) -> bool {
        self.callout.is_some() || matches!(self.method, Method::Operator(_))
    }

    /// Whether a CONNECT must bring anything.
    fn is_protected(&self) -> bool {
        !matches!(self.method, Method::Open)
    }

    /// Whether INFO says `auth_required`. Compat: a configured `no_auth_user` turns it off,
    /// although a connection that does send credentials must have the right ones.
    #[must_use]
    pub fn advertised(&self) -> bool {
        self.required() && (self.no_auth_user.is_none() || self.no_auth_user_implied)
    }

    /// Tells what `auth_required` says in INFO to connections of this kind. Compat: over WebSocket
    /// a `no_auth_user` changes nothing.
    #[must_use]
    pub fn advertised_at(&self, via: ConnectionType) -> bool {
        match via {
            ConnectionType::Websocket => self.at(via).required(),
            _ => self.advertised(),
        }
    }

    /// Whether [`authenticate`](crate::authenticate) may take long for these credentials, so that
    /// it must run off the data path: tens of milliseconds for a password, a tenth of one for each
    /// signature, and as long as it takes where an account has to be asked for.
    #[must_use]
    pub fn is_slow(&self, credentials: &Credentials, via: ConnectionType) -> bool {
        let has_proxy = !self.proxies.is_empty() && credentials.proxy_signature.is_some();
        if self.callout.is_some() || has_proxy {
            return true;
        }
        match &self.method {
            Method::Operator(_) => true,
            Method::Users(users) if users.have_nkeys() && credentials.nkey().is_some() => {
                credentials.sig.is_some()
            }
            _ => self.stored_secret(credentials, via).is_some_and(StoredSecret::is_slow),
        }
    }

    /// Whether those who come in by `via` are the users that their certificates name.
    #[must_use]
    pub fn maps(&self, via: ConnectionType) -> bool {
        matches!(self.method, Method::Users(_)) && self.maps_certificates.contains(&via)
    }

    /// Whether the user has no other proof than a certificate, although here none is asked for.
    ///
    /// Compat: a user without a password would otherwise be anybody's who comes in by another
    /// listener.
    pub(crate) fn is_only_mapped(&self, user: &User, via: ConnectionType) -> bool {
        let mut ways = self.maps_certificates.iter();
        user.password.is_empty()
            && !self.maps(via)
            && self.no_auth_user.as_ref() != Some(&user.name)
            && ways.any(|&way| user.connection_types.allow(way))
    }

    /// Whom the server believes, where users come with tokens.
    #[must_use]
    pub fn trust(&self) -> Option<&Arc<Trust>> {
        match &self.method {
            Method::Operator(trust) => Some(trust),
            _ => None,
        }
    }

    /// Whether clients must be given something to sign.
    #[must_use]
    pub fn needs_nonce(&self) -> bool {
        if !self.proxies.is_empty() {
            return true;
        }
        match &self.method {
            Method::Operator(_) => true,
            Method::Users(users) => users.have_nkeys(),
            Method::Open | Method::Token(_) | Method::SingleUser { .. } => false,
        }
    }

    /// The user that connections without credentials become.
    pub(crate) fn no_auth_user(&self) -> Option<&User> {
        match &self.method {
            Method::Users(users) => users.get(self.no_auth_user.as_deref()?),
            _ => None,
        }
    }

    /// Of whom the credentials speak.
    pub(crate) fn named(&self, attempt: &Attempt<'_>) -> NamedUser<'_> {
        let (credentials, via) = (attempt.credentials, attempt.via);
        let users = match &self.method {
            Method::Users(users) => users,
            Method::SingleUser { name, .. } if credentials.user() == Some(name) => {
                return NamedUser::Single(name);
            }
            _ => return NamedUser::Nobody,
        };
        let stands_in = || credentials.is_anonymous().then_some(self.no_auth_user.as_deref()).flatten();
        if let Some(user) = credentials.nkey().or_else(stands_in).and_then(|key| users.by_nkey(key)) {
            return NamedUser::Nkey(user);
        }
        if credentials.nkey().is_some() && users.have_nkeys() {
            return NamedUser::Nobody;
        }
        let user = if self.maps(via) {
            credentials.certificate.as_ref().and_then(|certificate| certificate.find(users, via).0)
        } else {
            credentials.user().or_else(stands_in).and_then(|name| users.get(name))
        };
        user.map_or(NamedUser::Nobody, NamedUser::User)
    }

    /// The secret that the credentials would be compared with.
    fn stored_secret(&self, credentials: &Credentials, via: ConnectionType) -> Option<&StoredSecret> {
        match &self.method {
            Method::Users(users) if self.maps(via) => {
                Some(&credentials.certificate.as_ref()?.find(users, via).0?.password)
            }
            Method::Open | Method::Operator(_) => None,
            Method::Token(token) => Some(token),
            Method::SingleUser { password, .. } => Some(password),
            Method::Users(users) => {
                Some(users.get(credentials.user()?).map_or(users.dummy_password(), |user| &user.password))
            }
        }
    }
}
