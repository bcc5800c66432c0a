//! Points in time as texts: RFC 3339 as Go writes and reads it.

use crate::time::Timestamp;
use std::time::{Duration, SystemTime};

const SECOND: i64 = 1_000_000_000;

/// Writes `time` in UTC with as many digits of the fraction as it takes.
pub fn write(out: &mut Vec<u8>, time: Timestamp) {
    let (seconds, nanos) = (time.div_euclid(SECOND), time.rem_euclid(SECOND));
    let (day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date_of(day);
    padded(out, year, 4);
    for (mark, part) in [(b'-', month), (b'-', day), (b'T', second / 3600)] {
        out.push(mark);
        padded(out, part, 2);
    }
    for part in [second / 60 % 60, second % 60] {
        out.push(b':');
        padded(out, part, 2);
    }
    if nanos > 0 {
        out.push(b'.');
        padded(out, nanos, 9);
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
    out.push(b'Z');
}

/// A time of day in UTC. One before 1970 is taken for its beginning, one that nanoseconds cannot
/// hold for the last that they can.
#[must_use]
pub fn of_system_time(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let mut out = Vec::with_capacity("2006-01-02T15:04:05.999999999Z".len());
    write(&mut out, Timestamp::try_from(since.as_nanos()).unwrap_or(Timestamp::MAX));
    String::from_utf8(out).expect("digits and signs are ASCII")
}

fn padded(out: &mut Vec<u8>, n: i64, width: u32) {
    let mut unit = 10_i64.pow(width - 1);
    while unit > 0 {
        out.push(b'0' + (n / unit % 10) as u8);
        unit /= 10;
    }
}

/// Year, month and day of a day since 1970. Counts years from March, so that the leap day ends one.
fn date_of(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468;
    let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year + era * 400 + i64::from(month <= 2), month, of_year - (153 * from_march + 2) / 5 + 1)
}

/// The day since 1970 of a date.
fn day_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let from_march = (month + 9) % 12;
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn days_of(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Reads a text. `None` if it is not a time.
///
/// Compat: an hour of one digit, a comma before the fraction, more digits than nanoseconds have
/// (dropped) and offsets of 24 hours or 60 minutes pass. A time that nanoseconds cannot hold wraps
/// around, as in Go: the year 9999 is before 1970.
pub fn parse(text: &[u8]) -> Option<Timestamp> {
    let mut text = TimeText(text);
    let year = text.number(4)?;
    let month = text.expect(b'-')?.number(2)?;
    let day = text.expect(b'-')?.number(2)?;
    text.expect(b'T')?;
    let hour = if text.0.get(1) == Some(&b':') { text.number(1)? } else { text.number(2)? };
    let minute = text.expect(b':')?.number(2)?;
    let second = text.expect(b':')?.number(2)?;
    let nanos = text.fraction();
    let offset = text.offset()?;
    let is_date = (1..=12).contains(&month) && (1..=days_of(year, month)).contains(&day);
    if !is_date || hour > 23 || minute > 59 || second > 59 || !text.0.is_empty() {
        return None;
    }
    let seconds = day_of(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    Some(seconds.wrapping_mul(SECOND).wrapping_add(nanos))
}

/// Remainder of a text.
struct TimeText<'a>(&'a [u8]);

impl TimeText<'_> {
    fn expect(&mut self, byte: u8) -> Option<&mut Self> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        (*first == byte).then_some(self)
    }

    fn number(&mut self, digits: usize) -> Option<i64> {
        let (number, rest) = self.0.split_at_checked(digits)?;
        self.0 = rest;
        number.iter().try_fold(0, |n, digit| digit.is_ascii_digit().then(|| n * 10 + i64::from(digit - b'0')))
    }

    /// Nanoseconds behind the seconds, if there are digits.
    fn fraction(&mut self) -> i64 {
        let [b'.' | b',', digits @ ..] = self.0 else { return 0 };
        let length = digits.iter().take_while(|digit| digit.is_ascii_digit()).count();
        if length == 0 {
            return 0;
        }
        self.0 = &digits[length..];
        let nanos = digits[..length].iter().chain(std::iter::repeat(&b'0')).take(9);
        nanos.fold(0, |n, digit| n * 10 + i64::from(digit - b'0'))
    }

    /// Seconds east of Greenwich.
    fn offset(&mut self) -> Option<i64> {
        let (sign, rest) = self.0.split_first()?;
        self.0 = rest;
        let sign = match sign {
            b'Z' => return Some(0),
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        let hours = self.number(2)?;
        let minutes = self.expect(b':')?.number(2)?;
        (hours <= 24 && minutes <= 60).then_some(sign * (hours * 3600 + minutes * 60))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(time: Timestamp) -> String {
        let mut out = Vec::new();
        write(&mut out, time);
        String::from_utf8(out).expect("digits and signs are ASCII")
    }

    #[test]
    fn fractions_are_as_long_as_they_must_be() {
        assert_eq!(text(0), "1970-01-01T00:00:00Z");
        assert_eq!(text(1_582_934_400_000_000_001), "2020-02-29T00:00:00.000000001Z");
        assert_eq!(text(1_582_934_400_120_000_000), "2020-02-29T00:00:00.12Z");
        assert_eq!(text(-1), "1969-12-31T23:59:59.999999999Z");
    }

    #[test]
    fn times_of_day_are_written_as_go_does() {
        let of = |seconds, nanos| of_system_time(SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos));
        for (seconds, nanos, expected) in [
            (0, 0, "1970-01-01T00:00:00Z"),
            (951_782_399, 500_000_000, "2000-02-28T23:59:59.5Z"),
            (951_782_400, 0, "2000-02-29T00:00:00Z"),
            (1_709_251_199, 1, "2024-02-29T23:59:59.000000001Z"),
            (4_102_444_799, 0, "2099-12-31T23:59:59Z"),
            (u64::from(u32::MAX) * 100, 0, "2262-04-11T23:47:16.854775807Z"),
        ] {
            assert_eq!(of(seconds, nanos), expected);
        }
        assert_eq!(of_system_time(SystemTime::UNIX_EPOCH - Duration::from_secs(1)), of(0, 0));
    }

    /// Each with what the reference did.
    #[test]
    fn what_go_reads_is_read() {
        let day = 1_577_836_800_000_000_000;
        for (text, expected) in [
            ("2020-01-01T00:00:00Z", Some(day)),
            ("2020-01-01T00:00:00,5Z", Some(day + 500_000_000)),
            ("2020-01-01T00:00:00.1234567891Z", Some(day + 123_456_789)),
            ("2020-01-01T00:00:00+24:00", Some(day - 86_400 * SECOND)),
            ("2020-01-01T01:30:00+01:30", Some(day)),
            ("2019-12-31T22:00:00-02:00", Some(day)),
            ("2020-01-01T0:00:00Z", Some(day)),
            ("", None),
            ("2020-01-01", None),
            ("2020-01-01T00:00:00", None),
            ("2020-01-01t00:00:00z", None),
            ("2020-1-1T00:00:00Z", None),
            ("2020-01-01T24:00:00Z", None),
            ("2020-01-01T00:00:60Z", None),
            ("2020-02-30T00:00:00Z", None),
            ("2020-01-01T00:00:00.Z", None),
            ("2020-01-01T00:00:00Zx", None),
            ("2020-01-01T00:00:00+25:00", None),
        ] {
            assert_eq!(parse(text.as_bytes()), expected, "{text}");
        }
        assert!(parse(b"9999-01-01T00:00:00Z").unwrap() < 0, "it wraps around");
        assert!(parse(b"0001-01-01T00:00:00Z").unwrap() < 0);
    }

    proptest! {
        #[test]
        fn a_time_comes_back(time in any::<Timestamp>()) {
            let twin = jiff::Timestamp::from_nanosecond(i128::from(time)).unwrap();
            prop_assert_eq!(text(time), twin.to_string());
            prop_assert_eq!(parse(text(time).as_bytes()), Some(time));
        }

        #[test]
        fn any_bytes_are_read_or_refused(text in "\\PC*|[0-9TZ:.,+-]{0,40}") {
            let _ = parse(text.as_bytes());
        }
    }
}
