//! Form of a line: `[42] 2026/11/20 11:07:08.657241 [INF] text`, or a record for syslog, `<29>Nov
//! 20 11:07:08 nats-server[42]: text`.

use std::fmt::{Display, Write};

use jiff::{Timestamp, Zoned, tz::TimeZone};

use crate::zone;

/// Clock of the time with which a line begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogClock {
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
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Info => "INF",
            Self::Warn => "WRN",
            Self::Error => "ERR",
            Self::Fatal => "FTL",
            Self::Debug => "DBG",
            Self::Trace => "TRC",
        }
    }

    /// Syslog's severity. Compat: traces are notices, like ordinary lines.
    fn severity(self) -> u8 {
        match self {
            Self::Fatal => 2,
            Self::Error => 3,
            Self::Warn => 4,
            Self::Info | Self::Trace => 5,
            Self::Debug => 7,
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

/// Format that all lines of a log share.
#[derive(Debug, Clone)]
pub(super) struct Format {
    pid: u32,
    layout: Layout,
}

#[derive(Debug, Clone)]
enum Layout {
    /// A line of a file or a terminal.
    Line {
        /// The zone of the moment; `None` for no moment.
        zone: Option<TimeZone>,
        colour: bool,
    },
    /// A record for a syslog daemon.
    Record(SyslogIdentity),
}

/// Identity of the sender in records for syslog.
#[derive(Debug, Clone)]
pub(super) struct SyslogIdentity {
    /// Syslog's number for the kind of program, shifted to its place.
    pub(super) facility: u8,
    pub(super) tag: String,
    /// This machine's name, for daemons elsewhere; one on this machine knows it.
    pub(super) hostname: Option<String>,
}

impl Format {
    pub(super) fn new(clock: LogClock, pid: u32, colour: bool) -> Self {
        let zone = match clock {
            LogClock::Off => None,
            LogClock::Local => Some(zone::local()),
            LogClock::Utc => Some(TimeZone::UTC),
        };
        Self { pid, layout: Layout::Line { zone, colour } }
    }

    pub(super) fn record(origin: SyslogIdentity, pid: u32) -> Self {
        Self { pid, layout: Layout::Record(origin) }
    }

    /// A line about now, with its newline.
    pub(super) fn line(&self, level: Level, text: &dyn Display) -> String {
        self.line_at(Timestamp::now(), level, text)
    }

    fn line_at(&self, at: Timestamp, level: Level, text: &dyn Display) -> String {
        // Writing to a String fails only if `text` says so; what it wrote until then is kept.
        let mut line = match &self.layout {
            Layout::Line { zone, colour } => self.begin_line(at, level, zone.as_ref(), *colour),
            Layout::Record(origin) => self.begin_record(&at.to_zoned(zone::local()), level, origin),
        };
        let _ = write!(line, "{text}");
        if !line.ends_with('\n') {
            line.push('\n');
        }
        line
    }

    fn begin_line(&self, at: Timestamp, level: Level, zone: Option<&TimeZone>, colour: bool) -> String {
        let mut line = format!("[{}] ", self.pid);
        if let Some(zone) = zone {
            push_moment(&mut line, at, zone);
        }
        let name = level.name();
        let _ = if colour {
            write!(line, "[\x1b[{}m{name}\x1b[0m] ", level.colour())
        } else {
            write!(line, "[{name}] ")
        };
        line
    }

    fn begin_record(&self, at: &Zoned, level: Level, origin: &SyslogIdentity) -> String {
        let priority = origin.facility | level.severity();
        let (tag, pid) = (&origin.tag, self.pid);
        let time = at.strftime("%H:%M:%S");
        match &origin.hostname {
            None => format!("<{priority}>{} {time} {tag}[{pid}]: ", at.strftime("%b %e")),
            Some(hostname) => {
                let zone =
                    if at.offset().is_zero() { "Z".to_owned() } else { at.strftime("%:z").to_string() };
                format!("<{priority}>{}T{time}{zone} {hostname} {tag}[{pid}]: ", at.strftime("%Y-%m-%d"))
            }
        }
    }
}

/// The local date and time now, each part separated by dots: what the name of a backup ends with.
pub(super) fn backup_stamp() -> String {
    stamp(Timestamp::now(), zone::local())
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
        let format = Format::new(LogClock::Utc, 42, false);
        let line = format.line_at(moment(), Level::Info, &"text");
        assert_eq!(line, "[42] 2026/01/02 03:04:05.000678 [INF] text\n");
    }

    #[test]
    fn the_moment_follows_the_zone_or_is_left_out() {
        let zone = TimeZone::fixed(jiff::tz::Offset::from_seconds(-4 * 3_600).unwrap());
        let format = Format { pid: 42, layout: Layout::Line { zone: Some(zone), colour: false } };
        let line = format.line_at(moment(), Level::Error, &"text");
        assert_eq!(line, "[42] 2026/01/01 23:04:05.000678 [ERR] text\n");
        let line = Format::new(LogClock::Off, 42, false).line_at(moment(), Level::Error, &"text");
        assert_eq!(line, "[42] [ERR] text\n");
    }

    #[test]
    fn labels_have_the_reference_colours() {
        let format = Format::new(LogClock::Off, 1, true);
        let lines: Vec<_> = LEVELS.iter().map(|level| format.line_at(moment(), *level, &"x")).collect();
        let expected =
            [("32", "INF"), ("0;93", "WRN"), ("31", "ERR"), ("31", "FTL"), ("36", "DBG"), ("33", "TRC")]
                .map(|(colour, name)| format!("[1] [\x1b[{colour}m{name}\x1b[0m] x\n"));
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_record_is_what_go_writes() {
        let origin = |hostname: Option<&str>, facility| SyslogIdentity {
            facility,
            tag: "nats-server".to_owned(),
            hostname: hostname.map(str::to_owned),
        };
        let zoned = |seconds| {
            let offset = jiff::tz::Offset::from_seconds(seconds).unwrap();
            moment().to_zoned(TimeZone::fixed(offset))
        };
        for (hostname, facility, seconds, level, expected) in [
            (None, 24, 0, Level::Info, "<29>Jan  2 03:04:05 nats-server[42]: "),
            (None, 24, 0, Level::Trace, "<29>Jan  2 03:04:05 nats-server[42]: "),
            (Some("h"), 0, 0, Level::Debug, "<7>2026-01-02T03:04:05Z h nats-server[42]: "),
            (Some("h"), 0, 7200, Level::Error, "<3>2026-01-02T05:04:05+02:00 h nats-server[42]: "),
            (Some("h"), 0, -5400, Level::Fatal, "<2>2026-01-02T01:34:05-01:30 h nats-server[42]: "),
            (Some("h"), 0, 0, Level::Warn, "<4>2026-01-02T03:04:05Z h nats-server[42]: "),
        ] {
            let origin = origin(hostname, facility);
            let format = Format::record(origin.clone(), 42);
            assert_eq!(format.begin_record(&zoned(seconds), level, &origin), expected);
        }
    }

    #[test]
    fn a_text_that_ends_its_line_gets_no_second_end() {
        let format = Format::new(LogClock::Off, 1, false);
        assert_eq!(format.line(Level::Info, &"a\nb\n"), "[1] [INF] a\nb\n");
    }

    #[test]
    fn a_stamp_has_seven_parts() {
        assert_eq!(stamp(moment(), TimeZone::UTC), "2026.01.02.03.04.05.000678901");
    }
}
