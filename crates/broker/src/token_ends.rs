//! Ends of the tokens by which a client or a leaf node is here: the user's, and the account's.

use myelin_auth::callout::CalloutGrant;
use myelin_auth::operator::ClaimedUser;
use myelin_wire::error::ErrorText;
use std::time::{Duration, SystemTime};

/// The longest time that a timer is set for.
pub(crate) const FOREVER: Duration = Duration::from_secs(100 * 365 * 86400);

/// Owner of the token that comes to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenOwner {
    /// The token of the user, or the grant of a callout service.
    User,
    /// The token of the account.
    Account,
}

impl TokenOwner {
    /// Text that the connection is told at the end.
    pub fn text(self) -> ErrorText {
        match self {
            Self::User => ErrorText::UserExpired,
            Self::Account => ErrorText::AccountExpired,
        }
    }
}

/// When the tokens of one connection end.
pub(crate) struct TokenEnds {
    user: Option<SystemTime>,
    account: Option<SystemTime>,
}

impl TokenEnds {
    /// Ends by a token, or else by the grant of a callout service.
    pub(crate) fn of(claims: Option<&ClaimedUser>, grant: Option<&CalloutGrant>) -> Self {
        match (claims, grant) {
            (Some(claims), _) => Self { user: claims.expires(), account: claims.account().expires() },
            (None, Some(grant)) => Self { user: grant.expires, account: grant.account_expires() },
            (None, None) => Self { user: None, account: None },
        }
    }

    /// The first end, and of whose token that is.
    pub(crate) fn first(&self) -> Option<(SystemTime, TokenOwner)> {
        match (self.user, self.account) {
            (user, Some(account)) if user.is_none_or(|user| account < user) => {
                Some((account, TokenOwner::Account))
            }
            (user, _) => user.map(|user| (user, TokenOwner::User)),
        }
    }
}
