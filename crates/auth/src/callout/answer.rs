//! Response of a callout service, and whether it lets anybody in.
//!
//! Owns the order of the questions that an answer is asked, and the texts of the log. Nothing of an
//! answer counts before all of it is right.

use super::auth_request::{AuthRequest, ServerKeys};
use super::{Callout, CalloutService};
use crate::account_name::AccountName;
use crate::attempt::Reject;
use crate::callout::{AccountGrant, CalloutGrant};
use crate::identity::Identity;
use crate::jwt::{self, AuthorizationResponseClaims, PREFIX, UserClaims, UserPermissions, seconds};
use crate::operator::{
    Accounts, ClaimsFault, TrustedAccount, apply_scope, check_source, check_way_in, end, time_left,
};
use crate::permissions::Permissions;
use std::fmt::Display;
use std::sync::Arc;
use std::time::SystemTime;

/// Characters of the longest reason in the log.
const LONGEST_REASON: usize = 1024;

/// Why an answer lets nobody in, as the reference logs it.
fn refused(text: impl Into<String>) -> Reject {
    // What a service says must not begin a line of its own in the log, nor fill it.
    let text = text.into().replace(char::is_control, " ");
    let mut chars = text.chars().take(LONGEST_REASON);
    let first: String = chars.next().map(|first| first.to_uppercase().collect()).unwrap_or_default();
    Reject::Callout(first + &chars.collect::<String>())
}

impl AuthRequest {
    /// Judges what came back; nothing or an empty message is a refusal. Takes some 200 us, and as
    /// long as it takes where an account has to be asked for.
    ///
    /// # Errors
    /// Why nobody is let in.
    pub fn verify(
        &self,
        answer: &[u8],
        keys: &ServerKeys,
        accounts: &dyn Accounts,
        now: SystemTime,
    ) -> Result<Identity, Reject> {
        let account = self.service.account();
        let claims = self.user_claims(answer, keys, now)?;
        self.check_proxy(&claims.nats.permissions)?;
        if let Some(issue) = claims.issues(seconds(now)).first() {
            return Err(refused(format!("Error validating user JWT: {issue}")));
        }
        if claims.subject != self.user {
            let (expected, found) = (&self.user, &claims.subject);
            let text = format!(
                "Expected authorized user of {expected:?} but got {found:?} on account {:?}",
                account.as_str()
            );
            return Err(refused(text));
        }
        match &self.service {
            CalloutService::Configured(callout) => {
                let place = self.configured_place(callout, &claims, accounts)?;
                self.admit(&claims, place, None, now)
            }
            CalloutService::Account(own) => {
                let place = own_place(own, &claims, accounts, now)?;
                let mut claims = claims;
                apply_scope(&place, &mut claims, true)
                    .map_err(|fault| refused(scope_fault(&claims, fault)))?;
                let name = AccountName::new(place.key());
                self.admit(&claims, name, Some(&place), now)
            }
        }
    }

    /// The user in the answer, if the answer is one to this question.
    fn user_claims(&self, answer: &[u8], keys: &ServerKeys, now: SystemTime) -> Result<UserClaims, Reject> {
        let account = self.service.account();
        if answer.is_empty() {
            let text = "auth callout violation: \"no reason supplied\" on account";
            return Err(refused(format!("{text} {:?}", account.as_str())));
        }
        let (token, was_sealed) = self.opened(answer, keys)?;
        let token = String::from_utf8_lossy(&token);
        let claims = jwt::authorization_response(&token).map_err(refused)?;
        if let Some(issue) = claims.issues(seconds(now)).first() {
            return Err(refused(format!("authorization response had validation errors: {issue}")));
        }
        if claims.subject != self.user {
            return Err(refused("auth callout violation: auth callout response is not for expected user"));
        }
        if claims.audience != keys.signing.public() {
            return Err(refused("auth callout violation: auth callout response is not for server"));
        }
        // Who could seal it is known.
        if !was_sealed {
            self.check_signer(&claims)?;
        }
        if !claims.nats.error.is_empty() {
            return Err(refused(format!("auth callout service returned an error: {}", claims.nats.error)));
        }
        jwt::user(&claims.nats.jwt).map_err(refused)
    }

    /// The token, and whether it was sealed: only who was asked in that way may answer so.
    fn opened(&self, answer: &[u8], keys: &ServerKeys) -> Result<(Vec<u8>, bool), Reject> {
        match self.service.xkey() {
            Some(key) if !answer.starts_with(PREFIX.as_bytes()) => {
                let opened = keys.curve.open(answer, key);
                let account = self.service.account();
                let text = |fault: &dyn Display| {
                    let what = "error decrypting auth callout response on account";
                    refused(format!("{what} {:?}: {fault}", account.as_str()))
                };
                Ok((opened.map_err(|fault| text(&fault))?, true))
            }
            _ => Ok((answer.to_vec(), false)),
        }
    }

    fn check_signer(&self, claims: &AuthorizationResponseClaims) -> Result<(), Reject> {
        let given = &claims.nats.issuer_account;
        let is_known = match &self.service {
            CalloutService::Configured(callout) => claims.issuer == callout.issuer,
            CalloutService::Account(account) if !given.is_empty() && given != account.key() => {
                let text =
                    format!("auth callout response issuer account {given:?} is not the callout account");
                return Err(refused(text));
            }
            // Compat: the account itself may, also where its users need signing keys.
            CalloutService::Account(account) => {
                claims.issuer == account.key() || account.signer(&claims.issuer).is_some()
            }
        };
        if is_known { Ok(()) } else { Err(refused("auth callout signing key is unknown")) }
    }

