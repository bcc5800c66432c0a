//! An account whose token an operator has signed that is trusted here.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::Trust;
use crate::callout;
use crate::jwt::{self, AccountClaims, Issues, JetStreamLimits, SigningKey, UserScope, seconds};
use crate::permissions::Permissions;

/// Why a token makes no account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccountFault {
    /// The text is no token of an account.
    Invalid(String),
    /// The token is not to be believed, or not now, or of another account.
    Validation,
}

impl fmt::Display for AccountFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(why) => f.write_str(why),
            Self::Validation => f.write_str("account validation failed"),
        }
    }
}

impl std::error::Error for AccountFault {}

/// Limits of an account's connections; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountTokenLimits {
    /// Client connections at once.
    pub connections: Option<u32>,
    /// Subscriptions of a connection.
    pub subscriptions: Option<u32>,
    /// Bytes of a message.
    pub payload: Option<u32>,
    /// Leaf nodes at once.
    pub leaf_nodes: Option<u32>,
}

/// An account as its token has it. Never changes: another token is another one of these.
#[derive(Debug)]
pub struct TrustedAccount {
    token: String,
    claims: AccountClaims,
    /// Keys that may sign users: the scope of each, if it has one.
    signers: HashMap<String, Option<UserScope>>,
    default_permissions: Option<Arc<Permissions>>,
}

impl TrustedAccount {
    /// Reads the token of the account with this public key.
    ///
    /// # Errors
    /// When it is not one that an operator has signed that is trusted, or is worth nothing at
    /// `now`.
    pub fn read(key: &str, token: &str, trust: &Trust, now: SystemTime) -> Result<Self, AccountFault> {
        let claims = jwt::account(token).map_err(AccountFault::Invalid)?;
        let is_good = trust.has(&claims.issuer) && !claims.issues(seconds(now)).are_blocking();
        if !is_good || claims.subject != key {
            return Err(AccountFault::Validation);
        }
        Ok(Self::of(token, claims, trust))
    }

    pub(super) fn of(token: &str, claims: AccountClaims, trust: &Trust) -> Self {
        let mut signers: HashMap<_, _> = claims.nats.signing_keys.iter().map(signer).collect();
        if !trust.is_strict(&claims.issuer) {
            signers.insert(claims.subject.clone(), None);
        }
        let defaults = &claims.nats.default_permissions;
        let default_permissions =
            Permissions::of_claims(&defaults.publish, &defaults.subscribe, defaults.resp).map(Arc::new);
        Self { token: token.to_owned(), signers, default_permissions, claims }
    }

    /// An account that stands in until its token can be had: nobody but itself signs its users.
    #[must_use]
    pub fn provisional(key: &str, issuer: &str) -> Self {
        let mut claims = AccountClaims::default();
        (claims.subject, claims.issuer) = (key.to_owned(), issuer.to_owned());
        let limits = &mut claims.nats.limits;
        (limits.subs, limits.data, limits.payload, limits.conn, limits.leaf) = (-1, -1, -1, -1, -1);
        let signers = HashMap::from([(key.to_owned(), None)]);
        Self { token: String::new(), claims, signers, default_permissions: None }
    }

    /// The token.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The public key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.claims.subject
    }

    /// Key that has signed the token.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.claims.issuer
    }

    /// Its name for people, or its key where it has none.
    #[must_use]
    pub fn name_tag(&self) -> &str {
        if self.claims.name.is_empty() { &self.claims.subject } else { &self.claims.name }
    }

    /// Name of the account in the log.
    #[must_use]
    pub fn label(&self) -> String {
        let (key, name) = (&self.claims.subject, &self.claims.name);
        if name.is_empty() { key.clone() } else { format!("{key}/{name}") }
    }

    /// All that it says.
    #[must_use]
    pub fn claims(&self) -> &AccountClaims {
        &self.claims
    }

    /// Issues of the token at `now`.
    #[must_use]
    pub fn issues(&self, now: SystemTime) -> Issues {
        self.claims.issues(seconds(now))
    }

    /// When it ends.
    #[must_use]
    pub fn expires(&self) -> Option<SystemTime> {
        let at = u64::try_from(self.claims.expires).ok().filter(|&seconds| seconds > 0)?;
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(at))
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_expired(&self, now: SystemTime) -> bool {
        self.expires().is_some_and(|end| end <= now)
    }

    /// Whether a key signs its users, and with which scope.
    #[must_use]
    pub fn signer(&self, key: &str) -> Option<Option<&UserScope>> {
        self.signers.get(key).map(Option::as_ref)
    }

    /// Whether its users must prove who they are.
    #[must_use]
    pub fn refuses_bearers(&self) -> bool {
        self.claims.nats.limits.disallow_bearer
    }

    /// Whether a user's token that was issued then has been taken back.
    #[must_use]
    pub fn has_revoked(&self, user: &str, issued_at: i64) -> bool {
        jwt::is_revoked(&self.claims.nats.revocations, user, issued_at)
    }

    /// Whether it has taken back any user's token.
    pub(super) fn has_revocations(&self) -> bool {
        !self.claims.nats.revocations.is_empty()
    }

    /// Permissions of users that have none of their own.
    #[must_use]
    pub fn default_permissions(&self) -> Option<&Arc<Permissions>> {
        self.default_permissions.as_ref()
    }

    /// `own`, without what nobody in an account that has a callout service may do: ask that in the
    /// server's stead.
    pub(crate) fn without_callout_subject(&self, own: Option<Arc<Permissions>>) -> Option<Arc<Permissions>> {
        if self.claims.nats.authorization.auth_users.is_empty() {
            return own;
        }
        Some(Arc::new(Permissions::without(own.as_deref(), callout::SUBJECT)))
    }

    /// Limits of its connections.
    #[must_use]
    pub fn limits(&self) -> AccountTokenLimits {
        let limits = &self.claims.nats.limits;
        AccountTokenLimits {
            connections: limit(limits.conn),
            subscriptions: limit(limits.subs),
            payload: limit(limits.payload),
            leaf_nodes: limit(limits.leaf),
        }
    }

    /// Limits of what it may store, if anything and where its token has no tiers.
    #[must_use]
    pub fn jetstream(&self) -> Option<JetStreamLimits> {
        let limits = &self.claims.nats.limits;
        (limits.tiered_limits.is_empty() && limits.jetstream.allow_anything()).then_some(limits.jetstream)
    }

    /// Limits of what it may store by the number of copies of a stream (`R1`, `R3`), if anything
    /// and where its token has tiers.
    #[must_use]
    pub fn jetstream_tiers(&self) -> Option<&HashMap<String, JetStreamLimits>> {
        let tiers = &self.claims.nats.limits.tiered_limits;
        tiers.values().any(JetStreamLimits::allow_anything).then_some(tiers)
    }
}

fn signer(key: &SigningKey) -> (String, Option<UserScope>) {
    match key {
        SigningKey::Plain(key) => (key.clone(), None),
        SigningKey::Scoped(scope) => (scope.key.clone(), Some((**scope).clone())),
    }
}

/// -1 is no limit; other negative numbers allow nothing.
pub(super) fn limit(number: i64) -> Option<u32> {
    (number != -1).then(|| number.clamp(0, i64::from(i32::MAX)) as u32)
}
