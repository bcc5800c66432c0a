//! Header blocks: `NATS/1.0[ status[ description]] CRLF (Key: Value CRLF)* CRLF`.
//!
//! Reading follows the reference's byte scan: the key stands right behind a CRLF and right before a
//! colon, case matters, the first match wins, blanks in front of the value are skipped.

/// The value of `key` in `block`, or `None`.
pub fn get<'a>(block: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    if key.is_empty() {
        return None;
    }
    let mut rest = block;
    while let Some(at) = find_crlf(rest) {
        rest = &rest[at + 2..];
        if let Some(value) = rest.strip_prefix(key).and_then(|r| r.strip_prefix(b":")) {
            let end = find_crlf(value).unwrap_or(value.len());
            let start = value[..end].iter().take_while(|b| **b == b' ').count();
            return Some(&value[start..end]);
        }
    }
    None
}

fn find_crlf(bytes: &[u8]) -> Option<usize> {
    bytes.windows(2).position(|w| w == b"\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stand_at_the_start_of_a_line() {
        let block = b"NATS/1.0\r\nA-Key: 1\r\nKey:   two \r\nKey: 3\r\n\r\n";
        assert_eq!(get(block, b"Key"), Some(&b"two "[..]));
        assert_eq!(get(block, b"key"), None);
        assert_eq!(get(block, b"NATS/1.0"), None);
        assert_eq!(get(block, b""), None);
    }

    #[test]
    fn garbage_has_no_values() {
        assert_eq!(get(b"Key: 1", b"Key"), None);
        assert_eq!(get(b"\r\nKey", b"Key"), None);
        assert_eq!(get(b"\r\nKey: cut", b"Key"), Some(&b"cut"[..]));
    }
}
