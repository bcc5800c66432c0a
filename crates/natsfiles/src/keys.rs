//! Keys of an encrypted store of nats-server, and what they open.
//!
//! The operator's key, the account and the name of a thing give the key that seals the thing's own
//! random key. With that one, descriptions are sealed, and blocks of messages are encrypted as a
//! stream of bytes without a seal: what is wrong with these shows in their records' checksums.

use aes_gcm::AesGcm;
use aes_gcm::aead::consts::U16;
use aes_gcm::aes::Aes256;
use aws_lc_rs::hmac;
use chacha20::XChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher};
use chacha20poly1305::XChaCha20Poly1305;
use chacha20poly1305::aead::{Aead, KeyInit};
use std::fmt;

type Gcm = AesGcm<Aes256, U16>;
type Counter = ctr::Ctr128BE<Aes256>;

/// Which cipher a thing was encrypted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatsCipher {
    /// `chacha`.
    ChaCha,
    /// `aes`.
    Aes,
}

impl NatsCipher {
    const ALL: [Self; 2] = [Self::ChaCha, Self::Aes];

    const fn nonce_bytes(self) -> usize {
        match self {
            Self::ChaCha => 24,
            Self::Aes => 16,
        }
    }

    /// Opens what begins with its nonce.
    fn open(self, key: &[u8; 32], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, rest) = sealed.split_at_checked(self.nonce_bytes())?;
        match self {
            Self::ChaCha => XChaCha20Poly1305::new(key.into()).decrypt(nonce.try_into().ok()?, rest).ok(),
            Self::Aes => Gcm::new(key.into()).decrypt(nonce.try_into().ok()?, rest).ok(),
        }
    }
}

/// Keys that an operator has configured: the one in force, and those before it.
#[derive(Clone, Default)]
pub struct Keys(Vec<Vec<u8>>);

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({})", self.0.len())
    }
}

/// The key of one thing.
#[derive(Clone)]
pub struct Seed {
    cipher: NatsCipher,
    key: [u8; 32],
    nonce: Vec<u8>,
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seed({:?})", self.cipher)
    }
}

impl Keys {
    /// Keys to be tried in this order.
    #[must_use]
    pub fn new(keys: Vec<Vec<u8>>) -> Self {
        Self(keys.into_iter().filter(|key| !key.is_empty()).collect())
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The key in `file`, which belongs to what `context` names in `account`. `None`: no key opens
    /// it.
    #[must_use]
    pub fn unseal(&self, account: &str, context: &str, file: &[u8]) -> Option<Seed> {
        self.0.iter().flat_map(|key| NatsCipher::ALL.map(|cipher| (key, cipher))).find_map(|(key, cipher)| {
            let mut sum = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
            sum.update(account.as_bytes());
            sum.update(context.as_bytes());
            let wrapping: [u8; 32] = sum.sign().as_ref().try_into().ok()?;
            let key = cipher.open(&wrapping, file)?.try_into().ok()?;
            Some(Seed { cipher, key, nonce: file[..cipher.nonce_bytes()].to_vec() })
        })
    }
}

impl Seed {
    /// Opens a sealed description or state. `None`: it was changed.
    #[must_use]
    pub fn open(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        self.cipher.open(&self.key, sealed)
    }

    /// Decrypts a block of messages where it lies. `false`: the key is of no use.
    #[must_use]
    pub fn decrypt(&self, block: &mut [u8]) -> bool {
        let key = &self.key;
        match self.cipher {
            NatsCipher::ChaCha => {
                let Ok(nonce) = self.nonce.as_slice().try_into() else { return false };
                XChaCha20::new(key.into(), nonce).try_apply_keystream(block).is_ok()
            }
            NatsCipher::Aes => {
                let Ok(nonce) = self.nonce.as_slice().try_into() else { return false };
                Counter::new(key.into(), nonce).try_apply_keystream(block).is_ok()
            }
        }
    }
}
