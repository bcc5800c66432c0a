//! Patterns of six fields (second, minute, hour, day of the month, month, day of the week), and
//! when they are due next.
//!
//! Compat: the way to the next time is the reference's, which goes by fields and not by moments:
//! where clocks are set back a time of that hour comes twice, where they are set forward one may
//! come at another hour.

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};

const MINUTE: i64 = 60;
const HOUR: i64 = 3600;
const DAY: i64 = 86_400;
/// Years that are looked through.
const YEARS: i16 = 5;
/// Steps of the search; what takes more never comes. Five years of days and more than all other
/// fields can ask for.
const STEPS: u32 = 20_000;
/// Stands in a field that says "any".
const ANY: u64 = 1 << 63;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Pattern of six fields, with a bit for each value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cron {
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
}

/// Bounds of a field.
struct Bounds {
    least: u32,
    most: u32,
    names: &'static [&'static str],
}

impl Cron {
    /// `None` if it is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [seconds, minutes, hours, days, months, weekdays] = fields[..] else { return None };
        let plain = |least, most| Bounds { least, most, names: &[] };
        let cron = Self {
            seconds: field(seconds, &plain(0, 59))?,
            minutes: field(minutes, &plain(0, 59))?,
            hours: field(hours, &plain(0, 23))?,
            days: field(days, &plain(1, 31))?,
            months: field(months, &Bounds { least: 1, most: 12, names: &MONTHS })?,
            weekdays: field(weekdays, &Bounds { least: 0, most: 6, names: &DAYS })?,
        };
        // A field may be a comma. The reference looks for that through five years of seconds.
        let is_never = [cron.seconds, cron.minutes, cron.hours, cron.months].contains(&0);
        (!is_never).then_some(cron)
    }

    /// The first time behind `from`, in seconds since 1970; `None` if there is none in the next
    /// five years.
    pub(super) fn next(&self, from: i64, zone: &TimeZone) -> Option<i64> {
        let mut search =
            NextTimeSearch { at: LocalTime::of(from + 1, zone)?, zone, is_rough: false, steps: STEPS };
        let last_year = search.at.fields.year() + YEARS;
        loop {
            if search.at.fields.year() > last_year {
                return None;
            }
            if search.month(self.months)?
                && search.day(self)?
                && search.hour(self.hours)?
                && search.minute(self.minutes)?
                && search.second(self.seconds)?
            {
                return Some(search.at.seconds);
            }
        }
    }

    fn has_day(&self, fields: DateTime) -> bool {
        let in_month = has(self.days, fields.day());
        let in_week = has(self.weekdays, fields.weekday().to_sunday_zero_offset());
        if (self.days | self.weekdays) & ANY != 0 { in_month && in_week } else { in_month || in_week }
    }
}

fn has(bits: u64, value: i8) -> bool {
    bits & (1 << value) != 0
}

/// A list of ranges.
fn field(text: &str, bounds: &Bounds) -> Option<u64> {
    text.split(',')
        .filter(|range| !range.is_empty())
        .try_fold(0, |bits, text| Some(bits | range(text, bounds)?))
}

/// `5`, `1-5`, `*`, `?`, and each with a step behind a slash.
fn range(text: &str, bounds: &Bounds) -> Option<u64> {
    let (range, step) = match text.split_once('/') {
        Some((range, step)) => (range, Some(step)),
        None => (text, None),
    };
    let (low, high) = match range.split_once('-') {
        Some((low, high)) => (low, Some(high)),
        None => (range, None),
    };
    let (first, mut last, mut any) = if matches!(low, "*" | "?") {
        (bounds.least, bounds.most, ANY)
    } else {
        let first = value(low, bounds.names)?;
        (first, high.map_or(Some(first), |high| value(high, bounds.names))?, 0)
    };
    let step = match step {
        None => 1,
        Some(step) => {
            let step = number(step)?;
            // From there to the end.
            last = if high.is_none() { bounds.most } else { last };
            any = if step > 1 { 0 } else { any };
            step
        }
    };
    let is_valid = bounds.least <= first && first <= last && last <= bounds.most && step > 0;
    let values = || (first..=last).step_by(step as usize);
    is_valid.then(|| values().fold(any, |bits, value| bits | 1 << value))
}

fn value(text: &str, names: &[&str]) -> Option<u32> {
    let named = names.iter().position(|name| name.eq_ignore_ascii_case(text));
    match named {
        // Only months have names and begin with one.
        Some(at) => Some(at as u32 + u32::from(names.len() == MONTHS.len())),
        None => number(text),
    }
}

