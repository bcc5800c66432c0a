//! User seeds: the private half of an nkey, which signs the nonce of a server.
//!
//! Owns the files they come in; their text and the signatures are `stdx`'s and `auth`'s. Never
//! prints a seed.

use std::fmt;

use myelin_auth::KeyPair;
use myelin_stdx::nkey::{self, Role};

use crate::error::BenchError;

/// A user's private key.
#[derive(Clone, PartialEq, Eq)]
pub struct Seed([u8; 32]);

impl Seed {
    /// Reads a seed, which begins with `SU`.
    pub(crate) fn parse(text: &str) -> Result<Self, BenchError> {
        match nkey::seed(text.trim()) {
            Some((Role::User, key)) => Ok(Self(key)),
            _ => Err(BenchError::Address("not the seed of a user's nkey (SU…)".into())),
        }
    }

    /// The public key and the signature of `nonce`, as CONNECT wants them.
    pub(crate) fn sign(&self, nonce: &str) -> Result<(String, String), BenchError> {
        let pair = KeyPair::from_bytes(Role::User, &self.0)
            .ok_or_else(|| BenchError::Address("the seed gives no key".into()))?;
        Ok((pair.public(), pair.sign(nonce.as_bytes())))
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(…)")
    }
}

/// The JWT and the seed in the text of a credentials file.
pub(crate) fn credentials(text: &str) -> Result<(String, Seed), BenchError> {
    let token = section(text, "NATS USER JWT");
    let token = token.ok_or_else(|| BenchError::Address("no NATS USER JWT in the credentials".into()))?;
    Ok((token.to_owned(), seed_in(text)?))
}

/// The seed in a file that holds nothing else, or one in the form of credentials.
pub(crate) fn seed_in(text: &str) -> Result<Seed, BenchError> {
    let line = section(text, "USER NKEY SEED");
    let line = line.or_else(|| text.lines().map(str::trim).find(|line| line.starts_with("SU")));
    line.ok_or_else(|| BenchError::Address("no user seed (SU…) in the file".into())).and_then(Seed::parse)
}

/// The line behind the one that begins a section of this name.
fn section<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let begin = format!("BEGIN {name}");
    let mut lines = text.lines().map(str::trim);
    lines.find(|line| line.starts_with("---") && line.contains(&begin))?;
    lines.find(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use myelin_stdx::base_n;

    /// Made by `nats auth nkey gen user` for this test.
    const TEXT: &str = "SUAM5BJY3FTHSY2D7EYHQKC7IHYYF4IJQIB4G44PJS2ZAPVY4BGDLM34BY";
    const PUBLIC: &str = "UA5YG4PGN4OK3KYINRRYFMBYUIICV45ASJ7SDQRLVSZEFNO2KSNIL6OI";

    #[test]
    fn a_seed_signs_what_its_public_key_verifies() {
        let seed = Seed::parse(TEXT).unwrap();
        let (public, signature) = seed.sign("nonce").unwrap();
        assert_eq!(public, PUBLIC);
        let signature = base_n::decode(&signature, base_n::BASE64_URL).unwrap();
        assert!(myelin_auth::is_signed(&public, b"nonce", &signature));
    }

    #[test]
    fn anything_else_is_no_seed() {
        let damaged = TEXT.replace("BJY", "BJZ");
        for wrong in ["", "SU", "hello", &damaged, &TEXT[..50], PUBLIC] {
            assert!(Seed::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(format!("{:?}", Seed::parse(TEXT).unwrap()), "Seed(…)");
    }

    #[test]
    fn credentials_have_two_sections() {
        let file = format!(
            "-----BEGIN NATS USER JWT-----\nabc.def.ghi\n------END NATS USER JWT------\n\n\
             *** IMPORTANT ***\n\n-----BEGIN USER NKEY SEED-----\n{TEXT}\n------END USER NKEY SEED------\n"
        );
        let (token, seed) = credentials(&file).unwrap();
        assert_eq!((token.as_str(), &seed), ("abc.def.ghi", &Seed::parse(TEXT).unwrap()));
        assert_eq!(seed_in(&file).unwrap(), seed);
        assert_eq!(seed_in(&format!("# mine\n{TEXT}\n")).unwrap(), seed);
        assert!(credentials(TEXT).is_err() && seed_in("nothing").is_err());
    }
}
