//! Base64 as RFC 4648 has it, with padding: bytes in JSON, certificates, headers of HTTP. Keys and
//! tokens have none ([`base_n`](crate::base_n)).

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Writes bytes.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// Reads bytes. `None` for what is no base64.
#[must_use]
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - digits.len() > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for chunk in digits.as_bytes().chunks(4) {
        let mut all = 0u32;
        for byte in chunk {
            all = all << 6 | DIGITS.iter().position(|digit| digit == byte)? as u32;
        }
        let all = (all << (6 * (4 - chunk.len()))).to_be_bytes();
        bytes.extend_from_slice(&all[1..chunk.len()]);
    }
    Some(bytes)
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
        for bad in ["Zg=", "Z===", "Zg==Zg==", "Z g=", "Zg--"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
