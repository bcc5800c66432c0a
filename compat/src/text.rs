//! How bytes are written in a transcript: `\r \n \t \\ \xNN`, and `{x*5000}` for a long run.
//!
//! Owns both directions, reading and showing; knows nothing of what the bytes mean.

use std::fmt::Write as _;

/// Why a text is not a way to write bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TextError {
    /// A backslash followed by something else than `r n t \ xNN`.
    Escape(String),
    /// A run such as `{x*5000}` whose unit is not one to write bytes with, or that is longer than
    /// 64 MiB.
    Run(String),
}

impl std::fmt::Display for TextError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TextError::Escape(at) => write!(f, "unknown escape at {at:?} (known: \\r \\n \\t \\\\ \\xNN)"),
            TextError::Run(run) => write!(f, "bad run {run:?} (expected {{text*count}}, at most 64 MiB)"),
        }
    }
}

const LONGEST_RUN: usize = 64 << 20;

/// The bytes that `text` stands for.
///
/// # Errors
/// An unknown escape or a bad run.
pub(crate) fn decode(text: &str) -> Result<Vec<u8>, TextError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if c == '\\' {
            let (byte, after) = escape(rest)?;
            bytes.push(byte);
            rest = after;
        } else if let Some((unit, count, after)) = run(rest) {
            let unit = decode(unit)?;
            let total = unit.len().saturating_mul(count);
            if unit.is_empty() || total > LONGEST_RUN {
                return Err(TextError::Run(rest.chars().take(20).collect()));
            }
            bytes.extend(unit.iter().copied().cycle().take(total));
            rest = after;
        } else {
            let (head, after) = rest.split_at(c.len_utf8());
            bytes.extend_from_slice(head.as_bytes());
            rest = after;
        }
    }
    Ok(bytes)
}

/// Reads one escape at the start of `text`: the byte, and what follows.
fn escape(text: &str) -> Result<(u8, &str), TextError> {
    let bad = || TextError::Escape(text.chars().take(4).collect());
    let letter = text.get(1..2).ok_or_else(bad)?;
    let byte = match letter {
        "r" => b'\r',
        "n" => b'\n',
        "t" => b'\t',
        "\\" => b'\\',
        "x" => {
            let hex = text.get(2..4).ok_or_else(bad)?;
            return u8::from_str_radix(hex, 16).map(|byte| (byte, &text[4..])).map_err(|_| bad());
        }
        _ => return Err(bad()),
    };
    Ok((byte, &text[2..]))
}

/// Reads `{unit*count}` at the start of `text`: the unit, the count, and what follows. JSON, which
/// also opens with a brace, is told apart by what it contains.
fn run(text: &str) -> Option<(&str, usize, &str)> {
    let (inside, after) = text.strip_prefix('{')?.split_once('}')?;
    let (unit, count) = inside.rsplit_once('*')?;
    if unit.contains(['{', '"']) {
        return None;
    }
    Some((unit, count.parse().ok()?, after))
}

/// Bytes as a person wants to see them in a failure: escaped, and cut in the middle when they are
/// many.
pub(crate) fn show(bytes: &[u8]) -> String {
    const WHOLE: usize = 600;
    const EDGE: usize = 200;
    if bytes.len() <= WHOLE {
        return encode(bytes);
    }
    let (head, tail) = (&bytes[..EDGE], &bytes[bytes.len() - EDGE..]);
    format!("{} …{} bytes… {}", encode(head), bytes.len() - 2 * EDGE, encode(tail))
}

fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'\r' => text.push_str("\\r"),
            b'\n' => text.push_str("\\n"),
            b'\t' => text.push_str("\\t"),
            b'\\' => text.push_str("\\\\"),
            0x20..=0x7e => text.push(char::from(byte)),
            _ => write!(text, "\\x{byte:02x}").expect("writing to a String cannot fail"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_stand_for_bytes() {
        assert_eq!(decode(r"PUB a\t1\r\n\x00\xFF\\").unwrap(), b"PUB a\t1\r\n\x00\xff\\");
    }

    #[test]
    fn a_run_repeats_its_unit_and_json_is_left_alone() {
        assert_eq!(decode("a{xy*3}b").unwrap(), b"axyxyxyb");
        assert_eq!(decode(r"{\x00*2}").unwrap(), [0, 0]);
        assert_eq!(decode(r#"{"a":"b*3"}"#).unwrap(), br#"{"a":"b*3"}"#);
        assert_eq!(decode("foo.*{}").unwrap(), b"foo.*{}");
    }

    #[test]
    fn what_stands_for_nothing_is_refused() {
        assert_eq!(decode(r"\q"), Err(TextError::Escape(r"\q".into())));
        assert_eq!(decode(r"\x0"), Err(TextError::Escape(r"\x0".into())));
        assert_eq!(decode("\\"), Err(TextError::Escape("\\".into())));
        assert!(matches!(decode("{x*99999999999}"), Err(TextError::Run(_))));
    }

    #[test]
    fn showing_is_the_inverse_of_reading() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&show(&all)).unwrap(), all);
    }
}
