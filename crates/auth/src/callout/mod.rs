//! Auth callout: a service among the clients decides who may connect, and as whom.
//!
//! Owns who is asked about whom ([`AuthRequest`]), what is asked, and what an answer must be like
//! ([`AuthRequest::verify`]). Waits for nothing and sends nothing: the way to the service and back
//! is the broker's.

mod answer;
mod auth_request;
mod grant;
mod service;

pub use auth_request::{AuthRequest, ClientInfo, RequestingServer, ServerKeys, SignedRequest};
pub use grant::{AccountGrant, CalloutGrant};
pub(crate) use service::{CalloutService, of_account};

pub use crate::jwt::ClientTls;

use crate::account_name::AccountName;

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
    pub(crate) fn covers(&self, account: Option<&AccountName>) -> bool {
        let is_listed = |name: &str| self.allowed_accounts.iter().any(|allowed| allowed == name);
        account.is_none_or(|account| {
            *account == AccountName::global()
                || self.allowed_accounts.is_empty()
                || is_listed(account.as_str())
        })
    }

    /// Whether the service is not asked about this user.
    pub(crate) fn bypasses(&self, user: &str) -> bool {
        self.auth_users.iter().any(|known| known == user)
    }
}
