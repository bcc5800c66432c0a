//! Moments: RFC 3339 with nanoseconds, written and read as Go does it.

use super::decode::{Abort, Decode, JsonReader};
use jiff::civil::Date;
use myelin_stdx::rfc3339::{write_local, write_zone};
use myelin_stdx::time::Timestamp;
use myelin_wire::json::{Value, ValueKind};
use serde::{Serialize, Serializer};
use std::fmt;
use std::ops::RangeInclusive;

const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";

/// A moment that a client wrote, with the offset in which it is shown again. Reaches further than a
/// [`Timestamp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Seconds since 1970 in UTC.
    seconds: i64,
    nanos: u32,
    /// Of its zone, in minutes east.
    offset: i32,
}

impl Moment {
    /// As nanoseconds since 1970, or the nearest that can be said so.
    #[must_use]
    pub fn timestamp(self) -> Timestamp {
        self.seconds.saturating_mul(1_000_000_000).saturating_add(self.nanos.into())
    }

    /// As nanoseconds since 1970.
    ///
    /// Compat: a moment that nanoseconds cannot hold wraps around, as in Go: the year 9999 is
    /// before 1970.
    #[must_use]
    pub fn wrapping_timestamp(self) -> Timestamp {
        self.seconds.wrapping_mul(1_000_000_000).wrapping_add(self.nanos.into())
    }

    /// Shows the moment in UTC.
    #[must_use]
    pub fn utc(self) -> Self {
        Self { offset: 0, ..self }
    }

    /// Shows the moment as it is so many minutes east.
    #[must_use]
    pub fn shown_at(self, offset: i32) -> Self {
        Self { offset, ..self }
    }

    /// Whether this is Go's zero time, which stands for none.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.utc() == Self::default()
    }
}

/// Go's zero time.
impl Default for Moment {
    fn default() -> Self {
        Self { seconds: -62_135_596_800, nanos: 0, offset: 0 }
    }
}

impl From<Timestamp> for Moment {
    fn from(moment: Timestamp) -> Self {
        let nanos = u32::try_from(moment.rem_euclid(1_000_000_000)).expect("less than 1e9");
        Self { seconds: moment.div_euclid(1_000_000_000), nanos, offset: 0 }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::new();
        write_local(&mut text, self.seconds + i64::from(self.offset) * 60, self.nanos.into());
        write_zone(&mut text, self.offset * 60);
        f.write_str(str::from_utf8(&text).expect("digits and signs are ASCII"))
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A moment in UTC; 0 stands for none and is shown as Go's zero time.
#[must_use]
pub fn rfc3339(moment: Timestamp) -> String {
    if moment == 0 { Moment::default().to_string() } else { Moment::from(moment).to_string() }
}

impl Decode for Moment {
    fn decode(&mut self, value: Value<'_>, _go_type: &str, _reader: &mut JsonReader) -> Result<(), Abort> {
        match value.kind() {
            ValueKind::Null => Ok(()),
            // Compat: Go reads what stands between the quotes, escapes and all.
            ValueKind::String => {
                *self = parse_moment(&value.text()[1..value.text().len() - 1]).map_err(Abort)?;
                Ok(())
            }
            _ => Err(Abort("Time.UnmarshalJSON: input is not a JSON string".to_owned())),
        }
    }
}

/// Reads RFC 3339.
///
/// # Errors
/// In the words of Go's `time` package.
pub fn parse_moment(text: &[u8]) -> Result<Moment, String> {
    let mut rest = MomentText { whole: text, left: text };
    let year = rest.digits(4, "2006")?;
    rest.sign("-")?;
    let month = rest.within(2, "01", 1..=12, "month")?;
    rest.sign("-")?;
    let day = rest.digits(2, "02")?;
    rest.sign("T")?;
    let hour = rest.hour()?;
    rest.sign(":")?;
    let minute = rest.within(2, "04", 0..=59, "minute")?;
    rest.sign(":")?;
    let second = rest.within(2, "05", 0..=59, "second")?;
    let nanos = rest.fraction();
    let offset = rest.zone()?;
    if !rest.left.is_empty() {
        return Err(rest.extra());
    }
    let days = days(year, month, day).ok_or_else(|| rest.out_of_range("day"))?;
    let seconds = days * 86_400 + i64::from(hour * 3_600 + minute * 60 + second - offset * 60);
    Ok(Moment { seconds, nanos, offset })
}

/// Days from 1970 to a date that exists.
fn days(year: i32, month: i32, day: i32) -> Option<i64> {
    let narrow = |n: i32| i8::try_from(n).ok();
    let date = Date::new(i16::try_from(year).ok()?, narrow(month)?, narrow(day)?).ok()?;
    Some(i64::from(date.since(Date::constant(1970, 1, 1)).ok()?.get_days()))
}

/// Remainder of a text that is being read.
struct MomentText<'a> {
    whole: &'a [u8],
    left: &'a [u8],
}

impl MomentText<'_> {
    fn digits(&mut self, count: usize, element: &str) -> Result<i32, String> {
        let digits = self.left.get(..count).and_then(number).ok_or_else(|| self.fault(element))?;
        self.left = &self.left[count..];
        Ok(digits)
    }

    fn within(
        &mut self,
        count: usize,
        element: &str,
        range: RangeInclusive<i32>,
        name: &str,
    ) -> Result<i32, String> {
        let number = self.digits(count, element)?;
        range.contains(&number).then_some(number).ok_or_else(|| self.out_of_range(name))
    }

