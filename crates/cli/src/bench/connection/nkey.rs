//! User seeds: the private half of an nkey, which signs the nonce of a server.
//!
//! Owns the text of seeds and public keys (base32 of a prefix, 32 bytes and a checksum) and the files they come in. The
//! signatures are aws-lc's. Never prints a seed.

use std::fmt;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};

use crate::bench::error::BenchError;

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const BASE64_URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

const SEED: u8 = 18 << 3;
const USER: u8 = 20 << 3;

/// A user's private key.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Seed([u8; 32]);

impl Seed {
    /// Reads a seed, which begins with `SU`.
    pub(crate) fn parse(text: &str) -> Result<Self, BenchError> {
        let bad = || BenchError::Address("not the seed of a user's nkey (SU…)".into());
        let raw = decode(text.trim()).ok_or_else(bad)?;
        match raw.split_at_checked(2) {
            Some(([first, second], key))
                if *first == SEED | USER >> 5 && *second & 0b1111_1000 == (USER & 0b1_1111) << 3 =>
            {
                key.try_into().map(Self).map_err(|_| bad())
            }
            _ => Err(bad()),
        }
    }

    /// The public key and the signature of `nonce`, as CONNECT wants them.
    pub(crate) fn sign(&self, nonce: &str) -> Result<(String, String), BenchError> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&self.0)
            .map_err(|_| BenchError::Address("the seed gives no key".into()))?;
        let public = encode(USER, pair.public_key().as_ref());
        Ok((public, digits(pair.sign(nonce.as_bytes()).as_ref(), BASE64_URL, 6)))
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

fn encode(prefix: u8, key: &[u8]) -> String {
    let mut raw = vec![prefix];
    raw.extend_from_slice(key);
    raw.extend_from_slice(&checksum(&raw).to_le_bytes());
    digits(&raw, BASE32, 5)
}

/// Prefix and key, when the checksum behind them is right.
fn decode(text: &str) -> Option<Vec<u8>> {
    let (mut raw, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for byte in text.bytes() {
        let digit = BASE32.iter().position(|&letter| letter == byte)?;
        (bits, count) = (bits << 5 | digit as u32, count + 5);
        if count >= 8 {
            count -= 8;
            raw.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    let sum = raw.split_off(raw.len().checked_sub(2)?);
    (checksum(&raw).to_le_bytes() == sum[..]).then_some(raw)
}

/// Digits of `width` bits each, without padding.
fn digits(bytes: &[u8], alphabet: &[u8], width: u32) -> String {
    let (mut text, mut bits, mut count) = (String::new(), 0_u32, 0);
    let digit = |bits: u32| char::from(alphabet[bits as usize % alphabet.len()]);
    for &byte in bytes {
        (bits, count) = (bits << 8 | u32::from(byte), count + 8);
        while count >= width {
            count -= width;
            text.push(digit(bits >> count));
        }
    }
    if count > 0 {
        text.push(digit(bits << (width - count)));
    }
    text
}

/// CRC-16/XMODEM.
fn checksum(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, &byte| {
        (0..8).fold(sum ^ u16::from(byte) << 8, |sum, _| match sum & 0x8000 {
            0 => sum << 1,
            _ => sum << 1 ^ 0x1021,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};

    /// Made by `nats auth nkey gen user` for this test.
    const TEXT: &str = "SUAM5BJY3FTHSY2D7EYHQKC7IHYYF4IJQIB4G44PJS2ZAPVY4BGDLM34BY";
    const PUBLIC: &str = "UA5YG4PGN4OK3KYINRRYFMBYUIICV45ASJ7SDQRLVSZEFNO2KSNIL6OI";

    #[test]
    fn a_seed_signs_what_its_public_key_verifies() {
        let seed = Seed::parse(TEXT).unwrap();
        let (public, signature) = seed.sign("nonce").unwrap();
        assert_eq!(public, PUBLIC);
        let key = &decode(&public).unwrap()[1..];
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed.0).unwrap();
        assert_eq!(key, pair.public_key().as_ref());
        assert_eq!(signature, digits(pair.sign(b"nonce").as_ref(), BASE64_URL, 6));
        let verified = UnparsedPublicKey::new(&ED25519, key).verify(b"nonce", pair.sign(b"nonce").as_ref());
        assert!(verified.is_ok());
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
