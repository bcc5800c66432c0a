//! Base64 as RFC 4648 has it, with padding: bytes in JSON, certificates, headers of HTTP. Keys and
//! tokens have none ([`base_n`]).

use crate::base_n::{self, BASE64};

/// Writes bytes.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    padded(bytes, BASE64)
}

/// Writes bytes in the digits of an alphabet of 64, with padding.
#[must_use]
pub fn padded(bytes: &[u8], alphabet: &[u8]) -> String {
    let mut text = base_n::encode(bytes, alphabet);
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}

/// Reads bytes. `None` for what is no base64, line ends included.
#[must_use]
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    let is_whole = text.len().is_multiple_of(4) && text.len() - digits.len() <= 2;
    if !is_whole || digits.contains(['\r', '\n']) {
        return None;
    }
    base_n::decode(digits, BASE64)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg=="),
            (b"fooba", "Zm9vYmE="),
            (b"foobar", "Zm9vYmFy"),
            (&[0xff, 0xfe, 0xfb], "//77"),
        ] {
            assert_eq!(encode(bytes), text);
            assert_eq!(decode(text).as_deref(), Some(bytes));
        }
        for bad in ["Zg=", "Z===", "Zg==Zg==", "Z g=", "Zg--", "Zg\r\n", "Zm9v\n\n\n\n"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
