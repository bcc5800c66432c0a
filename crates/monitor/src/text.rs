//! Moments and durations in the words of the reference.

use std::fmt::Write;
use std::time::Duration;

use jiff::{Timestamp, tz::TimeZone};
use myelin_stdx::rfc3339;
use serde::Serialize as _;

/// A moment in UTC as Go's RFC 3339 with nanoseconds: the fraction has no trailing zeros.
pub(crate) fn utc(moment: Timestamp) -> String {
    moment_in(moment, &TimeZone::UTC)
}

/// A moment in `zone`; the offset is `Z` wherever it is zero.
pub(crate) fn moment_in(moment: Timestamp, zone: &TimeZone) -> String {
    let offset = zone.to_offset(moment).seconds();
    // Nanoseconds of a moment before 1970 count backwards.
    let (seconds, nanos) = match i64::from(moment.subsec_nanosecond()) {
        nanos @ ..0 => (moment.as_second() - 1, nanos + 1_000_000_000),
        nanos => (moment.as_second(), nanos),
    };
    let mut text = Vec::new();
    rfc3339::write_local(&mut text, seconds + i64::from(offset), nanos);
    rfc3339::write_zone(&mut text, offset);
    String::from_utf8(text).expect("digits and signs are ASCII")
}

/// Appends `.` and the digits of `value`, which counts in units of 10^-`digits`, without trailing
/// zeros.
fn push_fraction(text: &mut String, value: u64, digits: usize) {
    if value == 0 {
        return;
    }
    let fraction = format!("{value:0digits$}");
    text.push('.');
    text.push_str(fraction.trim_end_matches('0'));
}

/// The time from `start` to `end` in whole seconds: `59s`, `1m2s`, `2d0h0m5s`, `1y0d0h0m0s`.
///
/// Compat: larger units are shown only when reached, smaller ones always, and a year has 365 days.
pub(crate) fn age(start: Timestamp, end: Timestamp) -> String {
    let seconds = end.duration_since(start).as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    let years = days / 365;
    let mut text = String::new();
    if years > 0 {
        let _ = write!(text, "{years}y");
    }
    if days > 0 {
        let _ = write!(text, "{}d", days % 365);
    }
    if hours > 0 {
        let _ = write!(text, "{}h", hours % 24);
    }
    if minutes > 0 {
        let _ = write!(text, "{}m", minutes % 60);
    }
    let _ = write!(text, "{}s", seconds % 60);
    text
}

/// A round trip as Go writes a duration: `0s`, `164µs`, `1.5ms`, `1m2.5s`.
///
/// Compat: between a microsecond and a millisecond the reference drops the nanoseconds.
pub(crate) fn round_trip(rtt: Duration) -> String {
    let nanos = u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX);
    match nanos {
        0 => "0s".to_owned(),
        1..1_000 => format!("{nanos}ns"),
        1_000 => "1µs".to_owned(),
        1_001..1_000_000 => format!("{}µs", nanos / 1_000),
        1_000_000..1_000_000_000 => with_fraction(nanos / 1_000_000, nanos % 1_000_000, 6, "ms"),
        _ => long(nanos),
    }
}

fn long(nanos: u64) -> String {
    let seconds = nanos / 1_000_000_000;
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    let rest = with_fraction(seconds % 60, nanos % 1_000_000_000, 9, "s");
    match (hours, seconds / 60) {
        (0, 0) => rest,
        (0, _) => format!("{minutes}m{rest}"),
        _ => format!("{hours}h{minutes}m{rest}"),
    }
}

fn with_fraction(whole: u64, fraction: u64, digits: usize, unit: &str) -> String {
    let mut text = whole.to_string();
    push_fraction(&mut text, fraction, digits);
    text.push_str(unit);
    text
}

/// Writes a time as [`utc`] does, if there is one.
#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes references.
pub(crate) fn optional_utc<S: serde::Serializer>(time: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
    time.map(utc).serialize(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_lose_their_trailing_zeros() {
        let expected = [
            ("2026-11-20T11:16:38.015827789Z", "2026-11-20T11:16:38.015827789Z"),
            ("2026-11-20T11:20:44.454282640Z", "2026-11-20T11:20:44.45428264Z"),
            ("2026-11-20T11:20:44.500Z", "2026-11-20T11:20:44.5Z"),
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        ];
        for (moment, text) in expected {
            assert_eq!(utc(moment.parse().unwrap()), text);
        }
    }

    #[test]
    fn zones_show_their_offset() {
        let moment: Timestamp = "2026-11-20T23:30:00.25Z".parse().unwrap();
        let zone = |hours, minutes: i32| {
            TimeZone::fixed(jiff::tz::Offset::from_seconds(hours * 3_600 + minutes * 60).unwrap())
        };
        assert_eq!(moment_in(moment, &zone(5, 30)), "2026-11-21T05:00:00.25+05:30");
        assert_eq!(moment_in(moment, &zone(-3, -30)), "2026-11-20T20:00:00.25-03:30");
        assert_eq!(moment_in(moment, &zone(0, 0)), "2026-11-20T23:30:00.25Z");
    }

    #[test]
    fn ages_grow_units() {
        let expected = [
            (0, "0s"),
            (59, "59s"),
            (62, "1m2s"),
            (3_600, "1h0m0s"),
            (93_784, "1d2h3m4s"),
            (365 * 86_400, "1y0d0h0m0s"),
            (365 * 86_400 + 93_784, "1y1d2h3m4s"),
        ];
        let start = Timestamp::UNIX_EPOCH;
        for (seconds, text) in expected {
            assert_eq!(age(start, Timestamp::from_second(seconds).unwrap()), text);
        }
    }

    #[test]
    fn round_trips_are_go_durations() {
        let expected = [
            (0, "0s"),
            (999, "999ns"),
            (1_000, "1µs"),
            (164_999, "164µs"),
            (1_000_000, "1ms"),
            (1_234_500, "1.2345ms"),
            (999_999_999, "999.999999ms"),
            (1_000_000_000, "1s"),
            (62_500_000_000, "1m2.5s"),
            (3_600_000_000_000, "1h0m0s"),
        ];
        for (nanos, text) in expected {
            assert_eq!(round_trip(Duration::from_nanos(nanos)), text);
        }
    }
}
