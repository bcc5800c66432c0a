//! One line of the log: `[pid] 2026/11/20 11:07:08.657241 [INF] text`.

use std::fmt::{Display, Write};

use jiff::{Timestamp, tz::TimeZone};

/// What moment a line begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    /// None (`logtime: false`).
    Off,
    /// In the zone of this machine.
    Local,
    /// In UTC (`logtime_utc: true`), written like local time.
    Utc,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Info,
    Warn,
    Error,
    Fatal,
    Debug,
    Trace,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Info => "INF",
            Self::Warn => "WRN",
            Self::Error => "ERR",
            Self::Fatal => "FTL",
            Self::Debug => "DBG",
            Self::Trace => "TRC",
        }
    }

    /// The reference's colours, as the parameters of the terminal's escape sequence.
    fn colour(self) -> &'static str {
        match self {
            Self::Info => "32",
            Self::Warn => "0;93",
            Self::Error | Self::Fatal => "31",
            Self::Debug => "36",
            Self::Trace => "33",
        }
    }
}

/// What all lines of a log share.
#[derive(Debug, Clone)]
pub(super) struct Format {
    pid: u32,
    /// The zone of the moment; `None` for no moment.
    zone: Option<TimeZone>,
    colour: bool,
}

impl Format {
    pub(super) fn new(clock: Clock, pid: u32, colour: bool) -> Self {
        let zone = match clock {
            Clock::Off => None,
            Clock::Local => Some(TimeZone::system()),
            Clock::Utc => Some(TimeZone::UTC),
        };
        Self { pid, zone, colour }
    }

    /// A line about now, with its newline.
    pub(super) fn line(&self, level: Level, text: &dyn Display) -> String {
        self.line_at(Timestamp::now(), level, text)
    }

    fn line_at(&self, at: Timestamp, level: Level, text: &dyn Display) -> String {
        let mut line = format!("[{}] ", self.pid);
        if let Some(zone) = &self.zone {
            push_moment(&mut line, at, zone);
        }
        let name = level.name();
        // Writing to a String fails only if `text` says so; what it wrote until then is kept.
        let _ = if self.colour {
            write!(line, "[\x1b[{}m{name}\x1b[0m] {text}", level.colour())
        } else {
            write!(line, "[{name}] {text}")
        };
        line.push('\n');
        line
    }

    /// The date and time now, each part separated by dots: what the name of a backup ends with.
    pub(super) fn backup_stamp(&self) -> String {
        let zone = self.zone.clone().unwrap_or_else(TimeZone::system);
        stamp(Timestamp::now(), zone)
    }
}

fn push_moment(line: &mut String, at: Timestamp, zone: &TimeZone) {
    let at = at.to_zoned(zone.clone());
    let _ = write!(
        line,
        "{:04}/{:02}/{:02} {:02}:{:02}:{:02}.{:06} ",
        at.year(),
        at.month(),
        at.day(),
        at.hour(),
        at.minute(),
        at.second(),
        at.subsec_nanosecond() / 1_000
    );
}

fn stamp(at: Timestamp, zone: TimeZone) -> String {
    let at = at.to_zoned(zone);
    format!(
        "{:04}.{:02}.{:02}.{:02}.{:02}.{:02}.{:09}",
        at.year(),
        at.month(),
        at.day(),
        at.hour(),
        at.minute(),
        at.second(),
        at.subsec_nanosecond()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVELS: [Level; 6] =
        [Level::Info, Level::Warn, Level::Error, Level::Fatal, Level::Debug, Level::Trace];

    fn moment() -> Timestamp {
        "2026-01-02T03:04:05.000678901Z".parse().unwrap()
    }

    #[test]
    fn a_line_has_pid_moment_and_label() {
        let format = Format::new(Clock::Utc, 42, false);
        let line = format.line_at(moment(), Level::Info, &"text");
        assert_eq!(line, "[42] 2026/01/02 03:04:05.000678 [INF] text\n");
    }

    #[test]
    fn the_moment_follows_the_zone_or_is_left_out() {
        let zone = TimeZone::fixed(jiff::tz::Offset::from_seconds(-4 * 3_600).unwrap());
        let format = Format { zone: Some(zone), ..Format::new(Clock::Off, 42, false) };
        let line = format.line_at(moment(), Level::Error, &"text");
        assert_eq!(line, "[42] 2026/01/01 23:04:05.000678 [ERR] text\n");
        let line = Format::new(Clock::Off, 42, false).line_at(moment(), Level::Error, &"text");
        assert_eq!(line, "[42] [ERR] text\n");
    }

    #[test]
    fn labels_have_the_reference_colours() {
        let format = Format::new(Clock::Off, 1, true);
        let lines: Vec<_> = LEVELS.iter().map(|level| format.line_at(moment(), *level, &"x")).collect();
        let expected =
            [("32", "INF"), ("0;93", "WRN"), ("31", "ERR"), ("31", "FTL"), ("36", "DBG"), ("33", "TRC")]
                .map(|(colour, name)| format!("[1] [\x1b[{colour}m{name}\x1b[0m] x\n"));
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_stamp_has_seven_parts() {
        assert_eq!(stamp(moment(), TimeZone::UTC), "2026.01.02.03.04.05.000678901");
    }
}
