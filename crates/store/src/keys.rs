//! The chain of keys: the operator's text → master key → one random data key per stream → one key
//! per file.
//!
//! Owns the form in which a stream's data key lies in its `meta` file, and the change of the
//! operator's key: it seals the data keys anew and leaves every other file as it is. Must never
//! write a key in the clear, nor print one.

use std::fmt;
use std::hint::black_box;

use aws_lc_rs::hmac;

use crate::StreamId;
use crate::cipher::{Cipher, CipherKind, KEY_BYTES, NONCE_BYTES, Nonce, TAG_BYTES};
use crate::entropy::Entropy;

/// Bytes of a sealed data key ([`StreamKey::seal`]).
pub const SEALED_KEY_BYTES: usize = HEADER_BYTES + NONCE_BYTES + KEY_BYTES + TAG_BYTES;

/// Version, cipher, two zero bytes, key id.
const HEADER_BYTES: usize = 4 + KEY_ID_BYTES;
const KEY_ID_BYTES: usize = 8;
const VERSION: u8 = 1;

/// Purpose of each derived key. A context is never a prefix of another, so no two uses share a key.
const MASTER: &[u8] = b"myelin store: master key 1";
const KEY_ID: &[u8] = b"myelin store: key id 1";
const WRAPPING: &[u8] = b"myelin store: wrapping key 1";
const FILE: &[u8] = b"myelin store: file key 1";

/// Bound to a sealed data key, so that it opens for its own stream only.
const DATA_KEY: &[u8] = b"data key";

/// The keys of a store, as its caller was told by the operator.
#[derive(Clone, Debug)]
pub struct Keys {
    /// Cipher of new files and newly sealed data keys.
    pub kind: CipherKind,
    /// Master key that seals data keys.
    pub current: MasterKey,
    /// Master key with which data keys may still be sealed, with whatever cipher (the sealed key
    /// says it). Each data key that opens with it has to be sealed again with `current`.
    pub previous: Option<MasterKey>,
}

/// Master key, derived from an operator's text of any length. It seals data keys, and nothing else.
#[derive(Clone)]
pub struct MasterKey(KeyBytes);

impl MasterKey {
    /// From the configured text. A text that can be guessed makes keys that can be guessed: nothing
    /// here makes guessing slow.
    #[must_use]
    pub fn derive(text: &[u8]) -> Self {
        Self(derive(text, &[MASTER]))
    }

    /// Tells which master key sealed something, without telling the key.
    fn id(&self) -> [u8; KEY_ID_BYTES] {
        let id = derive(&self.0.0, &[KEY_ID]);
        let mut first = [0; KEY_ID_BYTES];
        first.copy_from_slice(&id.0[..KEY_ID_BYTES]);
        first
    }

    /// One per stream and cipher: a nonce of one can do no harm to another.
    fn wrapping_cipher(&self, kind: CipherKind, stream: StreamId) -> Cipher {
        let key = derive(&self.0.0, &[WRAPPING, &[kind.code()], &stream.0.to_le_bytes()]);
        Cipher::new(kind, &key.0)
    }
}

/// Never the key.
impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey(..)")
    }
}

/// Whether the caller has to write a stream's `meta` anew, with the data key sealed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeedsReseal {
    /// The key is sealed with the current key and cipher.
    No,
    /// The key was sealed with the previous key, or with another cipher than the configured one.
    Yes,
}

/// The random key of one stream, for its whole life: what its file keys are derived from.
#[derive(Clone)]
pub struct StreamKey(KeyBytes);

impl StreamKey {
    /// A new one.
    pub fn generate(entropy: &dyn Entropy) -> Self {
        let mut secret = KeyBytes([0; KEY_BYTES]);
        entropy.fill(&mut secret.0);
        Self(secret)
    }

    /// The data key as `meta` holds it, [`SEALED_KEY_BYTES`] long: sealed with `master` by the
    /// cipher `kind`.
    pub fn seal(
        &self,
        kind: CipherKind,
        master: &MasterKey,
        stream: StreamId,
        entropy: &dyn Entropy,
    ) -> Vec<u8> {
        let mut nonce = [0; NONCE_BYTES];
        entropy.fill(&mut nonce);
        let mut blob = Vec::with_capacity(SEALED_KEY_BYTES);
        blob.extend_from_slice(&[VERSION, kind.code(), 0, 0]);
        blob.extend_from_slice(&master.id());
        let aad = associated(&blob, stream);
        blob.extend_from_slice(&nonce);
        let start = blob.len();
        blob.extend_from_slice(&self.0.0);
        master.wrapping_cipher(kind, stream).seal(Nonce::random(nonce), &aad, &mut blob, start);
        blob
    }

