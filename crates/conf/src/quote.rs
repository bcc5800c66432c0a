//! A text as Go's `%q` shows it, for messages that quote what somebody wrote.

use std::fmt::Write as _;

/// A text between double quotes.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        let written = match c {
            '"' => write!(quoted, "\\\""),
            '\\' => write!(quoted, "\\\\"),
            '\u{7}' => write!(quoted, "\\a"),
            '\u{8}' => write!(quoted, "\\b"),
            '\t' => write!(quoted, "\\t"),
            '\n' => write!(quoted, "\\n"),
            '\u{b}' => write!(quoted, "\\v"),
            '\u{c}' => write!(quoted, "\\f"),
            '\r' => write!(quoted, "\\r"),
            '\0'..='\u{1f}' | '\u{7f}' => write!(quoted, "\\x{:02x}", u32::from(c)),
            // What Rust would escape, and blanks other than the plain one, is what Go cannot print.
            c if c.is_ascii() || !c.is_whitespace() && c.escape_debug().count() == 1 => write!(quoted, "{c}"),
            c if u32::from(c) > 0xffff => write!(quoted, "\\U{:08x}", u32::from(c)),
            c => write!(quoted, "\\u{:04x}", u32::from(c)),
        };
        written.expect("a String takes all text");
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_like_go() {
        for (text, shown) in [
            ("", r#""""#),
            ("a b", r#""a b""#),
            ("\"\\", r#""\"\\""#),
            ("\n\t\r\u{7}\u{8}\u{b}\u{c}", r#""\n\t\r\a\b\v\f""#),
            ("\u{1}\u{1b}\u{7f}", r#""\x01\x1b\x7f""#),
            ("é世", r#""é世""#),
            ("\u{a0}\u{2028}\u{85}", r#""\u00a0\u2028\u0085""#),
            ("\u{e0001}", r#""\U000e0001""#),
        ] {
            assert_eq!(quoted(text), shown);
        }
    }
}
