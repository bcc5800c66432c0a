//! Limits of a leaf node: those of its account, and those of the user as whom it has logged in.
//!
//! As with clients the least of all holds. Accounts and tokens change while links last.

use super::Link;
use crate::account::Account;
use crate::broker::Broker;
use myelin_auth::callout::CalloutGrant;
use myelin_auth::operator::ClaimedUser;

/// Limits that only the other side's user has.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LoginLimits {
    max_payload: Option<u32>,
    max_subscriptions: Option<u32>,
}

impl Link {
    /// Takes over what a token, or else a callout service, allows the other side.
    pub fn limit_leaf(&mut self, claims: Option<&ClaimedUser>, grant: Option<&CalloutGrant>) {
        let of_claims = claims.map(|claims| (claims.max_payload(), claims.max_subscriptions()));
        let of_grant = || grant.map(|grant| (grant.max_payload, grant.max_subscriptions));
        let (max_payload, max_subscriptions) = of_claims.or_else(of_grant).unwrap_or_default();
        self.login_limits = LoginLimits { max_payload, max_subscriptions };
    }

    /// Largest message that the other side may send. `most`: that of the server's configuration.
    pub fn max_leaf_payload(&self, most: u32) -> u32 {
        let of_account = self.account.as_ref().and_then(|account| account.limits().max_payload);
        of_account.into_iter().chain(self.login_limits.max_payload).fold(most, u32::min)
    }
}

impl LoginLimits {
    /// Subscriptions that the other side may have in its account; `None` is unlimited.
    pub(super) fn max_subscriptions(&self, broker: &Broker, account: &Account) -> Option<usize> {
        let own = self.max_subscriptions.map(|most| most as usize);
        let limits = [broker.settings().max_subscriptions, account.limits().max_subscriptions, own];
        limits.into_iter().flatten().min()
    }
}
