//! Credentials of a CONNECT, and the way in which the connection came.

use std::sync::Arc;

use crate::certificate::ClientCertificate;
use crate::secret::Secret;

/// The credentials in a CONNECT. A field that is absent and one that is empty mean the same.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// `user`
    pub user: Option<String>,
    /// `pass`
    pub pass: Option<Secret>,
    /// `auth_token`
    pub token: Option<Secret>,
    /// `jwt`: a user's token. Secret, for it may be all that it takes.
    pub jwt: Option<Secret>,
    /// `nkey`: a public key.
    pub nkey: Option<String>,
    /// `sig`: over the nonce, for `jwt` and `nkey`.
    pub sig: Option<String>,
    /// `proxy_sig`: over the nonce, by the proxy through which the client came.
    pub proxy_signature: Option<String>,
    /// The certificate that the client has shown in its handshake.
    pub certificate: Option<Arc<ClientCertificate>>,
}

impl Credentials {
    /// The user name, unless it is empty.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        non_empty(self.user.as_deref())
    }

    /// The public nkey, unless it is empty.
    #[must_use]
    pub fn nkey(&self) -> Option<&str> {
        non_empty(self.nkey.as_deref())
    }

    /// Whether there is no user, no password and no token.
    ///
    /// Compat: `jwt`, `nkey` and `sig` do not count; whoever has nkeys configured asks for these
    /// first.
    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        let absent = |secret: &Option<Secret>| secret.as_ref().is_none_or(Secret::is_empty);
        self.user().is_none() && absent(&self.pass) && absent(&self.token)
    }
}

fn non_empty(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

/// How a connection came in, as `allowed_connection_types` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionType {
    /// `STANDARD`: a client over TCP or TLS.
    Standard,
    /// `WEBSOCKET`
    Websocket,
    /// `LEAFNODE`
    Leafnode,
    /// `LEAFNODE_WS`
    LeafnodeWs,
    /// `MQTT`
    Mqtt,
    /// `MQTT_WS`
    MqttWs,
    /// `IN_PROCESS`
    InProcess,
}

impl ConnectionType {
    const NAMES: [(&str, Self); 7] = [
        ("STANDARD", Self::Standard),
        ("WEBSOCKET", Self::Websocket),
        ("LEAFNODE", Self::Leafnode),
        ("LEAFNODE_WS", Self::LeafnodeWs),
        ("MQTT", Self::Mqtt),
        ("MQTT_WS", Self::MqttWs),
        ("IN_PROCESS", Self::InProcess),
    ];

    /// The type called `name` in the configuration; upper and lower case are one.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let called = |&&(known, _): &&(&str, Self)| known.eq_ignore_ascii_case(name);
        Self::NAMES.iter().find(called).map(|&(_, kind)| kind)
    }
}

/// The ways in that a user may take. The default, none listed, allows all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionTypes(u8);

impl ConnectionTypes {
    /// Whether a connection that came in by `kind` may be this user.
    #[must_use]
    pub fn allow(self, kind: ConnectionType) -> bool {
        self.0 == 0 || self.0 & (1 << kind as u8) != 0
    }
}

impl FromIterator<ConnectionType> for ConnectionTypes {
    fn from_iter<I: IntoIterator<Item = ConnectionType>>(kinds: I) -> Self {
        Self(kinds.into_iter().fold(0, |set, kind| set | 1 << kind as u8))
    }
}
