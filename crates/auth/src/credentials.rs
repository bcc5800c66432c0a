//! Credentials of a CONNECT.

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