    /// Opens what [`StreamKey::seal`] made, with whichever of `keys` sealed it.
    ///
    /// # Errors [`KeyError`]: the key is another one, or the blob is not one of this version, or it
    /// is damaged.
    pub fn open(blob: &[u8], stream: StreamId, keys: &Keys) -> Result<(Self, NeedsReseal), KeyError> {
        let (header, rest) = blob.split_at_checked(HEADER_BYTES).ok_or(KeyError::Damaged { stream })?;
        if header[0] != VERSION {
            return Err(KeyError::Version { stream, version: header[0] });
        }
        let (nonce, sealed) = rest.split_first_chunk().ok_or(KeyError::Damaged { stream })?;
        let mut secret = KeyBytes([0; KEY_BYTES]);
        let mut sealed: [u8; KEY_BYTES + TAG_BYTES] =
            sealed.try_into().map_err(|_| KeyError::Damaged { stream })?;
        let kind = CipherKind::from_code(header[1]).ok_or(KeyError::Damaged { stream })?;
        let (master, current) = keys.with_id(&header[4..]).ok_or(KeyError::Wrong { stream })?;
        master
            .wrapping_cipher(kind, stream)
            .open(Nonce::random(*nonce), &associated(header, stream), &mut sealed)
            .map_err(|_| KeyError::Damaged { stream })?;
        secret.0.copy_from_slice(&sealed[..KEY_BYTES]);
        wipe(&mut sealed);
        let reseal = if current && kind == keys.kind { NeedsReseal::No } else { NeedsReseal::Yes };
        Ok((Self(secret), reseal))
    }

    /// The key of one file: `label` names the kind of file, `number` the file among them, `salt`
    /// stands in its header and is new whenever the file is begun anew.
    ///
    /// # Panics
    /// If `label` is longer than 255 bytes.
    #[must_use]
    pub fn file_cipher(&self, kind: CipherKind, label: &str, number: u64, salt: &[u8; 16]) -> Cipher {
        let length = u8::try_from(label.len()).expect("labels are words of the code, not of a user");
        let parts = [FILE, &[kind.code(), length], label.as_bytes(), &number.to_le_bytes(), salt.as_slice()];
        Cipher::new(kind, &derive(&self.0.0, &parts).0)
    }
}

/// Never the key.
impl fmt::Debug for StreamKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamKey(..)")
    }
}

impl Keys {
    /// The master key with this id, and whether it is the current one.
    fn with_id(&self, id: &[u8]) -> Option<(&MasterKey, bool)> {
        if self.current.id() == id {
            return Some((&self.current, true));
        }
        self.previous.as_ref().filter(|key| key.id() == id).map(|key| (key, false))
    }
}

/// Why a stream's data key could not be opened. The operator's part is in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// The stream is encrypted and the store was given no key (for the caller, who sees the blob
    /// and has no keys).
    Missing {
        /// Stream of the data key.
        stream: StreamId,
    },
    /// Neither the current nor the previous key sealed it.
    Wrong {
        /// Stream of the data key.
        stream: StreamId,
    },
    /// One of our keys sealed it, but it is not what was sealed; or it is cut.
    Damaged {
        /// Stream of the data key.
        stream: StreamId,
    },
    /// A later version of the store wrote it.
    Version {
        /// Stream of the data key.
        stream: StreamId,
        /// Version that the sealed key says.
        version: u8,
    },
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { stream } => write!(
                f,
                "encryption key is wrong or missing: stream {:016x} is encrypted; configure the key it was \
                 written with",
                stream.0
            ),
            Self::Wrong { stream } => write!(
                f,
                "encryption key is wrong or missing: stream {:016x} was written with another key; configure that \
                 one as the key or as the previous key",
                stream.0
            ),
            Self::Damaged { stream } => write!(
                f,
                "the sealed key of stream {:016x} is damaged: restore its meta file from a backup",
                stream.0
            ),
            Self::Version { stream, version } => write!(
                f,
                "the sealed key of stream {:016x} has version {version}, this server knows {VERSION}: use a newer \
                 server",
                stream.0
            ),
        }
    }
}

impl std::error::Error for KeyError {}

/// A key's bytes, overwritten when they go. Copies that the compiler made on the stack are out of
/// reach.
#[derive(Clone)]
struct KeyBytes([u8; KEY_BYTES]);

impl Drop for KeyBytes {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

/// Overwrites `bytes` in a way the compiler may not leave out.
fn wipe(bytes: &mut [u8]) {
    bytes.fill(0);
    black_box(bytes);
}

/// HMAC-SHA256 over the parts. Each caller's parts have fixed lengths or say them, so that no two
/// uses give the same bytes.
fn derive(key: &[u8], parts: &[&[u8]]) -> KeyBytes {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    let mut context = hmac::Context::with_key(&key);
    for part in parts {
        context.update(part);
    }
    let mut secret = KeyBytes([0; KEY_BYTES]);
    secret.0.copy_from_slice(context.sign().as_ref());
    secret
}

/// A sealed data key's associated data: what stands before it, and whose it is.
fn associated(header: &[u8], stream: StreamId) -> [u8; HEADER_BYTES + 8 + DATA_KEY.len()] {
    let mut aad = [0; HEADER_BYTES + 8 + DATA_KEY.len()];
    let (head, rest) = aad.split_at_mut(HEADER_BYTES);
    head.copy_from_slice(header);
    rest[..8].copy_from_slice(&stream.0.to_le_bytes());
    rest[8..].copy_from_slice(DATA_KEY);
    aad
}

#[cfg(test)]
mod tests;
