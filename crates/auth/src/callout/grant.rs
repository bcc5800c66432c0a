//! Grant of a callout service: what its response, and in operator mode the account's token, let a
//! client do.

use std::sync::Arc;
use std::time::SystemTime;

use crate::operator::{TrustedAccount, Withdrawn};
use crate::permissions::Permissions;

/// Grant of a callout service: what only its response says of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalloutGrant {
    /// When its connection ends, whatever becomes of its account.
    pub expires: Option<SystemTime>,
    /// Subscriptions that it may have.
    pub max_subscriptions: Option<u32>,
    /// Bytes of a message that it may send.
    pub max_payload: Option<u32>,
    /// The name is a public key that CONNECT names.
    pub has_key: bool,
    /// In operator mode, what its account says of it.
    pub account_grant: Option<AccountGrant>,
}

impl CalloutGrant {
    /// When the token of its account ends, and its connection with it.
    #[must_use]
    pub fn account_expires(&self) -> Option<SystemTime> {
        self.account_grant.as_ref().and_then(|account_grant| account_grant.account.expires())
    }
}

/// By what the token of an account lets somebody be in it whom a service has let in.
#[derive(Clone, Debug)]
pub struct AccountGrant {
    pub(super) account: Arc<TrustedAccount>,
    pub(super) subject: String,
    pub(super) issued_at: i64,
    /// The account's key that signed, where it was not its own.
    pub(super) signing_key: Option<String>,
    /// Permissions in the response itself.
    pub(super) own: Option<Arc<Permissions>>,
}

impl AccountGrant {
    /// The account as it was when the answer came.
    #[must_use]
    pub fn account(&self) -> &Arc<TrustedAccount> {
        &self.account
    }

    /// Permissions of the client: those of the response, else the account's default.
    #[must_use]
    pub fn permissions(&self) -> Option<Arc<Permissions>> {
        self.account.without_callout_subject(
            self.own.as_ref().or_else(|| self.account.default_permissions()).cloned(),
        )
    }

    /// Applies the present token of the account to the grant, after the account got another one.
    ///
    /// # Errors
    /// Why it may not stay.
    pub fn under(&self, account: &Arc<TrustedAccount>) -> Result<Self, Withdrawn> {
        if account.has_revoked(&self.subject, self.issued_at) {
            return Err(Withdrawn::Revoked);
        }
        let signs =
            |key: &String| account.signer(key).is_some_and(|scope| self.account.signer(key) == Some(scope));
        if self.signing_key.as_ref().is_none_or(signs) {
            Ok(Self { account: Arc::clone(account), ..self.clone() })
        } else {
            Err(Withdrawn::Signer)
        }
    }
}

impl PartialEq for AccountGrant {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.account, &other.account)
            && (&self.subject, self.issued_at, &self.signing_key)
                == (&other.subject, other.issued_at, &other.signing_key)
    }
}

impl Eq for AccountGrant {}
