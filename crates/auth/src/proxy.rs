//! Trusted proxies: who comes through one brings its signature of the nonce.

use crate::attempt::Reject;
use crate::signature::is_signed;
use myelin_stdx::base_n::{self, BASE64_URL};

/// Through whom a connection came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Proxied {
    /// Nobody that is trusted.
    #[default]
    No,
    /// The proxy with this public key.
    By(Box<str>),
}

impl Proxied {
    /// Judges what CONNECT says. Where no proxies are trusted nobody asks.
    pub(crate) fn of(trusted: &[String], signature: Option<&str>, nonce: &str) -> Result<Self, Reject> {
        let Some(text) = signature.filter(|text| !text.is_empty() && !trusted.is_empty()) else {
            return Ok(Self::No);
        };
        let signature = base_n::decode(text, BASE64_URL).ok_or(Reject::ProxyNotTrusted)?;
        // A nonce that was never given could have been signed for somebody else.
        let signer = |key: &&String| !nonce.is_empty() && is_signed(key, nonce.as_bytes(), &signature);
        let signer = trusted.iter().find(signer).ok_or(Reject::ProxyNotTrusted)?;
        Ok(Self::By(signer.as_str().into()))
    }

    pub(crate) fn is_trusted(&self) -> bool {
        matches!(self, Self::By(_))
    }

    /// The public key.
    pub(crate) fn key(&self) -> Option<Box<str>> {
        match self {
            Self::No => None,
            Self::By(key) => Some(key.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyPair;
    use myelin_stdx::nkey::Role;

    fn key(n: u8) -> KeyPair {
        KeyPair::from_bytes(Role::Server, &[n; 32]).unwrap()
    }

    #[test]
    fn only_a_signature_of_the_nonce_by_a_trusted_key_counts() {
        let (ours, other) = (key(1), key(2));
        let trusted = [key(3).public(), ours.public()];
        let of = |signature: Option<&str>, nonce| Proxied::of(&trusted, signature, nonce);
        let signed = ours.sign(b"nonce");
        assert_eq!(of(Some(&signed), "nonce"), Ok(Proxied::By(ours.public().into())));
        assert_eq!(of(None, "nonce"), Ok(Proxied::No));
        assert_eq!(of(Some(""), "nonce"), Ok(Proxied::No));
        for (signature, nonce) in [
            (signed.as_str(), "another"),
            (&other.sign(b"nonce"), "nonce"),
            ("?", "nonce"),
            (&ours.sign(b""), ""),
        ] {
            assert_eq!(of(Some(signature), nonce), Err(Reject::ProxyNotTrusted), "{signature}");
        }
        assert_eq!(Proxied::of(&[], Some("?"), "nonce"), Ok(Proxied::No), "nobody asks");
    }
}
