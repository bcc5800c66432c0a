//! Public nkeys as text: base32 of a prefix, the key and a checksum.
//!
//! Owns which texts are public keys of which role. Holds no private key and signs nothing.

/// Whose key it is: the first letter of its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Account,
    Cluster,
    Server,
    Operator,
    User,
    /// For sealing (X25519), not for signing.
    Curve,
}

const BASE32: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const BASE64_URL: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

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

    /// What errors call it.
    pub(crate) fn name(self) -> &'static str {
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
    /// Compat: only the upper five bits of the prefix and the checksum are looked at, not the length.
    pub(crate) fn owns(self, text: &str) -> bool {
        decode(text).is_some_and(|raw| raw[0] & 0b1111_1000 == self.prefix())
    }
}

/// The 32 bytes of a public key of any role.
pub(crate) fn public_key(text: &str) -> Option<[u8; 32]> {
    let raw = decode(text)?;
    let is_public = Role::ALL.iter().any(|role| role.prefix() == raw[0]);
    raw[1..].try_into().ok().filter(|_| is_public)
}

/// Whether `text` is the seed of a user's key.
pub(crate) fn is_user_seed(text: &str) -> bool {
    const SEED: u8 = 18 << 3;
    let user = Role::User.prefix();
    decode(text).is_some_and(|raw| {
        raw.len() >= 2 && raw[0] == SEED | user >> 5 && raw[1] & 0b1111_1000 == (user & 0b1_1111) << 3
    })
}

/// Prefix and key, when the checksum behind them is right.
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut raw = digits(text, BASE32, 5)?;
    let low_high = raw.split_off(raw.len().checked_sub(2)?);
    let checksum = u16::from_le_bytes([low_high[0], low_high[1]]);
    (raw.len() >= 2 && crc16(&raw) == checksum).then_some(raw)
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

/// Unpadded base64 of the kind that is safe in URLs.
pub(crate) fn base64_url(text: &str) -> Option<Vec<u8>> {
    digits(text, BASE64_URL, 6)
}

/// Bytes written in digits of `bits` bits each, highest first.
///
/// Compat: as in Go, line ends between the digits and bits that are left over do not matter.
fn digits(text: &str, alphabet: &[u8], bits: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * bits / 8);
    let (mut window, mut held) = (0_u32, 0);
    for digit in text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')) {
        let value = alphabet.iter().position(|&letter| letter == digit)?;
        window = (window << bits) | u32::try_from(value).ok()?;
        held += bits;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from(window >> held).ok()?);
            window &= (1 << held) - 1;
        }
    }
    // A whole digit that adds no byte cannot have been written by anybody.
    (held < bits).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPERATOR: &str = "OBYEOZQ46VZMFMNETBAW2H6VGDSOBLP67VUEZJ5LPR3PIZBWWRIY4UI4";

    #[test]
    fn a_key_has_one_role() {
        let roles: Vec<_> = Role::ALL.into_iter().filter(|role| role.owns(OPERATOR)).collect();
        assert_eq!(roles, [Role::Operator]);
        assert!(public_key(OPERATOR).is_some());
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let swapped = OPERATOR.replacen("BY", "YB", 1);
        let lower = OPERATOR.to_lowercase();
        for text in ["", "O", "OB", "OBYE", &OPERATOR[..55], &swapped, &lower, &format!("{OPERATOR}=")] {
            assert!(!Role::Operator.owns(text), "{text}");
            assert!(public_key(text).is_none(), "{text}");
        }
    }

    #[test]
    fn base64_is_read_without_padding() {
        assert_eq!(base64_url("TWFu").as_deref(), Some(&b"Man"[..]));
        assert_eq!(base64_url("TW\r\nE\n").as_deref(), Some(&b"Ma"[..]));
        assert_eq!(base64_url("TQ").as_deref(), Some(&b"M"[..]));
        assert_eq!(base64_url("-_-_").as_deref(), Some(&[0xfb, 0xff, 0xbf][..]));
        for text in ["T", "TWFuT", "TQ==", "T+Fu", "TW u"] {
            assert_eq!(base64_url(text), None, "{text}");
        }
    }
}
