//! Identifiers that nobody can guess: nonces, unique names. The caller brings the random source.

use crate::base_n::{self, BASE64_URL};
use crate::entropy::Entropy;

/// A nonce for an INFO: 15 characters of unpadded base64url, 88 random bits.
#[must_use]
pub fn nonce(entropy: &dyn Entropy) -> String {
    base_n::encode(&random::<11>(entropy), BASE64_URL)
}

/// A name of `len` base62 characters, each drawn evenly. 22 of them hold 130 random bits.
#[must_use]
pub fn unique(entropy: &dyn Entropy, len: usize) -> String {
    let mut name = String::with_capacity(len);
    while name.len() < len {
        let fair = random::<32>(entropy).into_iter().filter(|&b| b < BASE62_FAIR);
        name.extend(fair.take(len - name.len()).map(|b| char::from(BASE62[usize::from(b % 62)])));
    }
    name
}

/// A name of one base62 character for each byte of a digest, as the reference makes them.
#[must_use]
pub fn short(digest: &[u8]) -> String {
    digest.iter().map(|byte| char::from(BASE62[usize::from(byte % 62)])).collect()
}

/// The digits of names.
pub const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Bytes from here on would favour the first characters of the alphabet.
const BASE62_FAIR: u8 = 62 * 4;

/// As many random bytes as the caller has room for.
#[must_use]
pub fn random<const N: usize>(entropy: &dyn Entropy) -> [u8; N] {
    let mut bytes = [0; N];
    entropy.fill(&mut bytes);
    bytes
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::entropy::OsEntropy;
    use std::collections::HashSet;

    #[test]
    fn nonces_have_the_shape_of_the_references() {
        let nonce = nonce(&OsEntropy);
        assert_eq!(nonce.len(), 15);
        assert!(nonce.bytes().all(|c| BASE64_URL.contains(&c)), "{nonce}");
    }

    #[test]
    fn unique_names_are_that() {
        let names: HashSet<String> = (0..1000).map(|_| unique(&OsEntropy, 22)).collect();
        assert_eq!(names.len(), 1000);
        assert!(names.iter().all(|name| name.len() == 22 && name.bytes().all(|c| BASE62.contains(&c))));
        let seen: HashSet<u8> = names.iter().flat_map(|name| name.bytes()).collect();
        assert_eq!(seen.len(), 62, "every character occurs");
        assert_eq!([0, 1, 100].map(|len| unique(&OsEntropy, len).len()), [0, 1, 100]);
    }
}
