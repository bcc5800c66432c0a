//! Turns the text of a scalar token into its value.

use crate::lexer::{TokenKind, boolean};
use crate::value::Value;

/// The value of a scalar token, or what is wrong with it.
pub(crate) fn scalar(kind: TokenKind, text: &str) -> Result<Value, String> {
    match kind {
        TokenKind::Boolean => boolean(text.as_bytes())
            .map(Value::Boolean)
            .ok_or_else(|| format!("expected boolean value, but got '{text}'")),
        TokenKind::Integer => integer(text).map(Value::Integer),
        TokenKind::Float => float(text).map(Value::Float),
        TokenKind::DateTime => date_time(text),
        _ => Ok(Value::Text(text.to_owned())),
    }
}

/// Compat: the reference lets an integer with a unit overflow silently, and drops one with an odd
/// suffix such as `1kbb` together with its key. Here both are errors.
fn integer(text: &str) -> Result<i64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let factor = unit(suffix).ok_or_else(|| format!("integer '{text}' has an unknown unit"))?;
    let out_of_range = || format!("integer '{text}' is out of the range");
    number.parse::<i64>().ok().and_then(|n| n.checked_mul(factor)).ok_or_else(out_of_range)
}

/// Factor of a unit: a single character is decimal, anything longer is binary.
fn unit(suffix: &str) -> Option<i64> {
    let suffix = suffix.to_ascii_lowercase();
    let Some(character) = suffix.chars().next() else { return Some(1) };
    let power = u32::try_from("kmgtpe".find(character)?).ok()? + 1;
    match &suffix[1..] {
        "" => 1000_i64.checked_pow(power),
        "b" | "i" | "ib" => 1024_i64.checked_pow(power),
        _ => None,
    }
}

fn float(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        Ok(_) => Err(format!("float '{text}' is out of the range")),
        Err(_) => Err(format!("expected float, but got '{text}'")),
    }
}

/// The lexer has checked the shape; whether such a day exists is checked here.
fn date_time(text: &str) -> Result<Value, String> {
    let part = |from: usize, to: usize| text.get(from..to).and_then(|digits| digits.parse::<u32>().ok());
    let is_date = matches!((part(0, 4), part(5, 7), part(8, 10)),
        (Some(year), Some(month), Some(day)) if (1..=days_in(year, month)).contains(&day));
    let is_time =
        matches!((part(11, 13), part(14, 16), part(17, 19)), (Some(0..24), Some(0..60), Some(0..60)));
    if is_date && is_time {
        Ok(Value::DateTime(text.to_owned()))
    } else {
        Err(format!("expected Zulu formatted DateTime, but got '{text}'"))
    }
}

fn days_in(year: u32, month: u32) -> u32 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_decimal_or_binary() {
        for (text, value) in [
            ("0", 0),
            ("-7", -7),
            ("1k", 1000),
            ("1K", 1000),
            ("2kb", 2048),
            ("2Ki", 2048),
            ("2KiB", 2048),
            ("3m", 3_000_000),
            ("3mb", 3 << 20),
            ("1g", 1_000_000_000),
            ("1gib", 1 << 30),
            ("1t", 1_000_000_000_000),
            ("1ti", 1 << 40),
            ("1p", 1_000_000_000_000_000),
            ("1pb", 1 << 50),
            ("-1e", -1_000_000_000_000_000_000),
            ("1eib", 1 << 60),
            ("9223372036854775807", i64::MAX),
        ] {
            assert_eq!(integer(text), Ok(value), "{text}");
        }
        for text in ["9223372036854775808", "10e", "8eib", "1kbb", "1bk", "5-5"] {
            assert!(integer(text).is_err(), "{text}");
        }
    }

    #[test]
    fn dates_must_exist() {
        for text in ["2024-02-29T00:00:00Z", "2000-02-29T23:59:59Z", "0000-12-31T00:00:00Z"] {
            assert!(date_time(text).is_ok(), "{text}");
        }
        for text in [
            "2023-02-29T00:00:00Z",
            "1900-02-29T00:00:00Z",
            "2024-13-01T00:00:00Z",
            "2024-00-01T00:00:00Z",
            "2024-04-31T00:00:00Z",
            "2024-04-00T00:00:00Z",
            "2024-04-01T24:00:00Z",
            "2024-04-01T00:60:00Z",
            "2024-04-01T00:00:60Z",
        ] {
            assert!(date_time(text).is_err(), "{text}");
        }
    }
}
