//! SHA-256, as text.

use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

/// The digest of these bytes in hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn nothing_has_a_well_known_digest() {
        let known = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(super::sha256(b""), known);
    }
}
