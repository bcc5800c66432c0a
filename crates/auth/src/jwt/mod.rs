//! NATS JWTs: three parts in base64, the last of which signs the others with the key that the
//! second names as its issuer.
//!
//! Owns what the tokens of operators, accounts, users and activations say, and what must be true of
//! each by itself. Whether an issuer is to be trusted is decided in [`operator`](crate::operator).

mod account;
mod authorization;
mod imports;
mod issues;
mod network;
mod subject;
mod times;
mod token;
mod user;

pub use account::{
    Account, AccountClaims, ExternalAuthorization, JetStreamLimits, MessageTrace, OperatorLimits, SigningKey,
    UserScope,
};
pub use authorization::ClientTls;
pub(crate) use authorization::{
    AuthorizationRequest, AuthorizationResponseClaims, ClientInformation, ConnectOptions, ServerId,
};
pub(crate) use imports::is_revoked;
pub use imports::{
    Activation, ActivationClaims, ClaimedResponseType, Export, ExportType, Import, ServiceLatency,
    WeightedMapping,
};
pub use issues::{Issue, Issues};
pub use network::Network;
pub use times::TimeRange;
pub(crate) use times::{seconds, time_left};
pub use token::{Claims, PREFIX, undecorated};
pub use user::{Permission, ResponsePermission, User, UserClaims, UserPermissions};

use myelin_stdx::nkey::Role;
use serde::Deserialize;

/// Claims of an operator's token.
pub type OperatorClaims = Claims<Operator>;

/// The part of it that only operators have.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Operator {
    /// Other keys that sign accounts.
    pub signing_keys: Vec<String>,
    /// URL under which account tokens are found.
    pub account_server_url: String,
    /// Public key of the system account.
    pub system_account: String,
    /// The oldest version of a server that may run.
    pub assert_server_version: String,
    /// Accounts must be signed by signing keys.
    pub strict_signing_key_usage: bool,
    /// Tags.
    pub tags: Vec<String>,
}

/// Reads the token of an operator.
///
/// # Errors
/// What is wrong with it, in the reference's words.
pub fn operator(token: &str) -> Result<OperatorClaims, String> {
    token::decode(token, "operator", &[Role::Operator])
}

/// Reads the token of an account.
///
/// # Errors
/// What is wrong with it, in the reference's words.
pub fn account(token: &str) -> Result<AccountClaims, String> {
    let mut claims: AccountClaims = token::decode(token, "account", &[Role::Account, Role::Operator])?;
    claims.nats.migrate(claims.version());
    Ok(claims)
}

/// Reads the token of a user.
///
/// # Errors
/// What is wrong with it, in the reference's words.
pub fn user(token: &str) -> Result<UserClaims, String> {
    token::decode(token, "user", &[Role::Account]).map(migrated)
}

/// Account that a user's token names, whoever has signed it: to be believed by nobody. Costs no
/// look at a signature.
pub(crate) fn named_account(token: &str) -> Option<String> {
    let claims = migrated(token::decode_unsigned(token, "user").ok()?);
    Some(claims.account().to_owned())
}

fn migrated(mut claims: UserClaims) -> UserClaims {
    let (version, old_issuer) = (claims.version(), std::mem::take(&mut claims.old_issuer_account));
    claims.nats.migrate(version, old_issuer);
    claims
}

/// Reads what a callout service answers.
///
/// # Errors
/// What is wrong with it, in the reference's words.
pub(crate) fn authorization_response(token: &str) -> Result<AuthorizationResponseClaims, String> {
    let claims = token::decode(token, authorization::RESPONSE, &[Role::Account]);
    // Compat: the library calls one by the name of the other.
    claims.map_err(|error| match error.as_str() {
        "not authorization_response claim" => "not an authorization request claim".to_owned(),
        _ => error,
    })
}

/// Reads a token of any kind; its signature is that of whom it names as its issuer.
///
/// # Errors
/// What is wrong with it, in the reference's words.
pub fn generic(token: &str) -> Result<Claims<serde_json::Value>, String> {
    token::decode_any(token)
}

/// Reads the token by which one account lets another have an export.
///
/// # Errors
/// What is wrong with it, in the reference's words.
pub fn activation(token: &str) -> Result<ActivationClaims, String> {
    let mut claims: ActivationClaims = token::decode(token, "activation", &[Role::Account, Role::Operator])?;
    let (version, old_issuer) = (claims.version(), std::mem::take(&mut claims.old_issuer_account));
    claims.nats.migrate(version, old_issuer);
    Ok(claims)
}
