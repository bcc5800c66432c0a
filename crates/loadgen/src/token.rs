//! Reply subjects, and the six characters in them that say what is answered.
//!
//! Owns the alphabet of tokens. A token has a fixed width, so that it can be written into a frame
//! that was encoded before; it is unique for the life of a client, as with official clients, so
//! that no server lives off repeated replies.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Characters of a token.
pub(crate) const TOKEN: usize = 6;

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHIJKLMNOPQRSTUV";
const BITS: u32 = 5;

/// Tokens begin again after this many.
pub(crate) const TOKENS: u64 = 1 << (BITS * TOKEN as u32);

/// Stands where a token will be written.
pub(crate) const BLANK: &str = "~~~~~~";

/// Writes the token of a number over the first six bytes of `place`.
pub fn write(place: &mut [u8], number: u64) {
    for (digit, byte) in place[..TOKEN].iter_mut().rev().enumerate() {
        *byte = ALPHABET[(number >> (BITS * digit as u32)) as usize % ALPHABET.len()];
    }
}

/// The number of a token, if it is one.
pub fn read(token: &[u8]) -> Option<u64> {
    if token.len() != TOKEN {
        return None;
    }
    token.iter().try_fold(0, |number, byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'A'..=b'V' => byte - b'A' + 10,
            _ => return None,
        };
        Some(number << BITS | u64::from(digit))
    })
}

/// A word of this many characters that no other call has given.
pub fn unique(length: usize) -> String {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as u64);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let mut state = now ^ u64::from(std::process::id()) << 32 ^ call.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut character = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(ALPHABET[(state >> 59) as usize])
    };
    (0..length).map(|_| character()).collect()
}

/// A new inbox of the length that official clients use: `_INBOX.` and 22 characters.
pub fn inbox() -> String {
    format!("_INBOX.{}", unique(22))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_as_they_were_written() {
        for number in [0, 1, 31, 32, 123_456_789, TOKENS - 1] {
            let mut token = *b"......";
            write(&mut token, number);
            assert_eq!(read(&token), Some(number), "{token:?}");
        }
        for wrong in [&b"00000"[..], b"0000000", b"00000W", b"00000 ", b"", BLANK.as_bytes()] {
            assert_eq!(read(wrong), None);
        }
    }

    #[test]
    fn words_differ() {
        let words: std::collections::BTreeSet<_> = (0..1000).map(|_| unique(16)).collect();
        assert_eq!(words.len(), 1000);
        assert_eq!(inbox().len(), 29);
    }
}
