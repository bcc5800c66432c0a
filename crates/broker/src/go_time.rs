//! Time of day as Go writes it in JSON.

use std::time::{Duration, SystemTime};

/// A time as Go writes it in JSON, in UTC.
pub(crate) fn moment(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let fraction = format!(".{:09}", since.subsec_nanos());
    let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// Year, month and day of a number of days since 1970.
fn date(days: u64) -> (u64, u64, u64) {
    // Counted from the first of March of the year 0, so that the odd day of leap years is a year's
    // last.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_go_does() {
        let cases = [
            (0, 0, "1970-01-01T00:00:00Z"),
            (951_782_399, 500_000_000, "2000-02-28T23:59:59.5Z"),
            (951_782_400, 0, "2000-02-29T00:00:00Z"),
            (1_709_251_199, 1, "2024-02-29T23:59:59.000000001Z"),
            (1_709_251_200, 120_000_000, "2024-03-01T00:00:00.12Z"),
            (4_102_444_799, 0, "2099-12-31T23:59:59Z"),
        ];
        for (seconds, nanos, expected) in cases {
            assert_eq!(moment(SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos)), expected);
        }
    }
}
