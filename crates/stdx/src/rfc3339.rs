//! Points in time as texts: RFC 3339 as Go writes it.

use crate::time::Timestamp;
use std::time::{Duration, SystemTime};

const SECOND: i64 = 1_000_000_000;

/// Days since 1970 of the first and the last day that four digits can say.
const FIRST_DAY: i64 = -719_528;
const LAST_DAY: i64 = 2_932_896;

/// Writes `time` in UTC with as many digits of the fraction as it takes.
pub fn write(out: &mut Vec<u8>, time: Timestamp) {
    write_local(out, time.div_euclid(SECOND), time.rem_euclid(SECOND));
    out.push(b'Z');
}

/// Writes date and time of day without their zone: `seconds` since 1970 where they are shown, and
/// `nanos` of the next one. A day that four digits cannot say is held at their ends.
pub fn write_local(out: &mut Vec<u8>, seconds: i64, nanos: i64) {
    let (day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date_of(day.clamp(FIRST_DAY, LAST_DAY));
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
}

/// Writes the zone that is `offset` seconds east of Greenwich, in whole minutes; `Z` where it is 0.
pub fn write_zone(out: &mut Vec<u8>, offset: i32) {
    if offset == 0 {
        return out.push(b'Z');
    }
    let minutes = i64::from(offset.unsigned_abs()) / 60;
    out.push(if offset < 0 { b'-' } else { b'+' });
    padded(out, minutes / 60, 2);
    out.push(b':');
    padded(out, minutes % 60, 2);
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

    proptest! {
        #[test]
        fn a_time_is_written_as_jiff_does(time in any::<Timestamp>()) {
            let twin = jiff::Timestamp::from_nanosecond(i128::from(time)).unwrap();
            prop_assert_eq!(text(time), twin.to_string());
        }
    }
}
