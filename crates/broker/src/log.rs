//! The seam through which the broker speaks to the log, so that it needs no logging library; and
//! what keeps a flood of equal lines out of it.

use myelin_stdx::sync::lock;
use std::collections::HashMap;
use std::fmt::{self, Arguments};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How loud a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Something broke or was refused.
    Error,
    /// Something that an operator should look at.
    Warn,
    /// Normal life.
    Info,
    /// Connections coming and going.
    Debug,
    /// Every protocol line.
    Trace,
}

/// Where lines go. Implemented by the server; must not block for long.
pub trait Log: Send + Sync {
    /// Whether lines of this level are written at all: asked before formatting.
    fn enabled(&self, level: Level) -> bool;
    /// Writes one line.
    fn write(&self, level: Level, line: Arguments<'_>);
}

/// Writes a line about a link, which is told by its peer and its number; `kind` is `rid` or `lid`.
pub(crate) fn write_of_link(
    log: &dyn Log,
    level: Level,
    (peer, kind, cid): (&dyn fmt::Display, &str, u64),
    line: Arguments<'_>,
) {
    log.write(level, format_args!("{peer} - {kind}:{cid} - {line}"));
}

/// Equal statements that come faster than this are logged once.
const INTERVAL: Duration = Duration::from_secs(1);

/// Statements that are remembered before old ones are looked for.
const REMEMBERED: usize = 1024;

/// Remembers what was logged a moment ago.
#[derive(Debug, Default)]
pub(crate) struct RateLimit(Mutex<HashMap<String, Instant>>);

impl RateLimit {
    /// Whether `statement` may be logged at `now`: not when it was in the last second.
    pub(crate) fn allows(&self, statement: &str, now: Instant) -> bool {
        self.allows_each(INTERVAL, statement, now)
    }

    /// Tells whether `statement` may be logged at `now`: not when it was within `interval`.
    pub(crate) fn allows_each(&self, interval: Duration, statement: &str, now: Instant) -> bool {
        let mut seen = lock(&self.0);
        if seen.get(statement).is_some_and(|last| now.saturating_duration_since(*last) < interval) {
            return false;
        }
        if seen.len() >= REMEMBERED {
            #[expect(clippy::disallowed_methods, reason = "each is looked at by itself")]
            seen.retain(|_, last| now.saturating_duration_since(*last) < interval);
        }
        seen.insert(statement.to_owned(), now);
        true
    }
}

/// A log with what keeps a flood of equal lines out of it.
pub(crate) struct LimitedLog {
    sink: Arc<dyn Log>,
    pub(crate) limit: RateLimit,
}

impl LimitedLog {
    pub(crate) fn new(sink: Arc<dyn Log>) -> Self {
        Self { sink, limit: RateLimit::default() }
    }

    /// Where lines go.
    pub(crate) fn sink(&self) -> &dyn Log {
        &*self.sink
    }
}

/// A span of time as Go prints one, and so the reference's log: `2m0s`, `1.5s`, `10ms`, `0s`.
pub struct Span(
    /// Duration to print.
    pub Duration,
);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        match nanos {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanos}ns"),
            1_000..1_000_000 => decimal(f, nanos, 1_000, "µs"),
            1_000_000..1_000_000_000 => decimal(f, nanos, 1_000_000, "ms"),
            _ => {
                let seconds = self.0.as_secs();
                if seconds >= 3600 {
                    write!(f, "{}h", seconds / 3600)?;
                }
                if seconds >= 60 {
                    write!(f, "{}m", seconds / 60 % 60)?;
                }
                decimal(f, nanos % 60_000_000_000, 1_000_000_000, "s")
            }
        }
    }
}

fn decimal(f: &mut fmt::Formatter<'_>, value: u128, unit: u128, name: &str) -> fmt::Result {
    write!(f, "{}", value / unit)?;
    let (mut rest, mut unit) = (value % unit, unit);
    if rest > 0 {
        f.write_str(".")?;
    }
    while rest > 0 {
        unit /= 10;
        write!(f, "{}", rest / unit)?;
        rest %= unit;
    }
    f.write_str(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_as_gos() {
        let spans = [
            (0, "0s"),
            (999, "999ns"),
            (1_500, "1.5µs"),
            (10_000_000, "10ms"),
            (1_500_000_000, "1.5s"),
            (120_000_000_000, "2m0s"),
            (3_600_000_000_000, "1h0m0s"),
            (3_661_050_000_000, "1h1m1.05s"),
        ];
        for (nanos, text) in spans {
            assert_eq!(Span(Duration::from_nanos(nanos)).to_string(), text);
        }
    }

    #[test]
    fn equal_statements_wait_a_second() {
        let (limit, start) = (RateLimit::default(), Instant::now());
        assert!(limit.allows("a", start));
        assert!(!limit.allows("a", start + INTERVAL / 2));
        assert!(limit.allows("b", start));
        assert!(limit.allows("a", start + INTERVAL));
    }

    #[test]
    fn old_statements_are_forgotten() {
        let (limit, start) = (RateLimit::default(), Instant::now());
        (0..REMEMBERED).for_each(|i| assert!(limit.allows(&i.to_string(), start)));
        assert!(limit.allows("new", start + INTERVAL));
        assert_eq!(lock(&limit.0).len(), 1);
    }
}
