//! The callout service that decides about a client.

use std::sync::Arc;

use super::Callout;
use crate::account_name::AccountName;
use crate::operator::TrustedAccount;

/// Callout service that decides: the configuration's, or that of an account with a token.
#[derive(Clone, Debug)]
pub(crate) enum CalloutService {
    /// The one in the configuration.
    Configured(Arc<Callout>),
    /// The service that the token of an account names.
    Account(Arc<TrustedAccount>),
}

impl CalloutService {
    /// The account in which it listens.
    pub(super) fn account(&self) -> AccountName {
        match self {
            Self::Configured(callout) => callout.account.clone(),
            Self::Account(account) => AccountName::new(account.key()),
        }
    }

    /// Whom the question is about, as its token says it: who has to sign.
    pub(super) fn subject(&self) -> &str {
        match self {
            Self::Configured(callout) => &callout.issuer,
            Self::Account(account) => account.key(),
        }
    }

    /// Public curve key that questions are sealed for.
    pub(super) fn xkey(&self) -> Option<&str> {
        let key = match self {
            Self::Configured(callout) => callout.xkey.as_deref(),
            Self::Account(account) => Some(account.claims().nats.authorization.xkey.as_str()),
        };
        key.filter(|key| !key.is_empty())
    }
}

/// Finds the callout service that decides about a user of an account with a token, if that account
/// has one.
pub(crate) fn of_account(account: &Arc<TrustedAccount>, user: &str) -> Option<CalloutService> {
    let rules = &account.claims().nats.authorization;
    let is_asked = !rules.auth_users.is_empty() && !rules.auth_users.iter().any(|known| known == user);
    is_asked.then(|| CalloutService::Account(Arc::clone(account)))
}
