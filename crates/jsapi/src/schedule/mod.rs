//! When a scheduled message is due (ADR-51): `@at` a moment, `@every` so often, or at the times of
//! a pattern in a time zone.
//!
//! Pure: nothing here knows a stream or a clock.

mod cron;
#[cfg(test)]
mod tests;
mod zone;

use jiff::tz::TimeZone;
use myelin_stdx::time::Timestamp;

use crate::ApiError;
use crate::json::{Moment, parse_duration, parse_moment};
use cron::Cron;

const SECOND: i64 = 1_000_000_000;

/// Schedule of a message: when it is due, once or again and again.
#[derive(Clone, Debug)]
pub struct Schedule(When);

#[derive(Clone, Debug)]
enum When {
    At(Moment),
    /// Nanoseconds.
    Every(i64),
    Cron(Cron, TimeZone),
}

/// Fault of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleError {
    /// The time zone is none.
    Zone,
    /// The pattern is none, or never comes, or takes no zone.
    Pattern,
}

impl From<ScheduleError> for ApiError {
    fn from(fault: ScheduleError) -> Self {
        match fault {
            ScheduleError::Zone => Self::MESSAGE_SCHEDULES_TIME_ZONE_INVALID,
            ScheduleError::Pattern => Self::MESSAGE_SCHEDULES_PATTERN_INVALID,
        }
    }
}

impl Schedule {
    /// Reads what headers say. `None` if they say nothing: without a pattern, or with the moment
    /// that stands for none.
    ///
    /// # Errors
    /// A zone is looked at before the pattern, and without one, too.
    pub fn parse(pattern: &[u8], zone: Option<&[u8]>) -> Result<Option<Self>, ScheduleError> {
        let zone = zone.map(|name| zone::find(name).ok_or(ScheduleError::Zone)).transpose()?;
        if pattern.is_empty() {
            return Ok(None);
        }
        let when = read(pattern, zone).ok_or(ScheduleError::Pattern)?;
        Ok(Some(Self(when)).filter(|Self(when)| !matches!(when, When::At(at) if at.is_zero())))
    }

    /// Whether it is due more than once.
    #[must_use]
    pub fn repeats(&self) -> bool {
        !matches!(self.0, When::At(_))
    }

    /// When it is due after it was at `last`, or was made then. What was missed before `now` is one
    /// time only. `None` if it never is.
    #[must_use]
    pub fn next(&self, last: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let next = self.step(last)?;
        if self.repeats() && next < now { self.step(rounded(now)) } else { Some(next) }
    }

    fn step(&self, last: Timestamp) -> Option<Timestamp> {
        match &self.0 {
            // Compat: what is beyond the times that we can count is as far as they go. The
            // reference's wrap around.
            When::At(moment) => Some(moment.timestamp()),
            When::Every(nanos) => Some(rounded(last).saturating_add(*nanos)),
            When::Cron(cron, zone) => cron.next(last.div_euclid(SECOND), zone)?.checked_mul(SECOND),
        }
    }

    /// A time as the schedule shows it: in its zone.
    #[must_use]
    pub fn show(&self, time: Timestamp) -> String {
        let offset = match &self.0 {
            When::Cron(_, zone) => cron::offset(time.div_euclid(SECOND), zone).unwrap_or(0),
            _ => 0,
        };
        Moment::from(time).shown_at(i32::try_from(offset / 60).unwrap_or(0)).to_string()
    }
}

fn read(pattern: &[u8], zone: Option<TimeZone>) -> Option<When> {
    let has_zone = zone.is_some();
    let pattern = std::str::from_utf8(pattern).ok()?;
    if let Some(moment) = pattern.strip_prefix("@at ") {
        let moment = parse_moment(moment.as_bytes()).ok()?;
        return (!has_zone).then_some(When::At(moment));
    }
    if let Some(span) = pattern.strip_prefix("@every ") {
        let span = parse_duration(span.as_bytes()).filter(|&span| span >= SECOND)?;
        return (!has_zone).then_some(When::Every(span));
    }
    let pattern = match pattern {
        "@yearly" | "@annually" => "0 0 0 1 1 *",
        "@monthly" => "0 0 0 1 * *",
        "@weekly" => "0 0 0 * * 0",
        "@daily" | "@midnight" => "0 0 0 * * *",
        "@hourly" => "0 0 * * * *",
        other => other,
    };
    Some(When::Cron(Cron::parse(pattern)?, zone.unwrap_or(TimeZone::UTC)))
}

/// To the nearest second.
fn rounded(time: Timestamp) -> Timestamp {
    let part = time.rem_euclid(SECOND);
    let whole = time - part;
    if part < SECOND / 2 { whole } else { whole.saturating_add(SECOND) }
}
