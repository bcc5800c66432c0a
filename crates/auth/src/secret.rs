//! Secrets: what a client sends, what the configuration stores, and whether they agree.
//!
//! A secret never shows in logs and is never compared byte by byte.

use std::fmt;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// A bcrypt hash is `$2b$10$`, 22 characters of salt and 31 of hash.
const HASH_LENGTH: usize = 60;
const SALT_START: usize = 7;
const SALT_END: usize = SALT_START + 22;
const BCRYPT_BASE64: &str = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// A password or token in the clear. It has no `Display`, and its `Debug` hides it.
#[derive(Clone)]
pub struct Secret(Box<[u8]>);

impl Secret {
    /// Takes over `secret`. The bytes are not limited and need not be UTF-8.
    #[must_use]
    pub fn new(secret: impl Into<Vec<u8>>) -> Self {
        Self(secret.into().into_boxed_slice())
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The secret itself, where it is text: for what must be read and not compared, such as a token
    /// with claims.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// Whether both hold the same bytes, in a time that depends on their lengths only.
    #[must_use]
    pub fn agrees_with(&self, other: &Self) -> bool {
        let (a, b) = (Sha256::digest(&self.0), Sha256::digest(&other.0));
        a.as_slice().ct_eq(b.as_slice()).into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A secret as the configuration has it.
#[derive(Clone)]
pub enum StoredSecret {
    /// In the clear.
    Plain(Secret),
    /// Something that looks like a bcrypt hash. If it is a broken one, nothing agrees with it.
    Bcrypt(String),
}

impl StoredSecret {
    /// Reads `text` from the configuration: a bcrypt hash if it begins like one (`$2a$`, `$2b$`,
    /// `$2x$` or `$2y$`, two digits, `$`), else a secret in the clear.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        if looks_like_bcrypt(text.as_bytes()) {
            Self::Bcrypt(canonical_hash(text))
        } else {
            Self::Plain(Secret::new(text))
        }
    }

    /// Whether comparing takes long enough (tens of milliseconds and more) to be kept off the data
    /// path.
    #[must_use]
    pub fn is_slow(&self) -> bool {
        matches!(self, Self::Bcrypt(_))
    }

    /// The cost of a hash, if comparing with it takes any time at all: broken hashes do not.
    pub(crate) fn cost(&self) -> Option<u8> {
        let Self::Bcrypt(hash) = self else { return None };
        let cost = hash.get(4..6)?.parse().ok()?;
        (4..=31).contains(&cost).then_some(cost)
    }

    /// A secret that nothing agrees with and that is as slow to compare with as a hash of `cost`.
    pub(crate) fn dummy_password(cost: Option<u8>) -> Self {
        match cost {
            Some(cost) => Self::Bcrypt(format!("$2b${cost:02}${}", ".".repeat(HASH_LENGTH - SALT_START))),
            // Whose name is unknown is not let in, whatever this agrees with (see `authenticate`).
            None => Self::Plain(Secret::new("")),
        }
    }

    /// Whether nothing is stored. Such a secret agrees with the empty one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Plain(secret) if secret.is_empty())
    }

    /// Whether `given` is the secret that is stored.
    #[must_use]
    pub fn agrees_with(&self, given: &Secret) -> bool {
        match self {
            Self::Plain(secret) => secret.agrees_with(given),
            Self::Bcrypt(hash) => bcrypt::verify(&given.0, hash).unwrap_or(false),
        }
    }
}

impl fmt::Debug for StoredSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_slow() { "Bcrypt(..)" } else { "Plain(..)" })
    }
}

/// The hash as our strict reader wants it.
///
/// Compat: the reference ignores what follows the hash, and the last four bits of the salt's last
/// character, which some generators fill with noise.
fn canonical_hash(text: &str) -> String {
    let mut hash: String = text.chars().take(HASH_LENGTH).collect();
    if let Some(last_of_salt) = hash.get(SALT_END - 1..SALT_END)
        && let Some(value) = BCRYPT_BASE64.find(last_of_salt)
    {
        let value = value & !0xf;
        hash.replace_range(SALT_END - 1..SALT_END, &BCRYPT_BASE64[value..=value]);
    }
    hash
}