/// A number as Go reads it: with a sign or none. What is too large for a field is too large anyway.
fn number(text: &str) -> Option<u32> {
    let (is_negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = digits.trim_start_matches('0');
    let number = if digits.is_empty() { 0 } else { digits.parse::<i64>().ok()? };
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    (!is_negative || number == 0).then_some(number)
}

/// A moment, and what a clock in its zone shows.
#[derive(Clone, Copy)]
struct LocalTime {
    seconds: i64,
    fields: DateTime,
}

impl LocalTime {
    fn of(seconds: i64, zone: &TimeZone) -> Option<Self> {
        let fields = fields_of(seconds.checked_add(offset(seconds, zone)?)?)?;
        Some(Self { seconds, fields })
    }

    /// The moment at which a clock shows this; a day beyond its month is one of the next.
    ///
    /// Compat: where clocks never show it, or twice, this is what Go answers.
    fn showing(
        (year, month, day): (i16, i8, i8),
        (hour, minute, second): (i8, i8, i8),
        zone: &TimeZone,
    ) -> Option<Self> {
        let (year, month) = if month > 12 { (year + 1, month - 12) } else { (year, month) };
        let first = DateTime::new(year, month, 1, 0, 0, 0, 0).ok()?;
        let first = Offset::UTC.to_timestamp(first).ok()?.as_second();
        let [day, hour, minute, second] = [day - 1, hour, minute, second].map(i64::from);
        let shown = first + day * DAY + hour * HOUR + minute * MINUTE + second;
        let guess = offset(shown, zone)?;
        let offset = if guess == 0 { 0 } else { offset(shown - guess, zone)? };
        Self::of(shown - offset, zone)
    }

    fn date(self) -> (i16, i8, i8) {
        (self.fields.year(), self.fields.month(), self.fields.day())
    }

    fn time(self) -> (i8, i8, i8) {
        (self.fields.hour(), self.fields.minute(), self.fields.second())
    }
}

/// How far a zone is ahead of UTC, in seconds.
pub(super) fn offset(seconds: i64, zone: &TimeZone) -> Option<i64> {
    let moment = jiff::Timestamp::from_second(seconds).ok()?;
    Some(i64::from(zone.to_offset(moment).seconds()))
}

fn fields_of(shown: i64) -> Option<DateTime> {
    Some(Offset::UTC.to_datetime(jiff::Timestamp::from_second(shown).ok()?))
}

/// The search for the next time. Each step goes on until its field fits; where that begins a larger
/// field anew (`false`), all are to be looked at again.
struct NextTimeSearch<'a> {
    at: LocalTime,
    zone: &'a TimeZone,
    /// Whether the smaller fields were set to their beginning.
    is_rough: bool,
    steps: u32,
}

impl NextTimeSearch<'_> {
    fn month(&mut self, months: u64) -> Option<bool> {
        while !has(months, self.at.fields.month()) {
            self.step()?;
            if self.roughen() {
                let (year, month, _) = self.at.date();
                self.at = LocalTime::showing((year, month, 1), (0, 0, 0), self.zone)?;
            }
            let (year, month, day) = self.at.date();
            self.at = LocalTime::showing((year, month + 1, day), self.at.time(), self.zone)?;
            if self.at.fields.month() == 1 {
                return Some(false);
            }
        }
        Some(true)
    }

    fn day(&mut self, cron: &Cron) -> Option<bool> {
        while !cron.has_day(self.at.fields) {
            self.step()?;
            if self.roughen() {
                self.at = LocalTime::showing(self.at.date(), (0, 0, 0), self.zone)?;
            }
            let (year, month, day) = self.at.date();
            self.at = LocalTime::showing((year, month, day + 1), self.at.time(), self.zone)?;
            if self.at.fields.day() == 1 {
                return Some(false);
            }
        }
        Some(true)
    }

    fn hour(&mut self, hours: u64) -> Option<bool> {
        while !has(hours, self.at.fields.hour()) {
            self.step()?;
            if self.roughen() {
                self.at = LocalTime::showing(self.at.date(), (self.at.fields.hour(), 0, 0), self.zone)?;
            }
            self.advance(HOUR)?;
            if self.at.fields.hour() == 0 {
                return Some(false);
            }
        }
        Some(true)
    }

    fn minute(&mut self, minutes: u64) -> Option<bool> {
        while !has(minutes, self.at.fields.minute()) {
            self.step()?;
            if self.roughen() {
                // Whole minutes of UTC, whatever the zone.
                self.advance(-self.at.seconds.rem_euclid(MINUTE))?;
            }
            self.advance(MINUTE)?;
            if self.at.fields.minute() == 0 {
                return Some(false);
            }
        }
        Some(true)
    }

    fn second(&mut self, seconds: u64) -> Option<bool> {
        while !has(seconds, self.at.fields.second()) {
            self.step()?;
            self.roughen();
            self.advance(1)?;
            if self.at.fields.second() == 0 {
                return Some(false);
            }
        }
        Some(true)
    }

    fn advance(&mut self, seconds: i64) -> Option<()> {
        self.at = LocalTime::of(self.at.seconds + seconds, self.zone)?;
        Some(())
    }

    /// Whether smaller fields are to be set to their beginning: the first time.
    fn roughen(&mut self) -> bool {
        !std::mem::replace(&mut self.is_rough, true)
    }

    fn step(&mut self) -> Option<()> {
        self.steps = self.steps.checked_sub(1)?;
        Some(())
    }
}
