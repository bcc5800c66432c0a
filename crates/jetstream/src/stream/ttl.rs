//! The time to live that a message's header asks for.
//!
//! Compat: a number of seconds, `never`, or a duration as Go writes it (`1h30m`, `1.5s`), cut to whole seconds.

use crate::ApiError;

/// Nanoseconds of a second.
pub(crate) const SECOND: i64 = 1_000_000_000;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ttl {
    /// The header says nothing.
    None,
    /// The message stays, whatever the stream's limit of age.
    Never,
    /// 0 is as good as nothing.
    Seconds(i64),
}

/// Reads the header's value.
pub(crate) fn parse(value: &[u8]) -> Result<Ttl, ApiError> {
    if value.is_empty() {
        return Ok(Ttl::None);
    }
    if value.eq_ignore_ascii_case(b"never") {
        return Ok(Ttl::Never);
    }
    match duration(value) {
        Some(nanos) if nanos >= SECOND => Ok(Ttl::Seconds(nanos / SECOND)),
        Some(_) => Err(ApiError::MESSAGE_TTL_INVALID),
        None => number(value).map(Ttl::Seconds).ok_or(ApiError::MESSAGE_TTL_INVALID),
    }
}

/// Compat: a number that is too large wraps in the reference, and is refused if that makes it negative.
fn number(text: &[u8]) -> Option<i64> {
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| i64::from(byte - b'0'));
    let sum = text.iter().try_fold(0_i64, |sum, byte| Some(sum.wrapping_mul(10).wrapping_add(digit(byte)?)));
    sum.filter(|&sum| sum >= 0)
}

/// Nanoseconds of a duration such as `-1h2.5m`; `None` if it is none, as a number without unit (but for `0`).
pub(crate) fn duration(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let (is_negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut sum = 0_i64;
    while !rest.is_empty() {
        let (term, behind) = term(rest)?;
        sum = sum.checked_add(term)?;
        rest = behind;
    }
    Some(if is_negative { -sum } else { sum })
}

/// One number with its unit, in nanoseconds, and what is behind it.
fn term(text: &str) -> Option<(i64, &str)> {
    let number_end = text.find(|msg: char| !msg.is_ascii_digit() && msg != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(number_end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let unit_end = rest.find(|msg: char| msg.is_ascii_digit() || msg == '.').unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_end);
    let unit = nanos_of(unit)?;
    let whole = if whole.is_empty() { 0 } else { whole.parse::<i64>().ok()? };
    let part = if fraction.is_empty() { 0.0 } else { format!("0.{fraction}").parse::<f64>().ok()? };
    let nanos = whole.checked_mul(unit)?.checked_add((part * unit as f64) as i64)?;
    Some((nanos, rest))
}

fn nanos_of(unit: &str) -> Option<i64> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => SECOND,
        "m" => 60 * SECOND,
        "h" => 3600 * SECOND,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_durations_and_never() {
        let read = |text: &str| parse(text.as_bytes()).ok();
        for (text, seconds) in
            [("5", 5), ("0", 0), ("1s", 1), ("1h30m", 5400), ("1.9s", 1), ("1000ms", 1), ("+2s", 2)]
        {
            let expected = if text == "0" { None } else { Some(Ttl::Seconds(seconds)) };
            assert_eq!(read(text), expected, "{text}");
        }
        assert_eq!((read("NeVer"), read("")), (Some(Ttl::Never), Some(Ttl::None)));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "x",
            "-1",
            "-1s",
            "999ms",
            "1",
            " 1",
            "1x",
            ".s",
            "1..2s",
            "9999999999999h",
            "9223372036854775808",
            "µ",
            "1s ",
        ] {
            let is_number = text == "1";
            assert_eq!(parse(text.as_bytes()).is_ok(), is_number, "{text}");
        }
        assert!(parse(&[0xff, b's']).is_err());
    }
}