fn looks_like_bcrypt(text: &[u8]) -> bool {
    matches!(text, [b'$', b'2', b'a' | b'b' | b'x' | b'y', b'$', tens, ones, b'$', ..]
        if tens.is_ascii_digit() && ones.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `pa` as golang.org/x/crypto/bcrypt hashed it.
    const PA: &str = "$2a$04$HC3pb82UrzraClGLwypBgOiyUbVMgoaS1XYV5Dr5RzehWUR8aIg6K";

    fn agrees(stored: &str, given: &[u8]) -> bool {
        StoredSecret::parse(stored).agrees_with(&Secret::new(given))
    }

    #[test]
    fn plain_secrets_agree_byte_by_byte() {
        for (stored, given, expected) in [
            ("secret", "secret", true),
            ("secret", "Secret", false),
            ("secret", "secre", false),
            ("secret", "", false),
            ("", "", true),
            // Not a bcrypt hash to the reference either, which let this in by the text itself.
            ("$2z$04$abc", "$2z$04$abc", true),
            ("$2a$4x$abc", "$2a$4x$abc", true),
            ("$2a", "$2a", true),
        ] {
            assert!(!StoredSecret::parse(stored).is_slow(), "{stored}");
            assert_eq!(agrees(stored, given.as_bytes()), expected, "{stored} {given}");
        }
    }

    #[test]
    fn bcrypt_hashes_of_every_prefix_are_verified() {
        for prefix in ["$2a$", "$2b$", "$2x$", "$2y$"] {
            let hash = PA.replace("$2a$", prefix);
            assert!(StoredSecret::parse(&hash).is_slow());
            assert!(agrees(&hash, b"pa"), "{hash}");
            assert!(!agrees(&hash, b"pb") && !agrees(&hash, b"") && !agrees(&hash, hash.as_bytes()));
        }
    }

    #[test]
    fn bcrypt_agrees_with_go_on_odd_passwords() {
        let x72 = "$2a$04$9ywUd0KuGsPzTT3qPJvpSeWBLky5kClmiFYsjvLxm6Vr6CVEA4e1a";
        assert!(agrees(x72, &[b'x'; 72]));
        assert!(agrees(x72, &[b'x'; 73]), "what follows 72 bytes is ignored");
        assert!(!agrees(x72, &[b'x'; 71]));
        let empty = "$2a$04$WAt8Qap1JhEx.M7bjBhgaOwMuPlq7zYLWwRsitR81XKf8cYGu6OCa";
        assert!(agrees(empty, b"") && !agrees(empty, b"x"));
        let nul = "$2a$04$DxXUV0kQiMLvEqTaz/XVZuGAzOgeanXzIkXj8Bsj/JyKQ6vagaJSy";
        assert!(agrees(nul, b"a\0b") && !agrees(nul, b"a"));
        let eight_bit = "$2a$04$EMiBGGnXadk7549WEhuEXufxsPjvXX.wGNHriNPrBsj5WoSZvPdsW";
        assert!(agrees(eight_bit, b"\xff\xa3345") && !agrees(eight_bit, b"\xff\xa334"));
    }

    #[test]
    fn sloppy_hashes_are_read_as_the_reference_reads_them() {
        assert!(agrees(&format!("{PA}trailing"), b"pa"));
        assert!(agrees(&format!("{PA}\u{e4}"), b"pa"));
        // `O` is 16 in this base64 and `P` is 17: the low bits are not part of the salt.
        assert_eq!(&PA[28..29], "O");
        assert!(agrees(&format!("{}P{}", &PA[..28], &PA[29..]), b"pa"));
    }

    #[test]
    fn broken_hashes_agree_with_nothing() {
        for broken in ["$2a$04$", "$2a$04$abc", "$2a$99$abc", &PA[..59], &PA.replace("$04$", "$03$")] {
            assert!(StoredSecret::parse(broken).is_slow(), "{broken}");
            assert!(!agrees(broken, broken.as_bytes()) && !agrees(broken, b"pa") && !agrees(broken, b""));
        }
    }

    #[test]
    fn a_decoy_is_a_real_hash_of_the_cost_asked_for() {
        let cost = StoredSecret::parse(PA).cost();
        assert_eq!(cost, Some(4));
        let dummy_password = StoredSecret::dummy_password(cost);
        assert_eq!(dummy_password.cost(), cost);
        let StoredSecret::Bcrypt(hash) = dummy_password else { panic!("as slow as a hash") };
        assert!(!bcrypt::verify("pa", &hash).expect("a hash that is computed, not refused"));
        assert!(!StoredSecret::dummy_password(None).is_slow());
        for broken in ["$2a$99$abc", "$2a$00$abc"] {
            assert_eq!(StoredSecret::parse(broken).cost(), None);
        }
    }

    #[test]
    fn no_secret_shows_in_debug() {
        let shown = format!(
            "{:?} {:?} {:?}",
            Secret::new("hidden"),
            StoredSecret::parse("hidden"),
            StoredSecret::parse(PA)
        );
        assert_eq!(shown, "Secret(..) Plain(..) Bcrypt(..)");
    }
}
