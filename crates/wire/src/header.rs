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

/// Appends `block` to `out` with one line `key: value` more at its end, and without the lines that
/// have this key already, however they are written: in upper or lower case, with blanks around the
/// key, folded over several lines. What is reserved to the server must not be said by a client
/// (advisory SN 2026-09 of NATS). An empty block is one without lines.
pub fn replace(out: &mut Vec<u8>, block: &[u8], key: &[u8], value: &[u8]) {
    let mut rest = block;
    let mut is_first = true;
    let mut is_dropped = false;
    while !rest.is_empty() {
        let end = find_crlf(rest).unwrap_or(rest.len());
        let line = &rest[..end];
        rest = rest.get(end + 2..).unwrap_or_default();
        let is_last = line.is_empty() && rest.is_empty();
        // A lone CR or LF is the end of a line to some readers.
        let is_folded = matches!(line.first(), Some(b' ' | b'\t'));
        is_dropped = !is_first && if is_folded && is_dropped { true } else { names(line, key) };
        if !is_dropped && !is_last {
            out.extend_from_slice(line);
            out.extend_from_slice(b"\r\n");
        }
        is_first = false;
    }
    if is_first {
        out.extend_from_slice(b"NATS/1.0\r\n");
    }
    for part in [key, b": ", value, b"\r\n\r\n"] {
        out.extend_from_slice(part);
    }
}

/// Whether somebody may take a part of `line` for a header of this name.
fn names(line: &[u8], key: &[u8]) -> bool {
    line.split(|byte| matches!(byte, b'\r' | b'\n')).any(|part| {
        let name = part.split(|byte| *byte == b':').next().unwrap_or_default();
        name.trim_ascii().eq_ignore_ascii_case(key)
    })
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
    fn a_header_is_replaced_however_it_was_written() {
        let cases = [
            ("", "NATS/1.0\r\nK: v\r\n\r\n"),
            ("NATS/1.0\r\n\r\n", "NATS/1.0\r\nK: v\r\n\r\n"),
            ("NATS/1.0 503\r\n\r\n", "NATS/1.0 503\r\nK: v\r\n\r\n"),
            ("NATS/1.0\r\nA: 1\r\nK: x\r\nB: 2\r\n\r\n", "NATS/1.0\r\nA: 1\r\nB: 2\r\nK: v\r\n\r\n"),
            ("NATS/1.0\r\nk: x\r\n K : y\r\nK:\r\nk\t: z\r\n\r\n", "NATS/1.0\r\nK: v\r\n\r\n"),
            ("NATS/1.0\r\nK: x\r\n folded\r\n\tmore\r\nA: 1\r\n\r\n", "NATS/1.0\r\nA: 1\r\nK: v\r\n\r\n"),
            ("NATS/1.0\r\nA: 1\nK: x\r\nB: 2\r\n\r\n", "NATS/1.0\r\nB: 2\r\nK: v\r\n\r\n"),
            ("NATS/1.0\r\nA: 1\rK: x\r\n\r\n", "NATS/1.0\r\nK: v\r\n\r\n"),
            ("NATS/1.0\r\nA: 1\r\n folded\r\nK", "NATS/1.0\r\nA: 1\r\n folded\r\nK: v\r\n\r\n"),
            ("NATS/1.0\r\nKey: 1\r\nAK: 1\r\n\r\n", "NATS/1.0\r\nKey: 1\r\nAK: 1\r\nK: v\r\n\r\n"),
        ];
        for (block, expected) in cases {
            let mut out = Vec::new();
            replace(&mut out, block.as_bytes(), b"K", b"v");
            assert_eq!(String::from_utf8_lossy(&out), expected, "{block:?}");
        }
    }

    #[test]
    fn garbage_has_no_values() {
        assert_eq!(get(b"Key: 1", b"Key"), None);
        assert_eq!(get(b"\r\nKey", b"Key"), None);
        assert_eq!(get(b"\r\nKey: cut", b"Key"), Some(&b"cut"[..]));
    }
}
