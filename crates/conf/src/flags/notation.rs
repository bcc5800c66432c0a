//! Values of flags in Go's notation: what `strconv` takes for a switch or an integer.

use std::num::IntErrorKind;

pub(super) fn switch(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// An integer: decimal, `0x`, `0o` or `0`, `0b`, with `_` between digits.
pub(super) fn number(text: &str) -> Result<i64, &'static str> {
    const SYNTAX: &str = "parse error";
    let (sign, digits) = match text.as_bytes().first() {
        Some(b'-') => ("-", &text[1..]),
        Some(b'+') => ("", &text[1..]),
        _ => ("", text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, &lower[..]),
    };
    let is_prefixed = radix != 10;
    if digits.starts_with(['+', '-']) || !underscores_stand_between(digits, is_prefixed) {
        return Err(SYNTAX);
    }
    let digits = digits.replace('_', "");
    i64::from_str_radix(&format!("{sign}{digits}"), radix).map_err(|error| match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => SYNTAX,
    })
}

/// A prefix counts as a digit, so `0x_1` is fine.
fn underscores_stand_between(digits: &str, is_prefixed: bool) -> bool {
    let starts_well = is_prefixed || !digits.starts_with('_');
    starts_well && !digits.ends_with('_') && !digits.contains("__")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_go_notation() {
        for (text, value) in [
            ("0", Ok(0)),
            ("-1", Ok(-1)),
            ("+5", Ok(5)),
            ("0x1F", Ok(31)),
            ("0X1f", Ok(31)),
            ("0b101", Ok(5)),
            ("0o17", Ok(15)),
            ("017", Ok(15)),
            ("-0x10", Ok(-16)),
            ("4_222", Ok(4222)),
            ("0x_1f", Ok(31)),
            ("0_7", Ok(7)),
            ("-9223372036854775808", Ok(i64::MIN)),
            ("9223372036854775808", Err("value out of range")),
            ("0x", Err("parse error")),
            ("08", Err("parse error")),
            ("", Err("parse error")),
            ("-", Err("parse error")),
            ("--1", Err("parse error")),
            ("1k", Err("parse error")),
            ("_1", Err("parse error")),
            ("1_", Err("parse error")),
            ("1__2", Err("parse error")),
            ("0x1_", Err("parse error")),
        ] {
            assert_eq!(number(text), value, "{text}");
        }
    }
}
