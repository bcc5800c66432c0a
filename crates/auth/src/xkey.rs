//! Curve keys: messages that one key seals and one other opens (X25519, XSalsa20, Poly1305, as
//! NaCl's box has them).
//!
//! Owns the envelope that official clients and services know (`xkv1`, a nonce, the box), and is the
//! only place that knows the library behind it. A private key never shows in `Debug`.

use crypto_box::aead::Aead;
use crypto_box::{Nonce, PublicKey, SalsaBox, SecretKey};
use myelin_stdx::entropy::Entropy;
use myelin_stdx::id;
use myelin_stdx::nkey::{self, Role};
use std::fmt;

/// How every envelope begins.
const VERSION: &[u8] = b"xkv1";
const NONCE: usize = 24;

/// Why an envelope is not opened, or none is made. The texts are those of the reference's library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealFault {
    /// The key of the recipient is no curve key.
    Recipient,
    /// The key of the sender is no curve key.
    Sender,
    /// Too short for an envelope.
    Short,
    /// Not an envelope of the version that is known.
    Version,
    /// Sealed by another key, or for another, or changed on its way.
    Box,
}

impl fmt::Display for SealFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Recipient => "nkeys: not a valid recipient public curve key",
            Self::Sender => "nkeys: not a valid sender public curve key",
            Self::Short => "nkeys: encrypted input is not valid",
            Self::Version => "nkeys: encrypted input wrong version",
            Self::Box => "nkeys: could not decrypt input",
        })
    }
}

impl std::error::Error for SealFault {}

/// A private curve key.
pub struct XKey(SecretKey);

impl XKey {
    /// A new one that nobody can guess.
    #[must_use]
    pub fn random(entropy: &dyn Entropy) -> Self {
        Self(SecretKey::from_bytes(id::random(entropy)))
    }

    /// From the text of a seed.
    #[must_use]
    pub fn from_seed(text: &str) -> Option<Self> {
        let (role, seed) = nkey::seed(text)?;
        (role == Role::Curve).then(|| Self(SecretKey::from_bytes(seed)))
    }

    /// The text of the public key.
    #[must_use]
    pub fn public(&self) -> String {
        nkey::encode(Role::Curve, self.0.public_key().as_bytes())
    }

    /// Seals a message for the owner of a public curve key. Takes some 100 us.
    ///
    /// # Errors
    /// When it is no such key.
    pub fn seal(&self, message: &[u8], recipient: &str, entropy: &dyn Entropy) -> Result<Vec<u8>, SealFault> {
        let recipient = curve_key(recipient).ok_or(SealFault::Recipient)?;
        let nonce: [u8; NONCE] = id::random(entropy);
        let sealed = SalsaBox::new(&recipient, &self.0).encrypt(&Nonce::from(nonce), message);
        Ok([VERSION, &nonce, &sealed.map_err(|_| SealFault::Box)?].concat())
    }

    /// Opens what the owner of a public curve key has sealed for this one.
    ///
    /// # Errors
    /// When that is not what it is.
    pub fn open(&self, envelope: &[u8], sender: &str) -> Result<Vec<u8>, SealFault> {
        if envelope.len() <= VERSION.len() + NONCE {
            return Err(SealFault::Short);
        }
        let rest = envelope.strip_prefix(VERSION).ok_or(SealFault::Version)?;
        let (nonce, sealed) = rest.split_at(NONCE);
        let nonce: [u8; NONCE] = nonce.try_into().map_err(|_| SealFault::Short)?;
        let sender = curve_key(sender).ok_or(SealFault::Sender)?;
        SalsaBox::new(&sender, &self.0).decrypt(&Nonce::from(nonce), sealed).map_err(|_| SealFault::Box)
    }
}

impl fmt::Debug for XKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CurveKey({})", self.public())
    }
}