    /// Compat: one digit will do.
    fn hour(&mut self) -> Result<i32, String> {
        let digits = self.left.iter().take(2).take_while(|byte| byte.is_ascii_digit()).count();
        self.within(digits.max(1), "15", 0..=23, "hour")
    }

    fn sign(&mut self, sign: &str) -> Result<(), String> {
        self.left = self.left.strip_prefix(sign.as_bytes()).ok_or_else(|| self.fault(sign))?;
        Ok(())
    }

    /// Nanoseconds of a fraction; digits beyond them are dropped.
    fn fraction(&mut self) -> u32 {
        let Some((b'.' | b',', rest)) = self.left.split_first() else { return 0 };
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return 0;
        }
        self.left = &rest[count..];
        rest[..count]
            .iter()
            .chain(std::iter::repeat(&b'0'))
            .take(9)
            .fold(0, |n, b| n * 10 + u32::from(b - b'0'))
    }

    /// Minutes east.
    fn zone(&mut self) -> Result<i32, String> {
        if let Some(rest) = self.left.strip_prefix(b"Z") {
            self.left = rest;
            return Ok(0);
        }
        let parts = self.left.get(..6).and_then(|zone| match zone {
            [sign @ (b'+' | b'-'), hours @ .., b':', _, _] => {
                Some((*sign == b'-', number(hours)?, number(&zone[4..])?))
            }
            _ => None,
        });
        let (west, hours, minutes) = parts.ok_or_else(|| self.fault("Z07:00"))?;
        // Compat: 24 hours and 60 minutes pass.
        if hours > 24 {
            return Err(self.out_of_range("time zone offset hour"));
        }
        if minutes > 60 {
            return Err(self.out_of_range("time zone offset minute"));
        }
        self.left = &self.left[6..];
        let offset = hours * 60 + minutes;
        Ok(if west { -offset } else { offset })
    }

    fn fault(&self, element: &str) -> String {
        let (whole, left) = (quoted(self.whole), quoted(self.left));
        format!("parsing time {whole} as \"{LAYOUT}\": cannot parse {left} as \"{element}\"")
    }

    fn out_of_range(&self, name: &str) -> String {
        format!("parsing time {}: {name} out of range", quoted(self.whole))
    }

    fn extra(&self) -> String {
        format!("parsing time {}: extra text: {}", quoted(self.whole), quoted(self.left))
    }
}

/// Number of only digits.
fn number(digits: &[u8]) -> Option<i32> {
    let all = digits.iter().all(u8::is_ascii_digit);
    all.then(|| digits.iter().fold(0, |number, digit| number * 10 + i32::from(digit - b'0')))
}

/// As Go's `time` package quotes: everything but printable ASCII by its bytes.
fn quoted(text: &[u8]) -> String {
    let mut out = String::from("\"");
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
            b' '..0x80 => out.push(char::from(byte)),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_shown_as_they_were_written() {
        for text in [
            "0001-01-01T00:00:00Z",
            "2024-02-29T23:59:59.000000001Z",
            "2024-01-01T01:02:03.5+02:30",
            "9999-12-31T23:59:59-01:00",
            "0000-01-01T00:00:00Z",
        ] {
            assert_eq!(parse_moment(text.as_bytes()).unwrap().to_string(), text);
        }
        assert_eq!(
            parse_moment(b"2024-01-01T00:00:00+01:00").unwrap().timestamp(),
            1_704_063_600_000_000_000
        );
        assert_eq!(rfc3339(1_704_063_600_100_000_000), "2023-12-31T23:00:00.1Z");
        assert_eq!(rfc3339(0), "0001-01-01T00:00:00Z");
    }

    /// Each with what the reference did.
    #[test]
    fn what_go_reads_is_read() {
        let nanos = |text: &str| parse_moment(text.as_bytes()).ok().map(Moment::wrapping_timestamp);
        let day = 1_577_836_800_000_000_000;
        for (text, expected) in [
            ("2020-01-01T00:00:00Z", Some(day)),
            ("2020-01-01T00:00:00,5Z", Some(day + 500_000_000)),
            ("2020-01-01T00:00:00.1234567891Z", Some(day + 123_456_789)),
            ("2020-01-01T00:00:00+24:00", Some(day - 86_400_000_000_000)),
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
            assert_eq!(nanos(text), expected, "{text}");
        }
        assert!(nanos("9999-01-01T00:00:00Z").unwrap() < 0, "it wraps around");
        assert!(nanos("0001-01-01T00:00:00Z").unwrap() < 0);
    }

    #[test]
    fn faults_read_as_gos() {
        for (text, fault) in [
            ("abc", r#"parsing time "abc" as "2006-01-02T15:04:05Z07:00": cannot parse "abc" as "2006""#),
            ("2024-13-01T00:00:00Z", r#"parsing time "2024-13-01T00:00:00Z": month out of range"#),
            ("2023-02-29T00:00:00Z", r#"parsing time "2023-02-29T00:00:00Z": day out of range"#),
            ("2024-01-01T00:00:00Zx", r#"parsing time "2024-01-01T00:00:00Zx": extra text: "x""#),
        ] {
            assert_eq!(parse_moment(text.as_bytes()).unwrap_err(), fault);
        }
    }
}
