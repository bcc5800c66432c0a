//! Identifiers from the operating system's random source: nonces, unique names.
//!
//! Every function panics if that source fails, which leaves a server without secrets to keep: there is
//! nothing to go on with.

use crate::digits::{self, BASE64_URL};

/// A nonce for an INFO: 15 characters of unpadded base64url, 88 random bits.
#[must_use]
pub fn nonce() -> String {
    digits::encode(&random::<11>(), BASE64_URL)
}

/// A name of `len` base62 characters, each drawn evenly. 22 of them hold 130 random bits.
#[must_use]
pub fn unique(len: usize) -> String {
    let mut name = String::with_capacity(len);
    while name.len() < len {
        let fair = random::<32>().into_iter().filter(|&b| b < BASE62_FAIR);
        name.extend(fair.take(len - name.len()).map(|b| char::from(BASE62[usize::from(b % 62)])));
    }
    name
}

const BASE62: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Bytes from here on would favour the first characters of the alphabet.
const BASE62_FAIR: u8 = 62 * 4;

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    fill(&mut bytes);
    bytes
}

/// Fills `bytes` with bytes that nobody can predict: for keys.
pub fn fill(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system has a random source");
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn nonces_have_the_shape_of_the_references() {
        let nonce = nonce();
        assert_eq!(nonce.len(), 15);
        assert!(nonce.bytes().all(|c| BASE64_URL.contains(&c)), "{nonce}");
    }

    #[test]
    fn unique_names_are_that() {
        let names: HashSet<String> = (0..1000).map(|_| unique(22)).collect();
        assert_eq!(names.len(), 1000);
        assert!(names.iter().all(|name| name.len() == 22 && name.bytes().all(|c| BASE62.contains(&c))));
        let seen: HashSet<u8> = names.iter().flat_map(|name| name.bytes()).collect();
        assert_eq!(seen.len(), 62, "every character occurs");
        assert_eq!([unique(0).len(), unique(1).len(), unique(100).len()], [0, 1, 100]);
    }
}