fn curve_key(text: &str) -> Option<PublicKey> {
    nkey::public_key(text).filter(|_| Role::Curve.owns(text)).map(PublicKey::from_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use myelin_stdx::entropy::OsEntropy;

    fn pair() -> (XKey, XKey) {
        let key = |n| XKey(SecretKey::from_bytes([n; 32]));
        (key(1), key(2))
    }

    #[test]
    fn what_is_sealed_is_opened_by_one_only() {
        let (ours, theirs) = pair();
        let envelope = ours.seal(b"eyJ", &theirs.public(), &OsEntropy).unwrap();
        assert!(envelope.starts_with(b"xkv1") && envelope.len() == 4 + 24 + 16 + 3);
        assert_eq!(theirs.open(&envelope, &ours.public()).unwrap(), b"eyJ");
        assert_eq!(ours.open(&envelope, &theirs.public()).unwrap(), b"eyJ", "both know the key of the box");
        assert_eq!(XKey::random(&OsEntropy).open(&envelope, &ours.public()), Err(SealFault::Box));
        assert_eq!(theirs.open(&envelope, &theirs.public()), Err(SealFault::Box));
        assert_ne!(
            ours.seal(b"eyJ", &theirs.public(), &OsEntropy).unwrap(),
            envelope,
            "no nonce comes twice"
        );
        for at in 4..envelope.len() {
            let mut changed = envelope.clone();
            changed[at] ^= 1;
            assert_eq!(theirs.open(&changed, &ours.public()), Err(SealFault::Box), "{at}");
        }
    }

    /// Made by github.com/nats-io/nkeys 0.4.16 with `SealWithRand` and a nonce of sevens.
    #[test]
    fn an_envelope_of_gos_nkeys_is_opened() {
        let (ours, theirs) = pair();
        let envelope = include_bytes!("testdata/envelope");
        assert_eq!(ours.public(), "XCSOBEUSWZI4E6FZO4WFNH27VG5RHWIGWRVLNDE57HOCWRAJ7CRATSUK");
        assert_eq!(theirs.open(envelope, &ours.public()).unwrap(), b"hello");
    }

    /// CVE-2023-46129: everything was sealed with a key of zeros, which anybody knows.
    #[test]
    fn cve_2023_46129_the_key_of_the_box_is_the_owners() {
        let (ours, theirs) = pair();
        let envelope = ours.seal(b"secret", &theirs.public(), &OsEntropy).unwrap();
        let zero = XKey(SecretKey::from_bytes([0; 32]));
        for public in [ours.public(), theirs.public(), zero.public()] {
            assert_eq!(zero.open(&envelope, &public), Err(SealFault::Box));
        }
        assert_ne!(XKey::random(&OsEntropy).0.to_bytes(), [0; 32]);
        assert_ne!(XKey::random(&OsEntropy).public(), XKey::random(&OsEntropy).public());
        assert!(!format!("{ours:?}").contains(&nkey::encode_seed(Role::Curve, &[1; 32])));
    }

    #[test]
    fn what_is_no_envelope_is_refused_in_the_librarys_words() {
        let (ours, theirs) = pair();
        let envelope = ours.seal(b"x", &theirs.public(), &OsEntropy).unwrap();
        let other = [b"xkv2", &envelope[4..]].concat();
        let account = nkey::encode(Role::Account, &[1; 32]);
        for (envelope, sender, fault) in [
            (&envelope[..28], ours.public(), SealFault::Short),
            (&b""[..], ours.public(), SealFault::Short),
            (&other[..], ours.public(), SealFault::Version),
            (&envelope[..], account.clone(), SealFault::Sender),
            (&envelope[..], String::new(), SealFault::Sender),
            (&envelope[..40], ours.public(), SealFault::Box),
        ] {
            assert_eq!(theirs.open(envelope, &sender), Err(fault), "{sender}");
        }
        assert_eq!(ours.seal(b"x", &account, &OsEntropy), Err(SealFault::Recipient));
        assert_eq!(XKey::from_seed(&nkey::encode_seed(Role::User, &[1; 32])).map(|key| key.public()), None);
        let seed = nkey::encode_seed(Role::Curve, &[1; 32]);
        assert_eq!(XKey::from_seed(&seed).map(|key| key.public()), Some(ours.public()));
    }
}
