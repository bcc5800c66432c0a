//! Identity of a connection once it is let in.

use std::sync::Arc;

use crate::account_name::AccountName;
use crate::callout::{self, CalloutGrant};
use crate::credentials::Credentials;
use crate::operator::ClaimedUser;
use crate::permissions::Permissions;
use crate::users::{NkeyUser, User};

/// Identity of a connection.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The account in which all its subjects live.
    pub account: AccountName,
    /// User as `/connz` shows it in `authorized_user`. A token shows as `[REDACTED]`.
    pub user: Option<String>,
    /// Permissions to publish and subscribe; `None` allows everything.
    pub permissions: Option<Arc<Permissions>>,
    /// Key that vouches for a user with a key or a token, as `/connz` shows it in `issuer_key`.
    pub issuer_key: Option<String>,
    /// User that came with a token.
    pub claims: Option<Arc<ClaimedUser>>,
    /// The public key of the trusted proxy through which it came.
    pub proxy: Option<Box<str>>,
    /// Grant by which a callout service has let the connection in.
    pub callout_grant: Option<Arc<CalloutGrant>>,
}

impl Identity {
    /// Takes the right to publish to the callout's subject from an identity in the callout
    /// service's account, so that it cannot ask in the server's stead.
    pub(crate) fn without_callout_subject(self, account: &AccountName) -> Self {
        if self.account != *account {
            return self;
        }
        let permissions = Permissions::without(self.permissions.as_deref(), callout::SUBJECT);
        Self { permissions: Some(Arc::new(permissions)), ..self }
    }

    /// Somebody in the global account who may do everything, shown as what they call themselves.
    pub(crate) fn global(credentials: &Credentials) -> Self {
        let token = credentials.token.as_ref().filter(|token| !token.is_empty());
        let name = credentials.nkey().or(credentials.user()).or(token.map(|_| "[REDACTED]"));
        Self {
            account: AccountName::global(),
            user: name.map(str::to_owned),
            permissions: None,
            issuer_key: None,
            claims: None,
            proxy: None,
            callout_grant: None,
        }
    }

    /// The configured `user`. Compat: shown by the nkey that came along, although that proved
    /// nothing.
    pub(crate) fn of(user: &User, credentials: &Credentials) -> Self {
        Self {
            account: user.account.clone(),
            user: Some(credentials.nkey().unwrap_or(&user.name).to_owned()),
            permissions: user.permissions.clone(),
            issuer_key: None,
            claims: None,
            proxy: None,
            callout_grant: None,
        }
    }

    /// The configured `user` that has a key. Compat: its account is shown as the issuer.
    pub(crate) fn of_key(user: &NkeyUser) -> Self {
        Self {
            account: user.account.clone(),
            user: Some(user.nkey.clone()),
            permissions: user.permissions.clone(),
            issuer_key: Some(user.account.as_str().to_owned()),
            claims: None,
            proxy: None,
            callout_grant: None,
        }
    }
}
