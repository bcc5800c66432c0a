//! Times of the day at which a user may be connected.

use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};
use serde::Deserialize;
use std::time::Duration;
use std::time::SystemTime;

/// From one time of the day to another, which may be on the next day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TimeRange {
    /// `15:04:05`
    pub start: String,
    /// `15:04:05`
    pub end: String,
}

/// A time of the day: hours may have one digit.
pub(super) fn time_of_day(text: &str) -> Option<Time> {
    let (hour, rest) = text.split_once(':')?;
    let (minute, second) = rest.split_once(':')?;
    let number = |text: &str, widths: &[usize]| {
        let is_number = widths.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        if is_number { text.parse::<i8>().ok() } else { None }
    };
    Time::new(number(hour, &[1, 2])?, number(minute, &[2])?, number(second, &[2])?, 0).ok()
}

/// The zone of this name, or the system's where none is named.
pub(super) fn zone(name: &str) -> Option<TimeZone> {
    if name.is_empty() { Some(TimeZone::system()) } else { TimeZone::get(name).ok() }
}

/// How long from `now` on one may stay connected: `None` is not at all, `Some(None)` without an
/// end.
pub(crate) fn time_left(ranges: &[TimeRange], zone_name: &str, now: Timestamp) -> Option<Option<Duration>> {
    if ranges.is_empty() {
        return Some(None);
    }
    let now = now.to_zoned(zone(zone_name)?);
    let mut longest = None;
    for range in ranges {
        let at = |text: &str| {
            let date_time = now.date().to_datetime(time_of_day(text)?);
            date_time.to_zoned(now.time_zone().clone()).ok()
        };
        let left = left_in(&at(&range.start)?, &at(&range.end)?, &now);
        longest = longest.max(left);
    }
    longest.map(Some)
}

/// Time that is left of the range at `now`, if it is in it.
fn left_in(start: &Zoned, end: &Zoned, now: &Zoned) -> Option<Duration> {
    let until = |end: &Zoned| Duration::try_from(now.duration_until(end)).ok();
    if start < now && now < end {
        return until(end);
    }
    if start <= end {
        return None;
    }
    // Over midnight: in its second part, or in its first.
    if now < end {
        return until(end);
    }
    let end = end.checked_add(1.day()).ok()?;
    if start < now && *now < end { until(&end) } else { None }
}

/// Seconds of the epoch, as tokens have them.
pub(crate) fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(list: &[(&str, &str)]) -> Vec<TimeRange> {
        list.iter().map(|&(start, end)| TimeRange { start: start.into(), end: end.into() }).collect()
    }

    fn left(list: &[(&str, &str)], now: &str) -> Option<Option<u64>> {
        let now = format!("2026-03-10T{now}Z").parse().unwrap();
        time_left(&ranges(list), "UTC", now).map(|left| left.map(|left| left.as_secs()))
    }

    #[test]
    fn a_range_may_pass_midnight() {
        for (list, now, expected) in [
            (&[][..], "12:00:00", Some(None)),
            (&[("11:00:00", "22:00:00")], "13:00:00", Some(Some(9 * 3600))),
            (&[("11:00:00", "22:00:00")], "10:59:59", None),
            (&[("11:00:00", "22:00:00")], "22:00:00", None),
            (&[("22:00:00", "06:00:00")], "05:00:00", Some(Some(3600))),
            (&[("22:00:00", "06:00:00")], "23:30:00", Some(Some(6 * 3600 + 1800))),
            (&[("22:00:00", "06:00:00")], "12:00:00", None),
            (&[("08:00:00", "09:00:00"), ("08:30:00", "10:00:00")], "08:45:00", Some(Some(75 * 60))),
            (&[("12:00:00", "12:00:00")], "12:00:00", None),
        ] {
            assert_eq!(left(list, now), expected, "{list:?} {now}");
        }
    }

    #[test]
    fn zones_are_those_of_the_system() {
        let now: Timestamp = "2026-07-01T12:00:00Z".parse().unwrap();
        let berlin = ranges(&[("14:00:00", "15:00:00")]);
        let left = |zone: &str, list: &[TimeRange], now| time_left(list, zone, now);
        assert_eq!(left("UTC", &berlin, now), None);
        let later = now.checked_add(30.minutes()).unwrap();
        assert_eq!(left("Europe/Berlin", &berlin, later), Some(Some(Duration::from_secs(1800))));
        assert_eq!(left("Nowhere/At all", &berlin, later), None);
    }

    #[test]
    fn times_have_three_parts() {
        for text in ["1:02:03", "23:59:59", "00:00:00"] {
            assert!(time_of_day(text).is_some(), "{text}");
        }
        for text in ["", "1", "1:2:3", "24:00:00", "12:60:00", "12:00:00x", "-1:00:00", "012:00:00"] {
            assert!(time_of_day(text).is_none(), "{text}");
        }
    }
}
