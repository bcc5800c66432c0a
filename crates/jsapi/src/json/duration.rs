//! Durations as Go writes them.

const SECOND: i64 = 1_000_000_000;

/// A positive duration in nanoseconds as Go writes it: `1m30s`, `1.5ms`.
pub(crate) fn go_duration(nanos: i64) -> String {
    let fraction = |unit: i64, name: &str| {
        let text = format!("{}.{:09}", nanos / unit, nanos % unit * (SECOND / unit));
        format!("{}{name}", text.trim_end_matches('0').trim_end_matches('.'))
    };
    match nanos {
        ..1_000 => return format!("{nanos}ns"),
        1_000..1_000_000 => return fraction(1_000, "µs"),
        1_000_000..SECOND => return fraction(1_000_000, "ms"),
        _ => {}
    }
    let (hours, minutes) = (nanos / (3_600 * SECOND), nanos / (60 * SECOND) % 60);
    let text = format!("{}.{:09}", nanos / SECOND % 60, nanos % SECOND);
    let seconds = text.trim_end_matches('0').trim_end_matches('.');
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m{seconds}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// Nanoseconds of a duration such as `-1h2.5m`; `None` if it is none, as a number without unit (but
/// for `0`).
#[must_use]
pub fn parse_duration(text: &[u8]) -> Option<i64> {
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
    let number_end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(number_end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let unit_end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
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
    fn durations_read_as_gos() {
        for (nanos, text) in [
            (1, "1ns"),
            (1_500, "1.5µs"),
            (100_000_000, "100ms"),
            (SECOND, "1s"),
            (10 * SECOND + 1, "10.000000001s"),
            (120 * SECOND, "2m0s"),
            (3_600 * SECOND + 500_000_000, "1h0m0.5s"),
        ] {
            assert_eq!(go_duration(nanos), text);
        }
    }
}
