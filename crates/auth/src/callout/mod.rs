//! Auth callout: a service among the clients decides who may connect, and as whom.
//!
//! Owns who is asked about whom ([`AuthRequest`]), what is asked, and what an answer must be like
//! ([`AuthRequest::verify`]). Waits for nothing and sends nothing: the way to the service and back
//! is the broker's.

mod answer;
mod auth_request;

pub use answer::{AccountGrant, CalloutGrant};
pub use auth_request::{AuthRequest, ClientInfo, RequestingServer, ServerKeys, SignedRequest};

pub use crate::jwt::ClientTls;

use crate::account_name::AccountName;
use crate::authenticate::Attempt;
use crate::config::AuthConfig;
use crate::operator::TrustedAccount;
use std::sync::Arc;

/// Where questions are published.
pub const SUBJECT: &str = "$SYS.REQ.USER.AUTH";

/// The `auth_callout` of a configuration.
#[derive(Clone, Debug)]
pub struct Callout {
    /// Public key of the account that signs answers, and the users in them.
    pub issuer: String,
    /// The account in which the service listens.
    pub account: AccountName,
    /// Names and keys of users about whom nobody is asked.
    pub auth_users: Vec<String>,
    /// Public curve key that questions are sealed for.
    pub xkey: Option<String>,
    /// The only accounts whose users are asked about, beside the global one; none is all.
    pub allowed_accounts: Vec<String>,
}

impl Callout {
    /// Whether the service decides about somebody who would otherwise be in `account`, or nowhere.
    ///
    /// Compat: who is nowhere is in the global account, and that always counts.
    fn covers(&self, account: Option<&AccountName>) -> bool {
        let is_listed = |name: &str| self.allowed_accounts.iter().any(|allowed| allowed == name);
        account.is_none_or(|account| {
            *account == AccountName::global()
                || self.allowed_accounts.is_empty()
                || is_listed(account.as_str())
        })
    }

    fn bypasses(&self, user: &str) -> bool {
        self.auth_users.iter().any(|known| known == user)
    }
}

/// Callout service that decides: the configuration's, or that of an account with a token.
#[derive(Clone, Debug)]
pub(crate) enum CalloutService {
    /// The one in the configuration.
    Configured(Arc<Callout>),
    /// That of an account whose token names one.
    Account(Arc<TrustedAccount>),
}

impl CalloutService {
    /// The account in which it listens.
    fn account(&self) -> AccountName {
        match self {
            Self::Configured(callout) => callout.account.clone(),
            Self::Account(account) => AccountName::new(account.key()),
        }
    }

    /// Whom the question is about, as its token says it: who has to sign.
    fn subject(&self) -> &str {
        match self {
            Self::Configured(callout) => &callout.issuer,
            Self::Account(account) => account.key(),
        }
    }

    /// Public curve key that questions are sealed for.
    fn xkey(&self) -> Option<&str> {
        let key = match self {
            Self::Configured(callout) => callout.xkey.as_deref(),
            Self::Account(account) => Some(account.claims().nats.authorization.xkey.as_str()),
        };
        key.filter(|key| !key.is_empty())
    }
}

/// Callout service that decides in the configuration's mode, if one does: `account` is where the
/// client would be without.
pub(crate) fn configured(
    config: &AuthConfig,
    attempt: &Attempt<'_>,
    account: Option<&AccountName>,
) -> Option<CalloutService> {
    let callout = config.callout.as_ref().filter(|callout| callout.covers(account))?;
    let is_bypassed = config.named(attempt).id().is_some_and(|user| callout.bypasses(user));
    (!is_bypassed).then(|| CalloutService::Configured(Arc::clone(callout)))
}

/// Finds the callout service that decides about a user of an account with a token, if that account
/// has one.
pub(crate) fn of_account(account: &Arc<TrustedAccount>, user: &str) -> Option<CalloutService> {
    let rules = &account.claims().nats.authorization;
    let is_asked = !rules.auth_users.is_empty() && !rules.auth_users.iter().any(|known| known == user);
    is_asked.then(|| CalloutService::Account(Arc::clone(account)))
}
