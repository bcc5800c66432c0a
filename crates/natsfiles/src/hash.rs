//! The checksums of nats-server's store: HighwayHash of 64 bits, with a key made of what the bytes
//! belong to.

use aws_lc_rs::digest;
use highway::{HighwayHash, HighwayHasher, Key};

/// Hashes under one key.
#[derive(Clone)]
pub struct Hasher(HighwayHasher);

impl std::fmt::Debug for Hasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hasher")
    }
}

impl Hasher {
    /// For what is called `name`: a stream, `<stream>/<consumer>`, or `<stream>-<block>`.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let digest = digest::digest(&digest::SHA256, name.as_bytes());
        let mut key = [0; 4];
        for (word, bytes) in key.iter_mut().zip(digest.as_ref().chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        }
        Self(HighwayHasher::new(Key(key)))
    }

    /// The checksum of `parts`, one behind the other.
    #[must_use]
    pub fn sum(&self, parts: &[&[u8]]) -> [u8; 8] {
        let mut hasher = self.0.clone();
        parts.iter().for_each(|part| hasher.append(part));
        hasher.finalize64().to_le_bytes()
    }

    /// Whether `written` is the checksum of `bytes` in hexadecimal digits, as beside descriptions.
    #[must_use]
    pub fn is_sum_of(&self, bytes: &[u8], written: &[u8]) -> bool {
        let digits: String = self.sum(&[bytes]).iter().map(|byte| format!("{byte:02x}")).collect();
        digits.as_bytes() == written.trim_ascii()
    }
}
