//! Durations as Go writes them: `1h30m`, `1.5s`, `250ms`.

use std::time::Duration;

const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// A duration that may be negative, in nanoseconds. The error is the text that Go gives.
pub(crate) fn parse(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {text:?}");
    let (is_negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(length_of(rest, |c| c.is_ascii_digit() || c == '.'));
        let (unit, after) = after.split_at(length_of(after, |c| !c.is_ascii_digit() && c != '.'));
        if number.is_empty() || number == "." || number.matches('.').count() > 1 {
            return Err(invalid());
        }
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {text:?}"));
        }
        let Some(&(_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(format!("time: unknown unit {unit:?} in duration {text:?}"));
        };
        total = nanoseconds(number, scale).and_then(|n| total.checked_add(n)).ok_or_else(invalid)?;
        rest = after;
    }
    let limit = i64::MAX.unsigned_abs() + u64::from(is_negative);
    if total > limit {
        return Err(invalid());
    }
    let magnitude = total.cast_signed();
    Ok(if is_negative { magnitude.wrapping_neg() } else { magnitude })
}

fn length_of(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|c| !belongs(c)).unwrap_or(text.len())
}

/// `number` has digits and at most one dot.
fn nanoseconds(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()?.checked_mul(scale)? };
    // More digits than these cannot change the result.
    let digits = &fraction[..fraction.len().min(15)];
    let part = if digits.is_empty() {
        0
    } else {
        let divisor = 10_u128.pow(u32::try_from(digits.len()).ok()?);
        u64::try_from(digits.parse::<u128>().ok()? * u128::from(scale) / divisor).ok()?
    };
    whole.checked_add(part)
}

/// The form in which Go prints a duration: `2m0s`, `1.5s`, `10ms`, `0s`.
pub(crate) fn format(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let (scale, unit) = match nanos {
        0 => return "0s".to_owned(),
        1..1_000 => (1, "ns"),
        1_000..1_000_000 => (1_000, "µs"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => return format_seconds(nanos),
    };
    format!("{}{unit}", decimal(nanos, scale))
}

/// Formats nanoseconds, which may be negative, as Go prints a duration.
pub(crate) fn format_signed(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    format!("{sign}{}", format(Duration::from_nanos(nanos.unsigned_abs())))
}

fn format_seconds(nanos: u128) -> String {
    let minutes = nanos / 60_000_000_000;
    let seconds = decimal(nanos % 60_000_000_000, 1_000_000_000);
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m{seconds}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// `number / scale` without trailing zeros.
fn decimal(number: u128, scale: u128) -> String {
    let width = scale.ilog10() as usize;
    let text = format!("{}.{:0width$}", number / scale, number % scale);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_go_reads() {
        for (text, nanos) in [
            ("0", 0),
            ("-0", 0),
            ("10s", 10_000_000_000),
            ("1h2m3s", 3_723_000_000_000),
            ("1.5s", 1_500_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("-2ms", -2_000_000),
            ("+3us", 3_000),
            ("4µs", 4_000),
            ("0.1ns", 0),
            ("1h0.000000001s", 3_600_000_000_001),
            ("2562047h47m16.854775807s", i64::MAX),
            ("-2562047h47m16.854775808s", i64::MIN),
        ] {
            assert_eq!(parse(text), Ok(nanos), "{text}");
        }
    }

    #[test]
    fn refuses_what_go_refuses() {
        for (text, error) in [
            ("", r#"time: invalid duration """#),
            ("-", r#"time: invalid duration "-""#),
            ("s", r#"time: invalid duration "s""#),
            (".s", r#"time: invalid duration ".s""#),
            ("1.2.3s", r#"time: invalid duration "1.2.3s""#),
            ("5", r#"time: missing unit in duration "5""#),
            ("1m5", r#"time: missing unit in duration "1m5""#),
            ("5x", r#"time: unknown unit "x" in duration "5x""#),
            ("1 s", r#"time: unknown unit " s" in duration "1 s""#),
            ("9223372036854775808ns", r#"time: invalid duration "9223372036854775808ns""#),
        ] {
            assert_eq!(parse(text), Err(error.to_owned()), "{text}");
        }
    }

    #[test]
    fn prints_as_go_prints() {
        for (nanos, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (2_200_000, "2.2ms"),
            (3_300_000_000, "3.3s"),
            (30_000_000_000, "30s"),
            (120_000_000_000, "2m0s"),
            (3_600_000_000_001, "1h0m0.000000001s"),
        ] {
            assert_eq!(format(Duration::from_nanos(nanos)), text);
        }
    }
}
