//! Changes of a link when the server has another configuration, or an account another token.
//!
//! Compat: of users that are configured a link keeps its place, whatever becomes of them; a token
//! that is withdrawn, an account that is gone, or a proxy that is trusted no more ends it.

use super::session::{LeafPhase, LeafSession};
use myelin_auth::callout::CalloutGrant;
use myelin_auth::operator::{ClaimedUser, TrustedAccount, Withdrawn};
use myelin_auth::{Identity, Permissions, Reject};
use myelin_broker::{Level, TokenOwner};
use myelin_wire::error::CloseReason;
use std::sync::Arc;
use std::time::Instant;

/// Credentials by which a leaf node is here, under the tokens of its account as they are now.
#[derive(Default)]
pub(super) struct LeafAdmission {
    claims: Option<Arc<ClaimedUser>>,
    /// Grant of a callout service.
    callout_grant: Option<Arc<CalloutGrant>>,
    permissions: Option<Arc<Permissions>>,
    /// Subjects that the leaf node does not want to get.
    declined: Vec<String>,
    /// When the credentials come to their end, and of whose token that is.
    expiry: Option<(Instant, TokenOwner)>,
}

impl LeafAdmission {
    pub(super) fn of(identity: &Identity, declined: &[String]) -> Self {
        Self {
            claims: identity.claims.clone(),
            callout_grant: identity.callout_grant.clone(),
            permissions: identity.permissions.clone(),
            declined: declined.to_vec(),
            expiry: None,
        }
    }

    /// Subjects that the leaf node does not want to get.
    pub(super) fn declined(&self) -> &[String] {
        &self.declined
    }

    /// When the credentials come to their end.
    pub(super) fn expiry(&self) -> Option<Instant> {
        self.expiry.map(|(at, _)| at)
    }

    /// Owner of the token that has come to its end.
    pub(super) fn expired(&self, now: Instant) -> Option<TokenOwner> {
        self.expiry.filter(|(at, _)| *at <= now).map(|(_, owner)| owner)
    }
}

impl LeafSession {
    /// Reckons anew when the credentials come to their end.
    pub(super) fn reckon_expiry(&mut self) {
        let LeafAdmission { claims, callout_grant, .. } = &self.admission;
        let opened = self.timers.opened();
        self.admission.expiry = self.link.expiry(claims.as_deref(), callout_grant.as_deref(), opened);
    }

    /// Ends a link whose account is gone.
    pub(super) fn check_account(&self) -> Result<(), CloseReason> {
        let Some(account) = self.link.account().filter(|_| matches!(self.state, LeafPhase::Ready)) else {
            return Ok(());
        };
        let is_there = self.broker().account(account.name()).is_some_and(|now| Arc::ptr_eq(&now, account));
        if is_there { Ok(()) } else { Err(CloseReason::ClientClosed) }
    }

    /// Ends the link of a leaf node that came through a proxy which is trusted no more.
    pub(super) fn check_proxy(&self) -> Result<(), CloseReason> {
        let Some(proxy) = self.known().facts().proxy else { return Ok(()) };
        if self.broker().auth().proxies.contains(&proxy) {
            return Ok(());
        }
        self.say(b"-ERR 'Authorization Violation'\r\n");
        Err(self.link.leaf_refused(Some(&Reject::ProxyNotTrusted), ""))
    }

    /// Ends the link of a leaf node whose token, or whose grant by a callout service, does not hold
    /// any more, and takes over what the account's present token makes of one that does.
    pub(super) fn check_claims(&mut self) -> Result<(), CloseReason> {
        if let Some(claims) = self.admission.claims.clone() {
            let Some(current) = self.other_token(claims.account())? else { return Ok(()) };
            let claims = claims.under(&current).map_err(|why| self.withdrawn(&why))?;
            let (permissions, claims) = (claims.permissions(), Arc::new(claims));
            self.link.note_leaf_claims(&claims);
            self.admission.claims = Some(claims);
            return self.follow_token(permissions);
        }
        let Some(grant) = self.admission.callout_grant.clone() else { return Ok(()) };
        let Some(of_account) = &grant.account_grant else { return Ok(()) };
        let Some(current) = self.other_token(of_account.account())? else { return Ok(()) };
        let of_account = of_account.under(&current).map_err(|why| self.withdrawn(&why))?;
        let permissions = of_account.permissions();
        let grant = CalloutGrant { account_grant: Some(of_account), ..CalloutGrant::clone(&grant) };
        self.admission.callout_grant = Some(Arc::new(grant));
        self.follow_token(permissions)
    }

    /// The token that the account has now, if that is another one.
    fn other_token(&self, account: &Arc<TrustedAccount>) -> Result<Option<Arc<TrustedAccount>>, CloseReason> {
        let Some(current) = self.broker().trusted().and_then(|trusted| trusted.get(account.key())) else {
            // Compat: an account that is taken away is one that has expired.
            return Err(self.expire(TokenOwner::Account));
        };
        Ok((!Arc::ptr_eq(&current, account)).then_some(current))
    }

    /// Tells the other side whose token has come to its end.
    pub(super) fn expire(&self, owner: TokenOwner) -> CloseReason {
        self.fail_quietly(&owner.text().to_string());
        CloseReason::AuthenticationExpired
    }

    fn withdrawn(&self, why: &Withdrawn) -> CloseReason {
        match why {
            Withdrawn::Bearer => {
                self.say(b"-ERR 'Authorization Violation'\r\n");
                self.link.leaf_refused(None, "")
            }
            Withdrawn::Revoked => {
                self.fail_quietly("User Authentication Revoked");
                CloseReason::Revocation
            }
            // Compat: without a word, for who signed is nobody now.
            Withdrawn::Signer => CloseReason::AuthenticationFailure,
        }
    }

    /// Takes over limits, end and permissions by another token of the account.
    fn follow_token(&mut self, permissions: Option<Arc<Permissions>>) -> Result<(), CloseReason> {
        let LeafAdmission { claims, callout_grant, .. } = &self.admission;
        self.link.limit_leaf(claims.as_deref(), callout_grant.as_deref());
        self.reckon_expiry();
        let is_same = match (&self.admission.permissions, &permissions) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            (None, None) => true,
            _ => false,
        };
        let Some(account) = self.link.account().filter(|_| !is_same).cloned() else { return Ok(()) };
        let denials = self.denials_of_dialler(&account);
        let granted = self.permissions_for(permissions.clone(), denials)?;
        self.link.set_leaf_permissions(granted);
        self.admission.permissions = permissions;
        self.say_other_permissions(self.admission.permissions.as_deref());
        Ok(())
    }

    fn fail_quietly(&self, text: &str) {
        self.say(format!("-ERR '{text}'\r\n").as_bytes());
        self.log(Level::Debug, format_args!("{text}"));
    }
}
