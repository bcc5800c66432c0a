//! Sealing and opening bytes with one key: an AEAD of the operator's choice, and the nonces the
//! store uses with it.
//!
//! Owns the rule that makes nonces unique: a key belongs to one file (`keys` derives it), and a
//! nonce names a place in that file that is written once. Entries and sections can never meet, for
//! an entry's last four bytes are zero and a section's are not. Whoever would write other bytes at
//! a place that was written before must begin a new file.
//!
//! Perf: `seal` and `open` run once per stored or read record. They work in place: no allocation,
//! no copy of the text, no lock. Measured by `cipher_speed` in the tests.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::aead::{self, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, UnboundKey};

/// Bytes that sealing adds to a text.
pub const TAG_BYTES: usize = 16;

/// Bytes of a key, of either cipher.
pub const KEY_BYTES: usize = 32;

/// Bytes of a nonce, of either cipher.
pub const NONCE_BYTES: usize = 12;

/// Which cipher sealed a file. The code stands in the file's header, so that a change of the
/// configuration leaves old files readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CipherKind {
    /// RFC 8439. The faster one where the processor has no instructions for AES.
    ChaCha20Poly1305,
    /// NIST SP 800-38D with a key of 256 bits.
    Aes256Gcm,
}

impl CipherKind {
    /// The code on disk; 0 stands for "not encrypted" there and is no cipher.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::ChaCha20Poly1305 => 1,
            Self::Aes256Gcm => 2,
        }
    }

    /// The cipher with this code. `None` for 0, and for codes of later versions.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::ChaCha20Poly1305),
            2 => Some(Self::Aes256Gcm),
            _ => None,
        }
    }

    fn algorithm(self) -> &'static Algorithm {
        match self {
            Self::ChaCha20Poly1305 => &CHACHA20_POLY1305,
            Self::Aes256Gcm => &AES_256_GCM,
        }
    }
}

/// Number that may be used once with a key: the place of what it seals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Nonce([u8; NONCE_BYTES]);

impl Nonce {
    /// For the entry that begins at `offset` of its file.
    #[must_use]
    pub const fn entry(offset: u64) -> Self {
        Self::place(offset, 0)
    }

    /// For the section or frame with this tag that begins at `offset` of its file.
    ///
    /// # Panics
    /// If `tag` is 0, which is what an entry has.
    #[must_use]
    pub const fn section_at(tag: u32, offset: u64) -> Self {
        assert!(tag != 0, "a section without tag would share its nonce with an entry");
        Self::place(offset, tag)
    }

    /// For a key that is used so rarely that random nonces do not meet.
    pub(crate) const fn random(bytes: [u8; NONCE_BYTES]) -> Self {
        Self(bytes)
    }

    const fn place(offset: u64, tag: u32) -> Self {
        let ([a, b, c, d, e, f, g, h], [i, j, k, l]) = (offset.to_le_bytes(), tag.to_le_bytes());
        Self([a, b, c, d, e, f, g, h, i, j, k, l])
    }

    fn of_aead(self) -> aead::Nonce {
        aead::Nonce::assume_unique_for_key(self.0)
    }
}

/// A text is not what was sealed with this key, nonce and associated data: it was changed, moved,
/// or belongs to another key. Which of these it was cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unauthentic;

impl fmt::Display for Unauthentic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bytes are not what was encrypted here with this key")
    }
}

impl std::error::Error for Unauthentic {}

/// A key, ready to seal and open. Clones share it; all threads may use it at once.
#[derive(Clone)]
pub struct Cipher {
    kind: CipherKind,
    key: Arc<LessSafeKey>,
}

impl Cipher {
    /// The cipher `kind` with `key`. Costs a few hundred nanoseconds: made once per file, not per
    /// record.
    #[must_use]
    pub fn new(kind: CipherKind, key: &[u8; KEY_BYTES]) -> Self {
        let key = UnboundKey::new(kind.algorithm(), key).expect("both ciphers take keys of 32 bytes");
        Self { kind, key: Arc::new(LessSafeKey::new(key)) }
    }

    /// Which cipher it is.
    #[must_use]
    pub fn kind(&self) -> CipherKind {
        self.kind
    }

    /// Encrypts `buffer[start..]` in place and appends the tag ([`TAG_BYTES`]). `aad` is
    /// authenticated with it but not stored. The same `nonce` must never seal two different texts.
    ///
    /// # Panics
    /// If `start` is behind the buffer's end.
    pub fn seal(&self, nonce: Nonce, aad: &[u8], buffer: &mut Vec<u8>, start: usize) {
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce.of_aead(), Aad::from(aad), &mut buffer[start..])
            .expect("a text in memory is shorter than the 64 GiB that both ciphers take");
        buffer.extend_from_slice(tag.as_ref());
    }

    /// Decrypts `body` (text and tag) in place; answers the length of the text, which stands at its
    /// beginning.
    ///
    /// # Errors
    /// [`Unauthentic`], also when `body` is shorter than a tag. `body` is unspecified then and must
    /// not be used.
    pub fn open(&self, nonce: Nonce, aad: &[u8], body: &mut [u8]) -> Result<usize, Unauthentic> {
        let length = body.len().checked_sub(TAG_BYTES).ok_or(Unauthentic)?;
        let (text, tag) = body.split_at_mut(length);
        self.key
            .open_in_place_separate_tag(nonce.of_aead(), Aad::from(aad), tag, text)
            .map_err(|_| Unauthentic)?;
        Ok(length)
    }
}

/// Never the key.
impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cipher").field("kind", &self.kind).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
