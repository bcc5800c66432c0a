//! One attempt to be let in, and why it fails.

use std::fmt;
use std::net::IpAddr;
use std::time::SystemTime;

use crate::connection_type::ConnectionType;
use crate::credentials::Credentials;
use crate::operator::ClaimsFault;
use crate::signature::{is_signed, signature_of};
use myelin_stdx::entropy::Entropy;

/// Facts about somebody who wants to be let in.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// Credentials of the CONNECT.
    pub credentials: &'a Credentials,
    /// How the connection came in.
    pub via: ConnectionType,
    /// Nonce that the INFO asked to be signed; empty where it did not.
    pub nonce: &'a str,
    /// Where the connection comes from.
    pub peer: IpAddr,
    /// When it is.
    pub now: SystemTime,
    /// Where the key of a callout request comes from.
    pub entropy: &'a dyn Entropy,
}

impl Attempt<'_> {
    /// Checks that the nonce is signed by `key`.
    pub(crate) fn check_signature(&self, key: &str) -> Result<(), Reject> {
        let text = self.credentials.sig.as_deref().filter(|text| !text.is_empty());
        let signature =
            signature_of(text.ok_or(Reject::SignatureMissing)?).ok_or(Reject::SignatureEncoding)?;
        // A nonce that was never given could have been signed for somebody else.
        let is_asked = !self.nonce.is_empty();
        let is_right = is_asked && is_signed(key, self.nonce.as_bytes(), &signature);
        if is_right { Ok(()) } else { Err(Reject::SignatureWrong) }
    }
}

/// Why nobody is let in. For logs and counters: on the wire all are `Authorization Violation`, and
/// they must not be told apart there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reject {
    /// The credentials lack what the method asks for.
    Missing,
    /// There is no such user, or the secret is wrong.
    Wrong,
    /// The user may not come in this way.
    ConnectionType,
    /// The certificate, if there is one, names no user; or there should be one and is none.
    Certificate,
    /// Nothing is signed.
    SignatureMissing,
    /// The signature is not base64.
    SignatureEncoding,
    /// The signature is not by the key.
    SignatureWrong,
    /// The token lets nobody in.
    Claims(ClaimsFault),
    /// The signature of a proxy is not by one that is trusted.
    ProxyNotTrusted,
    /// The user must come through a trusted proxy.
    ProxyRequired,
    /// A callout service lets the user in only through a trusted proxy, or was asked about one who
    /// must come so.
    AnswerNeedsProxy,
    /// The response of a callout service lets nobody in, for this reason.
    Callout(String),
    /// A callout service did not answer in time: the account in which it was asked.
    Unanswered(String),
}

impl Reject {
    /// Whether the reference's log has a line for it, and what it says: the rest only counts.
    #[must_use]
    pub fn is_reported(&self) -> bool {
        !matches!(self, Self::Missing | Self::Wrong | Self::ConnectionType | Self::Certificate)
    }

    /// Whether that line is an error; else it is for who debugs.
    #[must_use]
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Claims(fault) if fault.is_error())
    }

    /// Whether that line is a warning.
    #[must_use]
    pub fn is_warning(&self) -> bool {
        matches!(self, Self::Callout(_) | Self::AnswerNeedsProxy)
    }

    /// Whether that line is about a callout service and not about the connection. Compat: it does
    /// not name that.
    #[must_use]
    pub fn is_about_service(&self) -> bool {
        matches!(self, Self::Callout(_) | Self::AnswerNeedsProxy | Self::Unanswered(_))
    }
}

impl From<ClaimsFault> for Reject {
    fn from(fault: ClaimsFault) -> Self {
        Self::Claims(fault)
    }
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Nobody but who debugs reads these.
            Self::Missing => f.write_str("credentials are missing"),
            Self::Wrong => f.write_str("unknown user or wrong secret"),
            Self::ConnectionType => f.write_str("connection type is not allowed for this user"),
            Self::Certificate => f.write_str("no user for this certificate"),
            // Compat: from here on they are lines of the log, in the reference's words and its
            // capitals.
            Self::SignatureMissing => f.write_str("Signature missing"),
            Self::SignatureEncoding => f.write_str("Signature not valid base64"),
            Self::SignatureWrong => f.write_str("Signature not verified"),
            Self::Claims(fault) => fault.fmt(f),
            Self::ProxyNotTrusted => f.write_str("proxy is not trusted"),
            Self::ProxyRequired => f.write_str("proxy connection required"),
            Self::AnswerNeedsProxy => f.write_str("Proxy connection required"),
            Self::Callout(why) => f.write_str(why),
            Self::Unanswered(account) => {
                write!(f, "Authorization callout response not received in time on account {account:?}")
            }
        }
    }
}

impl std::error::Error for Reject {}
