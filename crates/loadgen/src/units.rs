//! Sizes, durations and numbers, written and read the way the `nats` command does, so that scripts
//! can be kept.
//!
//! Owns the two grammars (`128B`, `1MiB`; `5s`, `1m30s`) and the shapes in which figures are
//! printed.

use std::str::FromStr;
use std::time::Duration;

use crate::error::BenchError;
use crate::plain::plain;

/// A number of bytes: digits and perhaps a unit, of which all are powers of 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Self, BenchError> {
        let bad = || BenchError::Usage(format!("{text:?} is not a size such as 128B, 4K or 1GiB"));
        let text = text.trim();
        let (digits, unit) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
        let power = match unit.to_ascii_uppercase().as_str() {
            "" | "B" => 0,
            "K" | "KB" | "KIB" => 10,
            "M" | "MB" | "MIB" => 20,
            "G" | "GB" | "GIB" => 30,
            "T" | "TB" | "TIB" => 40,
            _ => return Err(bad()),
        };
        let number: u64 = digits.parse().map_err(|_| bad())?;
        match number.checked_mul(1 << power) {
            Some(bytes) if bytes > 0 && bytes <= i64::MAX.unsigned_abs() => Ok(Self(bytes)),
            _ => Err(bad()),
        }
    }
}

/// A length of time as Go writes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time(pub Duration);

impl FromStr for Time {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Self, BenchError> {
        let bad = || BenchError::Usage(format!("{text:?} is not a duration such as 250ms, 5s or 1m30s"));
        if text == "0" {
            return Ok(Self::default());
        }
        let (mut rest, mut sum) = (text, Duration::ZERO);
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
            let (number, tail) = rest.split_at(digits);
            let length = tail.bytes().take_while(|byte| !byte.is_ascii_digit() && *byte != b'.').count();
            let (unit, tail) = tail.split_at(length);
            let seconds = match unit {
                "ns" => 1e-9,
                "us" | "µs" | "μs" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                "d" => 86_400.0,
                _ => return Err(bad()),
            };
            let number: f64 = number.parse().map_err(|_| bad())?;
            sum += Duration::try_from_secs_f64(number * seconds).map_err(|_| bad())?;
            rest = tail;
        }
        match text {
            "" => Err(bad()),
            _ => Ok(Self(sum)),
        }
    }
}

/// A number with commas between groups of three digits.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with at most two digits behind the point, cut and not rounded: `982.9`, `1,234.56`,
/// `7`.
pub(crate) fn with_two_digits(number: f64) -> String {
    let text = number.to_string();
    let (whole, rest) = text.split_once('.').unwrap_or((&text, ""));
    let whole = whole.parse().map_or_else(|_| whole.to_owned(), grouped);
    match &rest[..rest.len().min(2)] {
        "" => whole,
        rest => format!("{whole}.{rest}"),
    }
}

/// Bytes in the largest unit that fits: `128 B`, `1.5 KiB`, `35 MiB`.
pub fn binary(bytes: f64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let bytes = bytes.max(0.0).floor();
    let mut scaled = bytes;
    let mut unit = 0;
    while scaled >= 1024.0 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    let rounded = (scaled * 10.0 + 0.5).floor() / 10.0;
    match rounded {
        small if small < 10.0 && unit > 0 => format!("{small:.1} {}", UNITS[unit]),
        large => format!("{large:.0} {}", UNITS[unit]),
    }
}

/// A length of time: `0s`, `250µs`, `2ms`, `1.50s`, `2m0s`, `1d2h0m0s`.
pub fn human_time(time: Duration) -> String {
    let seconds = time.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match time.as_nanos() {
        0..500 => "0s".into(),
        nanoseconds @ 500..1_000_000 => format!("{}µs", (nanoseconds + 500) / 1000),
        nanoseconds @ 1_000_000..1_000_000_000 => format!("{}ms", (nanoseconds + 500_000) / 1_000_000),
        _ if days > 0 => format!("{days}d{}h{}m{}s", hours % 24, minutes % 60, seconds % 60),
        _ if hours > 0 => format!("{hours}h{}m{}s", minutes % 60, seconds % 60),
        _ if minutes > 0 => format!("{minutes}m{}s", seconds % 60),
        _ => format!("{:.2}s", time.as_secs_f64()),
    }
}

/// Tells a person something, with the time of day, where it is not in the way of figures.
pub fn log(line: &str) {
    eprintln!("{} {}", jiff::Zoned::now().strftime("%H:%M:%S"), plain(line));
}

/// A number with three significant digits and, where it is large, a unit sign.
pub fn figure(value: f64) -> String {
    let (value, sign) = match value.abs() {
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let decimals = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}{sign}")
}

/// A size as `size` reads it, in the largest unit that fits evenly.
pub fn size_text(bytes: usize) -> String {
    match bytes {
        _ if bytes > 0 && bytes.is_multiple_of(1 << 20) => format!("{}MB", bytes >> 20),
        _ if bytes > 0 && bytes.is_multiple_of(1 << 10) => format!("{}KB", bytes >> 10),
        _ => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_of_1024() {
        for (text, bytes) in [("128B", 128), ("7", 7), ("4K", 4096), ("1mib", 1 << 20), ("1GB", 1 << 30)] {
            assert_eq!(text.parse::<Bytes>().unwrap(), Bytes(bytes), "{text}");
        }
        for wrong in ["", "B", "0", "-1", "1X", "1.5K", "99999999999T"] {
            assert!(wrong.parse::<Bytes>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_are_those_of_go() {
        for (text, milliseconds) in
            [("0s", 0), ("0", 0), ("5s", 5000), ("1m30s", 90_000), ("1.5h", 5_400_000)]
        {
            assert_eq!(text.parse::<Time>().unwrap().0, Duration::from_millis(milliseconds), "{text}");
        }
        assert_eq!("3us".parse::<Time>().unwrap().0, Duration::from_micros(3));
        for wrong in ["", "5", "s", "5x", "-1s", "1..2s"] {
            assert!(wrong.parse::<Time>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn figures_look_as_they_do_in_the_original() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0.1, 982.9, 15_413.489, 7.0, 3_078.436].map(with_two_digits),
            ["0.1", "982.9", "15,413.48", "7", "3,078.43"]
        );
        let sizes = [7.0, 128.0, 1023.0, 1024.0, 1500.0, 12_288.0, 36_700_160.0].map(binary);
        assert_eq!(sizes, ["7 B", "128 B", "1023 B", "1.0 KiB", "1.5 KiB", "12 KiB", "35 MiB"]);
        let times = ["250ns", "0s", "250us", "1500us", "1500ms", "90s", "1h1m1s", "26h"];
        let shown = times.map(|text| human_time(text.parse::<Time>().unwrap().0));
        assert_eq!(shown, ["0s", "0s", "250µs", "2ms", "1.50s", "1m30s", "1h1m1s", "1d2h0m0s"]);
    }

    #[test]
    fn figures_have_three_digits() {
        let shown: Vec<String> =
            [0.0312, 1.234, 56.78, 858.4, 9999.0, 22_800.0, 157_100_000.0].map(figure).to_vec();
        assert_eq!(shown, ["0.031", "1.23", "56.8", "858", "9999", "22.8k", "157M"]);
    }
}
