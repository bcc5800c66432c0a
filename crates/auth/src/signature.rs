//! Ed25519: who has signed, and key pairs that sign.
//!
//! Owns nothing but the way from the text of an nkey to aws-lc. A private key never shows in
//! `Debug`.

use std::fmt;

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use myelin_stdx::base_n::{self, BASE64, BASE64_URL};
use myelin_stdx::entropy::Entropy;
use myelin_stdx::id;
use myelin_stdx::nkey::{self, Role};

/// Whether `signature` over `message` is by the owner of the public nkey `key`. Takes some 50 us.
#[must_use]
pub fn is_signed(key: &str, message: &[u8], signature: &[u8]) -> bool {
    let Some(key) = nkey::public_key(key) else { return false };
    UnparsedPublicKey::new(&ED25519, key).verify(message, signature).is_ok()
}

/// The bytes of a signature in CONNECT: base64 for URLs without padding, or the ordinary one with
/// it.
pub(crate) fn signature_of(text: &str) -> Option<Vec<u8>> {
    let padded = || {
        let digits = text.trim_end_matches(['\r', '\n']).trim_end_matches('=');
        let is_whole = text.bytes().filter(|b| !matches!(b, b'\r' | b'\n')).count() % 4 == 0;
        if is_whole { base_n::decode(digits, BASE64) } else { None }
    };
    base_n::decode(text, BASE64_URL).or_else(padded)
}

/// A private nkey and its public half.
pub struct KeyPair {
    role: Role,
    pair: Ed25519KeyPair,
}

impl KeyPair {
    /// A new one that nobody can guess.
    ///
    /// # Panics
    /// For the role of curve keys, which do not sign.
    #[must_use]
    pub fn random(role: Role, entropy: &dyn Entropy) -> Self {
        Self::from_bytes(role, &id::random(entropy)).expect("every 32 bytes are a seed of who signs")
    }

    /// From the text of a seed.
    #[must_use]
    pub fn from_seed(text: &str) -> Option<Self> {
        let (role, seed) = nkey::seed(text)?;
        Self::from_bytes(role, &seed)
    }

    /// From the 32 bytes of a private key.
    #[must_use]
    pub fn from_bytes(role: Role, seed: &[u8; 32]) -> Option<Self> {
        // A curve key is for sealing.
        let signs = role != Role::Curve;
        Ed25519KeyPair::from_seed_unchecked(seed).ok().filter(|_| signs).map(|pair| Self { role, pair })
    }

    /// The text of the public key.
    #[must_use]
    pub fn public(&self) -> String {
        let key = self.pair.public_key().as_ref().try_into().expect("an Ed25519 key has 32 bytes");
        nkey::encode(self.role, key)
    }

    /// A signature over `message`, in base64 for URLs.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> String {
        base_n::encode(self.pair.sign(message).as_ref(), BASE64_URL)
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPair({})", self.public())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_signs_is_believed_and_nobody_else() {
        let pair = KeyPair::from_bytes(Role::User, &[3; 32]).unwrap();
        let other = KeyPair::from_bytes(Role::User, &[4; 32]).unwrap();
        let signature = signature_of(&pair.sign(b"nonce")).unwrap();
        assert!(is_signed(&pair.public(), b"nonce", &signature));
        assert!(!is_signed(&pair.public(), b"another", &signature));
        assert!(!is_signed(&other.public(), b"nonce", &signature));
        assert!(!is_signed("U", b"nonce", &signature) && !is_signed(&pair.public(), b"nonce", b""));
        let seed = nkey::encode_seed(Role::User, &[3; 32]);
        assert_eq!(KeyPair::from_seed(&seed).unwrap().public(), pair.public());
        assert!(!format!("{pair:?}").contains(&seed));
    }

    #[test]
    fn a_pair_of_gos_nkeys_is_the_same_here() {
        // Made by github.com/nats-io/nkeys 0.4.16 from the seed.
        let pair = KeyPair::from_seed("SUAM5BJY3FTHSY2D7EYHQKC7IHYYF4IJQIB4G44PJS2ZAPVY4BGDLM34BY").unwrap();
        assert!(Role::User.owns(&pair.public()));
    }

    #[test]
    fn both_kinds_of_base64_are_signatures() {
        for (text, bytes) in [
            ("-_8", Some(&[0xfb, 0xff][..])),
            ("+/8=", Some(&[0xfb, 0xff][..])),
            ("+/8", None),
            ("-_8=", None),
            ("TWFu", Some(&b"Man"[..])),
            ("", Some(&b""[..])),
            ("?", None),
        ] {
            assert_eq!(signature_of(text).as_deref(), bytes, "{text}");
        }
    }
}