    fn check_proxy(&self, may: &UserPermissions) -> Result<(), Reject> {
        let is_needed = self.needs_proxy || may.proxy_required;
        if is_needed && !self.proxy.is_trusted() { Err(Reject::AnswerNeedsProxy) } else { Ok(()) }
    }

    /// Where the answer of a configured service puts the user.
    fn configured_place(
        &self,
        callout: &Callout,
        claims: &UserClaims,
        accounts: &dyn Accounts,
    ) -> Result<AccountName, Reject> {
        let (own, given) = (callout.account.as_str(), &claims.nats.issuer_account);
        if !given.is_empty() {
            return Err(refused(format!(
                "error non operator mode account {own:?}: attempted to use issuer_account"
            )));
        }
        if claims.issuer != callout.issuer {
            return Err(refused(format!(
                "wrong issuer for auth callout response on account {own:?}, expected {:?} got {:?}",
                callout.issuer, claims.issuer
            )));
        }
        let place = &claims.audience;
        if !accounts.is_configured(place) {
            return Err(refused(format!(
                "no valid account {place:?} for auth callout response on account {own:?}: account missing"
            )));
        }
        Ok(AccountName::new(place))
    }

    /// The identity of a user to whom nothing is to be objected.
    fn admit(
        &self,
        claims: &UserClaims,
        place: AccountName,
        account: Option<&Arc<TrustedAccount>>,
        now: SystemTime,
    ) -> Result<Identity, Reject> {
        let may = &claims.nats.permissions;
        let own = self.service.account();
        let user = |what: &str| refused(format!("authorized user on account {:?} {what}", own.as_str()));
        let left = time_left(may, now).map_err(|_| user("outside of valid connect times"))?;
        check_way_in(&may.allowed_connection_types, self.via).map_err(|fault| match fault {
            ClaimsFault::UnknownConnectionTypes(_) => user("using invalid connection type"),
            _ => user("not allowed to use connection type"),
        })?;
        // Compat: the reference does not look at the networks of an answer. A limit that is written
        // down holds here.
        check_source(may, self.peer).map_err(Reject::Claims)?;
        self.check_proxy(may)?;
        let permissions = Permissions::of_claims(&may.publish, &may.subscribe, may.resp).map(Arc::new);
        let is_named = !claims.name.is_empty();
        let user = if is_named { Some(claims.name.clone()) } else { self.display_name.clone() };
        let by_signing_key = !claims.nats.issuer_account.is_empty();
        let issuer = if by_signing_key { &claims.issuer } else { place.as_str() };
        let account_grant = account.map(|account| AccountGrant {
            account: Arc::clone(account),
            subject: claims.subject.clone(),
            issued_at: claims.issued_at,
            signing_key: by_signing_key.then(|| claims.issuer.clone()),
            own: permissions.clone(),
        });
        Ok(Identity {
            user,
            permissions: account_grant.as_ref().map_or(permissions, AccountGrant::permissions),
            issuer_key: Some(issuer.to_owned()),
            claims: None,
            proxy: self.proxy.key(),
            callout_grant: Some(Arc::new(CalloutGrant {
                expires: end(claims, now, left),
                max_subscriptions: given(may.max_subscriptions()),
                max_payload: given(may.max_payload()),
                has_key: !is_named && self.names_nkey,
                account_grant,
            })),
            account: place,
        }
        .without_callout_subject(&own))
    }
}

/// The account that a service in operator mode puts the user into: its own, or one that it may.
fn own_place(
    own: &Arc<TrustedAccount>,
    claims: &UserClaims,
    accounts: &dyn Accounts,
    now: SystemTime,
) -> Result<Arc<TrustedAccount>, Reject> {
    let allowed = &own.claims().nats.authorization.allowed_accounts;
    let is_allowed =
        |key: &str| allowed.iter().any(|known| known == key) || matches!(&allowed[..], [any] if any == "*");
    let place = claims.account();
    if place != own.key() && !is_allowed(place) {
        return Err(refused(format!(
            "account {:?} not permitted as valid account option for auth callout for account {:?}",
            claims.issuer,
            own.key()
        )));
    }
    accounts.account(place, now).map_err(|error| {
        refused(format!(
            "no valid account {place:?} for auth callout response on account {:?}: {error}",
            own.key()
        ))
    })
}

fn scope_fault(claims: &UserClaims, fault: ClaimsFault) -> String {
    match fault {
        ClaimsFault::UnknownIssuer => format!("user JWT issuer {:?} is not known", claims.issuer),
        ClaimsFault::Scope => {
            "user JWT is not valid: scoped users require no permissions or limits set".to_owned()
        }
        ClaimsFault::Template => "user JWT generated invalid permissions".to_owned(),
        other => other.to_string(),
    }
}

/// Compat: the reference forgets the numbers of an answer. Here they hold, but nothing is taken for
/// nothing said, as many services leave them out.
fn given(number: i64) -> Option<u32> {
    (number > 0).then(|| u32::try_from(number).unwrap_or(u32::MAX))
}
