//! Operator mode: users are let in by tokens that an account has signed, whose own token an
//! operator has signed that is trusted here.
//!
//! Owns the order in which the links of that chain are looked at. Where accounts' tokens come from
//! is somebody else's matter: see [`Accounts`].

mod account;
mod fault;
mod template;
mod trust;
mod user;

pub use account::{AccountFault, AccountTokenLimits, TrustedAccount};
pub use fault::ClaimsFault;
pub use trust::Trust;
pub use user::{ClaimedUser, Withdrawn};

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

use crate::account_name::AccountName;
use crate::attempt::{Attempt, Reject};
use crate::connection_type::{ConnectionType, ConnectionTypes};
use crate::credentials::Credentials;
use crate::identity::Identity;
use crate::jwt::{self, Network, UserClaims, UserPermissions, seconds};
use crate::secret::Secret;

/// Where the tokens of accounts are known. Implemented by whoever keeps accounts.
pub trait Accounts: Send + Sync {
    /// The account with this public key, as of `now`. May wait for another machine.
    ///
    /// # Errors
    /// Why there is none, in the reference's words.
    fn account(&self, key: &str, now: SystemTime) -> Result<Arc<TrustedAccount>, String>;

    /// Whether the configuration has an account of this name.
    fn is_configured(&self, _name: &str) -> bool {
        false
    }
}

/// Nobody has an account: for servers that trust no operator.
impl Accounts for () {
    fn account(&self, _: &str, _: SystemTime) -> Result<Arc<TrustedAccount>, String> {
        Err("account missing".to_owned())
    }
}

/// Accounts that may be asked for to check these credentials, whether or not they prove anything:
/// that of the token that they bring, and that of the sentinel.
pub fn named_accounts<'t>(
    trust: &'t Trust,
    credentials: &'t Credentials,
) -> impl Iterator<Item = String> + 't {
    let tokens = credentials.jwt.iter().chain(&trust.sentinel);
    tokens.filter_map(|token| jwt::named_account(token.text().unwrap_or_default()))
}

/// Says who a connection is by the token that it brings, in the reference's order of questions.
pub(crate) fn by_claims(
    trust: &Trust,
    accounts: &dyn Accounts,
    attempt: &Attempt<'_>,
    is_proxied: bool,
) -> Result<Identity, Reject> {
    let (token, mut claims) = user_claims(trust, attempt)?;
    if claims.nats.permissions.proxy_required && !is_proxied {
        return Err(ClaimsFault::ProxyRequired.into());
    }
    let issues = claims.issues(seconds(attempt.now));
    if issues.are_blocking() {
        let why = issues.first().unwrap_or_default().to_owned();
        return Err(ClaimsFault::NoLongerValid(why).into());
    }
    let account = account_of(trust, accounts, &claims, attempt.now)?;
    apply_scope(&account, &mut claims, is_proxied)?;
    let may = &claims.nats.permissions;
    if account.is_expired(attempt.now) {
        return Err(ClaimsFault::AccountExpired.into());
    }
    if may.bearer_token && account.refuses_bearers() {
        return Err(ClaimsFault::Bearer.into());
    }
    check_way_in(&may.allowed_connection_types, attempt.via)?;
    if !may.bearer_token {
        attempt.check_signature(&claims.subject)?;
    }
    if account.has_revoked(&claims.subject, claims.issued_at) {
        return Err(ClaimsFault::Revoked.into());
    }
    check_source(may, attempt.peer)?;
    let left = time_left(may, attempt.now)?;
    let expires = end(&claims, attempt.now, left);
    Ok(identity(token, &claims, account, expires, attempt))
}

/// The token that counts: the one that was brought if it is a user's, else the sentinel's.
fn user_claims(trust: &Trust, attempt: &Attempt<'_>) -> Result<(Secret, UserClaims), ClaimsFault> {
    let brought = attempt.credentials.jwt.as_ref().filter(|token| !token.is_empty());
    if let Some(token) = brought
        && let Ok(claims) = token.text().map_or(Err(String::new()), jwt::user)
    {
        return Ok((token.clone(), claims));
    }
    let sentinel = trust.sentinel.as_ref().ok_or(ClaimsFault::Missing)?;
    let claims = jwt::user(sentinel.text().unwrap_or_default()).map_err(ClaimsFault::Invalid)?;
    Ok((sentinel.clone(), claims))
}

