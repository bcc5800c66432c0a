//! Bytes as digits: base32 and base64 without padding, as keys, tokens and nonces are written.

/// The digits of keys.
pub const BASE32: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
/// The digits that are safe in URLs.
pub const BASE64_URL: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// The digits of ordinary base64.
pub const BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Bits of one digit: alphabets have 32 or 64 of them.
fn width(alphabet: &[u8]) -> u32 {
    alphabet.len().ilog2()
}

/// Writes `bytes` in the digits of `alphabet`, highest first, without padding.
#[must_use]
pub fn encode(bytes: &[u8], alphabet: &[u8]) -> String {
    let width = width(alphabet);
    let digit = |value: u32| char::from(alphabet[(value & ((1 << width) - 1)) as usize]);
    let mut text = String::with_capacity(bytes.len() * 8 / width as usize + 1);
    let (mut value, mut held) = (0_u32, 0);
    for &byte in bytes {
        value = (value << 8) | u32::from(byte);
        held += 8;
        while held >= width {
            held -= width;
            text.push(digit(value >> held));
        }
        value &= (1 << held) - 1;
    }
    if held > 0 {
        text.push(digit(value << (width - held)));
    }
    text
}

/// Reads what [`encode`] writes; `None` where a character is no digit, or one too many.
///
/// Compat: as in Go, line ends between the digits and bits that are left over do not matter.
#[must_use]
pub fn decode(text: &str, alphabet: &[u8]) -> Option<Vec<u8>> {
    let width = width(alphabet);
    let mut bytes = Vec::with_capacity(text.len() * width as usize / 8);
    let (mut window, mut held) = (0_u32, 0);
    for digit in text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')) {
        let value = alphabet.iter().position(|&symbol| symbol == digit)?;
        window = (window << width) | u32::try_from(value).ok()?;
        held += width;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from(window >> held).ok()?);
            window &= (1 << held) - 1;
        }
    }
    // A whole digit that adds no byte cannot have been written by anybody.
    (held < width).then_some(bytes)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The text forms of RFC 4648's examples, which have no padding here.
    #[test]
    fn encodings_agree_with_the_rfc() {
        for (bytes, base32, base64) in [
            ("", "", ""),
            ("f", "MY", "Zg"),
            ("foob", "MZXW6YQ", "Zm9vYg"),
            ("foobar", "MZXW6YTBOI", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(bytes.as_bytes(), BASE32), base32);
            assert_eq!(encode(bytes.as_bytes(), BASE64_URL), base64);
            assert_eq!(decode(base32, BASE32).as_deref(), Some(bytes.as_bytes()));
            assert_eq!(decode(base64, BASE64_URL).as_deref(), Some(bytes.as_bytes()));
        }
        assert_eq!(encode(&[0xfb, 0xff], BASE64_URL), "-_8");
        assert_eq!(encode(&[0xfb, 0xff], BASE64), "+/8");
    }

    #[test]
    fn line_ends_do_not_matter_and_padding_is_refused() {
        assert_eq!(decode("TW\r\nE\n", BASE64_URL).as_deref(), Some(&b"Ma"[..]));
        assert_eq!(decode("-_-_", BASE64_URL).as_deref(), Some(&[0xfb, 0xff, 0xbf][..]));
        for text in ["T", "TWFuT", "TQ==", "T+Fu", "TW u"] {
            assert_eq!(decode(text, BASE64_URL), None, "{text}");
        }
    }
}
