//! A user who came with a token, for as long as its connection lives.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use super::account::{TrustedAccount, limit};
use crate::jwt::UserClaims;
use crate::permissions::Permissions;
use crate::secret::Secret;

/// User who came with a token, for as long as its connection lives.
pub struct ClaimedUser {
    token: Secret,
    subject: String,
    name: String,
    tags: Vec<String>,
    /// The key that signed the token, where it is one of the account's signing keys.
    signing_key: Option<String>,
    issued_at: i64,
    is_bearer: bool,
    own_permissions: Option<Arc<Permissions>>,
    max_subscriptions: Option<u32>,
    max_payload: Option<u32>,
    expires: Option<SystemTime>,
    account: Arc<TrustedAccount>,
}

/// Why a connection ends when its account has another token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawn {
    /// The account takes no bearer tokens any more.
    Bearer,
    /// The token was taken back.
    Revoked,
    /// The signer of the token signs no more, or gives something else.
    Signer,
}

impl ClaimedUser {
    pub(super) fn new(
        token: Secret,
        claims: &UserClaims,
        account: Arc<TrustedAccount>,
        expires: Option<SystemTime>,
    ) -> Self {
        let may = &claims.nats.permissions;
        Self {
            token,
            subject: claims.subject.clone(),
            name: claims.name.clone(),
            tags: claims.user_tags().to_vec(),
            signing_key: (!claims.nats.issuer_account.is_empty()).then(|| claims.issuer.clone()),
            issued_at: claims.issued_at,
            is_bearer: may.bearer_token,
            own_permissions: Permissions::of_claims(&may.publish, &may.subscribe, may.resp).map(Arc::new),
            max_subscriptions: limit(may.max_subscriptions()),
            max_payload: limit(may.max_payload()),
            expires,
            account,
        }
    }

    /// The token, unless it is all that it takes to be this user.
    #[must_use]
    pub fn shown_token(&self) -> Option<&str> {
        if self.is_bearer { None } else { self.token.text() }
    }

    /// The token, for who may see it: a service that decides about the user.
    pub(crate) fn token(&self) -> &Secret {
        &self.token
    }

    /// The public key.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The name for people.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Labels.
    #[must_use]
    pub fn tags(&self) -> &[String] {
        &self.tags
    }

    /// The signing key, else the account.
    #[must_use]
    pub fn issuer(&self) -> &str {
        self.signing_key.as_deref().unwrap_or(self.account.key())
    }

    /// The account, as it was when the user came.
    #[must_use]
    pub fn account(&self) -> &Arc<TrustedAccount> {
        &self.account
    }

    /// Permissions of the user; `None` allows everything.
    #[must_use]
    pub fn permissions(&self) -> Option<Arc<Permissions>> {
        let own = self.own_permissions.clone().or_else(|| self.account.default_permissions().cloned());
        self.account.without_callout_subject(own)
    }

    /// Subscriptions that it may have.
    #[must_use]
    pub fn max_subscriptions(&self) -> Option<u32> {
        self.max_subscriptions
    }

    /// Bytes of a message that it may send.
    #[must_use]
    pub fn max_payload(&self) -> Option<u32> {
        self.max_payload
    }

    /// When its connection ends.
    #[must_use]
    pub fn expires(&self) -> Option<SystemTime> {
        self.expires
    }

    /// Applies the present token of the account to the user, after the account got another one.
    ///
    /// # Errors
    /// When it may not be there any more.
    pub fn under(&self, account: &Arc<TrustedAccount>) -> Result<Self, Withdrawn> {
        if account.has_revocations() || account.refuses_bearers() {
            if self.is_bearer && account.refuses_bearers() {
                return Err(Withdrawn::Bearer);
            }
            // What does not say when it was issued is as old as can be.
            if self.issued_at == 0 || account.has_revoked(&self.subject, self.issued_at) {
                return Err(Withdrawn::Revoked);
            }
        }
        if let Some(key) = &self.signing_key
            && account.signer(key).is_none_or(|scope| self.account.signer(key) != Some(scope))
        {
            return Err(Withdrawn::Signer);
        }
        Ok(Self {
            account: Arc::clone(account),
            token: self.token.clone(),
            subject: self.subject.clone(),
            name: self.name.clone(),
            tags: self.tags.clone(),
            signing_key: self.signing_key.clone(),
            own_permissions: self.own_permissions.clone(),
            ..*self
        })
    }
}

/// The token is a secret where it is all that it takes.
impl fmt::Debug for ClaimedUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClaimedUser({})", self.subject)
    }
}