fn account_of(
    trust: &Trust,
    accounts: &dyn Accounts,
    claims: &UserClaims,
    now: SystemTime,
) -> Result<Arc<TrustedAccount>, ClaimsFault> {
    let key = claims.account();
    if trust.pinned.as_ref().is_some_and(|pinned| !pinned.contains(key)) {
        trust.pinned_failures.fetch_add(1, Relaxed);
        return Err(ClaimsFault::NotPinned(key.to_owned()));
    }
    let account = accounts.account(key, now).map_err(ClaimsFault::NoAccount)?;
    if !trust.has(account.issuer()) {
        return Err(ClaimsFault::Untrusted);
    }
    Ok(account)
}

/// Whether the issuer signs for the account, and what its scope makes of the user.
pub(crate) fn apply_scope(
    account: &TrustedAccount,
    claims: &mut UserClaims,
    is_proxied: bool,
) -> Result<(), ClaimsFault> {
    let Some(scope) = account.signer(&claims.issuer) else { return Err(ClaimsFault::UnknownIssuer) };
    let Some(scope) = scope else { return Ok(()) };
    if !claims.nats.permissions.are_empty() {
        return Err(ClaimsFault::Scope);
    }
    let permissions =
        template::applied(&scope.template, claims, account).map_err(|_| ClaimsFault::Template)?;
    claims.nats.permissions = permissions;
    let needs_proxy = claims.nats.permissions.proxy_required && !is_proxied;
    if needs_proxy { Err(ClaimsFault::ProxyRequired) } else { Ok(()) }
}

/// Unknown ways in do not matter beside known ones; alone they are no ways at all.
pub(crate) fn check_way_in(names: &[String], via: ConnectionType) -> Result<(), ClaimsFault> {
    let known: ConnectionTypes = names.iter().filter_map(|name| ConnectionType::parse(name)).collect();
    if known == ConnectionTypes::default() && !names.is_empty() {
        let shown: Vec<_> = names.iter().map(|name| format!("{:?}", name.to_uppercase())).collect();
        return Err(ClaimsFault::UnknownConnectionTypes(shown.join(" ")));
    }
    if known.allow(via) { Ok(()) } else { Err(ClaimsFault::ConnectionType) }
}

pub(crate) fn check_source(may: &UserPermissions, peer: IpAddr) -> Result<(), ClaimsFault> {
    let mut networks = may.src.iter().filter_map(|text| Network::parse(text));
    if may.src.is_empty() || networks.any(|network| network.contains(peer)) {
        return Ok(());
    }
    Err(ClaimsFault::Source(peer.to_canonical().to_string()))
}

pub(crate) fn time_left(may: &UserPermissions, now: SystemTime) -> Result<Option<Duration>, ClaimsFault> {
    let now = jiff::Timestamp::try_from(now).map_err(|_| ClaimsFault::Times)?;
    crate::jwt::time_left(&may.times, &may.times_location, now).ok_or(ClaimsFault::Times)
}

/// When the connection ends: with the token, or with the time of the day.
pub(crate) fn end(claims: &UserClaims, now: SystemTime, left: Option<Duration>) -> Option<SystemTime> {
    let by_token = u64::try_from(claims.expires).ok().filter(|&seconds| seconds > 0);
    let by_token = by_token.map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
    [by_token, left.map(|left| now + left)].into_iter().flatten().min()
}

fn identity(
    token: Secret,
    claims: &UserClaims,
    account: Arc<TrustedAccount>,
    expires: Option<SystemTime>,
    attempt: &Attempt<'_>,
) -> Identity {
    let credentials = attempt.credentials;
    let shown = credentials.nkey().or(credentials.user()).unwrap_or(&claims.subject);
    let user = ClaimedUser::new(token, claims, account, expires);
    Identity {
        account: AccountName::new(claims.account()),
        user: Some(shown.to_owned()),
        permissions: user.permissions(),
        issuer_key: Some(user.issuer().to_owned()),
        claims: Some(Arc::new(user)),
        proxy: None,
        callout_grant: None,
    }
}
