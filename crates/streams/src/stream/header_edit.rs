//! Header blocks of messages, written anew: a line more, another value, lines taken out.
//!
//! Compat: as the reference does it, byte by byte. A key stands at the beginning of a line and
//! right before a colon.

/// How a block begins.
const FIRST: &[u8] = b"NATS/1.0\r\n";

/// Writes `block` with one line more at its end. An empty block is one without lines.
pub(super) fn write_with(block: &[u8], key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(block.strip_suffix(b"\r\n").filter(|block| !block.is_empty()).unwrap_or(FIRST));
    write_line(key, value, out);
    out.extend_from_slice(b"\r\n");
}

/// Writes `block` with another value in the first line of `key`, or with a line more if there is
/// none.
pub(super) fn write_set(block: &[u8], key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let mut from = 0;
    for line in lines(block) {
        let rest = line.strip_prefix(key).and_then(|rest| rest.strip_prefix(b":"));
        if let Some(old) = rest.filter(|_| from > 0) {
            let blank = usize::from(old.first() == Some(&b' '));
            let start = from + key.len() + 1 + blank;
            let end = from + content(line).len();
            out.extend_from_slice(&block[..start.min(end)]);
            out.extend_from_slice(value);
            out.extend_from_slice(&block[end..]);
            return;
        }
        from += line.len();
    }
    write_with(block, key, value, out);
}

/// Writes `block` without the lines that begin with any of `prefixes`; nothing, if that leaves no
/// line.
pub(super) fn write_without(block: &[u8], prefixes: &[&[u8]], out: &mut Vec<u8>) {
    let start = out.len();
    for (at, line) in lines(block).enumerate() {
        let is_out = at > 0 && prefixes.iter().any(|prefix| line.starts_with(prefix));
        if !is_out {
            out.extend_from_slice(line);
        }
    }
    if out.len() - start <= FIRST.len() + 2 {
        out.truncate(start);
    }
}

pub(super) fn write_line(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(key);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Lines of a block, with what ends them: CRLF, as for readers of headers.
pub(crate) fn lines(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = block;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.windows(2).position(|pair| pair == b"\r\n").map_or(rest.len(), |at| at + 2);
        let (line, behind) = rest.split_at(end);
        rest = behind;
        Some(line)
    })
}

/// A line without what ends it.
pub(crate) fn content(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r\n").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_line_is_set_or_added() {
        let set = |block: &str, value: &str| {
            written(|out| write_set(block.as_bytes(), b"A", value.as_bytes(), out))
        };
        let block = "NATS/1.0\r\nB: A: x\r\nA: old\r\nA: other\r\n\r\n";
        assert_eq!(set(block, "new one"), "NATS/1.0\r\nB: A: x\r\nA: new one\r\nA: other\r\n\r\n");
        assert_eq!(set("NATS/1.0\r\nA:old\r\n\r\n", "n"), "NATS/1.0\r\nA:n\r\n\r\n");
        assert_eq!(set("NATS/1.0\r\nA: \r\n\r\n", "n"), "NATS/1.0\r\nA: n\r\n\r\n");
        assert_eq!(set("NATS/1.0\r\nAB: x\r\n\r\n", "n"), "NATS/1.0\r\nAB: x\r\nA: n\r\n\r\n");
        assert_eq!(set("", "n"), "NATS/1.0\r\nA: n\r\n\r\n");
    }

    #[test]
    fn lines_are_taken_out_by_how_they_begin() {
        let without = |block: &str| written(|out| write_without(block.as_bytes(), &[b"A", b"BC:"], out));
        assert_eq!(
            without("NATS/1.0\r\nA: 1\r\nB: A\r\nAB: 2\r\nBC: x\r\nBCD: y\r\n\r\n"),
            "NATS/1.0\r\nB: A\r\nBCD: y\r\n\r\n"
        );
        assert_eq!(without("NATS/1.0\r\nA: 1\r\n\r\n"), "");
        assert_eq!(without(""), "");
    }
}
