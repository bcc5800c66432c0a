//! The time to live that a message's header asks for.
//!
//! Compat: a number of seconds, `never`, or a duration as Go writes it (`1h30m`, `1.5s`), cut to
//! whole seconds.

use myelin_jsapi::ApiError;
use myelin_jsapi::json::parse_duration;

/// Nanoseconds of a second.
pub(crate) const SECOND: i64 = 1_000_000_000;

/// Time to live that a message's header asks for.
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
    match parse_duration(value) {
        Some(nanos) if nanos >= SECOND => Ok(Ttl::Seconds(nanos / SECOND)),
        Some(_) => Err(ApiError::MESSAGE_TTL_INVALID),
        None => number(value).map(Ttl::Seconds).ok_or(ApiError::MESSAGE_TTL_INVALID),
    }
}

/// Compat: a number that is too large wraps in the reference, and is refused if that makes it
/// negative.
fn number(text: &[u8]) -> Option<i64> {
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| i64::from(byte - b'0'));
    let sum = text.iter().try_fold(0_i64, |sum, byte| Some(sum.wrapping_mul(10).wrapping_add(digit(byte)?)));
    sum.filter(|&sum| sum >= 0)
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
