//! Complaints about the other side of a link, which can do the same wrong thing a million times:
//! the log has the first line of each kind, and how many more there were every ten seconds.

use crate::broker::Broker;
use crate::conn::Conn;
use crate::log::Level;
use myelin_stdx::sync::lock;
use std::fmt::Arguments;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Between two lines of one kind.
const INTERVAL: Duration = Duration::from_secs(10);

/// Kind of complaint of which a line was logged.
struct Held {
    kind: &'static str,
    level: Level,
    /// When something came after that line; the interval begins then.
    since: Option<Instant>,
    /// Lines that were left out.
    count: u64,
}

/// Complaints about one link.
#[derive(Default)]
pub(super) struct Complaints {
    /// Whether any are held: asked whenever something comes.
    is_any: AtomicBool,
    held: Mutex<Vec<Held>>,
}

impl Complaints {
    /// Whether a line is to be logged; else it is counted.
    fn begin(&self, kind: &'static str, level: Level) -> bool {
        let mut held = lock(&self.held);
        if let Some(known) = held.iter_mut().find(|held| held.kind == kind) {
            known.count += 1;
            return false;
        }
        held.push(Held { kind, level, since: None, count: 0 });
        self.is_any.store(true, Relaxed);
        true
    }

    /// Takes out what has been held for long enough; everything without a time.
    fn take_due(&self, now: Option<Instant>) -> Vec<Held> {
        let mut held = lock(&self.held);
        let due = held.extract_if(.., |held| {
            now.is_none_or(|now| now.saturating_duration_since(*held.since.get_or_insert(now)) >= INTERVAL)
        });
        let due = due.collect();
        self.is_any.store(!held.is_empty(), Relaxed);
        due
    }
}

impl Broker {
    /// A line about what the other side of a link has done, which may do so again and again.
    pub fn complain(&self, level: Level, conn: &Conn, kind: &'static str, line: Arguments<'_>) {
        let is_logged =
            self.log().enabled(level) && conn.link().is_none_or(|link| link.complaints.begin(kind, level));
        if is_logged {
            self.log_for(level, conn, line);
        }
    }

    /// Says how many complaints were left out. `now`: only of those that have been for long enough.
    #[inline]
    pub(super) fn count_complaints(&self, conn: &Conn, now: Option<Instant>) {
        let Some(link) = conn.link().filter(|link| link.complaints.is_any.load(Relaxed)) else { return };
        for held in link.complaints.take_due(now).iter().filter(|held| held.count > 0) {
            self.log_for(held.level, conn, format_args!("{}: {} more", held.kind, held.count));
        }
    }
}
