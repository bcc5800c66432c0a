//! Identifiers from the operating system's random source: server ids, nonces, unique names.
//!
//! Every function panics if that source fails, which leaves a server without secrets to keep: there is
//! nothing to go on with.

/// A server id: 56 characters in the shape of a public server nkey, beginning with `N`.
///
/// No private key belongs to it; only the form and its checksum are right.
#[must_use]
pub fn server_id() -> String {
    nkey_shape(SERVER_PREFIX, &random())
}

/// A public curve key: 56 characters beginning with `X`.
///
/// INFO announces one always. No private key belongs to it, so nothing can be sealed for this server
/// before auth callout brings a real pair.
#[must_use]
pub fn curve_key() -> String {
    nkey_shape(CURVE_PREFIX, &random())
}

/// A nonce for an INFO: 15 characters of unpadded base64url, 88 random bits.
#[must_use]
pub fn nonce() -> String {
    encode(&random::<11>(), BASE64_URL, 6)
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

const BASE32: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const BASE62: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const BASE64_URL: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Bytes from here on would favour the first characters of the alphabet.
const BASE62_FAIR: u8 = 62 * 4;

/// The type of an nkey is its first letter: this byte makes it an `N`, a server.
const SERVER_PREFIX: u8 = 13 << 3;
/// An `X`, a curve key.
const CURVE_PREFIX: u8 = 23 << 3;

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    fill(&mut bytes);
    bytes
}

/// Fills `bytes` with bytes that nobody can predict: for keys.
pub fn fill(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system has a random source");
}

/// An nkey is base32 of the prefix byte, the 32 bytes of the key and their CRC-16, low byte first.
fn nkey_shape(prefix: u8, key: &[u8; 32]) -> String {
    let mut raw = [0; 35];
    raw[0] = prefix;
    raw[1..33].copy_from_slice(key);
    let crc = crc16(&raw[..33]);
    raw[33..].copy_from_slice(&crc.to_le_bytes());
    encode(&raw, BASE32, 5)
}

/// CRC-16/XMODEM: polynomial 0x1021, from zero, not reflected.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

/// Writes `bytes` in digits of `bits` bits each, highest first, without padding.
fn encode(bytes: &[u8], alphabet: &[u8], bits: u32) -> String {
    let digit = |value: u32| char::from(alphabet[(value & ((1 << bits) - 1)) as usize]);
    let mut text = String::with_capacity(bytes.len() * 8 / bits as usize + 1);
    let (mut value, mut held) = (0_u32, 0);
    for &byte in bytes {
        value = (value << 8) | u32::from(byte);
        held += 8;
        while held >= bits {
            held -= bits;
            text.push(digit(value >> held));
        }
        value &= (1 << held) - 1;
    }
    if held > 0 {
        text.push(digit(value << (bits - held)));
    }
    text
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_checksum_is_xmodem() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
    }

    /// The text forms of RFC 4648's examples, which have no padding here.
    #[test]
    fn encodings_agree_with_the_rfc() {
        for (bytes, base32, base64) in [
            ("", "", ""),
            ("f", "MY", "Zg"),
            ("foob", "MZXW6YQ", "Zm9vYg"),
            ("foobar", "MZXW6YTBOI", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(bytes.as_bytes(), BASE32, 5), base32);
            assert_eq!(encode(bytes.as_bytes(), BASE64_URL, 6), base64);
        }
        assert_eq!(encode(&[0xfb, 0xff], BASE64_URL, 6), "-_8");
    }

    fn decode_base32(text: &str) -> Vec<u8> {
        let bits: Vec<bool> = text
            .bytes()
            .map(|c| BASE32.iter().position(|&known| known == c).expect("a base32 digit"))
            .flat_map(|digit| (0..5).rev().map(move |bit| digit >> bit & 1 == 1))
            .collect();
        bits.chunks_exact(8).map(|byte| byte.iter().fold(0, |b, &bit| b << 1 | u8::from(bit))).collect()
    }

    fn is_server_key(id: &str) -> bool {
        let raw = decode_base32(id);
        let crc = u16::from_le_bytes([raw[33], raw[34]]);
        raw.len() == 35 && raw[0] == SERVER_PREFIX && crc == crc16(&raw[..33])
    }

    #[test]
    fn server_ids_have_the_shape_of_the_references() {
        // Taken from the INFO of a nats-server 2.15.2.
        let theirs = "NBWX5AFJKGKQTOFQZLV2IG6R547JJ3GFAG5JL455RMUGJPLX6YBJDYJA";
        assert!(is_server_key(theirs));
        let key: [u8; 32] = decode_base32(theirs)[1..33].try_into().unwrap();
        assert_eq!(nkey_shape(SERVER_PREFIX, &key), theirs);
        let ours = server_id();
        assert_eq!((ours.len(), &ours[..1]), (56, "N"));
        assert!(is_server_key(&ours));
        assert_ne!(server_id(), ours);
    }

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
