//! Why a token lets nobody in.

use std::fmt;

/// Why a token lets nobody in. The texts are those of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimsFault {
    /// There is none, and nothing to take instead.
    Missing,
    /// The token of who brings none is not one.
    Invalid(String),
    /// The token is worth nothing, or not now.
    NoLongerValid(String),
    /// The user must come through a trusted proxy.
    ProxyRequired,
    /// The account is not among those that may be used.
    NotPinned(String),
    /// There is no such account.
    NoAccount(String),
    /// The account is not signed by an operator that is trusted.
    Untrusted,
    /// The issuer does not sign for the account.
    UnknownIssuer,
    /// A scoped user must not say anything itself.
    Scope,
    /// The scope makes no permissions of this user.
    Template,
    /// The account has expired.
    AccountExpired,
    /// The account takes no bearer tokens.
    Bearer,
    /// None of the ways in that are allowed is known here.
    UnknownConnectionTypes(String),
    /// Not by this way.
    ConnectionType,
    /// The token was issued before the account took it back.
    Revoked,
    /// Not from this network.
    Source(String),
    /// Not at this time of the day.
    Times,
}

impl ClaimsFault {
    /// Whether the log says it as an error. Compat: two of them.
    #[must_use]
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Source(_) | Self::Times)
    }
}

impl fmt::Display for ClaimsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("Authentication requires a user JWT"),
            Self::Invalid(why) => write!(f, "User JWT not valid: {why}"),
            Self::NoLongerValid(why) => write!(f, "User JWT no longer valid: {why}"),
            Self::ProxyRequired => f.write_str("proxy connection required"),
            Self::NotPinned(account) => write!(f, "Account {account} not listed as operator pinned account"),
            Self::NoAccount(why) => write!(f, "Account JWT lookup error: {why}"),
            Self::Untrusted => f.write_str("Account JWT not signed by trusted operator"),
            Self::UnknownIssuer => f.write_str("User JWT issuer is not known"),
            Self::Scope => {
                f.write_str("User JWT is not valid: scoped users require no permissions or limits set")
            }
            Self::Template => f.write_str("User JWT generated invalid permissions"),
            Self::AccountExpired => f.write_str("Account JWT has expired"),
            Self::Bearer => f.write_str("Account does not allow bearer tokens"),
            Self::UnknownConnectionTypes(names) => write!(f, "invalid connection types [{names}]"),
            Self::ConnectionType => f.write_str("Connection type not allowed"),
            Self::Revoked => f.write_str("User authentication revoked"),
            Self::Source(host) => write!(f, "Bad src Ip {host}"),
            Self::Times => f.write_str("Outside connect times"),
        }
    }
}
