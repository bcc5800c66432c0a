//! Nkeys as text: base32 of a prefix, the key and a checksum.
//!
//! Owns which texts are keys of which role. Knows no signatures; who signs and verifies is above.

use crate::base_n::{self, BASE32};

/// Role of a key: what it belongs to, shown by the first character of its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// `A`
    Account,
    /// `C`
    Cluster,
    /// `N`
    Server,
    /// `O`
    Operator,
    /// `U`
    User,
    /// `X`: for sealing (X25519), not for signing.
    Curve,
}

/// Beginning of a seed's text: `S`, followed by the character of its role.
const SEED: u8 = 18 << 3;
/// Bytes of a key, public or private.
const KEY: usize = 32;

impl Role {
    const ALL: [Role; 6] =
        [Role::Account, Role::Cluster, Role::Server, Role::Operator, Role::User, Role::Curve];

    fn prefix(self) -> u8 {
        match self {
            Role::Account => 0,
            Role::Cluster => 2 << 3,
            Role::Server => 13 << 3,
            Role::Operator => 14 << 3,
            Role::User => 20 << 3,
            Role::Curve => 23 << 3,
        }
    }

    /// Name of the role in errors.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Role::Account => "account",
            Role::Cluster => "cluster",
            Role::Server => "server",
            Role::Operator => "operator",
            Role::User => "user",
            Role::Curve => "x25519",
        }
    }

    /// Whether `text` is a public key of this role.
    ///
    /// Compat: only the upper five bits of the prefix and the checksum are looked at, not the
    /// length.
    #[must_use]
    pub fn owns(self, text: &str) -> bool {
        decode(text).is_some_and(|raw| raw[0] & 0b1111_1000 == self.prefix())
    }
}

/// The text of a public key.
#[must_use]
pub fn encode(role: Role, key: &[u8; KEY]) -> String {
    with_checksum(&[&[role.prefix()], &key[..]].concat())
}

/// The text of a private key.
#[must_use]
pub fn encode_seed(role: Role, seed: &[u8; KEY]) -> String {
    let role = role.prefix();
    with_checksum(&[&[SEED | role >> 5, (role & 0b1_1111) << 3], &seed[..]].concat())
}

/// The 32 bytes of a public key of any role.
#[must_use]
pub fn public_key(text: &str) -> Option<[u8; KEY]> {
    let raw = decode(text)?;
    let is_public = Role::ALL.iter().any(|role| role.prefix() == raw[0]);
    raw[1..].try_into().ok().filter(|_| is_public)
}

/// Role and bytes of a private key.
#[must_use]
pub fn seed(text: &str) -> Option<(Role, [u8; KEY])> {
    let raw = decode(text)?;
    let (head, key) = raw.split_at_checked(2)?;
    let prefix = (head[0] & 0b111) << 5 | head[1] >> 3;
    let role = Role::ALL.into_iter().find(|role| role.prefix() == prefix)?;
    let key = key.try_into().ok()?;
    (head[0] & 0b1111_1000 == SEED).then_some((role, key))
}

fn with_checksum(raw: &[u8]) -> String {
    base_n::encode(&[raw, &crc16(raw).to_le_bytes()].concat(), BASE32)
}

/// Prefix and key, when the checksum behind them is right.
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut raw = base_n::decode(text, BASE32)?;
    let low_high = raw.split_off(raw.len().checked_sub(2)?);
    let checksum = u16::from_le_bytes([low_high[0], low_high[1]]);
    (raw.len() >= 2 && crc16(&raw) == checksum).then_some(raw)
}

/// CRC-16/XMODEM: polynomial 0x1021, from zero, not reflected.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const OPERATOR: &str = "OBYEOZQ46VZMFMNETBAW2H6VGDSOBLP67VUEZJ5LPR3PIZBWWRIY4UI4";

    #[test]
    fn the_checksum_is_xmodem() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
    }

    #[test]
    fn a_key_has_one_role() {
        let roles: Vec<_> = Role::ALL.into_iter().filter(|role| role.owns(OPERATOR)).collect();
        assert_eq!(roles, [Role::Operator]);
        assert_eq!(public_key(OPERATOR).map(|key| encode(Role::Operator, &key)).as_deref(), Some(OPERATOR));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let swapped = OPERATOR.replacen("BY", "YB", 1);
        let lower = OPERATOR.to_lowercase();
        for text in ["", "O", "OB", "OBYE", &OPERATOR[..55], &swapped, &lower, &format!("{OPERATOR}=")] {
            assert!(!Role::Operator.owns(text), "{text}");
            assert!(public_key(text).is_none(), "{text}");
            assert!(seed(text).is_none(), "{text}");
        }
    }

    /// SN 2026-23: the checksum of a shortened key can be right; it is no key all the same.
    #[test]
    fn sn_2026_23_a_shortened_key_is_none() {
        for len in 0..40 {
            let text = with_checksum(&[&[Role::Account.prefix()][..], &vec![7; len]].concat());
            assert_eq!(public_key(&text).is_some(), len == KEY, "{len}");
            assert!(seed(&text).is_none());
            let text = with_checksum(&[&[SEED, 0][..], &vec![7; len]].concat());
            assert_eq!(seed(&text).is_some(), len == KEY, "{len}");
            assert!(public_key(&text).is_none());
        }
    }

    #[test]
    fn seeds_keep_their_role_and_are_no_public_keys() {
        let key = [9; KEY];
        for role in Role::ALL {
            let text = encode_seed(role, &key);
            assert_eq!(seed(&text), Some((role, key)));
            assert!(public_key(&text).is_none() && Role::ALL.iter().all(|role| !role.owns(&text)));
        }
        assert!(encode_seed(Role::User, &key).starts_with("SU"));
        assert!(encode_seed(Role::Account, &key).starts_with("SA"));
    }
}
